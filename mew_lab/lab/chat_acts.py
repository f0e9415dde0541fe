"""Acknowledges and cancels chat messages as one participant; the views and the methods of a lab do it by these.

Spec: §3.4.1, §3.4.2.
"""

from __future__ import annotations

from collections.abc import Sequence

from mew_lab.errors import MewError
from mew_lab.log.numbering import complete_id
from mew_lab.protocol.text import count_of
from mew_lab.protocol.visible import one_line
from mew_lab.sdk.participant import MEWParticipant

__all__ = ["acknowledge_chat", "acknowledge_waiting", "cancel_chat", "check_label", "find_chat"]


def check_label(label: str, field: str) -> str:
    """A status or a reason without the blanks around it.

    Raises:
        MewError: It is blank.
    """
    if not label.strip():
        raise MewError(f"A {field} is a word or a few: choose one of the list, or write one")
    return label.strip()


async def acknowledge_chat(me: MEWParticipant, id: str, author: str, status: str) -> None:
    """Acknowledges a message to its author; raises as `MessageSender.say_accepted`. Spec: §3.4.1."""
    await me.sender.say_accepted("chat/acknowledge", {"status": status}, to=_present(me, (author,)), about=id)
    me.chats.settle(id, "acknowledged")


async def cancel_chat(me: MEWParticipant, id: str, to: Sequence[str], reason: str) -> None:
    """Cancels a message: an own one for all, that of another for `me` alone; raises as `say_accepted`. Spec: §3.4.2."""
    payload = {"reason": check_label(reason, "reason")}
    await me.sender.say_accepted("chat/cancel", payload, to=_present(me, to), about=id)
    me.chats.settle(id, "cancelled")


async def acknowledge_waiting(me: MEWParticipant, id: str, status: str) -> str:
    """Acknowledges the message that waits whose id begins with `id`, or, for an empty one, all; returns one sentence.

    Raises:
        MewError: No such message waits for an acknowledgement; or as `MessageSender.say_accepted`.

    Spec: §3.4.1.
    """
    status = check_label(status, "status")
    waiting = {chat.id: chat for chat in me.chats.pending}
    if id:
        found = complete_id(id, waiting)
        if found is None:
            raise MewError(
                f"Cannot acknowledge {one_line(id, 80)!r}: no message with this id awaits an acknowledgement of "
                f"{me.client.id}; {count_of(len(waiting), 'message')} "
                f"{'does' if len(waiting) == 1 else 'do'}{_name_some(list(waiting))}"
            )
        waiting = {found: waiting[found]}
    done = 0
    for chat in waiting.values():
        if me.chats.awaiting(chat.id) is not None:  # else it was cancelled while an earlier one was sent
            await acknowledge_chat(me, chat.id, chat.sender, status)
            done += 1
    if id and done:
        return (
            f"Acknowledged to {one_line(next(iter(waiting.values())).sender, 64)} ({one_line(status, 80)})."
        )
    return f"{count_of(done, 'message')} acknowledged ({one_line(status, 80)})."


def find_chat(participants: Sequence[MEWParticipant], id: str) -> tuple[MEWParticipant, str] | None:
    """The message whose id begins with `id`: an open one of one of the participants, else one that waits for one.

    Returns:
        Its author, or the first participant for which it waits, and its id; None where there is none.

    Raises:
        JournalError: The ids of several begin so.
    """
    found: dict[str, MEWParticipant] = {}
    for me in participants:
        own = (chat.id for chat in me.ledger.chats if chat.sender == me.client.id and chat.state == "open")
        found |= dict.fromkeys(own, me)
    for me in participants:
        found = dict.fromkeys((chat.id for chat in me.chats.pending), me) | found
    whole = complete_id(id, found)
    return None if whole is None else (found[whole], whole)


def _name_some(ids: Sequence[str]) -> str:
    return f", such as {one_line(ids[0], 80)}" if ids else ""


def _present(me: MEWParticipant, names: Sequence[str]) -> tuple[str, ...]:
    # A message whose addressees have left goes to all participants, so that it stands in the log.
    return tuple(name for name in names if name in me.client.participants)
