"""Tools from npm for the front ends, each fetched at one version and held against its digest."""

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

TYPESCRIPT = (
    "typescript-5.6.3",
    "hjcS1mhfuyi4WW8IWtjP7brDrG2cuDZukyrYrSauoXGNgx0S7zceP07adYkJycEr56BOUTNPzbInooiN3fn1qw==",
)
PRETTIER = (
    "prettier-3.10.1",
    "70vp3ZUYoPlFbF9uiTdXHUUCGEIp7d4+6p+8DYbkm2jP7x/3i/paXVF6dopSI3zd/CEitrZN1rc4i85xWmmXlg==",
)
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
def npm_package(folder: Path, name: str, sha512: str) -> Path:
    """The unpacked package of npm, such as `typescript-5.6.3`. npm writes below `folder`; a copy there is used again.

    Without npm, and where npm cannot fetch it, the test is skipped; in CI it fails.
    """
    package = folder / name / "package"
    if package.is_dir():
        return package
    npm = shutil.which("npm")
    fail = pytest.fail if os.environ.get("CI") else pytest.skip
    if npm is None:
        fail(f"no npm on PATH: {name} is not fetched, so the front ends are not checked with it")
    assert npm is not None
    try:
        command = [npm, "pack", "@".join(name.rsplit("-", 1)), "--silent"]
        run = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=120)
    except subprocess.TimeoutExpired:
        fail(f"npm did not give {name} within 120 s")
    if run.returncode:
        fail(f"npm does not give {name}: {run.stderr.strip()[-200:]}")
    data = (folder / f"{name}.tgz").read_bytes()
    assert base64.b64encode(hashlib.sha512(data).digest()).decode() == sha512, f"not the known {name}"
    with tarfile.open(fileobj=io.BytesIO(data)) as archive:
        # Of Python 3.11 only the later ones have filters; the archive is the known one.
        archive.extraction_filter = getattr(tarfile, "data_filter", None)
        archive.extractall(package.parent)
    return package


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
