"""Programs get little of our environment, and settings name what they want of it."""

from __future__ import annotations

import pytest

from mew_lab.sdk.environment import filled, inherited, unset


@pytest.mark.threat(28)
def test_a_program_is_given_five_variables_and_no_secret() -> None:
    ours = {"PATH": "/bin", "HOME": "/home/a", "OPENAI_API_KEY": "canary", "LANG": "C", "LD_PRELOAD": "x"}
    assert inherited(ours) == {"PATH": "/bin", "HOME": "/home/a", "LANG": "C"}


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("${KEY}", "secret"),
        ("Bearer ${KEY}:${KEY}", "Bearer secret:secret"),
        ("${NONE}", "${NONE}"),
        ("$KEY ${KEY ${1} ${}", "$KEY ${KEY ${1} ${}"),
        ("${LOOP}", "${KEY}"),
        ("", ""),
    ],
)
def test_a_variable_is_filled_in_once_and_kept_verbatim_when_unset(text: str, meant: str) -> None:
    assert filled(text, {"KEY": "secret", "LOOP": "${KEY}"}) == meant


def test_what_is_not_set_is_named_once_and_in_order() -> None:
    assert unset("${B} ${A} ${B} ${SET} $C", {"SET": ""}) == ["B", "A"]
