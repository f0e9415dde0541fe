"""Makes records of the lines of a coding agent's session file: what the readers of all agents share.

Each line becomes at least one record, and its first record keeps the exact line in `received`. What has a kind of the
protocol becomes an envelope: prompts and answers are `chat`, thoughts are one sequence of `reasoning/*` in each turn, a
tool call is an `mcp/request` to `tools` or to the MCP server that its name names, its result an `mcp/response`, the use
of tokens a `participant/status`. Any other line is an event: `kept` where its type is known, `unknown` where not.

A call on which the file records a decision of its own is an `mcp/proposal`, then an `mcp/reject`, or the request of
whoever allowed it. The line of its result says so, therefore records are held back while a call waits, at most `WINDOW`
of them. No line says when a call was allowed, so such a request is noted to lack its time. Nothing in these files is a
right, and no record has a verdict.

The agent's own texts decide what a line is; those of a tool and of a model never do, whatever they look like.

Spec: §3.1 to §3.5, §3.9.4.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from typing import IO, Any, Final, NamedTuple

from mew_lab.log.entries import TIME, lacking
from mew_lab.log.json_text import read_json, write_json
from mew_lab.log.line import is_deep
from mew_lab.log.peers import PeerLine
from mew_lab.protocol.envelope import PROTOCOL, compact
from mew_lab.protocol.text import parse_timestamp, timestamp
from mew_lab.protocol.visible import one_line
from mew_lab.space.events import Record

__all__ = [
    "HUMAN",
    "SETTINGS",
    "TOOLS",
    "CallDecision",
    "SessionFacts",
    "SessionRecords",
    "folder_in",
    "object_of",
    "text_of",
]

HUMAN: Final = "human"
TOOLS: Final = "tools"
"""The participant that stands for the tools that an agent has by itself."""
SETTINGS: Final = "permissions"
"""The participant that stands for the settings of an agent, where nobody was asked."""

MAX_TYPE: Final = 100  # characters of the name of a type
MAX_OPEN: Final = 20_000  # calls that may still be answered
WINDOW: Final = 4096
"""Records that are held back while a call waits; a decision that comes later is the answer of a call that was made."""
_EPOCH: Final = datetime.fromtimestamp(0, UTC)
_MCP: Final = "mcp__"
_new_record: Final = tuple.__new__
_NO_CONNECTION: Final = ("",) * 6  # connection, via, verdict, code, pattern and detail of a record


class SessionFacts(NamedTuple):
    """What the beginning of a session file tells, and a file beside that of a sub-agent.

    Attributes:
        space: The name of the folder in which the agent worked; empty where the file does not tell it.
        began: The time of the first line that has one.
        name: The name of the sub-agent whose file it is, and `asked` the id of the call that began it.
    """

    space: str = ""
    began: datetime = _EPOCH
    name: str = ""
    asked: str = ""


class CallDecision(NamedTuple):
    """A decision on a call: who made it, and the reason of a rejection; None where the call was allowed.

    `told`: only the text of the result tells it, which is believed of the agent's own tools. `stamp` is its time, where
    the file has that.
    """

    by: str
    reason: str | None
    told: bool = False
    stamp: str = ""


class _WaitingCall(NamedTuple):
    """A call that waits for its result; `asks` a person by itself. `payload` is that of its request."""

    asker: str
    target: str
    payload: Mapping[str, Any] | None = None
    asks: bool = False


class SessionRecords:
    """Makes the records of one session file; a subclass reads the lines of one agent.

    Args:
        agent: The name of the agent.
        facts: What was found by a first look at the file.
    """

    def __init__(self, agent: str, facts: SessionFacts) -> None:
        self.agent = agent
        self.facts = facts
        self._space = facts.space or agent
        self._now = facts.began
        self._stamp = ""
        self._seq = 0
        self._text: str | None = None  # the line at hand, until a record keeps it
        self._records: list[Record] = []
        self._id = ""
        self._parts = 0
        self._calls: dict[str, _WaitingCall] = {}
        self.unreadable: list[str] = []  # sentences on lines that are no JSON
        self.unknown: Counter[str] = Counter()  # lines of a type that is not known
        self._held: dict[
            str, int
        ] = {}  # calls that wait, with the places of their records among those held back
        self._prompts: dict[str, str] = {}  # by agent: the prompt of its turn
        self._thoughts: dict[str, str] = {}  # by agent: its open sequence of reasoning

    def read(self, lines: Iterable[PeerLine]) -> Iterator[Record]:
        """The records of the lines, in order, after one that says what this log is of."""
        about = {"format": 1, "epoch": None, "vantage": "agent", "from": self.agent}
        yield self._event("opened", compact(about))
        records = self._records
        records.clear()
        for line in lines:
            self._read(line)
            if not self._held or len(records) > WINDOW:
                yield from records
                records.clear()
                self._held.clear()
        self._end()
        yield from records

    def _read(self, line: PeerLine) -> None:
        data = line.data
        members = None
        if data is not None:
            self._text = data.rstrip(b"\r\n").decode("utf-8", "surrogateescape")
            try:
                members = read_json(data)
            except ValueError:
                members = _read_leniently(data)
        if type(members) is not dict:
            detail = line.unreadable(self._now).detail
            self.unreadable.append(detail)
            self._event("unreadable", detail)
            return
        stamp = members.get("timestamp")
        moment = parse_timestamp(stamp) if stamp is not None else None
        if moment is not None:
            self._now, self._stamp = moment, str(stamp)
        self._id, self._parts = f"line-{line.number}", 0
        self._take(members)
        if self._text is not None:
            self._keep(members)

    def _take(self, members: dict[str, Any]) -> None:
        """Makes the records of a line; where it makes none, the line is kept."""
        raise NotImplementedError

    def _keep(self, members: dict[str, Any]) -> None:
        """Keeps a line that is no message."""
        raise NotImplementedError

    def _end(self) -> None:
        """Makes the records that the end of the file completes."""

    # --- records ---

    def _unknown(self, type: str) -> None:
        """Keeps a line, or a part of one, of a type that is not known."""
        type = one_line(type, MAX_TYPE) or "none"
        self.unknown[type] += 1
        self._event("unknown", type)

    def _event(self, event: str, detail: str) -> Record:
        self._seq += 1
        record = Record(
            self._seq, self._now, event, self._space, self.agent, detail=detail, received=self._text
        )
        self._text = None
        self._records.append(record)
        return record

    def _message(
        self,
        sender: str,
        kind: str,
        payload: Mapping[str, Any],
        *,
        id: str = "",
        to: Sequence[str] = (),
        about: str = "",
        context: str = "",
        lacks_time: bool = False,
    ) -> str:
        """Adds the record of a message; returns the message's id."""
        if not id:
            self._parts += 1
            id = self._id if self._parts == 1 else f"{self._id}/{self._parts}"
        ts = self._stamp or timestamp(self._now)
        head: dict[str, Any] = {
            "protocol": PROTOCOL, "id": id, "ts": ts, "from": sender, "to": to, "kind": kind
        }  # fmt: skip
        if about:
            head["correlation_id"] = (about,)
        if context:
            head["context"] = context
        head["payload"] = payload
        self._seq += 1
        raw = write_json(head).decode()
        # By keywords it would take as long as the text of the message.
        head_of = (self._seq, self._now, "received", self._space, sender)
        record = _new_record(Record, (*head_of, *_NO_CONNECTION, self._text, raw, (), "", ""))
        self._text = None
        self._records.append(lacking(record, TIME) if lacks_time else record)
        return id

    # --- what the lines of all agents say ---

    def _prompt(self, sender: str, agent: str, text: str, *, about: str = "", attachments: int = 0) -> None:
        """A prompt, which begins a turn of an agent."""
        self._conclude(agent)
        payload: dict[str, Any] = {"text": text, "format": "plain"}
        if attachments:
            payload["attachments"] = attachments
        self._prompts[agent] = self._message(sender, "chat", payload, to=(agent,), about=about)

    def _say(self, agent: str, to: str, text: str, *, ends: bool) -> None:
        """A text of an agent; one that ends its turn concludes its reasoning."""
        self._message(
            agent,
            "chat",
            {"text": text, "format": "markdown"},
            to=(to,),
            about=self._prompts.get(agent, ""),
            context=self._thoughts.get(agent, ""),
        )
        if ends:
            self._conclude(agent)

    def _think(self, agent: str, text: str, **more: Any) -> None:
        """A thought; the first of a turn begins the sequence."""
        context = self._thoughts.get(agent, "")
        if not context:
            context = self._thoughts[agent] = self._message(
                agent, "reasoning/start", {"message": ""}, about=self._prompts.get(agent, "")
            )
        self._message(agent, "reasoning/thought", {"message": text, **more}, context=context)

    def _conclude(self, agent: str) -> None:
        """Ends the sequence of reasoning of an agent where its turn has ended."""
        if context := self._thoughts.pop(agent, ""):
            self._message(agent, "reasoning/conclusion", {"message": ""}, context=context)

    def _interrupt(self, agent: str) -> None:
        """A person has ended the turn of an agent."""
        if context := self._thoughts.pop(agent, ""):
            self._message(HUMAN, "reasoning/cancel", {"reason": "interrupted"}, to=(agent,), context=context)

    def _call(
        self, agent: str, id: str, name: str, arguments: object, *, target: str = "", asks: bool = False
    ) -> None:
        """A call of a tool. One that `asks` is a proposal to the agent itself, which a person answers."""
        if not target:
            target, name = split_tool(name)
        values = arguments if isinstance(arguments, dict) else {"input": arguments}
        if is_deep(values):
            return  # no reader would read it as a message
        payload = {
            "jsonrpc": "2.0",
            "id": id,
            "method": "tools/call",
            "params": {"name": name, "arguments": values},
        }
        context = self._thoughts.get(agent, "")
        if asks:
            target = agent
            self._message(agent, "mcp/proposal", payload, id=id, to=(target,), context=context)
        else:
            about = self._prompts.get(agent, "")
            self._held[id] = len(self._records)
            self._message(agent, "mcp/request", payload, id=id, to=(target,), about=about, context=context)
        self._calls[id] = _WaitingCall(agent, target, payload, asks)
        if len(self._calls) > MAX_OPEN:
            del self._calls[next(iter(self._calls))]

    def _propose(self, record: Record) -> Record:
        """The record of a call as that of its proposal."""
        members = json.loads(record.raw or "")
        members.pop("correlation_id", None)
        return record._replace(raw=write_json({**members, "kind": "mcp/proposal"}).decode())

    def _result(
        self,
        agent: str,
        id: str,
        content: list[Any],
        *,
        failed: bool,
        decision: CallDecision | None = None,
        answers: Mapping[str, Any] | None = None,
        structured: object = None,
    ) -> None:
        """The result of a call, with the decision on it and the answers of a person, where the line has them."""
        if is_deep(content) or (structured is not None and is_deep(structured)):
            content, structured = [], None
        call = self._calls.pop(id, None) or _WaitingCall(agent, TOOLS)
        place = self._held.pop(id, None)
        decides = call.asks
        if decision is not None and place is not None and (call.target == TOOLS or not decision.told):
            self._records[place] = self._propose(self._records[place])
            decides = True
        at_end = self._now, self._stamp
        if decision is not None and (moment := parse_timestamp(decision.stamp)) is not None:
            self._now, self._stamp = moment, decision.stamp
        if decides and decision is not None and decision.reason is not None:
            reason = {"reason": decision.reason}
            self._message(decision.by, "mcp/reject", reason, to=(call.asker,), about=id)
            self._now, self._stamp = at_end
            return
        request, asker = id, call.asker
        if decides and call.payload is not None:
            asker, request = decision.by if decision is not None else HUMAN, f"{id}/approved"
            params: dict[str, Any] = {**call.payload["params"]}
            if answers is not None:
                params["arguments"] = {**params["arguments"], "answers": answers}
            asked = {**call.payload, "params": params}
            dated = call.asks or (decision is not None and decision.stamp != "")
            self._message(
                asker, "mcp/request", asked, id=request, to=(call.target,), about=id, lacks_time=not dated
            )
        self._now, self._stamp = at_end
        result: dict[str, Any] = {"content": content}
        if isinstance(structured, dict):
            result["structuredContent"] = structured
        if failed:
            result["isError"] = True
        payload = {"jsonrpc": "2.0", "id": id, "result": result}
        self._message(call.target, "mcp/response", payload, to=(asker,), about=request)

    def _status(self, agent: str, **metrics: Any) -> None:
        """The use of tokens, or its price, as the file has it."""
        self._message(agent, "participant/status", {k: v for k, v in metrics.items() if v is not None})


def split_tool(name: str) -> tuple[str, str]:
    """The participant and the name of a tool: of `mcp__server__tool` the server, else the agent's own tools."""
    if name.startswith(_MCP):
        server, between, tool = name.removeprefix(_MCP).partition("__")
        if between and server and tool:
            return server, tool
    return TOOLS, name


# What JSON gives is exactly of these types, and each line asks many times.
def text_of(members: Mapping[str, Any], key: str) -> str:
    value = members.get(key)
    return value if type(value) is str else ""


def object_of(value: object) -> dict[str, Any]:
    return value if type(value) is dict else {}


_TIMESTAMP = re.compile(rb'"timestamp":\s?"([^"\\]{10,40})"')
_FOLDER = re.compile(rb'"cwd":\s?("(?:[^"\\]|\\.){1,4096}")')
HEADS: Final = (
    1 << 14,
    1 << 20,
)  # bytes in which the first time and the folder are looked for, one after the other


def look_at_head(file: IO[bytes]) -> tuple[datetime, str]:
    """The first time in a session file, and the name of the folder in which the agent worked."""
    found = _search_head(file, _TIMESTAMP)
    began = parse_timestamp(found[1].decode("ascii", "replace")) if found else None
    return began or _EPOCH, re.split(r"[/\\]", folder_in(file).rstrip("/\\"))[-1]


def folder_in(file: IO[bytes]) -> str:
    """The path of the folder in which the agent worked, by the beginning of a session file; empty without one."""
    if found := _search_head(file, _FOLDER):
        with suppress(ValueError):
            return str(json.loads(found[1]))
    return ""


def _search_head(file: IO[bytes], what: re.Pattern[bytes]) -> re.Match[bytes] | None:
    """The first match near the beginning of a file, whose position is then there again."""
    found = None
    for size in HEADS:
        file.seek(0)
        if found := what.search(file.read(size)):
            break
    file.seek(0)
    return found


def _read_leniently(data: bytes) -> dict[str, Any] | None:
    """The members of a line that no strict reader takes; None for others.

    It has half of a surrogate pair, which agents write where they cut a text, or a number that is none (NaN).
    """
    if b"\\u" not in data and b"NaN" not in data and b"Infinity" not in data:
        return None
    try:
        text = json.dumps(json.loads(data, parse_constant=lambda name: None), ensure_ascii=False)
    except (ValueError, RecursionError):
        return None
    try:
        members = read_json(text.encode("utf-8", "replace"))
    except ValueError:
        return None
    return members if type(members) is dict else None
