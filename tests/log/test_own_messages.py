"""A log says of a message that needed no capability that it needed none, and supposes the same of other rights."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from mew_lab.log.journal import Journal
from mew_lab.log.log import Log, open_log
from mew_lab.log.replay import replay
from mew_lab.log.resumption import resume_quickly
from mew_lab.space.events import Enrolled, Joined, Received

from .stage import Stage, keep, says

pytestmark = [pytest.mark.ruling("R36")]
TALK = ({"kind": "chat"}, {"kind": "mcp/proposal"})


def session(*, http: bool = False) -> Stage:
    """bot ends its own messages, and tries to end those of eve, and one that eve named alike."""

    def sends(name: str, kind: str, id: str, **members: Any) -> Received:
        text = says(kind, id, {"method": "tools/list"} if kind == "mcp/proposal" else {}, **members)
        return Received(text, None, name, name) if http else Received(text, f"c-{name}")

    return Stage(owner="bot").play(
        *(Enrolled(name, TALK) for name in ("bot", "eve")),
        *(Joined(f"c-{name}", name, name, "memory") for name in ("bot", "eve")),
        sends("bot", "mcp/proposal", "p"),
        sends("bot", "chat", "q"),
        sends("bot", "chat", "both"),
        sends("eve", "mcp/proposal", "both"),
        sends("eve", "chat", "theirs"),
        sends("bot", "mcp/withdraw", "w", correlation_id=["p"]),
        sends("bot", "chat/cancel", "c", correlation_id=["q"]),
        sends("bot", "chat/cancel", "x1", correlation_id=["theirs"]),
        sends("bot", "chat/cancel", "x2", correlation_id=["both"]),
        sends("bot", "mcp/withdraw", "x3", correlation_id=["both"]),
    )


def opened(tmp_path: Path) -> Log:
    return open_log(keep(session().records, tmp_path / "j.jsonl"))


def test_it_is_neither_a_permission_nor_unknown(tmp_path: Path) -> None:
    log = opened(tmp_path)
    for id in ("w", "c"):
        told = str(log.audit(id))
        assert "it ends messages of its own sender alone" in told and "not recorded" not in told, told


def test_with_other_rights_it_would_have_been_the_same(tmp_path: Path) -> None:
    supposed = opened(tmp_path).what_if(capabilities={"bot": [{"kind": "mcp/proposal"}]})
    assert [(row.id, row.would) for row in supposed.rows] == [("q", "refused"), ("both", "refused")]


@pytest.mark.parametrize("http", [False, True])
@pytest.mark.parametrize("end", [-2, -1, None])
def test_a_quick_resumption_remembers_the_same(tmp_path: Path, http: bool, end: int | None) -> None:
    records = session(http=http).records
    path = keep(records[:end], tmp_path / "j.jsonl")
    journal = Journal.resume(path)
    quick = resume_quickly(journal.paths, name="j")
    journal.close()
    assert quick is not None
    one, other = quick.replayed.space.state, replay(path).space.state
    assert (one.chats, one.chats_of, one.handles) == (other.chats, other.chats_of, other.handles)
    assert one.chats and any(handle.proposal for handle in one.handles.values())
