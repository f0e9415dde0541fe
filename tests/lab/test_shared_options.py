"""The options that programs and %mew share: each means what the argument of Python means, and no file sets them."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import pytest

from mew_lab.cli import bridge, join, serve
from mew_lab.errors import ConfigError, MewError
from mew_lab.gateway.space_file import parse_space_file
from mew_lab.lab.labs import up
from mew_lab.lab.notification import Notify
from mew_lab.lab.shared_options import (
    EXECUTOR,
    PERSON,
    RESULTS,
    SharedOption,
    add_shared,
    executor_arguments,
    person_arguments,
    writes_by_server,
)
from mew_lab.notebook.commands import COMMANDS
from mew_lab.notebook.parser import parse
from mew_lab.sdk.quorum import Quorum

HOOK = "https://hooks.example.org/T0/s3cret-of-the-hook"
WORDS = "--share-review --quorum 2 --decider ada --decider ben --notify-content"


@pytest.fixture(autouse=True)
def no_hook_of_the_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("MEW_LAB_NOTIFY", raising=False)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))


def from_program(program: Any, words: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    program.add_options(parser)
    return parser.parse_args(words)


def private(text: str, mode: int = 0o600) -> Path:
    file = Path("hook.txt")
    file.write_text(text + "\n")
    file.chmod(mode)
    return file


@pytest.mark.ruling("R39")
@pytest.mark.parametrize("where", ["serve", "join", "up", "connect"])
def test_what_a_person_shares_and_who_is_told_is_the_same_option_everywhere(where: str) -> None:
    words = f"{WORDS} --notify {private(HOOK)} --notify-secret own.secret"
    if where == "serve":
        options = from_program(serve, ["--ui", *words.split()])
    elif where == "join":
        options = from_program(join, ["ws://127.0.0.1:1/ws", *words.split()])
    else:
        begin = {"up": "up", "connect": "connect ws://127.0.0.1:1/ws --space demo"}[where]
        options = parse(f"{begin} {words}", names={}).options
    stated = person_arguments(options)
    assert stated.pop("notify") == Notify.of(HOOK, content=True, secret_file="own.secret")
    assert stated == {"share_review": True, "quorum": 2, "deciders": ("ada", "ben")}
    bare = {"serve": [], "join": ["ws://127.0.0.1:1/ws"]}.get(where)
    program = {"serve": serve, "join": join}.get(where)
    options = (
        parse({"up": "up", "connect": "connect ws://x --space d"}[where], names={}).options
        if bare is None
        else from_program(program, bare)
    )
    assert person_arguments(options) == {}


@pytest.mark.ruling("R39")
def test_the_options_of_an_executor_are_the_same_everywhere() -> None:
    words = "--quorum 2 --decider ada --decider ben".split()
    stated = {"quorum": 2, "deciders": ("ada", "ben")}
    assert executor_arguments(from_program(bridge, ["ws://x", *words, "--", "x"])) == stated
    for line in ("bridge git {} -- x", "bridge-all {}"):
        assert executor_arguments(parse(line.format(" ".join(words)), names={}).options) == stated
    assert executor_arguments(from_program(bridge, ["ws://x", "--", "x"])) == {}
    with pytest.raises(ConfigError, match="needs 3 to 100 deciders, and 2 are named"):
        executor_arguments(from_program(bridge, ["ws://x", "--quorum", "3", *words[2:], "--", "x"]))


@pytest.mark.parametrize("option", [*PERSON, *EXECUTOR, *RESULTS], ids=lambda option: option.flag)
def test_the_help_of_an_option_is_the_same_in_a_program_and_a_notebook(option: SharedOption) -> None:
    parser = argparse.ArgumentParser()
    add_shared(parser, [option])
    assert option.dest in vars(parser.parse_args([]))
    rows = [one for command in COMMANDS.values() for one in command.options if one.flag == option.flag]
    assert option.about in {one.about for one in rows} and {one.dest for one in rows} == {option.dest}


@pytest.mark.threat(1)
@pytest.mark.parametrize("mode", [0o640, 0o604])
def test_an_address_that_others_can_read_is_refused_and_shown_nowhere(mode: int) -> None:
    options = parse(f"up --notify {private(HOOK, mode)}", names={}).options
    with pytest.raises(ConfigError, match="can be read by others than its owner") as told:
        person_arguments(options)
    assert "s3cret" not in str(told.value)
    with pytest.raises(ConfigError, match="notify is https") as told:
        up(notify=private("ftp://x/s3cret"))
    assert "s3cret" not in str(told.value)


def test_a_path_holds_the_address_in_python_as_well() -> None:
    lab = up(notify=private(HOOK))
    assert lab.notify == Notify.of(HOOK) and "s3cret" not in repr(lab.notify)
    lab.down()
    with pytest.raises(ConfigError, match=r"the path of a file that holds such an address; .*none\.txt"):
        up(notify=Path("none.txt"))


@pytest.mark.parametrize("words", ["--notify-content", "--notify-secret x"])
def test_how_an_address_is_told_needs_one(words: str, monkeypatch: pytest.MonkeyPatch) -> None:
    options = parse(f"up {words}", names={}).options
    with pytest.raises(ConfigError, match="add --notify, or set MEW_LAB_NOTIFY"):
        person_arguments(options)
    monkeypatch.setenv("MEW_LAB_NOTIFY", HOOK)
    stated = person_arguments(options)["notify"]
    assert stated.url.reveal() == HOOK and (stated.content or stated.secret_file == Path("x"))


def test_the_options_of_a_page_without_a_page_are_refused() -> None:
    for words, said in (
        ("--share-review", "--share-review is of a page"),
        ("--ui-port 7 --quorum 2 --decider ada", "--ui-port and --quorum and --decider are of a page"),
        ("--notify https://x", "--notify is of a page or of its person; add --ui"),
    ):
        with pytest.raises(ConfigError, match=said):
            serve.run(from_program(serve, words.split()))
    with pytest.raises(ConfigError, match="--writes is for the servers of --mcp-config FILE"):
        serve.run(from_program(serve, ["--writes", "a/b=c,d"]))


@pytest.mark.parametrize("name", ["notify", "notify_content", "share_review", "quorum", "deciders"])
@pytest.mark.parametrize("where", ["", "space", "participants.human", "defaults"])
def test_no_space_file_sets_what_belongs_to_a_person(name: str, where: str) -> None:
    above = {"": "", "space": "", "participants.human": "", "defaults": "defaults:\n"}[where]
    value = f"{name}: {HOOK}"
    text = (
        f"space: {{id: demo{', ' + value if where == 'space' else ''}}}\n"
        f"participants:\n  human: {{capabilities: []{', ' + value if where == 'participants.human' else ''}}}\n"
        f"{above}{'  ' + value if where == 'defaults' else ''}\n{value if not where else ''}\n"
    )
    with pytest.raises(ConfigError, match="it is not read from here; ") as told:
        parse_space_file(text, path=Path("space.yaml"))
    assert f"{where + '.' if where else ''}{name}" in str(told.value) and "s3cret" not in str(told.value)


@pytest.mark.ruling("R39")
def test_a_space_file_sets_the_quorum_of_a_server_whose_deciders_it_has() -> None:
    def read(settings: str, server: str = "command: x") -> Any:
        text = (
            "space: {id: demo}\nparticipants:\n  ada: {capabilities: []}\n  ben: {capabilities: []}\n"
            f"  fs: {{type: mcp-bridge, mcp_server: {{{server}}}, bridge_config: {{{settings}}}}}\n"
        )
        return parse_space_file(text, path=Path("space.yaml")).config.participants["fs"].bridge_config

    stated = read("quorum: 2, deciders: [ada, ben]")
    assert Quorum.of(stated.quorum, stated.deciders) == Quorum(2, ("ada", "ben"))
    for settings, said in (
        (
            "quorum: 3, deciders: [ada, ben]",
            "quorum: it is how many of the deciders must say yes, and 2 are named",
        ),
        ("quorum: 2, deciders: [ada, ada]", "quorum: .* and 1 are named"),
        ("quorum: 1", "quorum: .* and 0 are named"),
        ("deciders: [ada]", "quorum: it is how many of the deciders must say yes, and 1 are named"),
        ("quorum: 1, deciders: [adda]", "deciders: 'adda' is none of the participants; did you mean 'ada'"),
        ("quorum: 0, deciders: [ada]", "quorum"),
        ("writes: {save: [path]}", "writes"),
        ("writes: {save: path}", "writes"),
    ):
        with pytest.raises(ConfigError, match=said):
            read(settings)
    with pytest.raises(ConfigError, match="writes: it is for a server that is started here"):
        read("writes: {save: [path, content]}", server="url: 'https://x.example/mcp'")


def test_the_tools_of_a_file_are_marked_by_server() -> None:
    assert writes_by_server(["a/save=p,c", "a/b/put=p,c", "b/x=y=p,c"]) == {
        "a": {"save": ("p", "c"), "b/put": ("p", "c")},
        "b": {"x=y": ("p", "c")},
    }
    for word in ("save=p,c", "/save=p,c", "a/=p,c"):
        with pytest.raises(MewError):
            writes_by_server([word])


def test_who_joins_from_a_terminal_has_these_options_in_her_lab(monkeypatch: pytest.MonkeyPatch) -> None:
    given: list[dict[str, Any]] = []

    def connect(url: str, **arguments: Any) -> Any:
        given.append(arguments)
        raise ConfigError("enough")

    monkeypatch.setattr(join, "connect", connect)
    token = private("x" * 40)
    words = [
        "ws://127.0.0.1:1/ws",
        "--space",
        "s",
        "--token-file",
        str(token),
        *WORDS.split(),
        "--notify",
        HOOK,
    ]
    with pytest.raises(ConfigError, match="enough"):
        join.run(from_program(join, words))
    stated = {name: given[0][name] for name in ("share_review", "quorum", "deciders", "notify")}
    hook = Notify.of(HOOK, content=True)
    assert stated == {"share_review": True, "quorum": 2, "deciders": ("ada", "ben"), "notify": hook}
