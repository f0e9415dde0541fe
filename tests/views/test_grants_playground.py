"""The playground of the permissions: other permissions are tried against the messages so far, and none is given."""

from __future__ import annotations

import contextlib
import json
from typing import Any

import pytest
from pages import Page

from mew_lab.errors import CapabilityViolation, Refused
from mew_lab.lab.lab import Lab
from mew_lab.log.log import Log
from mew_lab.views.grants.model import Holdings
from mew_lab.views.grants.widget import GrantsView

CALLING = '{"kind":"mcp/request","payload":{"method":"tools/call"}}'


@pytest.fixture
def lab(lab: Lab) -> Lab:
    bot = lab.join("bot", can="proposer")
    bot.chat("hello")
    bot.chat("again")
    for tool in ("read", "write"):
        with contextlib.suppress(Refused, CapabilityViolation):
            bot.send("mcp/request", {"method": "tools/call", "params": {"name": tool}}, to="human")
    return lab


@pytest.fixture
def view(lab: Lab) -> GrantsView:
    return GrantsView(lab, Holdings(lab, lab.granting))


def suppose(page: Page, to: str = "bot", profile: str = "", pattern: str = "") -> dict[str, Any]:
    return dict(page.act("suppose", to=to, profile=profile, pattern=pattern)["value"])


def sent(lab: Lab, kind: str) -> list[str]:
    return [one["id"] for one in lab.log if one.get("kind") == kind and one.get("from") == "bot"]


def refused(lab: Lab) -> int:
    return sum(
        record.verdict == "refused" and '"mcp/request"' in (record.raw or "") for record in lab.log.records
    )


def test_one_permission_more_would_have_allowed_what_was_refused(page: Page, lab: Lab) -> None:
    assert refused(lab) == 2
    told = suppose(page, pattern=CALLING)
    assert told["counts"] == [2, 0] and [row[1] for row in told["allowed"]] == ["mcp/request"] * 2
    assert told["sentence"].endswith("2 more would have been allowed, and 0 denied.")
    assert told["about"] == "Each message is judged alone: what would have followed from it is not counted."
    narrow = json.dumps({"kind": "mcp/request", "payload": {"params": {"name": "read"}}})
    assert suppose(page, pattern=narrow)["counts"] == [1, 0]


def test_another_profile_allows_some_and_denies_others_as_the_log_says(page: Page, lab: Lab) -> None:
    for profile in ("observer", "agent", "tool", "admin"):
        told, answer = suppose(page, profile=profile), lab.log.what_if(capabilities={"bot": profile})
        assert [row[2] for row in told["allowed"]] == [row.id for row in answer.allowed]
        assert [row[2] for row in told["denied"]] == [row.id for row in answer.denied]
        assert told["counts"] == [len(answer.allowed), len(answer.denied)]
    denied = {row[2] for row in suppose(page, profile="observer")["denied"]}
    assert denied >= set(sent(lab, "chat"))


def test_nothing_is_given_by_a_question(page: Page, lab: Lab) -> None:
    before = len(lab.log.grants()), [row["pattern"] for row in page.snapshot["rows"]]
    suppose(page, pattern=CALLING)
    suppose(page, profile="admin")
    assert (len(lab.log.grants()), [row["pattern"] for row in page.appear()["rows"]]) == before
    with pytest.raises((Refused, CapabilityViolation)):
        lab.seats["bot"].send("mcp/request", {"method": "tools/call"}, to="human")


@pytest.mark.parametrize(
    ("to", "profile", "pattern", "fault"),
    [
        ("", "agent", "", "Pick a participant."),
        ("bot", "", "{", "This is not JSON"),
        ("bot", "", "[]", "A permission is one object"),
        ("bot", "", '{"knid": "chat"}', "kind"),
        ("bot", "owner\u202e", "", "There is no profile"),
        ("nobody", "agent", "", "nobody"),
    ],
)
def test_a_fault_is_a_sentence_beside_the_form(
    page: Page, to: str, profile: str, pattern: str, fault: str
) -> None:
    told = suppose(page, to, profile, pattern)
    assert fault in told["fault"] and "\u202e" not in told["fault"]


def test_of_several_questions_only_the_newest_is_read(
    page: Page, lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[Any] = []
    what_if = Log.what_if

    def slow(log: Log, **supposed: Any) -> Any:
        read.append(supposed)
        return what_if(log, **supposed)

    monkeypatch.setattr(Log, "what_if", slow)
    for job in range(100, 120):
        page.send(
            {
                "t": "act",
                "view": "v1",
                "job": job,
                "act": "suppose",
                "nonce": page.snapshot["nonce"],
                "with": {"to": "bot", "profile": "", "pattern": json.dumps({"kind": f"chat/{job}"})},
            }
        )

    def answers() -> list[dict[str, Any]]:
        return [one for one in page.of("done") if one["job"] >= 100]

    page.until(lambda: len(answers()) == 20)
    assert len(read) < 20 and read[-1] == {"more": {"bot": [{"kind": "chat/119"}]}}
    assert next(one["value"] for one in answers() if one["job"] == 119) is not None
