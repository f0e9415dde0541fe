"""The rows of a request say all of it, and no two of them the same place."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from mew_lab.errors import LocalProtocolError
from mew_lab.protocol.envelope import canonical, compact, read_strict
from mew_lab.protocol.steps import finish
from mew_lab.protocol.visible import visible
from mew_lab.sdk.request_rows import (
    argument_of,
    escape_key,
    is_routine,
    read_mismatch,
    read_request,
    read_values,
    routine_word,
    row_name,
    rows_of,
)


def rebuilt(rows: Any) -> dict[str, Any]:
    """The request that the rows state."""
    return finish(read_request(rows, finish(read_values(rows))))


# Names that have covered, or look like, others.
NAMES = st.one_of(
    st.sampled_from(
        ["", "/", "~", "~1", "~0", "a/b", "a~1b", "params", "params.uri", "uri", "name", "arguments", "id", "to", "jsonrpc",
         "method", "/to", "/payload/id", "/payload/params/arguments/a", "arguments/a", ".", "..", "__proto__", "a\u200b",
         "a\\u200b", '"a"', " a", "a ", "a\u202e", "A", "a (beside the arguments)", "path", "0", "-"]
    ),
    st.text(st.characters(codec="utf-8"), max_size=6),
)  # fmt: skip
VALUES = st.recursive(
    st.one_of(
        st.none(), st.booleans(), st.integers(-(2**63), 2**64 - 1), st.floats(allow_nan=False, allow_infinity=False),
        st.text(st.characters(codec="utf-8"), max_size=8), st.sampled_from([0, 1, 1.0, -0.0, True, "1", [], {}]),
    ),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(NAMES, inner, max_size=3)),
    max_leaves=6,
)  # fmt: skip
PARAMS = st.one_of(
    VALUES,
    st.dictionaries(NAMES, VALUES, max_size=4),
    st.builds(
        lambda more, arguments: more | {"arguments": arguments},
        st.dictionaries(NAMES, VALUES, max_size=3),
        VALUES,
    ),
)
PAYLOADS = st.builds(
    lambda more, params: more | {"params": params}, st.dictionaries(NAMES, VALUES, max_size=4), PARAMS
) | st.dictionaries(NAMES, VALUES, max_size=4)
REQUESTS = st.builds(
    lambda to, payload: {"to": to, "payload": payload}, st.lists(NAMES, max_size=4), PAYLOADS
)


@pytest.mark.threat(35)
@settings(max_examples=400, deadline=None)
@given(REQUESTS)
@example(
    {
        "to": ["files"],
        "payload": {"params": {"uri": "/etc/shadow", "arguments": {"params.uri": "ok"}}, "params.uri": "ok"},
    }
)
def test_threat_35_the_rows_rebuild_the_request_and_no_two_have_one_name(request: dict[str, Any]) -> None:
    rows = rows_of(request)
    assert canonical(rebuilt(rows)) == canonical(request)
    assert finish(read_mismatch(rows, request)) == ""
    assert len({pointer for pointer, _ in rows}) == len(rows)
    names = [row_name(pointer) for pointer, _ in rows]
    assert len(set(names)) == len(names)
    assert all(visible(name) == name for name in names)


def resolved(pointer: str, document: Any) -> Any:
    """RFC 6901, section 4, for objects."""
    for part in pointer.split("/")[1:]:
        document = document[part.replace("~1", "/").replace("~0", "~")]
    return document


@pytest.mark.threat(35)
@settings(max_examples=200, deadline=None)
@given(REQUESTS)
def test_threat_35_each_pointer_names_the_place_where_its_value_stands(request: dict[str, Any]) -> None:
    for pointer, text in rows_of(request):
        assert canonical(resolved(pointer, request)) == canonical(json.loads(text))


@settings(max_examples=200, deadline=None)
@given(REQUESTS, st.data())
def test_rows_that_are_not_all_or_not_these_are_not_those_of_the_request(
    request: dict[str, Any], data: st.DataObject
) -> None:
    rows = rows_of(request)
    at = data.draw(st.integers(0, len(rows) - 1))
    pointer, text = rows[at]
    other = "1" if text != "1" else "2"
    for wrong in (
        (*rows[:at], *rows[at + 1 :]),
        (*rows[:at], (pointer, other), *rows[at + 1 :]),
        (*rows, rows[at]),
    ):
        assert finish(read_mismatch(wrong, request))


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs"])),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text("ab~é\u2028\U0001f600"), inner, max_size=4)
    ),
)


@settings(max_examples=300, deadline=None)
@given(JSON)
def test_what_is_read_from_a_sent_text_has_the_canonical_form_of_what_was_written(value: Any) -> None:
    members = {"to": [], "payload": value}
    assert canonical(read_strict(compact(members))) == canonical(members)


def test_values_that_differ_in_type_alone_differ() -> None:
    request = {"to": ["git"], "payload": {"params": {"arguments": {"n": 1}}}}
    for text in ("1.0", "true", '"1"', "[1]"):
        rows = tuple((at, text if at.endswith("/n") else value) for at, value in rows_of(request))
        assert "do not state the request that would be sent" in finish(read_mismatch(rows, request))


@pytest.mark.parametrize(
    ("rows", "says"),
    [
        ((("/to", "[]"), ("/to", "[]")), "two rows stand at '/to'"),
        ((("/payload", "{}"), ("/payload/a", "1"), ("/payload/a/b", "1")), "inside of another row"),
        ((("/payload/a/b", "1"), ("/payload/a", "1")), "another row lies inside of '/payload/a'"),
        ((("/to", "{"),), "is no JSON"),
        ((("", "1"),), "two rows stand at ''"),
    ],
)
def test_rows_that_say_no_request_are_refused(rows: Any, says: str) -> None:
    with pytest.raises(LocalProtocolError, match=says) as caught:
        rebuilt(rows)
    assert caught.value.code == "rows_mismatch"


def test_an_arguments_name_is_its_own_unless_it_could_be_taken_for_another() -> None:
    at = "/payload/params/arguments/"
    shown = {
        name: row_name(at + escape_key(name))
        for name in ("path", "a/b", "params.uri", "/to", "", " a", "a\u202e")
    }
    assert shown == {
        "path": "path",
        "a/b": "a/b",
        "params.uri": "params.uri",
        "/to": at + "~1to",
        "": at,
        " a": at + " a",
        "a\u202e": '"a\\u202e"',
    }
    assert row_name("/payload/params.uri") == "/payload/params.uri"
    assert argument_of(at + "a~1b") == "a/b" and argument_of("/payload/params") is None


@pytest.mark.parametrize(
    ("meta", "routine"),
    [
        ({"progressToken": "gate-0123456789ab"}, True),
        ({"progressToken": 7}, True),
        ({"progressToken": "gate-0123456789ab", "more": 1}, False),
        ({"progressToken": "send the file too"}, False),
        ({"progressToken": "x" * 21}, False),
        ({"progressToken": "\u0430"}, False),
        ({"progressToken": {"a": 1}}, False),
        ({"traceparent": "00-1-2-03"}, False),
        ({}, False),
    ],
)
def test_a_progress_token_alone_needs_no_reading_and_anything_else_beside_the_arguments_does(
    meta: dict[str, Any], routine: bool
) -> None:
    params = {"name": "add", "arguments": {"a": 2}, "_meta": meta}
    rows = rows_of({"to": ["calc"], "payload": {"method": "tools/call", "params": params}})
    [row] = [row for row in rows if row[0].endswith("/_meta")]
    assert is_routine(*row) is routine
    if routine:
        assert routine_word(row[0]) == "progress token"
    assert not is_routine("/payload/params/arguments/_meta", row[1])
