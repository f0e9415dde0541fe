"""The space of a folder is found only where all that this computer knows of it is right; else nothing is contacted."""

from __future__ import annotations

import asyncio
import json
import os
import re
import shutil
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from hypothesis import HealthCheck, assume, example, given, settings
from hypothesis import strategies as st

import mew_lab
from mew_lab.errors import ConfigError, ConnectionLost, MewError
from mew_lab.lab.folder_space import find_running, find_space, keep_record, read_record, start_of
from mew_lab.lab.host import Host
from mew_lab.protocol.token import Token

from ..conftest import examples
from ..waiting import alive, eventually

pytestmark = [pytest.mark.threat(26)]
SECRET = "a-token-that-nobody-else-may-get-0123456789"
RUN = "0123456789abcdef" * 2
ROOT = os.geteuid() == 0


class Trap:
    """A server at the address of a record: it keeps all that it is sent, and answers each connection alike."""

    def __init__(self, answer: bytes) -> None:
        self.answer = answer
        self.contacts: list[bytes] = []
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        while True:
            try:
                peer, _ = self._listener.accept()
            except OSError:
                return
            self.contacts.append(b"")
            with peer:
                data = b""
                while b"\r\n\r\n" not in data and (more := peer.recv(4096)):
                    data += more
                self.contacts[-1] = data
                peer.sendall(self.answer)
                if not self.answer:
                    peer.recv(1)  # says nothing until the other end goes

    def close(self) -> None:
        self._listener.close()


def answered(body: object, status: str = "200 OK", **headers: str) -> bytes:
    text = body if isinstance(body, bytes) else json.dumps(body).encode()
    lines = [f"HTTP/1.1 {status}", f"content-length: {len(text)}", "connection: close"]
    lines += [f"{name}: {value}" for name, value in headers.items()]
    return "\r\n".join([*lines, "", ""]).encode() + text


class Planted(NamedTuple):
    """A folder with a record that is right in all that can be known here, and the server to which it leads."""

    folder: Path
    trap: Trap
    members: dict[str, Any]

    def write(self, **changes: Any) -> None:
        self.put(json.dumps({**self.members, **changes}).encode())

    def put(self, data: bytes) -> None:
        path = self.folder / ".mew" / "run.json"
        path.unlink(missing_ok=True)
        path.write_bytes(data)
        path.chmod(0o600)


def plant(folder: Path, answer: bytes) -> Planted:
    tokens = folder / ".mew" / "tokens" / "demo"
    tokens.mkdir(parents=True)
    (folder / ".mew").chmod(0o700)
    file = tokens / "human.token"
    file.write_text(SECRET + "\n")
    file.chmod(0o600)
    trap = Trap(answer)
    members = {
        "url": f"ws://127.0.0.1:{trap.port}/ws",
        "space": "demo",
        "pid": os.getpid(),
        "started": start_of(os.getpid()),
        "run": RUN,
        "since": "2026-01-01T12:00:00Z",
        "person": "human",
        "token_file": ".mew/tokens/demo/human.token",
        "place": "{0.st_dev}:{0.st_ino}".format((folder / ".mew").stat()),
    }
    planted = Planted(folder, trap, members)
    planted.write()
    return planted


@pytest.fixture
def planted(tmp_path: Path) -> Iterator[Planted]:
    made = plant(tmp_path, answered({"run": RUN}))
    yield made
    made.trap.close()


def test_a_record_that_is_right_leads_to_its_space_and_no_token_goes_out_before(planted: Planted) -> None:
    record, token = find_running(planted.folder)
    assert (record.space, record.person, token.reveal()) == ("demo", "human", SECRET)
    (request,) = planted.trap.contacts
    assert request.startswith(b"GET /health ")
    assert SECRET.encode() not in request and b"authorization" not in request.lower()


# --- what this computer knows ----------------------------------------------------------------------------------------


def in_folder(change: Callable[[Path], object]) -> Callable[[Planted], None]:
    return lambda planted: (change(planted.folder), None)[1]


def replace_by_link(path: Path) -> None:
    moved = path.with_name(f"{path.name}.moved")
    path.rename(moved)
    path.symlink_to(moved)


def replace_by_pipe(path: Path) -> None:
    path.unlink()
    os.mkfifo(path, 0o600)


BAD_PLACES: dict[str, tuple[Callable[[Path], object], str]] = {
    "no .mew": (lambda folder: (folder / ".mew").rename(folder / "mew"), "has no .mew"),
    "a link": (lambda folder: replace_by_link(folder / ".mew"), "is a link or no folder"),
    "group": (lambda folder: (folder / ".mew").chmod(0o750), "chmod 700"),
    "search": (lambda folder: (folder / ".mew").chmod(0o701), "chmod 700"),
    "others": (lambda folder: (folder / ".mew").chmod(0o755), "chmod 700"),
    "no record": (lambda folder: (folder / ".mew/run.json").unlink(), "No space runs in"),
    "a linked record": (lambda folder: replace_by_link(folder / ".mew/run.json"), "it is a link"),
    "a pipe": (lambda folder: replace_by_pipe(folder / ".mew/run.json"), "no plain file of yours"),
    "an open record": (lambda folder: (folder / ".mew/run.json").chmod(0o644), "copy of the folder"),
    "no token": (lambda folder: (folder / ".mew/tokens/demo/human.token").unlink(), "No such file"),
    "an open token": (lambda folder: (folder / ".mew/tokens/demo/human.token").chmod(0o640), "chmod 600"),
    "a linked token": (
        lambda folder: replace_by_link(folder / ".mew/tokens/demo/human.token"),
        "no plain file",
    ),
    "linked tokens": (lambda folder: replace_by_link(folder / ".mew/tokens"), "is a link or no folder"),
    "an empty token": (
        lambda folder: (folder / ".mew/tokens/demo/human.token").write_text(""),
        "holds no token",
    ),
}
OF_OTHERS = {
    ".mew": "belongs to somebody else",
    ".mew/run.json": "no plain file of yours",
    ".mew/tokens": "belongs to somebody else",
    ".mew/tokens/demo/human.token": "no plain file of yours",
}


@pytest.mark.threat(27)
@pytest.mark.parametrize("name", BAD_PLACES)
def test_a_folder_that_is_not_private_is_one_sentence_and_nothing_is_contacted(
    planted: Planted, name: str
) -> None:
    change, said = BAD_PLACES[name]
    change(planted.folder)
    with pytest.raises(MewError, match=said) as caught:
        find_running(planted.folder)
    assert "\n" not in str(caught.value) and SECRET not in str(caught.value)
    assert planted.trap.contacts == []


@pytest.mark.threat(27)
@pytest.mark.skipif(not ROOT, reason="only root gives a file to another user")
@pytest.mark.parametrize("name", OF_OTHERS)
def test_what_belongs_to_another_user_is_not_used(planted: Planted, name: str) -> None:
    os.chown(planted.folder / name, 4242, 4242)
    with pytest.raises(ConfigError, match=OF_OTHERS[name]):
        find_running(planted.folder)
    assert planted.trap.contacts == []


BAD_MEMBERS: dict[str, tuple[dict[str, Any], str]] = {
    "another computer": ({"url": "ws://192.0.2.1:8080/ws"}, "not one of this computer"),
    "a name": ({"url": "ws://gateway.example:8080/ws"}, "not one of this computer"),
    "a name that begins so": ({"url": "ws://127.0.0.1.example:8080/ws"}, "not one of this computer"),
    "no port": ({"url": "ws://127.0.0.1/ws"}, "not one of this computer"),
    "a port that is none": ({"url": "ws://127.0.0.1:99999/ws"}, "not one of this computer"),
    "tls": ({"url": "wss://127.0.0.1:8080/ws"}, "not one of this computer"),
    "a user": ({"url": "ws://127.0.0.1:1@192.0.2.1:8080/ws"}, "not one of this computer"),
    "a user here": ({"url": "ws://me@127.0.0.1:8080/ws"}, "not one of this computer"),
    "a query": ({"url": "ws://127.0.0.1:8080/ws?token=1"}, "not one of this computer"),
    "a number that is an address": ({"url": "ws://0:8080/ws"}, "not one of this computer"),
    "another start": ({"started": "some-boot 1"}, "has ended or is another one"),
    "no start": ({"started": ""}, "has ended or is another one"),
    "process 1": ({"pid": 1}, "no record"),
    "a process group": ({"pid": -1}, "no record"),
    "a number too large": ({"pid": 1 << 70}, "no record"),
    "no number": ({"pid": True}, "no record"),
    "a way out": ({"token_file": "../../.ssh/id_ed25519"}, "no record"),
    "a whole path": ({"token_file": "/etc/passwd"}, "no record"),
    "a folder": ({"token_file": ".mew/tokens"}, "no plain file"),
    "a control character": ({"space": "demo\x1b[2J"}, "no record"),
    "an id that is none": ({"person": "system:gateway"}, "no record"),
    "no run": ({"run": ""}, "no record"),
    "no time": ({"since": "yesterday"}, "no record"),
    "something else": ({"more": 1}, "no record"),
}


@pytest.mark.parametrize("name", BAD_MEMBERS)
def test_a_record_that_came_from_elsewhere_is_one_sentence_and_nothing_is_contacted(
    planted: Planted, name: str
) -> None:
    changes, said = BAD_MEMBERS[name]
    planted.write(**changes)
    with pytest.raises(ConfigError, match=said) as caught:
        find_running(planted.folder)
    assert str(caught.value).isprintable() and SECRET not in str(caught.value)
    assert planted.trap.contacts == []


@pytest.mark.parametrize(
    "data", [b"", b"{", b"[]", b"null", b"\xff", b"[" * 100_000, b'{"run":' + b"1" * 20_000 + b"}"]
)
def test_a_file_that_is_no_record_is_one_sentence(planted: Planted, data: bytes) -> None:
    planted.put(data)
    with pytest.raises(ConfigError, match="no record of a space that runs"):
        find_running(planted.folder)
    assert planted.trap.contacts == []


def test_the_process_of_a_copied_record_has_ended(planted: Planted) -> None:
    process = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    assert process.stdin is not None
    started = start_of(process.pid)
    planted.write(pid=process.pid, started=started)
    assert find_running(planted.folder).record.pid == process.pid
    process.stdin.close()
    eventually(lambda: not alive(process.pid))
    contacts = len(planted.trap.contacts)
    with pytest.raises(ConfigError, match=f"process {process.pid}, which run.json names, has ended"):
        find_running(planted.folder)  # a zombie does not run
    process.wait(10)
    with pytest.raises(ConfigError, match="has ended"):
        find_running(planted.folder)
    assert len(planted.trap.contacts) == contacts


@pytest.mark.skipif(not ROOT, reason="only root starts a process of another user")
def test_a_process_of_another_user_is_none_of_the_folder(planted: Planted) -> None:
    process = subprocess.Popen(["/bin/cat"], stdin=subprocess.PIPE, user=4242)
    try:
        assert start_of(process.pid) is None
    finally:
        process.kill()
        process.communicate()


@pytest.mark.skipif(shutil.which("ps") is None, reason="there is no ps here")
def test_a_system_without_proc_tells_the_start_of_a_process_by_ps(tmp_path: Path) -> None:
    process = subprocess.Popen(["/bin/cat"], stdin=subprocess.PIPE)
    try:
        started = start_of(process.pid, proc=tmp_path)
        assert started and re.fullmatch(r"\w{3} \w{3} \d+ \d\d:\d\d:\d\d \d{4}", started)
        assert start_of(process.pid, proc=tmp_path) == started
        if ROOT:
            other = subprocess.Popen(["/bin/cat"], stdin=subprocess.PIPE, user=4242)
            assert start_of(other.pid, proc=tmp_path) is None
            other.communicate()
    finally:
        process.communicate()
    assert start_of(process.pid, proc=tmp_path) is None


VALUES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.text(),
    st.lists(st.integers()),
    st.sampled_from(
        [
            "ws://127.0.0.1",
            "ws://[::1]:99999/ws",
            "ws://localhost:1/ws#",
            "ws:/\\127.0.0.1:1/ws",
            "\0",
            "~",
            ".",
        ]
    ),
)


@settings(max_examples=examples(300), deadline=None, suppress_health_check=list(HealthCheck))
@given(name=st.sampled_from(["url", "pid", "started", "run", "token_file", "place"]), value=VALUES)
@example(name="url", value="ws://[")
@example(name="token_file", value="a" * 5000)
@example(name="token_file", value="a/" * 3000)
def test_no_value_of_a_record_makes_anything_be_contacted(
    tmp_path_factory: pytest.TempPathFactory, name: str, value: Any
) -> None:
    planted = plant(tmp_path_factory.mktemp("some"), answered({"run": RUN}))
    try:
        assume(value != planted.members[name])
        assume(not (name == "run" and isinstance(value, str) and len(value) == 32))
        planted.write(**{name: value})
        if name == "token_file" and value == "":
            with pytest.raises(ConfigError, match="MEW_TOKEN_HUMAN"):
                find_running(planted.folder, environ={})
        else:
            with pytest.raises(MewError):
                find_running(planted.folder)
        assert planted.trap.contacts == []
    finally:
        planted.trap.close()


@settings(max_examples=examples(200), deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.binary(max_size=400))
def test_no_content_of_a_record_is_more_than_a_sentence(
    tmp_path_factory: pytest.TempPathFactory, data: bytes
) -> None:
    folder = tmp_path_factory.mktemp("some")
    (folder / ".mew").mkdir(mode=0o700)
    (folder / ".mew/run.json").write_bytes(data)
    (folder / ".mew/run.json").chmod(0o600)
    with pytest.raises(ConfigError) as caught:
        read_record(folder)
    assert str(caught.value).isprintable()


# --- what answers ----------------------------------------------------------------------------------------------------

WRONG_ANSWERS = {
    "another run": answered({"run": "f" * 32}),
    "no run": answered({"status": "ok"}),
    "a list of it": answered({"run": [RUN]}),
    "no object": answered([RUN]),
    "no json": answered(b"<html>"),
    "not ascii": answered({"run": "\u00e9" * 32}),
    "too much": answered(b'{"run": "' + RUN.encode() + b'", "x": "' + b"x" * 70_000 + b'"}'),
    "a way elsewhere": answered(b"", "302 Found", location="http://192.0.2.1/health"),
    "an error": answered({"run": RUN}, "500 Internal Server Error"),
    "no http": b"SSH-2.0-OpenSSH\r\n",
    "nothing": b"",
}


@pytest.mark.parametrize("name", WRONG_ANSWERS)
def test_what_answers_and_is_not_that_run_gets_no_token(tmp_path: Path, name: str) -> None:
    planted = plant(tmp_path, WRONG_ANSWERS[name])
    try:
        with pytest.raises((ConnectionLost, ConfigError)) as caught:
            find_running(tmp_path, timeout=0.5)
        assert str(caught.value).isprintable()
        assert len(planted.trap.contacts) == 1
        assert not any(SECRET.encode() in request for request in planted.trap.contacts)
    finally:
        planted.trap.close()


def test_where_nothing_listens_is_a_sentence(planted: Planted) -> None:
    planted.trap.close()
    with pytest.raises(ConnectionLost, match="Nothing answers at ws"):
        planted.write(url="ws://127.0.0.1:1/ws")
        find_running(planted.folder)


# --- the environment -------------------------------------------------------------------------------------------------

ELSEWHERE = {
    "MEW_GATEWAY": "ws://gateway.example/ws",
    "MEW_SPACE": "other",
    "MEW_TOKEN": "of-the-environment-01",
}


def test_the_folder_comes_before_the_environment(planted: Planted) -> None:
    found = find_space(planted.folder, environ=ELSEWHERE)
    assert (found.space, found.token.reveal(), found.remark) == ("demo", SECRET, "")


def test_where_the_folder_has_none_the_environment_names_one(tmp_path: Path) -> None:
    assert find_space(tmp_path, environ=ELSEWHERE) == (
        "ws://gateway.example/ws",
        "other",
        Token("of-the-environment-01"),
        "",
    )


def test_a_record_that_is_not_used_is_told_beside_the_environment(planted: Planted) -> None:
    planted.write(pid=1 << 22)
    found = find_space(planted.folder, environ=ELSEWHERE)
    assert found.space == "other" and "has ended or is another one" in found.remark
    assert planted.trap.contacts == []


@pytest.mark.parametrize("missing", ["MEW_SPACE", "MEW_TOKEN"])
def test_half_an_environment_names_what_is_missing(tmp_path: Path, missing: str) -> None:
    with pytest.raises(ConfigError, match=f"{missing} is not set"):
        find_space(tmp_path, environ={**ELSEWHERE, missing: ""})


def test_without_any_the_sentence_says_what_would_help(tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as caught:
        find_space(tmp_path, environ={})
    assert str(caught.value) == (
        f"No space runs in {tmp_path}, which has no .mew; start one with mew-lab up; or name another space by its "
        "address, or by the variables MEW_GATEWAY, MEW_SPACE and MEW_TOKEN"
    )


def test_no_parent_is_searched(planted: Planted) -> None:
    below = planted.folder / "below"
    below.mkdir()
    with pytest.raises(ConfigError, match=r"has no \.mew"):
        find_space(below, environ={})


# --- a space that runs -----------------------------------------------------------------------------------------------


async def test_a_space_that_is_served_is_found_until_it_ends(tmp_path: Path) -> None:
    host = Host("a/b", folder=tmp_path, journal=None)
    await host.open(owner="human", can="human")
    try:
        host.token_file("human")
        assert keep_record(host, person="human") == ""
        record, token = await asyncio.to_thread(find_running, tmp_path)
        assert (record.space, record.url, record.pid) == ("a/b", host.url, os.getpid())
        assert token.reveal() == host.token_file("human").read_text().strip()
        assert (tmp_path / ".mew/run.json").stat().st_mode & 0o777 == 0o600
        assert token.reveal() not in (tmp_path / ".mew/run.json").read_text()
        again = Host("second", folder=tmp_path, journal=None)
        await again.open(owner="human", can="human")
        assert "the space 'a/b' runs in" in keep_record(again, person="human")
        await again.close()
    finally:
        await host.close()
    with pytest.raises(ConnectionLost, match="Nothing answers"):
        await asyncio.to_thread(find_running, tmp_path)


async def test_a_folder_that_others_may_look_into_keeps_no_record(tmp_path: Path) -> None:
    host = Host("demo", folder=tmp_path, journal=None)
    await host.open(owner="human", can="human")
    host.token_file("human")
    (tmp_path / ".mew").chmod(0o755)
    assert "others may look into it; run: chmod 700" in keep_record(host, person="human")
    assert not (tmp_path / ".mew/run.json").exists()
    await host.close()


def test_connect_without_an_address_refuses_what_contradicts_it(
    planted: Planted, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(planted.folder)
    with pytest.raises(ConfigError, match="The space here is 'demo', and not 'other'"):
        mew_lab.connect(space="other")
    with pytest.raises(ConfigError, match="give the address, too"):
        mew_lab.connect(token="x" * 40)
    with pytest.raises(ConfigError, match="give the name of the space there"):
        mew_lab.connect("ws://127.0.0.1:1/ws", token="x" * 40)
    assert mew_lab.labs() == {}
