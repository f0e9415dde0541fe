"""Is what the tests and the lessons run with pinned, and is what was installed what is pinned?  Hashes are checked."""

from __future__ import annotations

import importlib.metadata
import os
import re
import runpy
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from .test_house import PLACES

ROOT = Path(__file__).resolve().parent.parent
lock = runpy.run_path(str(ROOT / "tests" / "lock.py"))
PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
PROJECT = PYPROJECT["project"]
EXTRAS = PROJECT["optional-dependencies"]
FILES = {ROOT / ".ci" / "requirements.lock": "test", ROOT / "binder" / "requirements.txt": "lessons"}
PINNED = bool(os.environ.get("MEW_LAB_PINNED"))  # `.ci/run` says that it has installed from the lock

GATE = ROOT / ".ci" / "gate.txt"
LIBRARIES = [Requirement(one) for one in PROJECT["dependencies"] if not one.startswith("mew_lab[")]
PYTHONS = ["3.11", "3.12", "3.13", "3.14"]
PLATFORMS = ["linux", "darwin", "win32"]


def where_is(python: str, platform: str) -> dict[str, str]:
    """What the markers of a requirement ask of a system."""
    return {
        "python_version": python,
        "python_full_version": f"{python}.9",
        "sys_platform": platform,
        "os_name": "nt" if platform == "win32" else "posix",
        "platform_system": {"linux": "Linux", "darwin": "Darwin", "win32": "Windows"}[platform],
    }


each_file = pytest.mark.parametrize(("path", "extra"), FILES.items(), ids=["tests", "binder"])


def asked_for(extra: str) -> list[Requirement]:
    """What pyproject.toml asks for, and what builds the package."""
    build = [*PYPROJECT["build-system"]["requires"], "editables"]
    return [Requirement(one) for one in [*PROJECT["dependencies"], f"mew_lab[{extra}]", *build]]


@pytest.mark.threat(28)
@pytest.mark.trap("T-22")
@each_file
def test_every_entry_is_pinned_and_hashed_and_names_no_address(path: Path, extra: str) -> None:
    pins = lock["read"](path)
    assert len(pins) > 100
    assert all(pin.hashes and len(set(pin.hashes)) == len(pin.hashes) for pin in pins)
    text = path.read_text(encoding="utf-8")
    assert "//" not in text and "@" not in text
    assert set(re.findall(r"--[a-z-]+", text)) == {"--hash"}
    assert "mew-lab" not in {pin.name for pin in pins}


@each_file
@pytest.mark.parametrize("python", PYTHONS)
@pytest.mark.parametrize("platform", PLATFORMS)
def test_the_pins_satisfy_what_is_asked_for_on_every_platform(
    path: Path, extra: str, python: str, platform: str
) -> None:
    if extra == "lessons" and python == "3.11":
        return  # Binder has the Python of runtime.txt
    where = where_is(python, platform)
    pinned = lock["versions"](lock["read"](path), where)
    for requirement in lock["write_out"](asked_for(extra), EXTRAS):
        if requirement.marker is None or requirement.marker.evaluate({**where, "extra": ""}):
            version = pinned.get(canonicalize_name(requirement.name))
            assert version is not None, f"{requirement.name} is not pinned"
            assert version in requirement.specifier, f"{requirement} is pinned to {version}"


@pytest.mark.trap("T-22")
def test_binder_and_the_tests_take_the_same_versions() -> None:
    """So that what is tested is what a reader of the lessons runs."""
    where = {"python_version": "3.12", "python_full_version": "3.12.9"}
    tested, lessons = (lock["versions"](lock["read"](path), where) for path in FILES)
    differing = {name: (tested.get(name), version) for name, version in lessons.items()}
    assert {name: both for name, both in differing.items() if both[0] != both[1]} == {}


@pytest.mark.parametrize("python", PYTHONS)
@pytest.mark.parametrize("platform", PLATFORMS)
def test_the_pins_of_a_gate_are_what_its_libraries_need_by_their_metadata(python: str, platform: str) -> None:
    """All of it, because it is installed by --no-deps; and no more."""
    where = where_is(python, platform)
    needed = lock["closure"](LIBRARIES, requires, own={}, environment=where)
    pinned = lock["versions"](lock["read"](GATE, hashed=False), where)
    assert set(pinned) == needed
    tested = lock["versions"](lock["read"](ROOT / ".ci" / "requirements.lock"), where)
    assert {name: tested[name] for name in pinned} == pinned
    assert [one for one in LIBRARIES if pinned[canonicalize_name(one.name)] not in one.specifier] == []


def requires(name: str) -> list[str]:
    """What the metadata of a package says that it needs; nothing of one for another system, which is not here."""
    try:
        return importlib.metadata.requires(name) or []
    except importlib.metadata.PackageNotFoundError:
        return []


OPTIONAL = {
    "pyarrow",
    "zstandard",
    "uvloop",
}  # what is slower, or cannot be read, without them says so itself
ASK = """
import sys
sys.path.insert(0, sys.argv[1])
import mew_lab
for module in sys.argv[2:]:
    try:
        exec(f"import {module}", {"__name__": "mew_lab.somewhere"})
    except ImportError as error:
        print(module, getattr(error, "extra", "-"), error)
    try:
        exec(f"import {module}", {"__name__": "elsewhere"})
    except ImportError as error:
        assert type(error) is ModuleNotFoundError and str(error) == f"No module named {module!r}", error
"""


def test_a_library_that_a_gate_lacks_is_told_with_the_extra_that_brings_it() -> None:
    """Of all third parties of the house, in a Python that has none; other packages than mew_lab get the usual error."""
    command = [sys.executable, "-S", "-c", ASK, str(ROOT), *PLACES]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    told = {
        module: (extra, text)
        for module, extra, text in (line.split(" ", 2) for line in done.stdout.splitlines())
    }
    assert set(told) == set(PLACES)
    brought = importlib.metadata.packages_distributions()
    gate = {pin.name for pin in lock["read"](GATE, hashed=False)}
    for module in set(PLACES) - OPTIONAL:
        extra, text = told[module]
        names = {canonicalize_name(name) for name in brought.get(module, ())}
        if names & gate:
            assert extra == "-", f"{module} is in .ci/gate.txt and in an extra"
        else:
            assert extra in EXTRAS, f"{module} is neither in .ci/gate.txt nor in an extra"
            assert (
                text.startswith(f"{module} is not installed, ") and f'pip install "mew_lab[{extra}]"' in text
            )
            needed = lock["closure"](map(Requirement, EXTRAS[extra]), requires, own=EXTRAS)
            assert not names or names & needed, f"{module} is not of {extra}"


@pytest.mark.trap("T-22")
def test_what_is_installed_is_what_is_pinned_and_nothing_else_is_needed() -> None:
    """In the environment that `.ci/run` makes; elsewhere whoever runs the tests chooses the versions."""
    pinned = lock["versions"](lock["read"](ROOT / ".ci" / "requirements.lock"), {})
    installed = {name: _installed(name) for name in pinned}
    if not PINNED:
        pytest.skip("these packages were not installed from the lock; `.ci/run` does that")
    assert installed == {name: str(version) for name, version in pinned.items()}
    needed = lock["closure"](
        asked_for("test"), lambda name: importlib.metadata.requires(name) or (), own=EXTRAS
    )
    assert needed == set(pinned)


def _installed(name: str) -> str | None:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return None


def test_the_walk_over_what_is_needed_follows_extras_and_markers() -> None:
    told = {
        "a": ["b[x]; python_version >= '3'", "never; python_version < '3'"],
        "b": ["c; extra == 'x'", "d; extra == 'y'"],
    }
    needed = lock["closure"]([Requirement("mew_lab[t]")], lambda name: told.get(name, []), own={"t": ["a"]})
    assert needed == {"a", "b", "c"}


@pytest.mark.parametrize(
    "text",
    [
        "a==1\n",
        "a>=1 \\\n    --hash=sha256:" + "0" * 64,
        "a==1 --hash=sha256:00",
        "-e .",
        "a @ file --hash=sha256:" + "0" * 64,
        "a==1.* --hash=sha256:" + "0" * 64,
    ],
    ids=["no hash", "no pin", "short hash", "option", "address", "wildcard"],
)
def test_a_line_that_is_not_pinned_and_hashed_is_seen(text: str, tmp_path: Path) -> None:
    (tmp_path / "lock").write_text(text)
    with pytest.raises(AssertionError, match="neither pinned nor hashed"):
        lock["read"](tmp_path / "lock")


def test_ci_installs_from_the_lock_before_the_command_of_the_readme() -> None:
    text = (ROOT / ".ci" / "run").read_text(encoding="utf-8")
    install = text.index("pip install --quiet --no-deps --require-hashes -r .ci/requirements.lock")
    assert install < text.index('bash -c "$command"')
    (line,) = re.findall(r"^sed -n .* \.ci/requirements\.lock", text, re.M)
    made = subprocess.run(["bash", "-c", line], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    pins = lock["read"](ROOT / ".ci" / "requirements.lock")
    assert [Requirement(one) for one in made.splitlines()] == [pin.requirement for pin in pins]


def _pip(*words: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "pip", *words]
    environment = {key: value for key, value in os.environ.items() if not key.endswith("_CONSTRAINT")}
    return subprocess.run(command, cwd=cwd, env=environment, capture_output=True, text=True, timeout=300)


@pytest.mark.slow
@pytest.mark.timeout(600)
@each_file
def test_a_file_from_the_index_has_its_hash_and_another_hash_is_refused(
    path: Path, extra: str, tmp_path: Path
) -> None:
    sample = [pin for pin in lock["read"](path) if pin.name in ("h11", "nh3", "hatchling")]
    assert len(sample) == 3

    def download(pins: list[Any], folder: str) -> subprocess.CompletedProcess[str]:
        lines = [
            f"{pin.requirement} " + " ".join(f"--hash=sha256:{one}" for one in pin.hashes) for pin in pins
        ]
        (tmp_path / "some.txt").write_text("\n".join(lines) + "\n")
        return _pip("download", "--no-deps", "--require-hashes", "-r", "some.txt", "-d", folder, cwd=tmp_path)

    good = download(sample, "good")
    assert good.returncode == 0, good.stderr
    assert len(list((tmp_path / "good").iterdir())) == 3
    wrong = [pin._replace(hashes=tuple(f"{int(one, 16) ^ 1:064x}" for one in pin.hashes)) for pin in sample]
    bad = download([*sample[:2], wrong[2]], "bad")
    assert bad.returncode != 0
    assert "DO NOT MATCH THE HASHES" in bad.stderr


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_the_lock_files_are_what_a_renewal_would_make() -> None:
    done = subprocess.run([ROOT / ".ci" / "lock", "--check"], capture_output=True, text=True, timeout=280)
    assert done.returncode == 0, done.stderr
