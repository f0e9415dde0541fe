"""Would Binder build what the lessons need?  The files are read as repo2docker reads them; nothing is built."""

from __future__ import annotations

import re
import runpy
import subprocess
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name
from packaging.version import Version

ROOT = Path(__file__).resolve().parent.parent
BINDER = ROOT / "binder"
lock = runpy.run_path(str(ROOT / "tests" / "lock.py"))
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]

pytestmark = pytest.mark.trap("T-22")


def pins() -> dict[str, Version]:
    """What is installed on Binder: Linux, and the Python of runtime.txt."""
    python = (BINDER / "runtime.txt").read_text(encoding="utf-8").strip().removeprefix("python-")
    here = {"python_version": python, "python_full_version": f"{python}.0"}
    linux = {"sys_platform": "linux", "os_name": "posix", "platform_system": "Linux"}
    return dict(lock["versions"](lock["read"](BINDER / "requirements.txt"), here | linux))


def test_the_python_that_is_named_is_one_that_the_package_supports() -> None:
    named = re.fullmatch(r"python-(3\.\d+)\n", (BINDER / "runtime.txt").read_text(encoding="utf-8"))
    assert named is not None
    assert named[1] in SpecifierSet(PROJECT["requires-python"])


def test_the_pins_satisfy_every_dependency_of_the_lessons() -> None:
    pinned = pins()
    extras = PROJECT["optional-dependencies"]
    needed = [Requirement(one) for one in [*PROJECT["dependencies"], *extras["lessons"]]]
    for requirement in lock["write_out"](needed, extras):
        version = pinned.get(canonicalize_name(requirement.name))
        assert version is not None, f"{requirement.name} is not pinned"
        assert version in requirement.specifier, f"{requirement} is pinned to {version}"


def test_a_button_works_under_a_waiting_cell_with_what_is_pinned() -> None:
    assert pins()["ipykernel"] >= Version("7.4")
    assert pins()["jupyterlab"] >= Version("4.4")


def test_there_is_one_binder_folder_and_its_script_can_be_run() -> None:
    assert not (ROOT / ".binder").exists()
    assert {path.name for path in BINDER.iterdir()} == {"requirements.txt", "runtime.txt", "postBuild"}
    script = BINDER / "postBuild"
    assert script.stat().st_mode & 0o111 == 0o111
    text = script.read_bytes()
    assert text.startswith(b"#!/bin/bash\n") and b"\r" not in text
    assert subprocess.run(["bash", "-n", script], capture_output=True).returncode == 0


def test_the_script_installs_the_checkout_and_nothing_that_is_not_pinned() -> None:
    text = (BINDER / "postBuild").read_text(encoding="utf-8")
    installs = [line for line in text.splitlines() if "pip install" in line]
    assert len(installs) == 1 and "--no-deps" in installs[0] and "--no-build-isolation" in installs[0]
    assert installs[0].endswith(" .")
