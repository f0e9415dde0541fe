"""Every token of a space.yaml is good at once, wherever it came from."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest

from mew_lab.errors import ConfigError
from mew_lab.gateway.auth import Tokens
from mew_lab.gateway.keyring import Key, issue, variable
from mew_lab.gateway.space_file import parse_space_file
from mew_lab.protocol.token import Token

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
