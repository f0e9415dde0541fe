"""Every token of a space.yaml is good at once, wherever it came from."""

from __future__ import annotations

import os
import stat
import subprocess
import tracemalloc
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mew_lab.errors import ConfigError
from mew_lab.gateway.auth import Tokens
from mew_lab.gateway.keyring import Key, issue, remarks, variable
from mew_lab.gateway.space_file import parse_space_file
from mew_lab.protocol.token import Token
from mew_lab.transport.folder import find_tracked

TWO = "space: {id: s}\nparticipants: {my-bot: {tokens: [first-of-bot, second-of-bot]}, eve: {}}"


def issued(folder: Path, text: str = TWO, **environ: str) -> tuple[Tokens, dict[str, Key]]:
    tokens = Tokens()
    file = parse_space_file(text, path=folder / "space.yaml", environ={})
    return tokens, issue(file, tokens, environ=environ)


def kept(path: Path, secret: str) -> Path:
    path.parent.mkdir(parents=True)
    path.write_text(secret + "\n")
    path.chmod(0o600)
    return path


def test_the_variable_of_a_participant_is_its_id_in_capitals() -> None:
    assert variable("my-bot.2") == "MEW_TOKEN_MY_BOT.2"


@pytest.mark.req("P-5.2-2", "P-5.2-3", "P-8.1-3")
def test_tokens_of_file_and_environment_are_valid_at_once(tmp_path: Path) -> None:
    tokens, keys = issued(tmp_path, MEW_TOKEN_MY_BOT="third-of-bot")
    for secret in ("first-of-bot", "second-of-bot", "third-of-bot"):
        assert tokens.participant_of("s", secret) == "my-bot"
    assert keys["my-bot"] == Key(Token("third-of-bot"), None)
    assert tokens.participant_of("s", keys["eve"].token) == "eve"
    assert tokens.participant_of("s", "fourth-of-bot") is None


@pytest.mark.threat(26)
def test_a_token_that_is_missing_is_minted_and_kept_for_its_owner_alone(tmp_path: Path) -> None:
    _, keys = issued(tmp_path)
    path = keys["eve"].file
    assert path == tmp_path / ".mew" / "tokens" / "s" / "eve.token"
    assert path.read_text().strip() == keys["eve"].token.reveal()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    assert (tmp_path / ".mew" / ".gitignore").read_text() == "*\n"
    assert issued(tmp_path)[1]["eve"].token == keys["eve"].token  # the next start gives the same


def test_a_token_file_of_the_peers_is_taken_and_ours_before_it(tmp_path: Path) -> None:
    legacy = kept(tmp_path / "tokens" / "eve.token", "of-the-peers")
    assert issued(tmp_path)[1]["eve"] == Key(Token("of-the-peers"), legacy)
    (tmp_path / "other").mkdir()
    legacy = kept(tmp_path / "other" / "tokens" / "eve.token", "of-the-peers")
    ours = kept(tmp_path / "other" / ".mew" / "tokens" / "s" / "eve.token", "of-our-own")
    assert issued(tmp_path / "other")[1]["eve"] == Key(Token("of-our-own"), ours)


def test_the_environment_comes_before_a_file(tmp_path: Path) -> None:
    kept(tmp_path / "tokens" / "eve.token", "of-the-peers")
    assert issued(tmp_path, MEW_TOKEN_EVE="of-environment")[1]["eve"].token == Token("of-environment")


@pytest.mark.threat(1)
def test_every_token_that_cannot_be_used_is_named_in_one_message(tmp_path: Path) -> None:
    kept(tmp_path / "tokens" / "open.token", "readable-by-all").chmod(0o644)
    text = "space: {id: s}\nparticipants: {open: {}, a-b: {tokens: [shared-secret]}, a_b: {}}"
    with pytest.raises(ConfigError) as caught:
        issued(tmp_path, text, MEW_TOKEN_A_B="one-for-two")
    told = str(caught.value)
    assert "has 2 faults" in told
    assert "chmod 600" in told
    assert "MEW_TOKEN_A_B: the token tok_… of participant 'a_b' in space 's' belongs to 'a-b' already" in told
    assert "one-for-two" not in told and "readable-by-all" not in told


# --- remarks ---


@pytest.mark.threat(1)
@pytest.mark.parametrize("secret", ["x", "fifteen-letters"])
@pytest.mark.parametrize("where", ["file", "environment"])
def test_a_token_that_could_be_guessed_has_a_remark_with_the_way_back(
    tmp_path: Path, secret: str, where: str
) -> None:
    environ = {"MEW_TOKEN_EVE": secret} if where == "environment" else {}
    file = None if environ else kept(tmp_path / "tokens" / "eve.token", secret)
    _, keys = issued(tmp_path, **environ)
    [told] = remarks(keys)
    assert told.startswith(
        f"the token of eve, {f'in {file}' if file else 'from MEW_TOKEN_EVE'}, has fewer than 16"
    )
    assert ("delete the file" if file else "unset the variable") in told and f" {secret} " not in told
    if file:
        file.unlink()
        assert list(remarks(issued(tmp_path)[1])) == []


@pytest.mark.threat(1)
@pytest.mark.parametrize("version", [2, 3, 4])
@pytest.mark.parametrize("nested", [False, True])
def test_a_token_that_git_keeps_has_a_remark_with_the_way_back(
    tmp_path: Path, version: int, nested: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "inner" if nested else tmp_path
    folder.mkdir(exist_ok=True)
    environ = {**os.environ, "GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1"}

    def git(*words: str) -> None:
        subprocess.run(["git", *words], cwd=tmp_path, check=True, capture_output=True, env=environ)

    git("init")
    _, keys = issued(folder)
    own = keys["eve"].file
    assert own is not None and list(remarks(keys)) == []
    for name in ("a.txt", "my.token", "z" * 200):
        (folder / name).write_text("x")
    git("add", "-f", ".")
    git("update-index", "--index-version", str(version))
    if version == 3:
        git("update-index", "--skip-worktree", str(own))  # only an entry with more flags makes one
    _, keys = issued(folder)
    told = list(remarks(keys))
    assert len(told) == 2 and all("git rm --cached" in one and "under version control" in one for one in told)
    assert not any(key.token.reveal() in one for key in keys.values() for one in told)
    git("update-index", "--no-skip-worktree", str(own))
    git("rm", "--cached", str(own))
    assert [one for one in remarks(issued(folder)[1]) if one.startswith("the token of eve")] == []


@pytest.mark.threat(1)
@given(st.binary(max_size=200), st.integers(0, 5), st.integers(0, 2**32 - 1))
def test_an_index_of_any_content_is_read_to_an_end(
    tmp_path_factory: pytest.TempPathFactory, content: bytes, version: int, count: int
) -> None:
    folder = tmp_path_factory.mktemp("any")
    (folder / ".git").mkdir()
    head = b"DIRC" + version.to_bytes(4) + count.to_bytes(4)
    (folder / ".git" / "index").write_bytes(head + b"tokens/" + content)
    assert find_tracked([folder / ".mew" / "tokens" / "s" / "eve.token"]) == []


@pytest.mark.parametrize("what", ["pipe", "folder", "link to itself", "points nowhere"])
def test_what_is_no_index_is_not_waited_for(tmp_path: Path, what: str) -> None:
    git = tmp_path / ".git"
    if what == "points nowhere":
        git.write_bytes(b"gitdir: \xff\0/x")
    elif what == "link to itself":
        git.symlink_to(git)
    else:
        git.mkdir()
        os.mkfifo(git / "index") if what == "pipe" else (git / "index").mkdir()
    assert find_tracked([tmp_path / "eve.token"]) == []


@pytest.mark.threat(1)
def test_an_index_whose_paths_grow_without_end_is_left(tmp_path: Path) -> None:
    (tmp_path / ".git").mkdir()
    entry = bytes(40 + 20) + b"\0\x01" + b"\0"  # version 4: nothing is cut from the path before it
    paths = [b"tokens/eve.token", *[b"x"] * 20_000]
    entries = b"".join(entry + path + b"\0" for path in paths)
    index = b"DIRC" + (4).to_bytes(4) + (20_001).to_bytes(4) + entries
    (tmp_path / ".git" / "index").write_bytes(index)
    tracemalloc.start()
    try:
        found = find_tracked([tmp_path / "tokens" / name for name in ("eve.token", "ada.token")])
        assert tracemalloc.get_traced_memory()[1] < 100_000_000  # the paths have 200 MB together
    finally:
        tracemalloc.stop()
    assert found == [tmp_path / "tokens" / "eve.token"]
