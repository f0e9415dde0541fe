"""The chat view: a human reads the chat messages of a space, and answers them.

The view sends the choices of a person: a text with its recipients, or the number of a message with a status or a
reason. The kernel builds each message from these and from the messages that it holds. Messages go to the views in
batches, and each batch names the message that it follows; a view that has missed one requests them again. The newest
200 are sent, at most 512 Ki characters at once. Earlier messages, and the rest of a long one, are sent on request.

Spec: §3.4, §3.4.1, §3.4.2.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from mew_lab.errors import MewError
from mew_lab.lab.rows import Rows
from mew_lab.lab.session import Session
from mew_lab.log.line import read_members
from mew_lab.protocol.text import count_of
from mew_lab.protocol.visible import middle, one_line, visible
from mew_lab.views.chat.links import link_addresses
from mew_lab.views.chat.model import REASONS, STATUSES, ChatModel, ChatRow
from mew_lab.views.ui.acts import Act, ActingView, ActResult, Submit
from mew_lab.views.ui.markdown import plain, tree
from mew_lab.views.ui.pictures import MOST_ROWS, clock_time, picture
from mew_lab.views.ui.sent_rows import ChangedKeys

__all__ = ["ChatView", "view_of"]

PAGE = 200
NEWS = 40  # messages in one turn of the writer: nobody reads more, and the others are sent on request
FLOODED = 0.5  # seconds to the next turn where so many came
MOST_CHARACTERS = 512 * 1024  # in one message to the views
MOST_MARKDOWN = 40_000  # characters of Markdown in one message to the views: formatting takes its time
MOST_PEOPLE = 200
SHOWN_SEEN = 8  # acknowledgements of a message that are shown one by one


def view_of(session: Session, rows: Rows) -> ChatView:
    """Makes the view of this space."""
    talk = session.loop.call(lambda: ChatModel(session.me.participant))
    view = ChatView(talk, submit=session.loop.submit, raw=rows.raw)

    def leave() -> None:
        talk.close()
        session.following.remove(talk)

    view.on_close(lambda: session.loop.post(leave))
    session.loop.call(lambda: session.following.add(talk))
    return view


class ChatView(ActingView):
    """The chat of one seat. Show it as often as you like: all views show the same messages."""

    part = "chat"
    title = "chat"
    interval = 0.2

    def __init__(
        self,
        talk: ChatModel,
        *,
        submit: Submit,
        raw: Callable[[int], str] = lambda seq: "",
        **settings: Any,
    ) -> None:
        self._talk = talk
        self._raw = raw
        self._fresh: ChangedKeys[int] = ChangedKeys()
        self._sent = 0
        super().__init__(submit=submit, **settings)
        talk.on_change = self._on_change

    def _on_change(self, n: int) -> None:
        if self.has_view:  # else a view that opens gets a snapshot
            self._fresh.add(n)
            self.wake()

    # Messages to the views.

    def _snapshot(self, start: int) -> dict[str, Any]:
        messages = self._newest(0, PAGE)
        last = messages[-1].n if messages else 0
        if len(self._views) == 1:  # else another view still waits for the messages behind `_sent`
            self._sent = last
        return {
            "messages": _pack_page(messages),
            "last": last,
            "statuses": list(STATUSES.items()),
            "reasons": list(REASONS.items()),
        }

    def _newest(self, after: int, most: int) -> list[ChatRow]:
        """The newest messages behind `after`, as many as may be sent at once."""
        messages, left = self._talk.messages(after=after, limit=most), MOST_CHARACTERS
        for at in range(len(messages) - 1, -1, -1):
            left -= len(messages[at].text)
            if left < 0 and at < len(messages) - 1:
                return messages[at + 1 :]
        return messages

    def _news(self) -> list[dict[str, Any]]:
        known = [n for n in self._fresh.take(2 * PAGE) if 0 < n <= self._sent]
        items: list[dict[str, Any]] = []
        if messages := self._newest(self._sent, NEWS):
            after, self._sent = self._sent, messages[-1].n
            skipped = messages[0].n - after - 1
            self.interval = FLOODED if skipped else type(self).interval
            items.append({"t": "said", "after": after, "skipped": skipped, "messages": _pack_page(messages)})
        if changed := [row for n in known if (row := self._talk.message(n)) is not None]:
            items.append({"t": "states", "states": [_pack_state(row) for row in changed]})
        if self._fresh:
            self.wake()
        return items

    def _heading(self) -> dict[str, Any]:
        talk = self._talk
        people = talk.people
        waiting = talk.queue
        return {
            "people": [[name, middle(name, 40)] for name in people[:MOST_PEOPLE]],
            "others": max(0, len(people) - MOST_PEOPLE),
            "waiting": len(waiting),
            "addressed": sum(row.addressed for row in waiting),
            "may": {kind: talk.may(kind) for kind in ("chat", "chat/acknowledge", "chat/cancel")},
        }

    # Requests of the views.

    def _acts(self) -> Mapping[str, Act]:
        return {
            "say": self._talk.say,
            "acknowledge": self._talk.acknowledge,
            "acknowledge all": self._talk.acknowledge_all,
            "read": self._talk.read,
            "cancel": self._talk.cancel,
            "earlier": self._earlier,
            "whole": self._whole,
        }

    def _earlier(self, before: int) -> ActResult:
        messages = self._talk.messages(before=before, limit=PAGE // 2)
        left = MOST_CHARACTERS
        while len(messages) > 1 and sum(len(row.text) for row in messages) > left:
            messages = messages[1:]
        first = messages[0].n if messages else 0
        more = bool(self._talk.messages(before=first, limit=1)) if first else False
        return ActResult(
            f"{count_of(len(messages), 'earlier message')}.",
            {"messages": _pack_page(messages), "more": more},
        )

    def _whole(self, n: int) -> ActResult:
        row = self._talk.message(n)
        payload = (read_members(self._raw(row.seq)) or {}).get("payload") if row is not None else None
        text = payload.get("text") if isinstance(payload, dict) else None
        if row is None or not isinstance(text, str):
            raise MewError("The rest of that message is no longer held in this view; lab.log.df has it.")
        return ActResult("All of it.", {"text": plain(text)})

    # Saved pictures.

    def badge(self) -> str:
        """The number of unread messages, which await this participant's acknowledgement, as text; empty for none."""
        waiting = len(self._talk.queue)
        return f"{waiting} unread" if waiting else ""

    def _static_text(self) -> str:
        waiting = len(self._talk.queue)
        count = self._talk.last
        return f"Chat: {count} message{'' if count == 1 else 's'}, {waiting} unread"

    def _static_html(self) -> str:
        messages = self._talk.messages(limit=MOST_ROWS)
        rows = [
            (
                clock_time(row.t),
                row.sender,
                ", ".join(row.to) or "everybody",
                "\n".join(one_line(line, 400) for line in row.text.split("\n")[:20]),
                "\n".join(_state_lines(row)),
            )
            for row in messages
        ]
        last = self._talk.last
        notes = [
            f"Not shown: {count_of(last - len(messages), 'earlier message')}."
            if last > len(messages)
            else "",
            "Long messages are cut; lab.log.df has their whole text." if messages else "",
        ]
        title = f"Chat: {count_of(last, 'message')}, {len(self._talk.queue)} unread"
        return picture(
            title,
            ("time", "from", "to", "message", "read by"),
            rows,
            notes=notes,
            empty='No messages yet. lab.chat("hello") sends one.',
            code=("from", "to"),
        )


def _state_lines(row: ChatRow) -> list[str]:
    """The acknowledgements and the cancellation of a message, one line each."""
    lines = [f"{seen.by}: {seen.status or 'acknowledged'}" for seen in row.seen[:SHOWN_SEEN]]
    if row.cancelled:
        lines.append(f"cancelled by {row.cancelled}{f' ({row.reason})' if row.reason else ''}")
    return [*lines, "unread"] if row.awaits else lines


def _pack_page(messages: Sequence[ChatRow]) -> list[dict[str, Any]]:
    """Messages as the views get them; the Markdown of the newest is formatted, up to MOST_MARKDOWN characters in all."""
    shown: list[dict[str, Any]] = []
    left = MOST_MARKDOWN
    for row in reversed(messages):
        left -= len(row.text) if row.markdown or "://" in row.text else 0
        shown.append(_pack(row, formatted=left >= 0))
    return shown[::-1]


def _pack(row: ChatRow, *, formatted: bool) -> dict[str, Any]:
    """A message as the views get it: its number, which a view sends back, and visible text."""
    nodes = tree(row.text) if row.markdown and formatted and not row.more else None
    links = link_addresses(row.text) if nodes is None and formatted else None
    return _pack_state(row) | {
        "t": round(row.t, 3),
        "id": _sent_back(row.id),
        "sender": _sent_back(row.sender),
        "first": row.first,
        "from": visible(row.sender),
        "to": [visible(name) for name in row.to[:20]],
        "others": max(0, len(row.to) - 20),
        "text": plain(row.text) if nodes is None else "",
        "links": links,
        "nodes": nodes,
        "unformatted": row.markdown and nodes is None,
        "more": row.more,
        "context": middle(row.context, 40),
        "answers": row.answers,
        "mine": row.mine,
        "addressed": row.addressed,
    }


def _sent_back(text: str) -> str:
    """An id for links to it; empty where it has invisible characters, which a view must not hold."""
    return text if visible(text) == text else ""


def _pack_state(row: ChatRow) -> dict[str, Any]:
    """The parts of a message that may change."""
    return {
        "n": row.n,
        "awaits": row.awaits,
        "seen": [
            [visible(seen.by), visible(seen.status), round(seen.t, 3)] for seen in row.seen[:SHOWN_SEEN]
        ],
        "seen_by": len(row.seen),
        "missing": [visible(name) for name in row.missing[:SHOWN_SEEN]],
        "cancelled": visible(row.cancelled),
        "reason": row.reason,
        "claims": [visible(name) for name in row.claims],
    }
