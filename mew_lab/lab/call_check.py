"""Checks a call of a tool before it is sent, against the tools that are known here; pure.

What is wrong is told at once and with the nearest known name, instead of by an answer of another process. A list of
tools is a claim of its participant and may be old, so the caller asks for a newer one before it believes a complaint.

Spec: §3.1, MCP `inputSchema`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from mew_lab.protocol.json_schema import MOST_STEPS, Validator, members_of
from mew_lab.protocol.visible import one_line
from mew_lab.settings.faults import did_you_mean

__all__ = ["find_fault", "hint", "listed", "misfits", "name_absent"]

MOST_NAMED = 12  # tools or participants that a sentence lists
MOST_FAULTS = 5  # arguments that a sentence names
LONG = 60  # characters of a name in a sentence


def hint(word: str, known: Iterable[str]) -> str:
    """` (did you mean 'name'?)` with the nearest known name; nothing where none is near."""
    text = did_you_mean(word, known)
    return f" ({one_line(text, LONG + 20)})" if text else ""


def listed(names: Sequence[str]) -> str:
    """The names with commas, at most a dozen of them."""
    shown = ", ".join(one_line(name, LONG) for name in names[:MOST_NAMED])
    return f"{shown} and {len(names) - MOST_NAMED} more" if len(names) > MOST_NAMED else shown


def name_absent(names: Sequence[str], present: Iterable[str]) -> str:
    """A sentence about names that no present participant has."""
    here = sorted(present)
    named = ", ".join(repr(one_line(name, LONG)) for name in names)
    nearest = hint(names[0], here) if len(names) == 1 else ""
    others = f"participants are {listed(here)}" if here else "nobody else is here"
    return f"nobody here is called {named}{nearest}; {others}"


def find_fault(target: str, arguments: Mapping[str, Any] | None, tools: Sequence[Mapping[str, Any]]) -> str:
    """What is wrong with a call of `participant/tool`, as a sentence; empty where nothing is.

    `tools` are the entries of the participant's `tools/list`. Without `arguments` only the name is checked: who
    approves a proposal may still edit them.
    """
    participant, _, name = target.partition("/")
    by_name = {str(tool.get("name")): tool for tool in tools}
    # A participant that lists nothing may still take calls: a person who answers them, say.
    if not by_name:
        return ""
    if name not in by_name:
        near = did_you_mean(name, by_name)
        if not near:
            return ""  # the list may be incomplete; the participant answers for itself
        meant = hint(target, [f"{participant}/{other}" for other in by_name])
        offered = listed(sorted(by_name))
        return f"{one_line(participant, LONG)} has no tool {one_line(name, LONG)!r}{meant}; it has {offered}"
    schema = by_name[name].get("inputSchema")
    if not isinstance(schema, dict) or arguments is None:
        return ""
    faults = [
        f"{'.'.join(one_line(str(step), LONG) for step in violation.path) or 'the arguments'} {violation.message}"
        for violation in Validator(schema, of_peer=True).validate(dict(arguments)).violations
    ]
    if not faults:
        return ""
    more = f" and {len(faults) - MOST_FAULTS} more" if len(faults) > MOST_FAULTS else ""
    return "; ".join(
        filter(None, ["; ".join(faults[:MOST_FAULTS]) + more, _describe_parameters(arguments, schema)])
    )


def misfits(
    schema: Mapping[str, Any], arguments: Mapping[str, Any], *, most: int = MOST_STEPS
) -> tuple[str, ...]:
    """The places where arguments do not fit the tool's schema, or may not, one sentence each; at most twenty.

    The tool itself judges them.

    Args:
        most: The steps of the check; what is left then is not looked at.
    """
    fit = Validator(schema, of_peer=True).validate(dict(arguments), most=most)
    return (
        *(f"does not fit the tool: {one_line(str(place), 300)}" for place in fit.violations[:20]),
        *(f"may not fit the tool: {one_line(str(place), 300)}" for place in fit.doubts[:20]),
    )[:20]


def _describe_parameters(arguments: Mapping[str, Any], schema: Mapping[str, Any]) -> str:
    """The parameters of a tool, optional ones in brackets, and the nearest one to an argument of another name."""
    known = members_of(schema)
    unused = [name for name in known if name not in arguments]
    hints = (hint(name, unused) for name in arguments if name not in known)
    nearest = next(filter(None, hints), "")
    if not known:
        takes_none = schema.get("additionalProperties") is False and not schema.get("patternProperties")
        return "it takes no arguments" if takes_none else ""
    names = listed([name if member.required else f"[{name}]" for name, member in known.items()])
    return f"it takes {names}{nearest}"
