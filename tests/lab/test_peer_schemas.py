"""Calls of a server that judges its arguments itself: what its schema leaves open is sent, and nothing is added."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import mew_lab
from mew_lab.errors import LocalProtocolError
from mew_lab.lab.call_check import misfits
from mew_lab.lab.decisions.pinned_tools import MOST_CHECKED, MOST_SCHEMA
from mew_lab.lab.lab import Lab

from .looking import eventually

ODD = str(Path(__file__).resolve().parents[1] / "bridge" / "odd_server.py")


@pytest.fixture
def lab(lab: Lab) -> Lab:
    lab.bridge("odd", [sys.executable, ODD, "defaults"])
    return lab


@pytest.fixture
def remote(tmp_path: Path) -> Iterator[Lab]:
    """A lab whose server is bridged by another process, which has told its tools."""
    lab = mew_lab.up("demo")
    lab.enrol("odd", can="tool")
    command = [
        "bridge",
        lab.url,
        "--space",
        lab.space,
        "--as",
        "odd",
        "--token-file",
        str(lab.token_file("odd")),
    ]
    bridge = subprocess.Popen(
        [sys.executable, "-m", "mew_lab.cli", *command, "--", sys.executable, ODD, "defaults"]
    )
    try:
        eventually(lambda: "odd/shot" in str(lab.tools()))
        yield lab
    finally:
        bridge.terminate()
        bridge.wait(20)
        lab.down()


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


def test_the_card_of_a_call_to_a_bridge_in_another_process_says_the_same(remote: Lab) -> None:
    bot = remote.join("bot")
    bot.call("odd/shot", scale="huge")
    card = str(remote.proposals()[0])
    assert "does not fit the tool: name is required" in card
    assert "does not fit the tool: scale must be one of 'css', 'device'" in card
    bot.call("odd/shot", name="a b")
    assert "may not fit the tool: name must contain a match of ^\\w+$" in str(remote.proposals()[1])
    bot.call("odd/shot", name="a")
    assert "fit the tool" not in str(remote.proposals()[2])


def test_a_costly_schema_from_elsewhere_is_checked_in_bounds_and_a_long_one_not_at_all() -> None:
    deep: dict[str, Any] = {"d": {"anyOf": [{"type": "integer"}] * 10}}
    for name, inner in (("c", "d"), ("b", "c"), ("a", "b")):
        deep[name] = {"anyOf": [{"$ref": f"#/$defs/{inner}"}] * 10}
    patterns = {f"^a{n}(b|c){{1,20}}": {"type": "string"} for n in range(60)}
    costly: list[dict[str, Any]] = [
        {"$defs": deep, "properties": {"x": {"type": "array", "items": {"$ref": "#/$defs/a"}}}},
        {"patternProperties": patterns},
        {"properties": {"x": {"anyOf": [{"pattern": f"(a{{1,200}}){{1,4}}{n}"} for n in range(80)]}}},
    ]
    for schema in costly:
        text = json.dumps({"type": "object", **schema})
        assert len(text) <= MOST_SCHEMA
        arguments: dict[str, Any] = {"x": ["y"] * 2_000} | {f"a{n}bbb": "x" * 100 for n in range(60)}
        before = time.thread_time()
        misfits(json.loads(text), arguments, most=MOST_CHECKED)
        assert time.thread_time() - before < 0.05


def test_a_large_proposal_is_left_to_its_tool_to_judge(lab: Lab) -> None:
    lab.join("bot").call("odd/shot", scale="x" * 20_000)
    assert "fit the tool" not in str(lab.proposals()[0])


def test_a_tool_of_several_forms_has_arguments(lab: Lab) -> None:
    assert sent(lab.call("odd/find", id=1).result()) == {"id": 1}
    with pytest.raises(LocalProtocolError) as refused:
        lab.call("odd/find", id="x")
    assert "it takes [id], [name]" in str(refused.value) and "no arguments" not in str(refused.value)
    assert "odd/find" in str(lab.tools()) and "[id], [name]" in str(lab.tools())
