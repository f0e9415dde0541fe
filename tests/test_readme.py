"""Is what the README says true?  Its commands, names, figures and its ten lines are held against the tree."""

from __future__ import annotations

import importlib.util
import os
import re
import shlex
import subprocess
import sys
import time
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")
PACKAGE = ROOT / "mew_lab"


def blocks(language: str) -> list[str]:
    """The fenced blocks of one language."""
    return re.findall(rf"^```{language}\n(.*?)^```$", README, re.MULTILINE | re.DOTALL)


def test_ci_runs_the_very_command_that_the_readme_gives() -> None:
    run = ROOT / ".ci" / "run"
    assert os.access(run, os.X_OK)
    done = subprocess.run([run, "--command"], capture_output=True, text=True, check=True)
    command = done.stdout.strip()
    assert [block.strip() for block in blocks("bash") if ".venv-test" in block] == [command]
    assert command.endswith("-m pytest")


def test_each_command_makes_its_own_environment_and_is_one_line() -> None:
    assert len(blocks("bash")) == 3
    for block in blocks("bash"):
        assert block.count("\n") == 1
        assert re.match(r"python3 -m venv (\.venv\S*) && \1/bin/python -m pip install ", block)


def test_what_the_commands_name_exists() -> None:
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = set(re.findall(r"'\.\[(\w+)\]'", README))
    assert extras == {"lessons", "test"} <= set(settings["optional-dependencies"])
    for path in re.findall(r"\bnotebooks/\S+\.ipynb|\btests/[\w./]+|\.ci/run\b|\bbinder/", README):
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

    listed = README.partition("one call of a method of `lab`:")[2].partition(".")[0]
    assert re.findall(r"`(\w+)`", listed) == list(COMMANDS)


def test_the_floor_plan_names_every_room_and_none_besides() -> None:
    rooms = {f"mew_lab/{path.name}/" for path in PACKAGE.iterdir() if (path / "__init__.py").is_file()}
    rooms |= {f"mew_lab/{path.name}" for path in PACKAGE.glob("*.py") if path.name != "__init__.py"}
    rooms = {"mew_lab/cli" if room == "mew_lab/cli/" else room for room in rooms}
    assert set(re.findall(r"^\| \d \| `(.+?)` \|", README, re.MULTILINE)) == rooms


def test_the_reading_path_leads_to_files_that_exist() -> None:
    path = README.partition("To read the code in half an hour:")[2].partition("\n\n")[0]
    folder = PACKAGE
    for name in re.findall(r"`([\w/]+\.py)`", path):
        place = PACKAGE / name if "/" in name else folder / name
        assert place.is_file(), name
        folder = place.parent


def test_the_figure_of_requirements_is_no_more_than_the_report_says() -> None:
    spec = importlib.util.spec_from_file_location(
        "report_requirements", ROOT / "tests" / "report_requirements.py"
    )
    assert spec is not None and spec.loader is not None
    requirements = importlib.util.module_from_spec(spec)
    sys.modules["report_requirements"] = requirements
    spec.loader.exec_module(requirements)
    said = re.search(r"at least (\d+) of the (\d+) rows have a test", README.replace("\n", " "))
    assert said is not None
    shown, of = requirements.read_report().figure()
    assert int(said[1]) <= shown <= int(said[1]) + of // 5
    assert int(said[2]) == of


def test_the_ten_lines_do_what_they_say(tmp_path: Path) -> None:
    (script,) = blocks("python")
    assert len(script.split("\n\n")[1].splitlines()) <= 10
    environment = {
        name: value for name, value in os.environ.items() if not name.startswith(("MEW_LAB_", "GIT_"))
    } | {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1", "PYTHONPATH": str(ROOT)}
    me = ["-c", "user.name=A", "-c", "user.email=a@example.org"]
    subprocess.run(["git", "init", "--quiet"], cwd=tmp_path, check=True, env=environment)
    commit = ["git", *me, "commit", "--quiet", "--allow-empty", "--message", "the commit that must appear"]
    subprocess.run(commit, cwd=tmp_path, check=True, env=environment)
    done = subprocess.run(
        [sys.executable, "-c", script],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        env=environment,
        timeout=50,
    )
    assert done.returncode == 0, done.stderr
    assert "the commit that must appear" in done.stdout
    assert done.stderr == ""


def test_the_words_are_quiet() -> None:
    prose = re.sub(r"```.*?```|`[^`]*`", "", README, flags=re.DOTALL)
    assert "!" not in prose
    loud = "powerful|seamless|blazing|revolutionary|effortless|cutting-edge|next-gen|awesome|amazing|agentic|easy|simply"
    assert re.findall(rf"\b(?:{loud})\w*\b", prose, re.IGNORECASE) == []


def test_the_readme_points_to_no_address_that_may_not_exist() -> None:
    assert {re.sub(r"(:8080)/.*", r"\1", one) for one in re.findall(r"https?://\S+", README)} == {
        "http://localhost:8080"
    }


def test_the_space_file_is_served_and_answers_the_two_requests(tmp_path: Path) -> None:
    (file,) = blocks("yaml")
    (tmp_path / "space.yaml").write_text(file, encoding="utf-8")
    requests = next(block for block in blocks("sh") if block.startswith("curl"))
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
    from mew_lab.cli import build_parser

    (lines,) = [block for block in blocks("sh") if block.startswith("mew-lab")]
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
