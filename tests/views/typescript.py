"""TypeScript's checker from npm, for the types of the front ends: fetched at one version, held against its digest."""

from __future__ import annotations

import base64
import hashlib
import io
import json
import os
import shutil
import subprocess
import tarfile
from functools import cache
from pathlib import Path

import pytest

VERSION = "5.6.3"
SHA512 = "hjcS1mhfuyi4WW8IWtjP7brDrG2cuDZukyrYrSauoXGNgx0S7zceP07adYkJycEr56BOUTNPzbInooiN3fn1qw=="
# The options of the check: what the modules may use, and how strictly they are read.
OPTIONS = {
    "allowJs": True,
    "checkJs": True,
    "noEmit": True,
    "target": "es2022",
    "module": "es2022",
    "moduleResolution": "bundler",
    "lib": ["es2023", "dom", "dom.iterable"],
    "types": [],
}


@cache
def typescript(folder: Path) -> Path:
    """The script of its compiler. `folder` is where npm may write; a copy there is used again.

    Without npm, and where npm cannot fetch it, the test is skipped; in CI it fails.
    """
    script = folder / "package/lib/tsc.js"
    if script.is_file():
        return script
    npm = shutil.which("npm")
    fail = pytest.fail if os.environ.get("CI") else pytest.skip
    if npm is None:
        fail("no npm on PATH: TypeScript is not fetched, so the types of the front ends are not checked")
    assert npm is not None
    try:
        command = [npm, "pack", f"typescript@{VERSION}", "--silent"]
        run = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=120)
    except subprocess.TimeoutExpired:
        fail("npm did not give TypeScript within 120 s")
    if run.returncode:
        fail(f"npm does not give TypeScript: {run.stderr.strip()[-200:]}")
    data = (folder / f"typescript-{VERSION}.tgz").read_bytes()
    assert base64.b64encode(hashlib.sha512(data).digest()).decode() == SHA512, "not the known TypeScript"
    with tarfile.open(fileobj=io.BytesIO(data)) as archive:
        archive.extractall(folder, filter="data")
    return script


def type_faults(node: str, script: Path, tree: Path) -> list[str]:
    """What the checker says of the modules under `tree`, one line each, with paths below `tree`."""
    config = {"compilerOptions": OPTIONS, "include": ["mew_lab/views/**/*.js"]}
    (tree / "jsconfig.json").write_text(json.dumps(config), "utf-8")
    run = subprocess.run(
        [node, str(script), "-p", "jsconfig.json", "--pretty", "false"],
        cwd=tree,
        capture_output=True,
        text=True,
        timeout=120,
    )
    lines = [line for line in run.stdout.splitlines() if ": error TS" in line]
    assert run.returncode in (0, 2) and bool(lines) == bool(run.returncode), run.stdout[-2000:] + run.stderr
    return lines
