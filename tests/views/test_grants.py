"""The grants editor sends rows that changed, answers the newest question, and grants what was asked about."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from pages import Page, picture

from mew_lab.lab.decisions.grant_probe import Probe, describe_effect
from mew_lab.lab.lab import Lab
from mew_lab.views.grants.model import Holding, Holdings
from mew_lab.views.grants.widget import GrantsView
from mew_lab.views.ui.pictures import clock_time

CALL = '{"kind":"mcp/request","payload":{"method":"tools/call"}}'
HOSTILE = "<img src=x onerror=alert(1)>\u202e\x1b[31m"


@pytest.fixture
def lab(lab: Lab) -> Lab:
    lab.join("agent", can="observer")
    return lab


@pytest.fixture
def holdings(lab: Lab) -> Holdings:
    return Holdings(lab, lab.granting)


@pytest.fixture
def view(lab: Lab, holdings: Holdings) -> GrantsView:
    return GrantsView(lab, holdings)


def hold(view: GrantsView, holdings: Holdings, count: int, **more: Any) -> None:
    base: dict[str, Any] = {"holder": "agent", "pattern": "{}", "phrase": "chat", "origin": "configured"}
    holdings.rows = tuple(Holding(key=f"k{n}", **(base | more)) for n in range(count))
    view.wake()


def test_a_page_gets_what_everybody_holds_and_the_patterns_to_choose_from(page: Page) -> None:
    first = page.snapshot["rows"][0]
    assert (first["who"], first["origin"]) == ("human", "configured")
    assert [name for name, _ in page.snapshot["holders"]] == ["human", "agent"]
    choices = {text: (said, profiles) for text, said, profiles in page.snapshot["choices"]}
    assert choices['{"kind":"chat"}'] == ("chat", ["proposer", "agent"])
    assert choices['{"kind":"*"}'] == ("send any message", ["admin"])


def test_a_grant_by_click_stands_in_the_table_behind_what_its_holder_had(page: Page, lab: Lab) -> None:
    done = page.act("grant", to="agent", pattern=CALL, minutes=10, uses=None)
    assert done["said"] == "agent may now call any tool with any arguments for 10 min"
    row = page.until(
        lambda: [row for item in page.of("rows") for row in item["rows"] if row["origin"] == "granted"]
    )[0]
    assert (row["who"], row["granter"]) == ("agent", "human")
    assert row["after"].startswith("agent\n")
    assert (
        page.act("revoke", key=row["key"])["said"]
        == "The permission of agent is revoked: call any tool with any arguments"
    )
    page.until(lambda: any(row["key"] in item["gone"] for item in page.of("rows")))


@pytest.mark.ruling("R34")
def test_a_closed_permission_is_granted_told_and_revoked_by_click(page: Page) -> None:
    params = {"name": "write_note", "arguments": {"path": "a"}}
    payload = {"method": "tools/call", "params": params}
    closed = json.dumps({"kind": "mcp/request", "payload": payload, "x-closed": True})
    told = "call the tool write_note where path is “a”, with no other arguments"
    assert page.act("grant", to="agent", pattern=closed, minutes=10, uses=None)["said"] == (
        f"agent may now {told} for 10 min"
    )
    row = page.until(
        lambda: [row for item in page.of("rows") for row in item["rows"] if row["origin"] == "granted"]
    )[0]
    assert page.act("revoke", key=row["key"])["said"] == f"The permission of agent is revoked: {told}"
    page.until(lambda: any(row["key"] in item["gone"] for item in page.of("rows")))


@pytest.mark.threat(22)
def test_threat_22_the_answer_says_how_much_and_the_smallest_message(page: Page, lab: Lab) -> None:
    client = lab.seats["agent"].participant.client
    request = {
        "kind": "mcp/request",
        "to": ["git"],
        "payload": json.loads(CALL)["payload"] | {"params": {"name": "x"}},
    }
    lab.loop.call(lambda: client.post(request))
    found = page.act("probe", to="agent", pattern=CALL)["value"]
    assert found["lines"] == ["agent's past message would newly be allowed. It was refused."]
    assert json.loads(found["smallest"]) == json.loads(CALL)
    assert [example[1:] for example in found["examples"]] == [["mcp/request", "git", "x()"]]
    assert found["barred"] == ""


def test_what_may_not_be_granted_is_answered_and_not_sent(page: Page, lab: Lab) -> None:
    before = len(lab.log)
    assert (
        "You may not grant this"
        in page.act("probe", to="agent", pattern='{"kind":"space/kick"}')["value"]["barred"]
    )
    failed = page.act("grant", to="agent", pattern='{"kind":"space/kick"}')
    assert failed["t"] == "failed" and "You may not grant this" in failed["said"]
    assert len(lab.log) == before


def test_half_a_pattern_is_answered_quietly(page: Page) -> None:
    answer = page.act("probe", to="agent", pattern='{"kind":')
    assert answer["t"] == "done" and "This is not JSON" in answer["value"]["fault"]


@pytest.mark.sampled
@pytest.mark.parametrize(
    ("act", "given"),
    [
        ("grant", {"to": "agent", "pattern": CALL, "minutes": -1}),
        ("grant", {"to": "agent", "pattern": CALL, "uses": 0}),
        ("grant", {"to": "nobody", "pattern": CALL}),
        ("revoke", {"key": "what"}),
        ("restore", {"key": "agent\nx\n{}"}),
    ],
)
def test_what_is_no_choice_of_a_person_changes_nothing(
    page: Page, lab: Lab, act: str, given: dict[str, Any]
) -> None:
    assert page.act(act, **given)["t"] == "failed"
    assert not [entry for entry in lab.log if entry.get("kind") == "capability/revoke"]
    assert not lab.seats["agent"].participant.can_send("mcp/request", {"method": "tools/call"})
    assert not page.view.faults


def test_many_questions_at_once_all_end(page: Page) -> None:
    jobs = [page.begin("probe", to="agent", pattern=CALL) for _ in range(20)]
    page.until(lambda: all(page.ended(job) for job in jobs))
    assert all(page.ended(job)[0]["value"]["phrase"] == "call any tool with any arguments" for job in jobs)


def test_tools_are_looked_up_over_the_wire(page: Page, lab: Lab) -> None:
    @lab.tool
    def git_log(repo: str) -> str:
        "The last commits."
        return repo

    done = page.act("tools")
    assert done["value"] == [["notebook", "git_log", "notebook/git_log"]]


def test_much_that_is_held_comes_in_parts_and_of_one_holder_on_request(
    view: GrantsView, holdings: Holdings, browser: Callable[[Any], Any]
) -> None:
    hold(view, holdings, 450)
    page = browser(view)
    page.appear()
    assert len(page.snapshot["rows"]) == 200 and page.snapshot["total"] == 450
    page.until(lambda: sum(len(item["rows"]) for item in page.of("rows")) == 450)
    assert max(len(item["rows"]) for item in page.of("rows")) == 200
    assert len(page.act("of", holder="agent", group="")["value"]) == 200
    assert page.act("of", holder="nobody", group="")["value"] == []


@pytest.mark.threat(3, 17)
def test_what_peers_write_leaves_the_kernel_as_visible_text(
    view: GrantsView, holdings: Holdings, browser: Callable[[Any], Any]
) -> None:
    hold(view, holdings, 1, holder=HOSTILE, pattern=HOSTILE, grant=HOSTILE, granter=HOSTILE, origin="granted")
    (row,) = browser(view).appear()["rows"]
    # The key and the name of the holder are what is sent back; nothing shows them.
    sent = json.dumps(
        {key: value for key, value in row.items() if key not in ("key", "who")}, ensure_ascii=False
    )
    assert "\u202e" not in sent and "\x1b" not in sent
    html = picture(view)
    assert "<img" not in html and "\u202e" not in html and "\\u202e" in html


def test_the_picture_keeps_what_was_granted(view: GrantsView, holdings: Holdings) -> None:
    hold(view, holdings, 250)
    granted = Holding(
        key="g",
        holder="agent",
        pattern="{}",
        phrase="chat",
        origin="granted",
        grant="g-1",
        granter="human",
        since=0.0,
    )
    holdings.rows = (granted, *holdings.rows)
    html = picture(view)
    assert "Permissions in demo: " in html and f"granted by human at {clock_time(0)} (g-1)" in html
    assert html.count("<tr>") == 201 and "Not shown: 51 earlier rows" in html
    assert "<script" not in html and "<button" not in html
    assert repr(view) == "Permissions in demo: 251, 1 of them granted"


def test_the_view_begins_with_what_this_human_granted(lab: Lab, page: Page) -> None:
    boss = lab.join("boss", can="human")
    lab.loop.submit(boss.participant.rights.grant("agent", [{"kind": "chat"}])).result(20)
    assert page.act("grant", to="agent", pattern=CALL, minutes=None, uses=None, session=True)[
        "said"
    ].endswith("for this session")
    groups = page.until(
        lambda: (heads := page.of("head")) and dict(heads[-1]["groups"])["mine"] and dict(heads[-1]["groups"])
    )
    assert (groups["mine"], groups["granted"], groups["everybody"]) == (1, 1, 3)
    first = page.appear("v2")["rows"][0]
    assert (first["who"], first["group"], first["granter"]) == ("agent", "mine", "human")
    assert [row["group"] for row in page.act("of", holder="agent", group="granted")["value"]] == ["granted"]


def test_what_was_revoked_is_restored_once_and_only_where_it_had_no_end(page: Page, lab: Lab) -> None:
    def held() -> list[str]:
        return list(map(str, lab.seats["agent"].participant.client.capabilities.patterns))

    key = page.act("grant", to="agent", pattern=CALL)["value"]["key"]
    page.until(lambda: [row for item in page.of("rows") for row in item["rows"] if row["key"] == key])
    assert page.act("revoke", key=key)["t"] == "done"
    page.until(lambda: not [text for text in held() if "tools/call" in text])
    assert page.act("restore", key=key)["said"] == "agent may now call any tool with any arguments"
    page.until(lambda: [text for text in held() if "tools/call" in text])
    assert "restored already" in page.act("restore", key=key)["said"]
    limited = page.act("grant", to="agent", pattern=CALL, uses=2)["value"]["key"]
    page.until(lambda: [row for item in page.of("rows") for row in item["rows"] if row["key"] == limited])
    page.act("revoke", key=limited)
    assert page.act("restore", key=limited)["t"] == "failed"


@pytest.mark.parametrize(
    ("fresh", "past", "said"),
    [
        (0, 12, "None of agent's 12 past messages would newly be allowed."),
        (3, 12, "3 of agent's 12 past messages would newly be allowed. 1 of them was refused."),
        (2, 2, "All 2 of agent's past messages would newly be allowed. 1 of them was refused."),
        (0, 0, "No past message of agent would newly be allowed."),
    ],
)
def test_the_effect_is_told_in_plain_words(fresh: int, past: int, said: str) -> None:
    found = Probe(
        phrase="chat", adds=True, fresh=fresh, refused=min(fresh, 1), already=0, proposals=1, looked_at=past,
        examples=(), smallest="", barred="", warnings=(),
    )  # fmt: skip
    assert describe_effect(found, "agent") == [
        said,
        "1 past proposal would have run without asking you.",
    ]
