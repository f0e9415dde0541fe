"""From an empty folder to a space that runs: what is shown, what is written, and what is refused before anything is."""

from __future__ import annotations

import asyncio
import json
import os
import pty
import shutil
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import nbformat
import pytest

import mew_lab
from mew_lab.agent.agent import MEWAgent
from mew_lab.cli.join import obey
from mew_lab.gateway.space_file import read_space_file
from mew_lab.lab.folder_space import find_running
from mew_lab.lab.labs import close_all
from mew_lab.protocol.permit import PROFILES
from mew_lab.sdk.settings import read_settings

from ..bridge.real_servers import NPM, npm_package
from ..clients.model_server import ModelServer
from ..waiting import alive, eventually, until
from .test_background import WITHIN, failure, folder, run, spawn
from .test_cli import Process

__all__ = ["folder"]

pytestmark = pytest.mark.timeout(180)


@pytest.fixture
def clean(tmp_path: Path) -> dict[str, str]:
    """Variables with which nobody's model and nobody's earlier yes counts."""
    named = ("OPENAI_API_KEY", "OPENAI_BASE_URL", "OPENAI_MODEL")
    return {"XDG_STATE_HOME": str(tmp_path / "state"), **dict.fromkeys(named, "")}


@pytest.fixture(autouse=True)
def _no_lab_is_left() -> Iterator[None]:
    yield
    close_all()


# --- demo and notebook ------------------------------------------------------------------------------------------------


def test_one_command_leads_from_an_empty_folder_to_an_approved_call(
    folder: Path, clean: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    done = run(folder, "init", "--yes", **clean)
    assert done.returncode == 0, done.stderr
    shown, _, rest = done.stdout.partition("space garden is up at ")
    assert "writes in " in shown and "space.yaml, helper.yaml" in shown
    for line in (
        "helper: python -P -m mew_lab.cli agent helper.yaml",
        "clock: python -P -m mcp_server_time --local-timezone UTC",
    ):
        assert line in shown, "each command stands there before it runs"
    line = rest.partition("then say, in mew-lab join: ")[2].splitlines()[0]
    three = rest.partition("write three lines into helper.yaml")[2].splitlines()[1:4]
    assert [line.strip().partition(":")[0] for line in three] == ["model", "base_url", "api_key"]
    assert run(folder, "up", **clean).returncode == 1, "it runs, and its programs were allowed"

    monkeypatch.chdir(folder)
    lab = mew_lab.connect()
    eventually(lambda: {"helper", "clock"} <= {*lab.me.participant.client.participants}, within=WITHIN)
    obey(lab, line)
    card = eventually(lambda: [card for card in lab.decisions.pending() if card.is_open], within=WITHIN)[0]
    assert (card.proposer, card.to, card.tool) == ("helper", ("clock",), "get_current_time")
    str(lab.proposals())
    lab.approve(lab.proposals()[0])
    answers = eventually(
        lambda: [one for one in lab.log if one["kind"] == "chat" and one["from"] == "helper"], within=WITHIN
    )
    assert "Tokyo" in answers[0]["payload"]["text"]


def test_the_three_lines_are_what_an_agent_with_a_model_needs(
    folder: Path, clean: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    done = run(folder, "init", "demo", "--yes", "--no-up", **clean)
    path = folder / "helper.yaml"
    lines = done.stdout.partition("write three lines into helper.yaml")[2].splitlines()[1:4]
    three = "\n".join(line.strip() for line in lines).replace("NAME", "some-model")
    path.write_text(f"{three}\n{path.read_text()}")
    environ = {"OPENAI_API_KEY": "key-of-a-test-0123456789"}
    settings = read_settings(path, environ=environ, gateway="ws://127.0.0.1:1/ws", space="s", token="t" * 40)
    assert settings.agent["api_key"].reveal() == environ["OPENAI_API_KEY"]
    assert MEWAgent.from_settings(settings).model.name.startswith("some-model")
    (folder / "space.yaml").unlink()
    path.unlink()
    more = {
        "OPENAI_MODEL": "some-model",
        "OPENAI_BASE_URL": "http://127.0.0.1:9/v1",
        "OPENAI_API_KEY": "k" * 20,
    }
    named = run(folder, "init", "demo", "--yes", "--no-up", **{**clean, **more})
    assert "three lines" not in named.stdout
    settings = read_settings(path, environ=more)
    assert (settings.agent["model"], settings.agent["base_url"]) == ("some-model", "http://127.0.0.1:9/v1")
    assert "k" * 20 not in path.read_text() + (folder / "space.yaml").read_text() + named.stdout


@pytest.mark.slow
def test_the_notebook_joins_the_space_of_its_folder_and_its_cells_run(
    folder: Path, clean: dict[str, str]
) -> None:
    done = run(folder, "init", "notebook", "--yes", "--set", "SPACE_NAME=office", **clean)
    assert done.returncode == 0, done.stderr
    book = nbformat.read(folder / "space.ipynb", 4)
    nbformat.validate(book)
    sources = [cell.source for cell in book.cells if cell.cell_type == "code"]
    assert sources[0].splitlines()[-1].startswith("%mew connect")
    # The answer of the agent would wait for a click: the cells before it run, in a kernel of its own.
    script = "\n".join(
        [
            "from IPython.testing.globalipapp import start_ipython",
            "shell = start_ipython()",
            f"for source in {sources!r}:",
            "    if 'ask' not in source:",
            "        shell.run_cell(source).raise_error()",
            "import mew_lab",
            "print('in the space', mew_lab.labs()['office'].space)",
            "mew_lab.labs()['office'].down()",
        ]
    )
    import subprocess

    ran = subprocess.run(
        [sys.executable, "-c", script], cwd=folder, capture_output=True, text=True, timeout=WITHIN
    )
    assert "in the space office" in ran.stdout, ran.stderr + ran.stdout


def test_a_person_is_asked_and_her_no_writes_nothing(folder: Path, clean: dict[str, str]) -> None:
    screen, side = pty.openpty()
    asked = Process(["init"], folder, stdin=side, environment=clean)
    os.close(side)
    try:
        asked.until("clock: python -P -m mcp_server_time")
        os.write(screen, b"n\n")
        assert asked.ends(within=WITHIN) == 1
        assert "Nothing was written, and nothing was started" in asked.lines[-1]
        assert [*folder.iterdir()] == []
    finally:
        asked.kill()
        os.close(screen)


def test_where_nobody_can_be_asked_nothing_is_written(folder: Path, clean: dict[str, str]) -> None:
    said = failure(run(folder, "init", **clean))
    assert (
        said
        == "mew-lab init: Nothing was written: nobody can be asked here; read the commands, then add --yes"
    )
    assert [*folder.iterdir()] == []


# --- bad input --------------------------------------------------------------------------------------------------------


def linked(folder: Path) -> None:
    (folder / "helper.yaml").symlink_to(folder.parent / "elsewhere.yaml")


def copied(folder: Path) -> None:
    (folder / ".mew").mkdir()
    (folder / ".mew").chmod(0o755)


IN_USE: dict[str, tuple[Callable[[Path], object], str]] = {
    "a space": (lambda folder: (folder / "space.yaml").write_text("mine"), "space.yaml is there, and stays"),
    "a space of others": (
        lambda folder: ((folder / ".mew").mkdir(0o700), (folder / ".mew/space.yaml").write_text("mine")),
        ".mew/space.yaml is there, and stays",
    ),
    "a file": (lambda folder: (folder / "helper.yaml").write_text("mine"), "helper.yaml is there already"),
    "a folder": (lambda folder: (folder / "helper.yaml").mkdir(), "helper.yaml is there already"),
    "a link to nowhere": (linked, "helper.yaml is there already"),
    "a .mew of a clone": (copied, "others may look into it; run: chmod 700"),
    "a linked .mew": (lambda folder: (folder / ".mew").symlink_to(folder.parent), "is a link or no folder"),
}


@pytest.mark.parametrize("name", IN_USE)
def test_a_folder_in_use_is_a_sentence_and_nothing_is_replaced(
    folder: Path, clean: dict[str, str], name: str
) -> None:
    make, said = IN_USE[name]
    make(folder)
    before = {path: path.read_text() if path.is_file() else None for path in folder.rglob("*")}
    assert said in failure(run(folder, "init", "--yes", **clean))
    assert {path: path.read_text() if path.is_file() else None for path in folder.rglob("*")} == before
    assert not (folder.parent / "elsewhere.yaml").exists()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["codr"], "There is no template 'codr'; did you mean 'coder'?"),
        (["../nowhere"], "take demo, coder, notebook, or the path of a template folder"),
        (["--set", "MODEL"], "--set takes NAME=VALUE, and not 'MODEL'"),
        (["--set", "MODLE=x"], "has no variable 'MODLE'; did you mean 'MODEL'?"),
        (["--set", "SPACE_NAME="], "cannot be a space's name: 1 to 128 characters"),
        (["--set", "SPACE_NAME=a\nb"], "give another one with --set SPACE_NAME=NAME"),
        (["--dir", "n" * 200], "give another one with --set SPACE_NAME=NAME"),
        (["--dir", "file"], "it is no folder"),
    ],
)
def test_what_cannot_be_meant_is_a_sentence_and_writes_nothing(
    folder: Path, clean: dict[str, str], words: list[str], said: str
) -> None:
    (folder / "file").touch()
    done = run(folder, "init", "--yes", *words, **clean)
    assert done.returncode == 1 and "Traceback" not in done.stderr
    assert said in done.stderr
    assert [path.name for path in folder.iterdir()] == ["file"]


def test_a_program_that_is_not_installed_is_named_before_anything_is_written(
    folder: Path, clean: dict[str, str]
) -> None:
    said = failure(run(folder, "init", "coder", "--yes", **{**clean, "PATH": str(folder)}))
    assert "'npx', which runs files, shell, is not on PATH; install Node.js, which brings it" in said
    assert [*folder.iterdir()] == []
    written = run(folder, "init", "coder", "--yes", "--no-up", **{**clean, "PATH": str(folder)})
    assert written.returncode == 0 and (folder / "space.yaml").is_file()


# --- what coder may -----------------------------------------------------------------------------------------------------


def test_the_coder_proposes_and_its_servers_are_pinned_and_see_no_token(
    folder: Path, clean: dict[str, str]
) -> None:
    done = run(folder, "init", "coder", "--yes", "--no-up", "--set", "SPACE_NAME=a: 'b' \"c\" #d", **clean)
    assert done.returncode == 0, done.stderr
    assert "newest version" not in done.stdout and "tokens in .mew" not in done.stdout
    file = read_space_file(folder / "space.yaml")
    assert (file.config.name, file.config.owner, file.remarks) == ("a: 'b' \"c\" #d", "human", ())
    assert file.config.participants["coder"].capabilities == PROFILES["agent"]
    commands = file.commands
    exact = f"@modelcontextprotocol/server-filesystem@{NPM['@modelcontextprotocol/server-filesystem']}"
    assert commands["files"] == ["npx", "-y", exact, "work"]
    assert commands["shell"][:2] == ["npx", "-y"] and commands["shell"][2].rpartition("@")[2][0].isdigit()
    shell = file.config.participants["shell"].mcp_server
    assert shell is not None and shell.cwd == "work"
    assert (folder / "work").is_dir()


# --- template folders of other implementations ------------------------------------------------------------------------

# Of the form that such folders have, in words of our own.
SPACE = """# A space with an agent and a server of files
space:
  id: "{{SPACE_NAME}}"
  name: "{{SPACE_NAME}}"
  default_participant: human
participants:
  human:
    capabilities: [{kind: "*"}]
  mew:
    type: local
    command: "mew"
    args: ["agent", "run", "--gateway", "ws://localhost:${PORT}", "--space", "{{SPACE_NAME}}", "--token", "${TOKEN}", "--id", "mew"]
    auto_start: true
    capabilities:
      - kind: "chat"
      - kind: "reasoning/*"
      - kind: "mcp/proposal"
      - kind: "mcp/response"
      - kind: "mcp/request"
        payload: {method: "tools/list"}
    env:
      OPENAI_API_KEY: "${OPENAI_API_KEY}"
      OPENAI_BASE_URL: "{{AGENT_BASE_URL}}"
      OPENAI_MODEL: "{{AGENT_MODEL}}"
      MEW_AGENT_CONFIG: '{"maxIterations": 10, "systemPrompt": {{AGENT_PROMPT_JSON}}}'
  mcp-fs-bridge:
    type: local
    command: "mew"
    args: ["bridge", "start", "--gateway", "ws://localhost:${PORT}", "--space", "{{SPACE_NAME}}", "--token", "${TOKEN}", "--participant-id", "mcp-fs-bridge", "--mcp-command", "mew", "--mcp-args", "mcp,filesystem,./"]
    auto_start: true
    capabilities:
      - kind: "mcp/request"
      - kind: "mcp/response"
      - kind: "mcp/notification"
defaults:
  capabilities:
    - kind: "chat"
"""
VARIABLES = [
    {"name": "SPACE_NAME", "default": "${dirname}", "prompt": True},
    {
        "name": "AGENT_API_KEY",
        "env_sources": ["OPENAI_API_KEY"],
        "default": "",
        "prompt": True,
        "sensitive": True,
        "required": False,
    },
    {"name": "AGENT_BASE_URL", "env_sources": ["OPENAI_BASE_URL"], "default": "https://api.openai.com/v1"},
    {"name": "AGENT_MODEL", "env_sources": ["AGENT_MODEL"], "default": "gpt-5", "prompt": True},
    {"name": "AGENT_PROMPT", "default": 'You write files.\nDon\'t say "sorry".', "prompt": False},
]
# The command of such a space, over the agent and the bridge of this package.
MEW = """#!{python}
import os, sys
words = sys.argv[1:]
of = lambda name: words[words.index(name) + 1]
cli = [sys.executable, "-P", "-m", "mew_lab.cli"]
if words[:2] == ["mcp", "filesystem"]:
    command = [*{server!r}, words[2]]
else:
    os.environ["T"] = of("--token")
    joins = ["--space", of("--space"), "--token-env", "T"]
    if words[0] == "agent":
        model = ["--model", os.environ["OPENAI_MODEL"], "--base-url", os.environ["OPENAI_BASE_URL"]]
        command = [*cli, "agent", "--gateway", of("--gateway"), *joins, "--as", of("--id"), *model]
    else:
        server = [of("--mcp-command"), *of("--mcp-args").split(",")]
        command = [*cli, "bridge", of("--gateway"), *joins, "--as", of("--participant-id"), "--", *server]
os.execvp(command[0], command)
"""


def make_template(place: Path, *, space: str = SPACE, variables: object = VARIABLES) -> Path:
    place.mkdir()
    (place / "space.yaml").write_text(space)
    (place / "template.json").write_text(
        json.dumps({"name": "x", "description": "y", "variables": variables})
    )
    (place / "README.md").write_text("not copied")
    (place / "agents").mkdir()
    (place / "agents" / "auto.cjs").write_text("process.exit(0)\n")
    return place


@pytest.fixture
def template(tmp_path: Path) -> Path:
    return make_template(tmp_path / "some-template")


def test_a_template_folder_goes_into_dot_mew_with_its_variables_filled(
    folder: Path, template: Path, clean: dict[str, str]
) -> None:
    canary = "key-that-is-never-written-0123456789"
    more = {**clean, "OPENAI_API_KEY": canary, "AGENT_MODEL": "of-the-environment"}
    done = run(
        folder,
        "init",
        str(template),
        "--yes",
        "--no-up",
        "--set",
        "AGENT_BASE_URL=http://127.0.0.1:9/v1",
        **more,
    )
    assert done.returncode == 0, done.stderr
    assert [path.name for path in folder.iterdir()] == [".mew"]
    assert (folder / ".mew").stat().st_mode & 0o777 == 0o700
    assert (folder / ".mew/agents/auto.cjs").read_text() == "process.exit(0)\n"
    path = folder / ".mew/space.yaml"
    assert path.read_text().startswith("# A space with an agent")
    file = read_space_file(path)
    assert (file.config.name, file.folder) == ("garden", folder)
    env = file.config.participants["mew"].env
    assert env["OPENAI_API_KEY"] == "${OPENAI_API_KEY}"
    assert (env["OPENAI_BASE_URL"], env["OPENAI_MODEL"]) == ("http://127.0.0.1:9/v1", "of-the-environment")
    config = json.loads(env["MEW_AGENT_CONFIG"])
    assert config["systemPrompt"] == 'You write files.\nDon\'t say "sorry".'
    assert canary not in path.read_text() + done.stdout
    assert "mcp-fs-bridge: mew bridge start" in done.stdout
    assert "mcp,filesystem,./" in done.stdout.replace("'", "")
    assert "./ leads to the tokens in .mew: what reads files there can take them" in done.stdout


@pytest.mark.threat(2)
def test_a_secret_of_a_template_stays_in_the_environment(
    folder: Path, tmp_path: Path, clean: dict[str, str]
) -> None:
    canary = "key-that-is-never-written-0123456789"
    space = SPACE.replace('"${OPENAI_API_KEY}"', '"{{AGENT_API_KEY}}"')
    place = make_template(tmp_path / "t", space=space)
    done = run(folder, "init", str(place), "--yes", "--no-up", **{**clean, "OPENAI_API_KEY": canary})
    assert done.returncode == 0, done.stderr
    file = read_space_file(folder / ".mew/space.yaml")
    assert file.config.participants["mew"].env["OPENAI_API_KEY"] == "${OPENAI_API_KEY}"
    assert canary not in (folder / ".mew/space.yaml").read_text() + done.stdout


@pytest.mark.parametrize(
    ("variables", "words", "said"),
    [
        ([], [], "AGENT_BASE_URL, AGENT_MODEL, AGENT_PROMPT_JSON, which the template does not define"),
        ([*VARIABLES, {"name": "TEAM", "required": True}], [], ""),
        (
            [*VARIABLES[:3], {"name": "AGENT_MODEL"}, VARIABLES[4]],
            [],
            "a value for AGENT_MODEL; give it: --set AGENT_MODEL=…",
        ),
        (
            [*VARIABLES[:3], {"name": "AGENT_MODEL"}, {"name": "AGENT_PROMPT", "required": True}],
            [],
            "a value for AGENT_MODEL, AGENT_PROMPT; give it: --set AGENT_MODEL=… --set AGENT_PROMPT=…",
        ),
        (VARIABLES, ["--set", "AGENT_API_KEY=k"], "AGENT_API_KEY is a secret"),
    ],
)
def test_a_template_with_missing_variables_is_a_sentence(
    folder: Path, tmp_path: Path, clean: dict[str, str], variables: object, words: list[str], said: str
) -> None:
    place = make_template(tmp_path / "t", variables=variables)
    done = run(folder, "init", str(place), "--yes", "--no-up", *words, **clean)
    if not said:  # a variable without a place is not needed
        assert done.returncode == 0, done.stderr
        return
    assert said in failure(done)
    assert [*folder.iterdir()] == []


@pytest.mark.threat(34)
def test_the_name_of_a_folder_cannot_add_a_program(
    tmp_path: Path, template: Path, clean: dict[str, str]
) -> None:
    evil = tmp_path / '"\nparticipants: {evil: {command: sh, auto_start: true}}\n#'
    evil.mkdir()
    done = run(evil, "init", str(template), "--yes", "--no-up", **clean)
    assert done.returncode == 1 and "space.id" in done.stderr, "no name of a space has a line end"
    quoted = tmp_path / '"], command: "sh", x: ["'
    quoted.mkdir()
    assert run(quoted, "init", str(template), "--yes", "--no-up", **clean).returncode == 0
    file = read_space_file(quoted / ".mew/space.yaml")
    assert file.config.name == quoted.name
    assert {*file.config.participants} == {"human", "mew", "mcp-fs-bridge"}
    assert file.commands["mew"][0] == "mew"


def test_the_command_of_a_template_that_is_not_installed_is_named(
    folder: Path, template: Path, clean: dict[str, str]
) -> None:
    said = failure(run(folder, "init", str(template), "--yes", **{**clean, "PATH": str(folder)}))
    assert "'mew', which runs mew, mcp-fs-bridge, is not on PATH; install it, or add --no-up" in said
    assert [*folder.iterdir()] == []


def test_a_template_with_packages_of_its_own_says_what_is_run_first(
    folder: Path, template: Path, clean: dict[str, str]
) -> None:
    (template / "package.json").write_text('{"dependencies": {}}')
    done = run(folder, "init", str(template), "--yes", **clean)
    assert done.returncode == 0, done.stderr
    assert f"before it starts: npm install --prefix {folder}/.mew" in done.stdout
    assert (folder / ".mew/package.json").is_file() and not (folder / ".mew/run.json").exists()


@pytest.mark.slow
def test_a_person_is_asked_for_the_variables_and_a_secret_is_none_of_them(
    folder: Path, template: Path, clean: dict[str, str]
) -> None:
    screen, side = pty.openpty()
    asked = Process(["init", str(template), "--no-up"], folder, stdin=side, environment=clean)
    os.close(side)
    try:
        os.write(screen, b"office\n\ny\n")  # the name, the model as it is, and yes
        assert asked.ends(within=WITHIN) == 0, asked.lines
    finally:
        asked.kill()
        os.close(screen)
    file = read_space_file(folder / ".mew/space.yaml")
    assert (file.config.name, file.config.participants["mew"].env["OPENAI_MODEL"]) == ("office", "gpt-5")


# --- with a model, and npm's server of files --------------------------------------------------------------------------

CALL = 'CALL write_file {"path": "hello.txt", "content": "hello from the coder\\n"}'


async def approve_the_write(
    place: Path, words: list[str], environ: Mapping[str, str], *, agent: str, server: str, root: str
) -> tuple[str, str]:
    """Makes the space, asks the agent for a file, and approves its call; returns the answer and what was printed."""
    async with ModelServer() as model:
        more = {**environ, "OPENAI_BASE_URL": model.url, "OPENAI_API_KEY": "key-of-the-stand-in-0123456789"}
        done = await asyncio.to_thread(spawn, place, "init", *words, "--yes", **more)
        assert done.returncode == 0, done.stderr
        os.chdir(place)
        lab = await asyncio.to_thread(mew_lab.connect)
        await until(lambda: {agent, server} <= {*lab.me.participant.client.participants}, within=WITHIN)
        question = await asyncio.to_thread(lab.ask, agent, f"Please write it.\n{CALL}")

        def open_cards() -> list[Any]:
            return [card for card in lab.decisions.pending() if card.is_open]

        (card,) = await until(open_cards, within=WITHIN)
        assert (card.proposer, card.to, card.tool) == (agent, (server,), "write_file")
        assert not (place / root / "hello.txt").exists(), "nothing is written before a person says yes"
        listed = await asyncio.to_thread(lab.proposals)
        assert "hello from the coder" in str(listed)
        await asyncio.to_thread(lab.approve, listed[0])
        answer = str(await asyncio.to_thread(question.result, WITHIN))
        assert (place / root / "hello.txt").read_text() == "hello from the coder\n"
        lab.down()
        return answer, done.stdout


@pytest.mark.slow
@pytest.mark.timeout(600)
async def test_init_coder_leads_from_an_empty_folder_to_an_approved_write(
    folder: Path, clean: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder)
    if shutil.which("npx") is None:
        pytest.skip("no npx on PATH")
    npm_package(f"@modelcontextprotocol/server-filesystem@{NPM['@modelcontextprotocol/server-filesystem']}")
    answer, printed = await approve_the_write(
        folder,
        ["coder", "--set", "MODEL=stand-in"],
        clean,
        agent="coder",
        server="files",
        root="work",
    )
    assert answer == "all is done"
    assert "three lines" not in printed and "key-of-the-stand-in" not in printed
    lab = await asyncio.to_thread(mew_lab.connect)
    await until(lambda: "shell" in lab.me.participant.client.participants, within=WITHIN)
    ran = await asyncio.to_thread(lab.call, "shell/run_command", {"command": "cat hello.txt"})
    assert "hello from the coder" in str(await asyncio.to_thread(ran.result, WITHIN))
    record = find_running(folder).record
    assert (await asyncio.to_thread(spawn, folder, "down")).stdout.startswith("space garden is down")
    assert not alive(record.pid)


@pytest.mark.slow
@pytest.mark.timeout(600)
async def test_a_template_folder_leads_to_an_approved_write(
    folder: Path, tmp_path: Path, template: Path, clean: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from ..bridge.real_servers import npm_server

    monkeypatch.chdir(folder)
    programs = tmp_path / "bin"
    programs.mkdir()
    mew = programs / "mew"
    server = npm_server("@modelcontextprotocol/server-filesystem")
    mew.write_text(MEW.format(python=sys.executable, server=server))
    mew.chmod(0o755)
    path = f"{programs}{os.pathsep}{os.environ['PATH']}"
    await approve_the_write(
        folder,
        [str(template), "--set", "AGENT_MODEL=stand-in"],
        {**clean, "PATH": path},
        agent="mew",
        server="mcp-fs-bridge",
        root=".",
    )


@pytest.mark.slow
@pytest.mark.timeout(900)
async def test_the_coder_agent_folder_of_the_typescript_implementation_leads_to_an_approved_write(
    folder: Path, clean: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder)
    modules = npm_package("@mew-protocol/mew@0.11.0")
    place = modules / "@mew-protocol" / "mew" / "templates" / "coder-agent"
    path = f"{modules / '.bin'}{os.pathsep}{os.environ['PATH']}"
    await approve_the_write(
        folder,
        [str(place), "--set", "AGENT_MODEL=stand-in"],
        {**clean, "PATH": path},
        agent="mew",
        server="mcp-fs-bridge",
        root=".",
    )
