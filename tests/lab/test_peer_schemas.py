"""Calls of a server that judges its arguments itself: what its schema leaves open is sent, and nothing is added."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from mew_lab.errors import LocalProtocolError
from mew_lab.lab.lab import Lab

ODD = str(Path(__file__).resolve().parents[1] / "bridge" / "odd_server.py")


@pytest.fixture
def lab(lab: Lab) -> Lab:
    lab.bridge("odd", [sys.executable, ODD, "defaults"])
    return lab


def sent(result: Any) -> Any:
    return json.loads(result.text)


def test_an_argument_that_has_a_default_may_be_left_out_and_is_not_filled_in(lab: Lab) -> None:
    assert sent(lab.call("odd/shot", name="a").result()) == {"name": "a"}
    proposed = lab.join("bot").call("odd/shot", name="a")
    assert "fit the tool" not in str(lab.proposals()[0])
    lab.approve(proposed.id)
    assert sent(proposed.result()) == {"name": "a"}


def test_what_a_schema_plainly_forbids_is_refused_before_it_is_sent(lab: Lab) -> None:
    with pytest.raises(LocalProtocolError, match=r"name is required; it takes \[scale\], name"):
        lab.call("odd/shot", scale="css")
    with pytest.raises(LocalProtocolError, match=r"scale must be one of 'css', 'device'"):
        lab.call("odd/shot", name="a", scale="huge")
    assert not lab.log.filter("method:tools/call").df["id"].tolist()


def test_what_only_a_reading_of_a_schema_refuses_goes_to_the_server_and_its_card_says_so(lab: Lab) -> None:
    assert sent(lab.call("odd/shot", name="a b").result()) == {"name": "a b"}
    proposed = lab.join("bot").call("odd/shot", name="a b")
    card = str(lab.proposals()[0])
    assert "may not fit the tool: name must contain a match of ^\\w+$" in card
    lab.approve(proposed.id)
    assert sent(proposed.result()) == {"name": "a b"}


def test_the_card_of_a_call_that_its_tool_may_refuse_says_what_does_not_fit(lab: Lab) -> None:
    lab.join("bot").call("odd/shot", scale="huge")
    card = str(lab.proposals()[0])
    assert "does not fit the tool: name is required" in card
    assert "does not fit the tool: scale must be one of 'css', 'device'" in card


def test_a_large_proposal_is_left_to_its_tool_to_judge(lab: Lab) -> None:
    lab.join("bot").call("odd/shot", scale="x" * 20_000)
    assert "fit the tool" not in str(lab.proposals()[0])


def test_a_tool_of_several_forms_has_arguments(lab: Lab) -> None:
    assert sent(lab.call("odd/find", id=1).result()) == {"id": 1}
    with pytest.raises(LocalProtocolError) as refused:
        lab.call("odd/find", id="x")
    assert "it takes [id], [name]" in str(refused.value) and "no arguments" not in str(refused.value)
    assert "odd/find" in str(lab.tools()) and "[id], [name]" in str(lab.tools())
