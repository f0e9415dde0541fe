"""Environments with the other ipykernels of the slow tier, each made once."""

from __future__ import annotations

import fcntl
import subprocess
import sys
import tomllib
import venv
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
KERNELS = ROOT / "tests" / ".kernels"
VERSIONS = {"7.3": "7.3.0", "6.31": "6.31.0"}
# The lesson's bridge runs the kernel's own interpreter, so the MCP server must be in its environment.
BESIDE = ("mcp-server-git>=2025.9",)


def python_with_ipykernel(version: str) -> str:
    """The interpreter of an environment with exactly that ipykernel and this project's own dependencies.

    Made under tests/.kernels/ when it is not there yet; that takes minutes and a package index.
    """
    folder = KERNELS / version
    python = folder / "bin" / "python"
    # The mark is written last: half an environment is made anew, and one that lacks what the project needs by now.
    mark = folder / "complete"
    wanted = [f"ipykernel=={version}", *BESIDE]
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    needed = [*project["dependencies"], *project["optional-dependencies"]["notebook"]]
    contents = "\n".join([*wanted, *needed])
    KERNELS.mkdir(exist_ok=True)
    with (KERNELS / f"{version}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # several processes of tests may want it at once
        if not mark.exists() or mark.read_text() != contents:
            venv.create(folder, with_pip=True, clear=True)
            subprocess.run(
                [str(python), "-m", "pip", "install", "--quiet", "-e", str(ROOT), *wanted],
                check=True,
                stdin=subprocess.DEVNULL,
                timeout=1200,
            )
            mark.write_text(contents)
    return str(python)


if __name__ == "__main__":
    for wanted in sys.argv[1:] or VERSIONS.values():
        print(python_with_ipykernel(wanted))
