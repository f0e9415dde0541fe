"""A full disk, and a main thread that is busy: the space tells, and goes on."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path

import pytest

from mew_lab.lab.lab import Lab

FULL_DISK = """
import json, resource, sys
import mew_lab
from mew_lab.errors import MewError
lab = mew_lab.up(journal="journal.jsonl", port=None)
lab.chat("before")
size = __import__("os").stat("journal.jsonl").st_size
resource.setrlimit(resource.RLIMIT_FSIZE, (size + 40, resource.RLIM_INFINITY))
try:
    lab.chat("into the full disk")
except MewError as fault:
    print(json.dumps([type(fault).__name__, str(fault)]))
before = len(lab.log)
resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
lab.chat("after")
print(json.dumps([record.raw and json.loads(record.raw)["payload"].get("text") for record in lab.log.records]))
lab.down()
print(json.dumps([one["payload"].get("text") for one in mew_lab.open_log("journal.jsonl")]))
"""


@pytest.mark.skipif(sys.platform == "win32", reason="needs a limit on file sizes")
@pytest.mark.threat(9)
def test_on_a_full_disk_nothing_is_delivered_unrecorded_and_the_space_goes_on(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", FULL_DISK], cwd=tmp_path, capture_output=True, text=True, timeout=50
    )
    assert done.returncode == 0, done.stderr
    fault, live, saved = (json.loads(line) for line in done.stdout.splitlines())
    assert fault[0] == "Refused" and "cannot write its journal" in fault[1]
    for texts in (live, saved):
        said = [text for text in texts if text]
        assert said[:2] == ["before", "after"]
    assert "Traceback" not in done.stderr


PING = """
import sys, time, urllib.request
url, until = sys.argv[1], time.time() + float(sys.argv[2])
opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
print("go", flush=True)
while time.time() < until:
    began = time.time()
    opener.open(url, timeout=20).read()
    print(began, time.time(), flush=True)
"""


@pytest.mark.trap("T-7")
def test_another_process_is_answered_while_the_main_thread_computes(lab: Lab) -> None:
    address = lab.url.replace("ws://", "http://").replace("/ws", "/health")
    process = subprocess.Popen(
        [sys.executable, "-c", PING, address, "4"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert process.stdout is not None and process.stdout.readline() == "go\n"
    began = time.time()
    while time.time() < began + 4:
        sum(range(2000))
    busy_until = time.time()
    out, err = process.communicate(timeout=30)
    assert err == ""
    pings = [tuple(map(float, line.split())) for line in out.splitlines()]
    during = sorted(end - start for start, end in pings if start > began and end < busy_until)
    assert len(during) >= 4, "nothing was answered before the main thread had finished"
    print(
        f"\n{len(during)} answers while busy, p95 {during[int(len(during) * 0.95)] * 1000:.0f} ms (mark 1000 ms)"
    )
