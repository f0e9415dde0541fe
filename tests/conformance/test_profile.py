"""The tokens file and the space.yaml: what is written, what is read, what is refused."""

from __future__ import annotations

import json
import os
import stat
from pathlib import Path

import pytest

from mew_lab.conformance.profile import (
    ROLES,
    SECOND_ROLES,
    fresh,
    read_profile,
    space_file,
    write_private,
    write_profile,
)
from mew_lab.errors import ConfigError
from mew_lab.protocol.permit import CapabilitySet
from mew_lab.settings.documents import read_yaml
from mew_lab.space.state import is_participant_id


@pytest.mark.parametrize("second", [False, True])
def test_what_is_written_is_read(tmp_path: Path, second: bool) -> None:
    profile = fresh(second=second)
    path = tmp_path / "tokens.json"
    write_profile(path, profile)
    assert read_profile(path) == profile
    assert set(profile.tokens) == set(ROLES)
    assert (profile.second is not None) is second


@pytest.mark.threat(1)
def test_both_files_are_for_their_owner_alone(tmp_path: Path) -> None:
    profile = fresh()
    for name in ("tokens.json", "space.yaml"):
        path = tmp_path / name
        path.write_text("old")
        path.chmod(0o644)
        write_profile(path, profile) if name == "tokens.json" else write_private(path, space_file(profile))
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert not [token.reveal() for token in profile.tokens.values() if token.reveal() in repr(profile)]


def test_a_link_is_replaced_and_not_followed(tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.write_text("mine")
    link = tmp_path / "tokens.json"
    link.symlink_to(other)
    write_profile(link, fresh())
    assert other.read_text() == "mine"
    assert not link.is_symlink()


def test_a_space_file_names_every_role_with_token_and_capabilities() -> None:
    profile = fresh(second=True)
    assert profile.second is not None
    for one, roles in ((profile, ROLES), (profile.second, SECOND_ROLES)):
        told = read_yaml(space_file(one))
        assert isinstance(told, dict)
        assert told["space"]["id"] == one.space
        assert told["participants"] == {
            role: {
                "tokens": [one.tokens[role].reveal()],
                "capabilities": [dict(capability) for capability in capabilities],
            }
            for role, capabilities in roles.items()
        }


def test_a_space_file_can_stand_for_the_tokens_file(tmp_path: Path) -> None:
    profile = fresh()
    path = tmp_path / "space.yaml"
    write_private(path, space_file(profile))
    assert read_profile(path) == profile


def test_every_role_could_be_enrolled_by_us() -> None:
    for roles in (ROLES, SECOND_ROLES):
        for role, capabilities in roles.items():
            assert is_participant_id(role)
            CapabilitySet(capabilities)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[]", "holds no mapping"),
        ("{", "is not the YAML that is read here"),
        ("{}", "space names no space"),
        ('{"space": "a b", "tokens": {}}', "space names no space"),
        ('{"space": "s"}', "tokens is no mapping of roles"),
        ('{"space": "s", "tokens": {"admin": "x"}}', "has no token for human, proposer"),
        ('{"space": "s", "tokens": {"admin": 5}}', "has no token for admin, human"),
        (
            '{"space": {"id": "s"}, "participants": {"admin": 5, "human": {}}}',
            "has no token for admin, human",
        ),
    ],
)
def test_a_faulty_file_is_refused_in_a_sentence_that_says_what_helps(
    tmp_path: Path, text: str, said: str
) -> None:
    path = tmp_path / "tokens.json"
    write_private(path, text)
    with pytest.raises(ConfigError) as caught:
        read_profile(path)
    assert said in str(caught.value)
    assert str(path) in str(caught.value)


def test_a_faulty_second_space_is_named(tmp_path: Path) -> None:
    path = tmp_path / "tokens.json"
    profile = fresh()
    tokens = {role: token.reveal() for role, token in profile.tokens.items()}
    write_private(path, json.dumps({"space": "s", "tokens": tokens, "second": {"space": "t", "tokens": {}}}))
    with pytest.raises(ConfigError, match=r"second\.tokens has no token for admin, human"):
        read_profile(path)


@pytest.mark.skipif(os.name != "posix", reason="mode bits do not tell who may read a file here")
def test_a_file_that_others_can_read_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "tokens.json"
    write_profile(path, fresh())
    path.chmod(0o640)
    with pytest.raises(ConfigError, match="chmod 600"):
        read_profile(path)


def test_files_that_cannot_be_had_are_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="there is no such file"):
        read_profile(tmp_path / "none.json")
    with pytest.raises(ConfigError, match="could not be written: No such file"):
        write_profile(tmp_path / "none" / "tokens.json", fresh())
    binary = tmp_path / "binary"
    binary.write_bytes(b"\xff\xfe")
    with pytest.raises(ConfigError, match="it is not UTF-8 text"):
        read_profile(binary)
