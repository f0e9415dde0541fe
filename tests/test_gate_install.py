"""A gate alone, installed by the README's command into an environment of its own, runs and names what it lacks.

The source distribution is built here as well.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import shlex
import subprocess
import sys
import tarfile
import time
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from mcp import Client, StdioServerParameters

from mew_lab.cli import COMMANDS
from mew_lab.version import VERSION

ROOT = Path(__file__).resolve().parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")
SERVER = ROOT / "tests" / "bridge" / "full_server.py"
RECORDS = ROOT / "mew_lab" / "data" / "garden.jsonl"
HEAVY = {"ipykernel", "ipywidgets", "anywidget", "pandas", "numpy", "duckdb", "openai", "nh3"}
LACKS = re.compile(
    r"(\w+) is not installed, .*: install the extra '([\w-]+)', with pip install \"mew_lab\[\2\]\""
)

pytestmark = [pytest.mark.slow, pytest.mark.timeout(400)]


def clean(folder: Path, **more: str) -> dict[str, str]:
    """The environment of a program that finds nothing but what is installed; its state goes into the folder."""
    kept = {
        key: value for key, value in os.environ.items() if not key.startswith(("MEW_", "PYTHON", "PIP_CONS"))
    }
    return {**kept, "XDG_STATE_HOME": str(folder / "state"), **more}


@pytest.fixture(scope="module")
def gate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the programs of an environment that the README's command has made."""
    folder = tmp_path_factory.mktemp("gate")
    (line,) = re.findall(r"^python3 -m venv \.venv-gate .*", README, re.MULTILINE)
    line = line.replace("python3", sys.executable, 1).replace(".venv-gate", str(folder / "venv"))
    done = subprocess.run(
        ["bash", "-c", line], cwd=ROOT, env=clean(folder), capture_output=True, text=True, timeout=380
    )
    assert done.returncode == 0, done.stderr
    return folder / "venv" / "bin"


def told(gate: Path, *words: str, cwd: Path, typed: str = "") -> tuple[int, str]:
    """The exit status of a program of the environment, and all that it prints; never a traceback."""
    done = subprocess.run(
        [gate / words[0], *words[1:]],
        cwd=cwd,
        env=clean(cwd),
        input=typed,
        capture_output=True,
        text=True,
        timeout=60,
    )
    text = done.stdout + done.stderr
    assert "Traceback" not in text, text
    return done.returncode, text


def test_it_has_no_kernel_no_frames_and_no_models(gate: Path, tmp_path: Path) -> None:
    names = " ".join(HEAVY)
    code = (
        f"import importlib.util; print([one for one in '{names}'.split() if importlib.util.find_spec(one)])"
    )
    assert told(gate, "python", "-c", code, cwd=tmp_path) == (0, "[]\n")
    (site,) = gate.parent.glob("lib/python*/site-packages")
    installed = {path.name for path in site.glob("*.dist-info")}
    assert len([name for name in installed if not name.startswith("pip-")]) <= 40


class Terminal:
    """A program in a terminal of its own: what it printed so far, and what is typed into it."""

    def __init__(self, gate: Path, words: list[str], folder: Path) -> None:
        self.file = folder / f"{words[1]}.out"
        with self.file.open("w") as out:
            self.process = subprocess.Popen(
                [gate / words[0], *words[1:]], cwd=folder, env=clean(folder, PATH=f"{gate}:{os.environ['PATH']}"),
                stdin=subprocess.PIPE, stdout=out, stderr=subprocess.STDOUT, text=True,
            )  # fmt: skip

    def type(self, line: str) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()

    def see(self, pattern: str) -> re.Match[str]:
        """Waits until the pattern is printed."""
        end = time.monotonic() + 60
        while (found := re.search(pattern, self.file.read_text())) is None:
            assert time.monotonic() < end, self.file.read_text()
            time.sleep(0.05)
        return found

    def end(self) -> None:
        self.process.terminate()
        self.process.communicate(timeout=30)


@contextmanager
def terminals(gate: Path, folder: Path) -> Iterator[Callable[[str], Terminal]]:
    """Starts programs; all end with the block, the last first."""
    running: list[Terminal] = []

    def start(line: str) -> Terminal:
        running.append(Terminal(gate, line.split(), folder))
        return running[-1]

    try:
        yield start
    finally:
        for terminal in reversed(running):
            terminal.end()


def all_output(folder: Path) -> str:
    return "".join(file.read_text() for file in folder.glob("*.out"))


async def test_the_lines_of_the_readme_run_with_a_tap_before_the_server(gate: Path, tmp_path: Path) -> None:
    """serve, join, bridge, tap and mcp at once: a call of a client waits, is approved by typing, and is answered."""
    block = (
        README.partition("## A gate for a coding agent")[2].partition("```console\n")[2].partition("```")[0]
    )
    serve, join, bridge, add = block.splitlines()
    tapped = f"mew-lab tap --journal {tmp_path / 'tap.jsonl'} -- {gate / 'python'} {SERVER} legacy stdio"
    with terminals(gate, tmp_path) as start:
        port = start(serve).see(r"space demo at ws://127\.0\.0\.1:(\d+)/ws")[1]
        human = start(join.replace("PORT", port))
        human.see("You are human in demo")
        start(bridge.replace("PORT", port).replace("python -m mcp_server_git", tapped))
        human.see("git joined")
        *_, server = shlex.split(add.replace("PORT", port))
        mcp = json.loads(server)
        client = StdioServerParameters(
            command=str(gate / mcp["command"]), args=mcp["args"], env=clean(tmp_path), cwd=tmp_path
        )
        async with Client(client, mode="legacy") as coder:
            assert "git_add" in {tool.name for tool in (await coder.list_tools()).tools}
            call = asyncio.create_task(coder.call_tool("git_add", {"a": 20, "b": 22}))
            proposal = await asyncio.to_thread(
                lambda: human.see(r"mcp/proposal +.*?\b([0-9a-f]{8}-[0-9a-f-]{27})")
            )
            human.type(f"/approve {proposal[1]}")
            await asyncio.to_thread(human.see, "digest")
            human.type(f"/approve {proposal[1]}")
            result = await call
        assert [block.text for block in result.content] == ["42"]
    printed = all_output(tmp_path)
    assert "Traceback" not in printed, printed
    (journal,) = re.findall(r"^journal (.*)", printed, re.MULTILINE)
    code, text = told(gate, "mew-lab", "verify", journal, cwd=tmp_path)
    assert code == 0 and "1 by human" in text, text
    assert "add(a=20, b=22)" in told(gate, "mew-lab", "tail", str(tmp_path / "tap.jsonl"), cwd=tmp_path)[1]


# Each program with words that need no running space, and what it prints. The five with a space run above.
RUNS: dict[str, tuple[str, str]] = {
    "serve": ("--space-config none.yaml", "none.yaml"),
    "join": ("ws://127.0.0.1:9/ws", "--space"),
    "bridge": ("ws://127.0.0.1:9/ws --as git -- x", "--space"),
    "mcp": ("ws://127.0.0.1:9/ws", "--space"),
    "tap": ("--journal tap.jsonl -- true", ""),
    "tail": ("RECORDS --filter kind==chat", "chat"),
    "replay": ("RECORDS", "no difference"),
    "audit": ("RECORDS b88dfb63", "'frames'"),
    "verify": ("RECORDS", "in one chain"),
    "journal": ("verify RECORDS", "in one chain"),
    "diagnose": ("RECORDS", "failed-call"),
    "export": ("--as peers RECORDS", "wrote"),
    "open": ("RECORDS", "mew_lab[lessons]"),
    "cache": ("clear", "Deleted 0 files"),
    "rules": ("RECORDS", "does not verify"),
    "acp": ("ws://127.0.0.1:9/ws --space demo --agent coder --token-file none", "mew_lab[acp]"),
    "report": ("RECORDS -o page.html", "Wrote the report"),
    "agent": ("agent.yaml --model a --base-url http://127.0.0.1:9/v1", "'models'"),
    "tools-agent": ("call tools.yaml last_change {} --base-url http://127.0.0.1:9/v1", "'models'"),
    "conform": ("ws://127.0.0.1:9/ws --tokens none", "none"),
    "demo": ("--yes", "mew_lab[lessons]"),
    "init": ("demo --yes", "mew_lab[lessons]"),
    "up": ("none.yaml", "none.yaml"),
    "status": ("", "No space runs"),
    "down": ("", "No space runs"),
}
AGENT = "gateway: ws://127.0.0.1:9/ws\nspace: demo\ntoken: " + "x" * 40 + "\nparticipant_id: a\n"
TOOLS = """
metadata: {name: Gardener, version: 1.0.0, mode: tools, tools: [
  {name: last_change, description: Tells it., parameters: {type: object, properties: {}}, prompt: "When?"}]}
settings: {model: a}
"""


@pytest.mark.parametrize("name", COMMANDS)
def test_each_program_works_or_names_the_extra(name: str, gate: Path, tmp_path: Path) -> None:
    (tmp_path / "agent.yaml").write_text(AGENT)
    (tmp_path / "tools.yaml").write_text(TOOLS)
    words, expected = RUNS[name]
    _, text = told(gate, "mew-lab", name, *words.replace("RECORDS", str(RECORDS)).split(), cwd=tmp_path)
    assert expected in text, text
    if "is not installed" in text:
        assert text.count("\n") == 1 and (LACKS.search(text) or "[lessons]" in text), text


# All that a program can reach from the public names; it prints what a member lacks, and ends at any other error.
REACH = """
import importlib, pkgutil, sys
import mew_lab

lacks = set()

def reach(use):
    try:
        return use()
    except mew_lab.errors.MissingLibrary as error:
        print(error)
        lacks.add(error.extra)

for name in mew_lab.__all__:
    assert reach(lambda: getattr(mew_lab, name)) is not None, name
lab = mew_lab.up("example", journal=None)
tool = lab.tool(lambda bed: bed + " planted", name="plant", seat=lab.join("garden", can="tool"))
call = lab.join("bot", can="proposer").call("garden/plant", {"bed": "north"})
lab.decide = mew_lab.Policy.approve()
assert str(call.result(timeout=30)) == "north planted", call.result(timeout=30)
assert "1 by policy approve" in str(lab.history())
assert lab.agent("helper") is not None
reach(lambda: lab.agent("writer", model="a", base_url="http://127.0.0.1:9/v1"))
for log in (lab.log, mew_lab.open_log(sys.argv[1])):
    assert len(log) and str(log.diagnose())
    for name in dir(log):
        if not name.startswith("_"):
            reach(lambda: getattr(log, name))
    for name in log.frames:
        reach(lambda: log.frame(name))
    reach(lambda: log.filter("kind == chat"))
for name in dir(lab.view):
    if not name.startswith("_"):
        reach(lambda: getattr(lab.view, name)())
lab.down()
for module in pkgutil.walk_packages(mew_lab.__path__, "mew_lab."):
    if not module.name.endswith("__main__"):
        reach(lambda: importlib.import_module(module.name))
print(sorted(lacks))
"""


def test_each_public_name_works_or_names_the_extra(gate: Path, tmp_path: Path) -> None:
    code, text = told(gate, "python", "-c", REACH, str(RECORDS), cwd=tmp_path)
    *lines, lacks = text.splitlines()
    assert code == 0, text
    assert [line for line in lines if not LACKS.fullmatch(line)] == []
    assert lacks == "['acp', 'frames', 'langgraph', 'models', 'notebook', 'openai-agents', 'pydantic-ai']"


def test_the_source_distribution_holds_the_package_whole_and_little_else(tmp_path: Path) -> None:
    """Its own metadata names the version that the package tells; a wheel that is made of it lacks no file."""
    pytest.importorskip("hatchling")
    command = [sys.executable, "-m", "hatchling", "build", "-t", "sdist", "-d", str(tmp_path)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    (archive,) = tmp_path.glob("*.tar.gz")
    assert archive.name == f"mew_lab-{VERSION}.tar.gz"
    with tarfile.open(archive) as packed:
        sizes = {member.name.partition("/")[2]: member.size for member in packed}
    names = sizes.keys()
    assert max(sizes.values()) < 100_000, "a picture, a corpus or a log is in it"
    assert {name.partition("/")[0] for name in names} == {
        *("mew_lab", "examples", ".ci", "README.md", "CHANGELOG.md", "LICENSE", "pyproject.toml", "PKG-INFO", ".gitignore")
    }  # fmt: skip
    listed = ["git", "-c", "safe.directory=*", "ls-files", "mew_lab"]
    tracked = subprocess.run(listed, cwd=ROOT, check=True, capture_output=True, text=True).stdout.split()
    command = [
        sys.executable,
        "-m",
        "pip",
        "wheel",
        "-q",
        "--no-deps",
        "--no-build-isolation",
        "-w",
        str(tmp_path),
    ]
    subprocess.run([*command, str(archive)], check=True, capture_output=True, timeout=120)
    (wheel,) = tmp_path.glob("*.whl")
    with zipfile.ZipFile(wheel) as made:
        assert {name for name in made.namelist() if name.startswith("mew_lab/")} == {*tracked}
