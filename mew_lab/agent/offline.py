"""A model without a language model: `OfflineModel` picks a tool by its words and fills its arguments from the request.

It is for lessons and for places without a key. How it works, from top to bottom:

1. The request is cut into clauses, one for each question or command.
2. For each clause the tool is chosen whose name, description and parameters share the most of its words. A tool that
   changes something is chosen only where the clause begins with its verb.
3. Required parameters are filled by their names and types with values of the clause: quoted text, paths, addresses,
   numbers, times, time zones and cities, names, words of an enumeration. A clause that refers back ("that", "it")
   takes times and zones from earlier answers of tools.
4. The answer tells the answers of the tools, a sentence each, and concludes nothing from them. The form of a sentence
   follows from the shape of an answer: a time, commits, a number, a small object, any text.

Where no tool fits, the answer states that, and that the model is rules. The same input gives the same reply.

Spec: SDK "Layer 3", "Dynamic Tool Selection".
"""

from __future__ import annotations

import json
import math
import re
import zoneinfo
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

from mew_lab.agent.model import Message, Reply, ToolCall, ToolSpec
from mew_lab.agent.turn import CurrentTurn, MadeCall, format_reply, read_turn
from mew_lab.protocol.coerce import json_of, mapping_of, texts_of
from mew_lab.protocol.text import cut

__all__ = ["OfflineModel"]

SELF = "I am the offline model of mew_lab: rules, not a language model."
UNKNOWN = 0.3  # the weight of a word that no tool has: it is often a value
_LOST = "outcome unknown:"  # how an observation begins of a call that was sent and got no true answer
FITS = 0.4  # share of the clause's words, weighed by how rare they are, that a tool must have
MAX_TOOLS, MAX_CLAUSES, MAX_LISTED, MAX_VALUES = 200, 12, 40, 100
MAX_TOLD, MAX_GATHERED, MAX_SEEN = 300, 2000, 20_000  # characters


def _stem(word: str) -> str:
    for ending in ("ies", "es", "s"):
        if word.endswith(ending) and len(word) > len(ending) + 2 and not word.endswith("ss"):
            return word[: -len(ending)] + {"ies": "y", "es": "e"}.get(ending, "")
    return word


def _set(text: str) -> frozenset[str]:
    return frozenset(text.split())


def _verbs(text: str) -> frozenset[str]:
    return frozenset(_stem(word) for word in text.split())


STOP = _set(
    "a an the of in on at to for from by with and or is are was were be it its this that those these i me my you "
    "your we us our please can could would will do does did what which who when where how much many there have has "
    "so tell show give say get now then there if not into as about tool"
)
QUESTION = _set("what which who when where how is are was were does did do can")
COMMANDS = _verbs(
    "tell show give get list read find search fetch convert adds create make write stage delete remove compute "
    "calculate multiply divide subtract translate send open close commit count measure check look call"
)
CHANGES = _verbs(
    "adds append checkout clear close commit create delete drop edit install kill merge move publish push record "
    "remove rename replace reset restart run send set stage stop switch update upload write unstage"
)
# Words that people use for what tools are called.
SAME = {"sum": _stem("adds"), "plus": _stem("adds"), "late": "time"}
_ABOUT_SELF = re.compile(
    r"\b(?:who|what) are you\b|\bwhat (?:can|could) (?:you|i|we) do\b|\bhow can you help\b|\byourself\b|"
    r"\bwhich (?:tools|model)\b|\bwhat (?:kind of )?model\b|^\s*help\W*$",
    re.IGNORECASE,
)
# "that is" and "that was" point to nothing before; "was that" does.
_BACK = re.compile(
    r"\b(?:that|those|them|(?:of|about|convert|to) it|the result|the answer)\b(?! (?:is|was)\b)", re.I
)
_SPLIT = re.compile(
    rf"[.!?;](?=\s|$)|\n+|,?\s+(?:and|then|and then)\s+(?=(?:{'|'.join(sorted(QUESTION | COMMANDS))})\b)",
    re.IGNORECASE,
)
_WORD = re.compile(r"[^\W\d_]+")
_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_LATEST = re.compile(r"\b(?:last|latest|newest|most recent)\s+[^\W\d_]*[^\W\d_s]\b", re.IGNORECASE)

# The kinds of value in a text, the first that matches at a place counts.
_KINDS = (
    ("quoted", r"\"[^\"\n]{1,500}\"|“[^”\n]{1,500}”|`[^`\n]{1,500}`|(?<!\w)'[^'\n]{1,500}'(?!\w)"),
    ("url", r"\bhttps?://[^\s<>\"']{1,500}"),
    ("email", r"\b[\w.+-]{1,64}@[\w-]{1,64}(?:\.[\w-]{1,64}){1,6}\b"),
    (
        "zone",
        r"\b(?:UTC|GMT|(?:Africa|America|Antarctica|Asia|Atlantic|Australia|Etc|Europe|Indian|Pacific)/[\w+/-]{2,40})",
    ),
    ("moment", r"\b\d{4}-\d\d-\d\d[T ]\d\d:\d\d(?::\d\d(?:\.\d{1,9})?)?(?:Z\b| ?[+-]\d\d:?\d\d\b)?"),
    ("date", r"\b\d{4}-\d\d-\d\d\b"),
    ("time", r"(?<![\d:])(?:[01]?\d|2[0-3]):[0-5]\d(?![\d:])"),
    ("path", r"(?<![\w/])(?:~|\.{1,2})?/[\w.@+-][\w./@+~-]{0,400}|(?<![\w/])[\w-]{1,100}\.[A-Za-z]\w{0,5}\b"),
    ("number", r"(?<![\w.])-?\d{1,15}(?:\.\d{1,15})?(?![\w]|\.\d)"),
    ("name", r"(?<![\w])[A-Z][\w’'-]{1,60}(?: [A-Z][\w’'-]{1,60}){0,3}"),
)
_VALUES = re.compile("|".join(f"(?P<{kind}>{pattern})" for kind, pattern in _KINDS))
_ZONES = ("Africa", "America", "Asia", "Atlantic", "Australia", "Europe", "Indian", "Pacific")


class Value(NamedTuple):
    """A value that stands in a text."""

    kind: str
    text: str


class Choice(NamedTuple):
    """A tool for a clause, with its arguments, the required ones that no value fills, and how well it fits."""

    tool: ToolSpec
    arguments: dict[str, Any]
    missing: tuple[str, ...]
    score: float
    seen: int  # arguments that come from earlier answers of tools


class OfflineModel:
    """A model made of rules: no server, no key, no network, no clock and no chance.

    It serves plain English requests in which each clause names the work of one tool: "When was the last commit in
    ./garden, and what time was that in Tokyo?". Its limits: one call a reply; no conversation, conclusions or
    knowledge of its own; English only; the first 8000 characters of a request, twelve clauses and 200 tools. A
    required argument that it does not find is asked for. It raises nothing.
    """

    name = "offline (rules, not a language model)"
    max_tokens: int | None = 8192

    async def reply(
        self,
        messages: Sequence[Message],
        *,
        tools: Sequence[ToolSpec] = (),
        schema: Mapping[str, Any] | None = None,
        on_text: Callable[[str], None] | None = None,
    ) -> Reply:
        """The next call, or the answer; see `Model.reply`."""
        turn = read_turn(messages)
        attends = True
        if schema is not None and schema.get("title") == "Attention":
            attends = bool(_ABOUT_SELF.search(turn.request)) or _fits_some_tool(turn.request, tools)
        reply = format_reply(_next(turn, tools, messages), schema, attends=attends)
        if on_text is not None:
            for piece in re.findall(r"\s*\S+\s*\Z|\s*\S+", reply.text):
                on_text(piece)
        return reply

    async def aclose(self) -> None:
        """There is nothing to let go of."""


def _next(turn: CurrentTurn, tools: Sequence[ToolSpec], messages: Sequence[Message]) -> Reply:
    gathered = re.search(
        r"\bInformation gathered:\n(.*?)(?:\n\n|\Z)", messages[-1].content[:32_000], re.DOTALL
    )
    if gathered and not tools:
        return Reply(_join_lines(gathered[1], MAX_GATHERED), "The answer is what the tools said.")
    if not turn.done and _ABOUT_SELF.search(turn.request):
        return Reply(_abilities(tools), "The request asks about me.")
    return _work_off(turn, tools[:MAX_TOOLS])


def _work_off(turn: CurrentTurn, tools: Sequence[ToolSpec]) -> Reply:
    """Handles the clauses in order: the first one without a call gets it now."""
    weigh = Weights(tools)
    left, seen, pieces, failed = list(turn.done), list[Value](), list[str](), False
    for clause in _clauses(turn.request):
        back = bool(seen or failed) and _BACK.search(clause) is not None
        if back and failed and not seen:
            pieces.append(f"“{_join_lines(clause, 80)}” needs the result of a step that failed.")
            continue
        choice = _choose(clause, weigh, seen if back else ())
        if choice is None:
            pieces.append(f"No tool here fits “{_join_lines(clause, 80)}”.")
            continue
        name = choice.tool.name
        if choice.missing:
            pieces.append(f"To call {name} I need {' and '.join(choice.missing)}. Please say which.")
            continue
        made = next((call for call in left if call.name == name), None)
        if made is None:
            return _make_call(clause, choice, number=len(turn.done) + 1)
        left.remove(made)
        failed = failed or _is_failure(made)
        pieces.append(_quote_answer(made, clause))
        if not _is_failure(made):
            seen = _values(made.observation)
    if turn.done or any(not piece.startswith("No tool") for piece in pieces):
        return Reply("\n".join(pieces), "Every step is done." if turn.done else "Something is missing.")
    return Reply("\n".join([*pieces, _abilities(tools)]), "No tool here fits.")


def _make_call(clause: str, choice: Choice, *, number: int) -> Reply:
    description = _join_lines(choice.tool.description, 100)
    why = f"I call {choice.tool.name} for “{_join_lines(clause, 100)}”."
    if description:
        why += f" Its description: “{description}”."
    if choice.seen:
        why += " Some arguments come from earlier answers."
    return Reply("", why, (ToolCall(f"offline-{number}", choice.tool.name, choice.arguments),))


def _fits_some_tool(request: str, tools: Sequence[ToolSpec]) -> bool:
    weigh = Weights(tools[:MAX_TOOLS])
    choices = (_choose(clause, weigh, ()) for clause in _clauses(request))
    return any(choice is not None and not choice.missing for choice in choices)


# --- choosing a tool -----------------------------------------------------------------------------------------------


class Weights:
    """The words of each tool, and how much each word counts: the fewer tools have it, the more."""

    def __init__(self, tools: Sequence[ToolSpec]) -> None:
        self.tools = [(tool, *_words_of_tool(tool)) for tool in tools]
        self._tools_with = Counter(word for _, name, about in self.tools for word in name | about)

    def weight(self, word: str) -> float:
        known = self._tools_with[word]
        return math.log(2 + len(self.tools) / (known + 0.5)) * (1.0 if known else UNKNOWN)


def _choose(clause: str, weights: Weights, seen: Sequence[Value]) -> Choice | None:
    """The tool that fits a clause best; None where none does."""
    values = _values(clause)
    rest = clause
    for value in values:
        if value.kind != "name":
            rest = rest.replace(value.text, " ")
    words = list(dict.fromkeys(_stems(rest)))
    first = next(iter(_WORD.findall(clause.lower())), "")
    total = sum(weights.weight(word) for word in words)
    best: Choice | None = None
    for tool, name, about in weights.tools:
        verbs = _changes(tool)
        if tool.name not in clause and verbs and (first in QUESTION or _stem(first) not in verbs):
            continue
        met = sum(
            weights.weight(word) * (1.3 if word in name else 1.0) for word in words if word in name | about
        )
        if tool.name in clause:
            met = total * 2 or 1.0
        if not met or met < FITS * total:
            continue
        arguments, missing, taken = _fill(tool.parameters, clause, values, seen)
        score = met * 0.5 ** len(missing) * (1.5 if taken else 0.6 if seen else 1.0)
        required = _required(tool.parameters)
        score *= 1 + 0.1 * len([key for key in arguments if key in required])
        if _LATEST.search(clause):  # a tool that takes just one
            score *= 1 + len([key for key, value in arguments.items() if key not in required and value == 1])
        choice = Choice(tool, arguments, tuple(missing), score, taken)
        # The name decides between equals, so that the order of the tools never does.
        if best is None or (-round(score, 6), tool.name) < (-round(best.score, 6), best.tool.name):
            best = choice
    return best


def _changes(tool: ToolSpec) -> frozenset[str]:
    """The verbs of a tool that changes something; empty for one that only reads or calculates."""
    shapes = _properties(tool.parameters).values()
    if shapes and all(_type(shape) in ("number", "integer") for shape in shapes):
        return frozenset()
    own = _stems(tool.name.rpartition("/")[2], keep=True)
    described = _stems(tool.description[:80], keep=True)[:1]
    verbs = {word for word in (*own, *described) if word in CHANGES}
    return (
        frozenset(verbs)
        if (described and described[0] in CHANGES) or (own and own[0] in CHANGES)
        else frozenset()
    )


def _words_of_tool(tool: ToolSpec) -> tuple[frozenset[str], frozenset[str]]:
    """The words of its name, and those of its description and its parameters."""
    participant, _, own = tool.name.rpartition("/")
    described = tool.description[:400].replace(f"ool of {participant}", "ool")
    return frozenset(_stems(own)), frozenset(_stems(f"{described} {' '.join(_properties(tool.parameters))}"))


def _clauses(request: str) -> list[str]:
    clauses = [clause.strip(" \t,:") for clause in _SPLIT.split(request)]
    return [clause for clause in clauses if _stems(clause) or _values(clause)][:MAX_CLAUSES]


def _stems(text: str, *, keep: bool = False) -> list[str]:
    """The words of a text without endings; words that carry no meaning here are left out unless `keep` is set."""
    words = [word.lower() for word in _WORD.findall(_CAMEL.sub(" ", text.replace("_", " ")))]
    stems = [_stem(word) for word in words if keep or word not in STOP]
    return [SAME.get(word, word) for word in stems]


# --- filling arguments ---------------------------------------------------------------------------------------------


def _properties(schema: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    items = list(mapping_of(schema.get("properties")).items())[:24]
    return {str(key): shape for key, shape in items if isinstance(shape, Mapping)}


def _required(schema: Mapping[str, Any]) -> list[str]:
    return list(texts_of(schema.get("required"))[:24])


def _type(shape: Mapping[str, Any]) -> str:
    name = shape.get("type")
    if name is None and isinstance(shape.get("anyOf"), list):
        name = next((branch.get("type") for branch in shape["anyOf"] if isinstance(branch, Mapping)), None)
    if isinstance(name, list):
        name = next((type_name for type_name in name if type_name != "null"), None)
    return name if isinstance(name, str) else "string"


def _fill(
    schema: Mapping[str, Any], clause: str, values: Sequence[Value], seen: Sequence[Value]
) -> tuple[dict[str, Any], list[str], int]:
    """The arguments, the required parameters that no value fills, and how many arguments came from `seen`."""
    required, left, earlier = _required(schema), list(values), list(seen)
    arguments: dict[str, Any] = {}
    missing: list[str] = []
    taken = 0
    for key, shape in _properties(schema).items():
        value = _argument(
            key, shape, clause, left, must=key in required, from_clause=not _is_source(key, seen)
        )
        if value is None and key in required and earlier:
            value = _argument(key, shape, "", earlier, must=True, from_clause=True)
            taken += value is not None
        if value is not None:
            arguments[key] = value
        elif key in required:
            about = _join_lines(str(shape.get("description") or ""), 100)
            missing.append(f"`{key}`" + (f" ({about})" if about else ""))
    missing += [f"`{key[:80]}`" for key in required if key not in _properties(schema)]
    return arguments, missing, taken


def _is_source(key: str, seen: Sequence[Value]) -> bool:
    """Whether a parameter names the origin of a value, which an earlier answer gives."""
    return bool(seen) and not {"source", "from", "origin"}.isdisjoint(_stems(key, keep=True))


def _argument(
    key: str, shape: Mapping[str, Any], clause: str, left: list[Value], *, must: bool, from_clause: bool
) -> Any:
    """A value for one parameter, which is taken out of `left`; None for none."""
    if not from_clause:
        return None
    kind, options, words = _type(shape), shape.get("enum"), set(_stems(key, keep=True))
    if isinstance(options, list):
        words_of_clause = re.findall(r"\w+", clause.lower())
        return next(
            (
                option
                for option in options[:100]
                if isinstance(option, str) and option.lower() in words_of_clause
            ),
            None,
        )
    if kind == "boolean":
        return True if words <= set(_stems(clause, keep=True)) else False if must else None
    if kind in ("number", "integer"):
        counts = not words.isdisjoint({"count", "limit", "max", "maximum", "number"})
        number = _take(left, ("number",)) if must or counts else None
        if number is None:
            return 1 if counts and _LATEST.search(clause) else None
        return int(float(number)) if kind == "integer" or float(number).is_integer() else float(number)
    if kind == "array":
        several = [text for text in iter(lambda: _take(left, ("quoted", "path", "name")), None) if text]
        return (several or None) if must else None
    if kind != "string" or not must:
        return None
    if words & {"timezone", "zone", "tz"}:
        return _take_zone(left)
    if words & {"time", "hour"}:
        return _take(left, ("time", "moment"))
    for of, kinds in (
        ({"path", "file", "folder", "directory", "repo", "repository"}, ("path", "quoted")),
        ({"url", "uri", "link", "address"}, ("url", "email")),
        ({"email", "mail", "recipient"}, ("email",)),
        ({"date", "day"}, ("date",)),
    ):
        if words & of:
            return _take(left, kinds)
    text = _take(left, ("quoted", "name", "url", "path", "number"))
    if text is None and (
        after := re.search(rf"\b{re.escape(key[:60])}\s+(?:is\s+)?([\w-]+)", clause, re.IGNORECASE)
    ):
        text = after[1]
    return text


def _take(left: list[Value], kinds: Sequence[str]) -> str | None:
    for kind in kinds:
        for value in left:
            if value.kind == kind:
                left.remove(value)
                return value.text[11:16] if kind == "moment" else value.text
    return None


def _take_zone(left: list[Value]) -> str | None:
    """The zone that a name stands for; else the zone of a moment's offset."""
    for value in left:
        zone = value.text if value.kind == "zone" else _zones().get(value.text.lower())
        if zone is not None and value.kind in ("zone", "name", "quoted"):
            left.remove(value)
            return zone
    moments = (value.text for value in left if value.kind == "moment")
    return next((zone for text in moments if (zone := _zone_of_offset(text)) is not None), None)


@lru_cache(maxsize=1)
def _zones() -> dict[str, str]:
    """Each city that names a zone, in lower case."""
    names = sorted(zoneinfo.available_timezones())
    cities = {
        name.rpartition("/")[2].replace("_", " ").lower(): name for name in names if name.startswith(_ZONES)
    }
    return {**cities, "japan": "Asia/Tokyo", "india": "Asia/Kolkata", "china": "Asia/Shanghai"}


def _zone_of_offset(moment: str) -> str | None:
    """A zone with the fixed UTC offset of the moment; the database counts these westward."""
    if moment.endswith("Z"):
        return "UTC"
    offset = re.search(r"([+-])(\d\d):?(\d\d)\Z", moment[11:])
    if offset is None or offset[3] != "00" or int(offset[2]) > 12:
        return None
    hours = int(offset[1] + offset[2])
    return f"Etc/GMT{-hours:+d}" if hours else "UTC"


def _values(text: str) -> list[Value]:
    """The values of a text in their order; a word that only begins the sentence is no name."""
    values: list[Value] = []
    for match in _VALUES.finditer(text[:MAX_SEEN]):
        kind, value = str(match.lastgroup), match[0]
        if kind == "name":
            first, _, rest = value.partition(" ")
            if _stem(first.lower()) in STOP | QUESTION | COMMANDS or match.start() == 0:
                value = rest
            value = value.removesuffix("'s").removesuffix("’s").rstrip("'’-")
        elif kind == "quoted":
            value = value[1:-1]
        elif kind in ("path", "url"):
            value = value.rstrip(".,;:!?)")
        if value:
            values.append(Value(kind, value))
        if len(values) == MAX_VALUES:
            break
    return values


# --- answering -------------------------------------------------------------------------------------------------------


def _abilities(tools: Sequence[ToolSpec]) -> str:
    """The answer about itself: that it is rules, and which tools it can call."""
    if not tools:
        return f"{SELF} No tools are here for me to call."
    listed = [
        f"{tool.name} ({about})" if (about := _join_lines(tool.description, 60)) else tool.name
        for tool in tools[:MAX_LISTED]
    ]
    more = f", and {len(tools) - MAX_LISTED} more" if len(tools) > MAX_LISTED else ""
    return f"{SELF} I can call these tools: {', '.join(listed)}{more}."


def _is_refusal(observation: str) -> bool:
    return (
        re.match(r"error\W.{0,120}?\b(?:rejected|denied|refused)\b", observation[:200].lower(), re.S)
        is not None
    )


def _is_failure(call: MadeCall) -> bool:
    """Whether a call did not certainly succeed."""
    return call.observation.lstrip().lower().startswith(("error", _LOST))


def _quote_answer(call: MadeCall, clause: str = "") -> str:
    """The answer of a tool as one sentence that ends with the tool's name; by its shape, whatever the tool."""
    text = call.observation.strip()
    if text.lower().startswith(_LOST):
        return _join_lines(text[len(_LOST) :].strip())
    if _is_failure(call):
        verb = "was refused" if _is_refusal(text) else "failed"
        return f"{call.name} {verb}: {_join_lines(text.removeprefix('Error:').strip())}"
    return f"{_tell(text, clause)} ({call.name})."


def _tell(text: str, clause: str) -> str:
    """What a tool answered: a time, commits, a number for what was asked for, pairs of a small object, or a quote."""
    value = json_of(text) if text[:1] == "{" and len(text) <= MAX_SEEN else None
    if isinstance(value, Mapping):
        if list(value) == ["result"] and not isinstance(value["result"], Mapping | list):
            text = value["result"] if isinstance(value["result"], str) else json.dumps(value["result"])
        else:
            pairs = list(_pairs(value))
            told = ", ".join(f"{key}: {inner}" for key, inner in pairs) if 0 < len(pairs) <= 10 else ""
            return _tell_time(value) or _join_lines(told or text)
    if told := _tell_commits(text):
        return told
    if _NUMBER.fullmatch(text):
        asked = _ASKED.fullmatch(_join_lines(clause, 100))
        return f"{asked[2][:1].upper()}{asked[2][1:]} {asked[1].lower()} {text}" if asked else text
    return f"“{_join_lines(text)}”" if text else "Nothing"


_NUMBER = re.compile(r"-?\d[\d.,]{0,30}(?: ?[%°\w/]{1,8})?|true|false", re.IGNORECASE)
_ASKED = re.compile(
    r"(?:what|how much|how many)\s+(is|was|are|were)\s+((?:the|a|an)\s.{1,90})", re.IGNORECASE
)
_MOMENT = re.compile(r"(\d{4}-\d\d-\d\d)[T ](\d\d:\d\d)(?::\d\d)?(?:\.\d{1,9})? ?(Z|[+-]\d\d:?\d\d)?")
_COMMIT = re.compile(r"^Commit: *['\"]?([0-9a-f]{7,64})\b", re.MULTILINE)
MOST_COMMITS = 3


def _tell_time(value: Mapping[str, Any]) -> str:
    """`17:00 in Tokyo` for a converted time, with its day for the present time; empty for another object."""
    target = value.get("target")
    moment = target if isinstance(target, Mapping) else value
    zone, found = moment.get("timezone"), _MOMENT.match(str(moment.get("datetime")))
    if not isinstance(zone, str) or found is None:
        return ""
    region, _, city = zone[:60].rpartition("/")
    where = f"in {city.replace('_', ' ')}" if region and not region.startswith("Etc") else zone[:60]
    day = "" if moment is target else f" on {found[1]}"
    return _join_lines(f"{found[2]}{day} {where}")


def _tell_commits(text: str) -> str:
    """The first commits of a history as it is usually written; empty for another text."""
    starts = [match.start() for match in _COMMIT.finditer(text[:MAX_SEEN])]
    if not starts:
        return ""
    commits = [text[a:b] for a, b in zip(starts, [*starts[1:], len(text)], strict=True)]
    told = []
    for commit in commits[:MOST_COMMITS]:
        lines = (line.partition(":") for line in commit[:MAX_SEEN].split("\n"))
        fields = {key.strip(): value.strip().strip("'\"") for key, _, value in reversed(list(lines))}
        when = _MOMENT.match(fields.get("Date", ""))
        zone = (when[3] or "").replace("Z", "UTC").replace("+00:00", "UTC") if when else ""
        date = f"{when[1]} {when[2]} {zone}".strip() if when else fields.get("Date", "")
        author = f" by {fields['Author']}" if fields.get("Author") else ""
        head = f"{date}: " if date else ""
        told.append(f"{head}“{fields.get('Message', '')}”{author}, commit {fields['Commit'][:7]}")
    more = f"; and {len(commits) - MOST_COMMITS} more" if len(commits) > MOST_COMMITS else ""
    return _join_lines("; ".join(told) + more)


def _pairs(value: Any, key: str = "", depth: int = 0) -> Iterator[tuple[str, str]]:
    if isinstance(value, Mapping) and depth < 3:
        for name, inner in list(value.items())[:11]:
            yield from _pairs(inner, f"{key} {name}".strip(), depth + 1)
    else:
        yield key, value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _join_lines(text: str, limit: int = MAX_TOLD) -> str:
    """The lines of the text, joined by semicolons, in at most `limit` characters."""
    line = re.sub(r"\s+", " ", re.sub(r"\s*\n+\s*", "; ", text[: limit * 4].strip())).replace(":;", ":")
    return cut(line, limit)
