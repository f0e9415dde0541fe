"""Tokens: minted, known, voided, kept in files."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from mew_lab.errors import ConfigError
from mew_lab.gateway.auth import Tokens, mint, read_token_file, token_path, write_token_file
from mew_lab.gateway.config import ParticipantConfig, SpaceConfig
from mew_lab.gateway.gateway import Gateway
from mew_lab.protocol.token import Token, forget, mask


@pytest.mark.threat(26)
def test_a_minted_token_has_256_bits_and_is_never_minted_again() -> None:
    tokens = [mint() for _ in range(1000)]
    for token in tokens:
        forget(token)  # a thousand known secrets slow down whatever masks after this
    minted = {token.reveal() for token in tokens}
    assert len(minted) == 1000
    assert {len(secret) for secret in minted} == {43}  # 32 bytes in base64url


@pytest.mark.req("P-5.2-3")
def test_every_token_of_a_participant_is_good_at_once() -> None:
    tokens = Tokens()
    first, second = tokens.mint("demo", "bot"), Token("literal-from-a-file")
    tokens.add("demo", "bot", second)
    assert tokens.participant_of("demo", first) == "bot"
    assert tokens.participant_of("demo", second) == "bot"
    assert tokens.participant_of("demo", second.reveal()) == "bot"


@pytest.mark.req("P-5.2-2")
@pytest.mark.threat(26)
def test_an_unknown_token_and_an_unknown_space_are_nobodys() -> None:
    tokens = Tokens()
    token = tokens.mint("demo", "bot")
    assert tokens.participant_of("demo", mint()) is None
    assert tokens.participant_of("elsewhere", token) is None
    assert tokens.participant_of("demo", "") is None
    assert tokens.participant_of("demo", token.reveal()[:-1]) is None
    assert tokens.participant_of("demo", "\ud800") is None


def test_the_same_token_may_serve_in_two_spaces_under_two_names() -> None:
    tokens = Tokens()
    token = mint()
    tokens.add("one", "anna", token)
    tokens.add("two", "bert", token)
    assert (tokens.participant_of("one", token), tokens.participant_of("two", token)) == ("anna", "bert")


def test_a_token_of_two_participants_is_refused_and_not_shown() -> None:
    tokens = Tokens()
    token = mint()
    tokens.add("demo", "anna", token)
    with pytest.raises(ConfigError, match="belongs to 'anna' already") as refused:
        tokens.add("demo", "bert", token)
    assert token.reveal() not in str(refused.value)
    assert tokens.participant_of("demo", token) == "anna"


def test_an_empty_token_is_refused() -> None:
    with pytest.raises(ConfigError, match="empty token"):
        Tokens().add("demo", "bot", Token(""))


def test_a_voided_participant_loses_every_token_of_that_space_only() -> None:
    tokens = Tokens()
    here = [tokens.mint("demo", "bot"), tokens.mint("demo", "bot")]
    there, others = tokens.mint("other", "bot"), tokens.mint("demo", "anna")
    assert tokens.void("demo", "bot") == 2
    assert [tokens.participant_of("demo", one) for one in here] == [None, None]
    assert tokens.participant_of("other", there) == "bot"
    assert tokens.participant_of("demo", others) == "anna"


def test_one_token_can_be_voided_alone_and_only_as_its_owners() -> None:
    tokens = Tokens()
    first, second = tokens.mint("demo", "bot"), tokens.mint("demo", "bot")
    assert tokens.void("demo", "anna", first) == 0
    assert tokens.void("demo", "bot", first) == 1
    assert tokens.participant_of("demo", first) is None
    assert tokens.participant_of("demo", second) == "bot"


@pytest.mark.threat(26)
def test_the_registry_keeps_no_secret() -> None:
    tokens = Tokens()
    token = tokens.mint("demo", "bot")
    assert token.reveal() not in repr(vars(tokens))


# --- files ---


@pytest.mark.threat(26)
def test_a_token_file_is_its_owners_alone_in_a_folder_of_its_owner_alone(tmp_path: Path) -> None:
    previous = os.umask(0)  # the worst that an environment can do
    try:
        token = mint()
        path = write_token_file(tmp_path / "tokens", "demo", "bot", token)
    finally:
        os.umask(previous)
    assert path == tmp_path / "tokens" / "demo" / "bot.token"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    assert stat.S_IMODE(path.parent.parent.stat().st_mode) == 0o700
    assert read_token_file(path) == token


def test_a_folder_that_others_could_read_is_closed_to_them(tmp_path: Path) -> None:
    (tmp_path / "tokens").mkdir(mode=0o755)
    write_token_file(tmp_path / "tokens", "demo", "bot", mint())
    assert stat.S_IMODE((tmp_path / "tokens").stat().st_mode) == 0o700


def test_writing_again_replaces_the_token_and_leaves_no_other_file(tmp_path: Path) -> None:
    write_token_file(tmp_path, "demo", "bot", mint())
    again = mint()
    path = write_token_file(tmp_path, "demo", "bot", again)
    assert read_token_file(path) == again
    assert [one.name for one in path.parent.iterdir()] == ["bot.token"]


@pytest.mark.threat(27)
def test_a_link_in_the_place_of_a_token_file_is_replaced_and_not_followed(tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.write_text("precious")
    place = tmp_path / "tokens" / "demo"
    place.mkdir(parents=True)
    (place / "bot.token").symlink_to(victim)
    path = write_token_file(tmp_path / "tokens", "demo", "bot", mint())
    assert victim.read_text() == "precious"
    assert not path.is_symlink()


@pytest.mark.threat(27)
def test_a_link_in_the_place_of_the_folder_is_refused(tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (tmp_path / "tokens").symlink_to(elsewhere)
    with pytest.raises(ConfigError, match="not a folder of yours"):
        write_token_file(tmp_path / "tokens", "demo", "bot", mint())
    assert list(elsewhere.iterdir()) == []


@pytest.mark.threat(27)
@pytest.mark.parametrize(
    "name", ["../up", "a/b", "", ".", "..", "nul\0", "CON", "con.x", "x" * 300, "ä", "a b"]
)
def test_a_name_that_is_no_plain_file_name_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(ConfigError, match="cannot be part of a token file's name"):
        write_token_file(tmp_path, "demo", name, mint())
    assert list(tmp_path.iterdir()) == []


@pytest.mark.threat(27)
@pytest.mark.ruling("R27")
def test_the_tokens_of_each_space_lie_in_a_folder_of_its_own_whatever_it_is_called(tmp_path: Path) -> None:
    spaces = ["../up", "a/b", "..", "CON", "con.x", "{{NAME}}", "demo", "Demo", "a b", "A b", "ä"]
    tokens = {space: mint() for space in spaces}
    files = {space: write_token_file(tmp_path / "t", space, "bot", token) for space, token in tokens.items()}
    assert {read_token_file(file).reveal() for file in files.values()} == {
        one.reveal() for one in tokens.values()
    }
    assert {file.parent.parent for file in files.values()} == {tmp_path / "t"}
    assert len({file.parent.name.casefold() for file in files.values()}) == len(spaces)
    assert {space: token_path(tmp_path / "t", space, "bot") for space in spaces} == files  # found again
    assert files["demo"].parent.name == "demo"


@pytest.mark.threat(26)
def test_a_short_token_in_a_file_is_refused_where_short_ones_are_not_to_be(tmp_path: Path) -> None:
    path = write_token_file(tmp_path, "demo", "bot", Token("fifteen-letters"))
    assert read_token_file(path).reveal() == "fifteen-letters"
    with pytest.raises(ConfigError, match=r"fewer than 16 characters.*MEW_SHORT_TOKENS=1") as refused:
        read_token_file(path, short=False)
    assert "fifteen-letters" not in str(refused.value)
    assert read_token_file(write_token_file(tmp_path, "demo", "bot", Token("x" * 16)), short=False)


def test_a_token_that_no_header_could_carry_is_not_written(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="beyond ASCII") as refused:
        write_token_file(tmp_path, "demo", "bot", Token("schlüssel-geheim"))
    assert "geheim" not in str(refused.value).replace("…heim", "")
    assert list((tmp_path / "demo").iterdir()) == []


@pytest.mark.threat(26)
@pytest.mark.parametrize("mode", [0o640, 0o604, 0o620, 0o666])
def test_a_token_file_that_others_may_touch_is_refused_with_the_remedy(tmp_path: Path, mode: int) -> None:
    path = tmp_path / "bot.token"
    path.write_text("some-secret-token\n")
    path.chmod(mode)
    with pytest.raises(ConfigError, match=r"run: chmod 600 .*bot\.token") as refused:
        read_token_file(path)
    assert refused.value.path == str(path)
    assert "some-secret" not in str(refused.value)


@pytest.mark.parametrize("text", ["", "\n\n", "two words", "x" * 5000, "line\nline", "\x07bell", "schlüssel"])
def test_a_file_that_holds_no_token_is_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "bot.token"
    path.write_text(text)
    path.chmod(0o600)
    with pytest.raises(ConfigError, match="holds no token"):
        read_token_file(path)


def test_a_missing_token_file_and_a_folder_are_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="No such file"):
        read_token_file(tmp_path / "none.token")
    with pytest.raises(ConfigError, match=r"not a plain file|Is a directory"):
        read_token_file(tmp_path)


def test_a_pipe_in_the_place_of_a_token_file_holds_nobody_up(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe", 0o600)
    with pytest.raises(ConfigError, match="not a plain file"):
        read_token_file(tmp_path / "pipe")


def test_a_file_in_the_place_of_the_folder_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(ConfigError, match=r"could not be written|not a folder of yours"):
        write_token_file(tmp_path / "file", "demo", "bot", mint())


@pytest.mark.threat(1)
def test_a_token_is_masked_until_no_registry_knows_it_any_more() -> None:
    one, other = Tokens(), Tokens()
    token, kept = Token("a-token-of-two-spaces"), one.mint("demo", "anna")
    one.add("demo", "bot", token)
    other.add("office", "bot", token)
    assert one.void("demo", "bot") == 1
    assert mask(f"{token.reveal()} {kept.reveal()}") == f"{token} {kept}"
    other.void_space("office")
    assert other.participant_of("office", token) is None
    assert mask(f"{token.reveal()} {kept.reveal()}") == f"{token.reveal()} {kept}"
    other.add("office", "bot", token)
    assert mask(token.reveal()) == str(token)
    other.void_space("office")


@pytest.mark.threat(1)
def test_tokens_of_kicked_participants_and_of_closed_spaces_are_forgotten() -> None:
    gateway = Gateway()
    people = {name: ParticipantConfig(capabilities=[{"kind": "*"}]) for name in ("anna", "bot")}
    gateway.add_space(SpaceConfig(name="demo", participants=people))
    anna, bot = (gateway.tokens.mint("demo", name) for name in people)
    kick = '{"kind":"space/kick","payload":{"participant_id":"bot"}}'
    assert gateway.post("demo", "anna", kick).status == 200
    assert mask(f"{anna.reveal()} {bot.reveal()}") == f"{anna} {bot.reveal()}"
    gateway.close()
    assert mask(anna.reveal()) == anna.reveal()
