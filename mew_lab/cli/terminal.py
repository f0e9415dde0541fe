"""How is a space seen and steered from a terminal?  A row as a line, a card as a few lines, a typed line as a verb.

Everything from a peer becomes visible text. It reads no keyboard and prints nothing itself.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from mew_lab.errors import MewError
from mew_lab.lab.decisions.cards import Row
from mew_lab.lab.lab import Lab
from mew_lab.lab.rows import LiveRows
from mew_lab.log.reading import read_journal
from mew_lab.protocol.envelope import read_strict
from mew_lab.protocol.kinds import family
from mew_lab.protocol.visible import one_line, visible, visible_json

__all__ = ["HELP", "Quit", "journal_lines", "obey", "row_line"]

POLL = 0.2  # seconds between two looks at a file that is followed

# ANSI colours of the kind families, nearest to the accents of the notebook.
_ACCENTS = {
    "chat": 117,
    "mcp": 32,
    "proposal": 214,
    "error": 202,
    "reasoning": 176,
    "capability": 36,
    "stream": 178,
}
_FAMILIES = {
    "mcp/proposal": "proposal",
    "mcp/reject": "error",
    "mcp/withdraw": "error",
    "system/error": "error",
    "space/invite": "capability",
    "space/kick": "capability",
}

HELP = """\
TEXT                            says it to everybody
{"kind": …}                     sends an envelope as it stands
/approve ID [digest=D] [PARTICIPANT]  fulfils a proposal, once its card was shown and you say yes again, or with the
                                first characters of its digest; the participant where it names none
/reject ID [REASON]             rejects a proposal
/withdraw ID [REASON]           withdraws a proposal of yours
/propose PARTICIPANT/TOOL JSON  proposes a tool call
/call PARTICIPANT/TOOL JSON     calls a tool, or proposes it where you may only propose
/proposals  /who  /tools [PARTICIPANT]  /status
/quit                           leaves; //TEXT says a text that begins with a slash"""


class Quit(Exception):
    """The person wants to leave."""


def row_line(row: Row, *, start: float, colour: bool = False) -> str:
    """One envelope as one line: number, seconds since `start`, from and to, kind, what it says, why it was refused."""
    kind = row.kind or "no kind"
    who = f"{one_line(row.sender, 32)} → {one_line(', '.join(row.to) or 'all', 32)}"
    shown = f"{one_line(kind, 28):<20}"
    if colour:
        accent = _ACCENTS.get(_FAMILIES.get(kind, family(kind)), 245)
        shown = f"\x1b[38;5;{accent}m{shown}\x1b[0m"
    parts = [f"{row.seq:>5}  {row.t - start:>7.2f}  {who:<28}  {shown}  {one_line(row.what, 160)}"]
    if row.kind == "mcp/proposal":
        parts.append(f"({visible(row.id)})")
    if row.correlates:
        parts.append(f"↳{row.correlates}")
    if row.verdict == "refused":
        parts.append(f"refused: {one_line(row.code, 80) or 'no reason given'}")
    return "  ".join(parts)


def journal_lines(
    path: Path, *, follow: bool = False, exact: bool = False, colour: bool = False
) -> Iterator[str]:
    """The messages of a journal, one line each; with `follow` it waits for more and never ends.

    `exact` gives the text of each envelope instead of the line a person reads.

    Raises:
        JournalError: when the file is no journal.
    """
    rows = LiveRows(lambda: ("", 0))
    start: float | None = None
    read = 0
    while True:
        size = path.stat().st_size if follow else 0
        known, read = read, 0
        for record in read_journal(path):
            read += 1
            # A journal that grew is read again from its beginning: what was shown already is passed over.
            if read <= known or record.raw is None:
                continue
            rows.observe(record)
            (row,) = rows.since(rows.last_seq - 1, 1)
            start = row.t if start is None else start
            yield visible_json(record.raw) if exact else row_line(row, start=start, colour=colour)
        if not follow:
            return
        while path.stat().st_size == size:
            time.sleep(POLL)


class _Verb(NamedTuple):
    needs: str  # what must stand behind it, for the sentence that asks for it
    do: Callable[[Lab, str, str], object]


def obey(lab: Lab, line: str) -> str:
    """Does what a typed line asks for and gives the text that answers it.

    Raises:
        Quit: on `/quit`.
        MewError: one sentence about what cannot be done.
    """
    line = line.strip()
    if line.startswith("{"):
        return (
            f"sent {lab.loop.run(_send_raw(lab, line), timeout=lab.timeout, doing='sending what was typed')}"
        )
    if not line.startswith("/") or line.startswith("//"):
        if line:
            lab.chat(line.removeprefix("/") if line.startswith("//") else line)
        return ""
    word, _, rest = line[1:].partition(" ")
    if word in ("quit", "exit"):
        raise Quit
    if word == "help":
        return HELP
    if word not in _VERBS:
        raise MewError(f"/{word[:40]} is not known here; /help lists what is")
    verb = _VERBS[word]
    first, _, more = rest.strip().partition(" ")
    if verb.needs and not first:
        raise MewError(f"/{word} needs {verb.needs}")
    return str(verb.do(lab, first, more.strip()))


async def _send_raw(lab: Lab, text: str) -> str:
    sent = await lab.me.participant.send_accepted(read_strict(text))
    return sent.id


def _arguments(text: str) -> dict[str, object]:
    return read_strict(text) if text else {}


def _approve(lab: Lab, id: str, more: str) -> object:
    words = more.split()
    digests = [word.removeprefix("digest=") for word in words if word.startswith("digest=")]
    to = [word for word in words if not word.startswith("digest=")]
    return lab.approve(id, to=to or None, digest=digests[0] if digests else "")


_VERBS: Mapping[str, _Verb] = {
    "approve": _Verb("the id of a proposal", lambda lab, id, more: _approve(lab, id, more)),
    "reject": _Verb("the id of a proposal", lambda lab, id, why: lab.reject(id, why or "disagree")),
    "withdraw": _Verb(
        "the id of a proposal", lambda lab, id, why: lab.withdraw(id, why or "no_longer_needed")
    ),
    "propose": _Verb("participant/tool", lambda lab, name, text: lab.propose(name, _arguments(text))),
    "call": _Verb("participant/tool", lambda lab, name, text: lab.call(name, _arguments(text))),
    "proposals": _Verb("", lambda lab, _, __: lab.proposals()),
    "who": _Verb("", lambda lab, _, __: lab.who()),
    "tools": _Verb("", lambda lab, name, _: lab.tools(name or None)),
    "status": _Verb("", lambda lab, _, __: lab.status()),
}
