"""Checks the whole pattern language: globs, regular expressions, lists, negation, JSONPath.

Each case is one message against one capability of the role `matcher` in profile.py.

Spec: §4.1, §4.2; rulings on patterns.
"""

from __future__ import annotations

from typing import Any

from mew_lab.conformance.capabilities import Case, call, judge
from mew_lab.conformance.session import CheckGroup, CheckSession

__all__ = ["checks"]

checks = CheckGroup()


def _asks(allowed: bool, method: str, **params: Any) -> Case:
    return Case("matcher", allowed, "mcp/request", {"method": method, "params": params})


def _reads(allowed: bool, uri: Any) -> Case:
    return _asks(allowed, "resources/read", uri=uri)


def _calls(allowed: bool, name: str) -> Case:
    return Case("matcher", allowed, "mcp/request", call(name))


REGEX = (
    _calls(True, "read_file"),
    _calls(True, "list_all"),
    _calls(False, "read_1"),
    _calls(False, "xread_file"),
    _calls(False, "read_file\n"),
)
PATHS = (
    _asks(True, "prompts/get", labels=["new", "safe"]),
    _asks(False, "prompts/get", labels=["new", "unsafe"]),
    _asks(False, "prompts/get", labels="safe"),
    _asks(False, "prompts/get"),
)
GLOBS = (
    _reads(True, "file:///a/x"),
    _reads(False, "file:///a/x/y"),
    _reads(True, "file:///b/x/y"),
    _reads(False, "file:///c"),
)
BELOW = (
    Case("matcher", True, "below/a"),
    Case("matcher", True, "below/a/b"),
    Case("matcher", False, "below"),
    Case("matcher", True, "one/x/end"),
    Case("matcher", False, "one/x/y/end"),
    Case("lister", False, "mcp/request", {"method": "a/b/list"}),
)
NEGATION = (
    Case("matcher", True, "mcp/proposal", {"method": "tools/list"}),
    Case("matcher", False, "mcp/proposal", {"method": "tools/call"}),
    Case("matcher", False, "mcp/proposal", {}),
    Case("matcher", False, "mcp/proposal", {"method": 5}),
)
VALUES = (
    _asks(True, "math/run", n=1, sure=True, none=None),
    _asks(True, "math/run", n=2.0, sure=True, none=None),
    _asks(False, "math/run", n=3, sure=True, none=None),
    _asks(False, "math/run", n="1", sure=True, none=None),
    _asks(False, "math/run", n=True, sure=True, none=None),
    _asks(False, "math/run", n=1, sure=1, none=None),
    _asks(False, "math/run", n=1, sure=True),
    _asks(False, "math/run", n=[1], sure=True, none=None),
)
DEEP = (
    _asks(True, "deep/find", a={"b": [{"c": "needle"}]}),
    _asks(False, "deep/find", a={"b": ["hay"]}),
)
ADDRESSEES = (
    Case("matcher", True, "chat", {"text": "hi"}, ("admin",)),
    Case("matcher", False, "chat", {"text": "hi"}, ("admin", "human")),
    Case("matcher", False, "chat", {"text": "hi"}, ("human",)),
    Case("matcher", False, "chat", {"text": "hi"}),
)


@checks.shows("P-4.2-2")
async def check_wildcards_expressions_and_paths(session: CheckSession) -> None:
    lists = Case("lister", True, "mcp/request", {"method": "tools/list"})
    calls = Case("lister", False, "mcp/request", {"method": "tools/call"})
    await judge(session, "P-4.2-2", lists, calls, *REGEX[:3], *PATHS)


@checks.shows("S-L2-8")
async def check_negation_and_nested_patterns(session: CheckSession) -> None:
    reads = Case("reader", True, "mcp/request", call("read_file"))
    writes = Case("reader", False, "mcp/request", call("write_file"))
    await judge(session, "S-L2-8", *NEGATION[:2], reads, writes, *BELOW[:1])


@checks.shows("C-8")
async def check_a_star_stops_at_a_slash_but_not_at_the_end_of_a_kind(session: CheckSession) -> None:
    await judge(session, "C-8", *GLOBS, *BELOW)


@checks.shows("C-7")
async def check_the_pattern_language_has_no_undefined_forms(session: CheckSession) -> None:
    await judge(session, "C-7", *REGEX, *PATHS, *NEGATION, *VALUES, *DEEP, *ADDRESSEES)


@checks.shows("P-3.6.1-4")
async def check_a_granted_capability_is_a_pattern(session: CheckSession) -> None:
    admin, spare = await session.join_all("admin", "spare")
    kind = f"lent/{session.new_id()}"
    granted = {"kind": f"{kind}/*", "payload": {"method": "tools/call", "params": {"name": "read_*"}}}
    await admin.attempt(session.grant("spare", granted))
    await spare.settle()
    for name, allowed in (("read_file", True), ("write_file", False)):
        payload = {"method": "tools/call", "params": {"name": name}}
        outcome = await spare.attempt(session.message(f"{kind}/x", payload))
        detail = f"of {granted}, which was granted, {name} was {'refused' if allowed else 'accepted'}"
        session.report(outcome.refused is not allowed, detail)


@checks.shows("C-7")
async def check_a_capability_that_is_no_pattern_is_refused(session: CheckSession) -> None:
    admin, spare = await session.join_all("admin", "spare")
    kind = f"lent/{session.new_id()}"
    faulty: tuple[dict[str, Any], ...] = (
        {"kind": kind, "paylod": {"a": 1}},
        {"payload": {}},
        {"kind": ""},
        {"kind": kind, "payload": 5},
    )
    for bad in faulty:
        outcome = await admin.attempt(session.grant("spare", bad))
        session.report(outcome.refused, f"a grant of {bad} was accepted")
    outcome = await spare.attempt(session.message(kind, {}))
    session.report(outcome.refused, "the kind of a misspelt capability could be sent")
    fine = {"kind": f"{kind}/*", "payload": {"path": ["a/*", "!b/*"], "n": 1}, "id": "x", "description": "y"}
    await admin.attempt(session.grant("spare", fine))
    right = await spare.attempt(session.message(f"{kind}/x", {"path": "a/b", "n": 1}))
    wrong = await spare.attempt(session.message(f"{kind}/x", {"path": "b/b", "n": 1}))
    both = not right.refused and wrong.refused
    session.report(both, "a granted capability was not read as the pattern that it is")
