"""Reads the options of a permission that an agent asks for, and which of them a request chooses.

A permission is a proposal from an agent to itself: a call of its tool `permission` whose arguments have a question and
`options`, each with `id`, `name` and `kind`. A request chooses by the one argument `option` that it adds. Without it,
it means the only option of the kind `allow_once`; where there is none, or several, it chooses nothing. A rejection means
the only option of the kind `reject_once`.

The names and the kinds are the agent's own words. Where a set of options cannot be shown or chosen from in one way
alone, `PermissionRequest.fault` says why, and nothing of it can be chosen.

Spec: R41.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, NamedTuple

from mew_lab.protocol.coerce import mapping_of, member, text_of
from mew_lab.protocol.text import cut
from mew_lab.protocol.visible import one_line, visible

__all__ = [
    "ALLOW_ONCE",
    "MAX_OPTIONS",
    "MAX_OPTION_ID",
    "OPTION",
    "PermissionOption",
    "PermissionRequest",
    "chosen_option",
    "decision_of",
    "find_choice_fault",
    "read_arguments",
    "read_permission",
    "without_choice",
]

TOOL = "permission"
OPTION = "option"  # the argument that a choice adds
MAX_OPTIONS = 50
MAX_OPTION_ID = 128  # characters
MAX_SHOWN = 80  # characters of a name in a sentence
ALLOW_ONCE, REJECT_ONCE = "allow_once", "reject_once"

# What an agent does after a choice, by the kind of the option. Any other kind is not known here.
_KINDS: Mapping[str, str] = {
    ALLOW_ONCE: "allows it this once",
    REJECT_ONCE: "refuses it this once",
    "allow_always": "from then on {agent} does the like by itself, and this space is no longer asked",
    "reject_always": "from then on {agent} refuses the like by itself, and this space is no longer asked",
}
_DECISIONS: Mapping[str, str] = {
    ALLOW_ONCE: "allowed",
    REJECT_ONCE: "rejected",
    "allow_always": "always allowed",
    "reject_always": "always rejected",
}


class PermissionOption(NamedTuple):
    """One option, in the words of the agent. `kind` is empty where it is no text."""

    id: str
    name: str
    kind: str = ""

    @property
    def is_refusal(self) -> bool:
        """Whether its kind says that the agent is to leave it."""
        return self.kind in (REJECT_ONCE, "reject_always")

    @property
    def quoted(self) -> str:
        """The name in quotes, cut, for a sentence."""
        return f"“{one_line(self.name, MAX_SHOWN)}”"

    @property
    def receipt(self) -> dict[str, str]:
        """What a receipt keeps of it."""
        return {"id": self.id, "name": cut(self.name, MAX_SHOWN)}

    def explain(self, agent: str) -> str:
        """What a choice of it means, as its kind says."""
        if self.kind in _KINDS:
            return _KINDS[self.kind].format(agent=agent)
        kind = (
            f"the kind “{one_line(self.kind, MAX_SHOWN)}”" if self.kind.strip() else "a kind that is no text"
        )
        return f"{kind} is not known here; {agent} alone knows what it allows"


class PermissionRequest(NamedTuple):
    """The question of an agent and its options, in its order.

    `fault` completes "nothing can be chosen, because …"; empty where a choice is possible. `has_no_more` is whether each
    option has an id, a name and a kind in text, and nothing else. `mode` is that in which the agent says that it is.
    """

    question: str
    options: tuple[PermissionOption, ...] = ()
    fault: str = ""
    has_no_more: bool = False
    mode: str = ""

    @property
    def is_plain(self) -> bool:
        """Whether a list of names and explanations tells all of the options."""
        return self.has_no_more and all(
            one_line(text, MAX_SHOWN) == text for option in self.options for text in option
        )

    @property
    def default(self) -> PermissionOption | None:
        """What an approval means that names no option: the only `allow_once`; None where there is none or several."""
        return self._only(ALLOW_ONCE)

    @property
    def rejection(self) -> PermissionOption | None:
        """What a rejection means: the only `reject_once`; None where the agent is told of the rejection alone."""
        return self._only(REJECT_ONCE)

    @property
    def told_by_rejection(self) -> str:
        """What an agent is told by a rejection, as a phrase."""
        if self.fault:
            return "the agent takes it for what it reads in its own options"
        option = self.rejection
        return f"it means the option {option.quoted}" if option is not None else "no option sent"

    def _only(self, kind: str) -> PermissionOption | None:
        found = [option for option in self.options if option.kind == kind]
        return found[0] if len(found) == 1 and not self.fault else None

    def chosen(self, id: str) -> PermissionOption | None:
        """The option that an approval chooses by its id, or by none where that is empty."""
        return self.find(id) if id else self.default

    def find(self, id: object) -> PermissionOption | None:
        """The option with that id; None where none can be chosen by it."""
        return next((option for option in self.options if option.id == id and not self.fault), None)

    def named(self, text: str) -> tuple[PermissionOption, ...]:
        """The options that a person may mean by a typed id or name."""
        return tuple(option for option in self.options if text in (option.id, option.name) and not self.fault)


def read_permission(sender: str, to: Collection[str], payload: Mapping[str, Any]) -> PermissionRequest | None:
    """The permission with options for which a proposal asks; None for any other proposal."""
    if payload.get("method") != "tools/call" or set(to) != {sender}:
        return None
    params = mapping_of(payload.get("params"))
    arguments = mapping_of(params.get("arguments"))
    return read_arguments(arguments) if params.get("name") == TOOL and "options" in arguments else None


def read_arguments(arguments: Mapping[str, Any]) -> PermissionRequest:
    """The permission that the arguments of a proposed call `permission` ask for."""
    options, fault = _read_options(arguments.get("options"))
    if OPTION in arguments:
        fault = fault or "its proposer has named an option already, where a person has to choose"
    plain = not fault and all(
        one.keys() == {"id", "name", "kind"} and isinstance(one["kind"], str) for one in arguments["options"]
    )
    question, mode = text_of(arguments.get("question")), text_of(arguments.get("mode"))
    return PermissionRequest(question, options, fault, plain, mode)


def _read_options(told: Any) -> tuple[tuple[PermissionOption, ...], str]:
    if not isinstance(told, list) or not told:
        return (), "its options are no list" if not isinstance(told, list) else "it offers no options"
    if len(told) > MAX_OPTIONS:
        return (), f"it offers {len(told):,} options, and at most {MAX_OPTIONS} can be chosen from"
    options: list[PermissionOption] = []
    for n, one in enumerate(told, 1):
        id, name, kind = (member(one, key) for key in ("id", "name", "kind"))
        if not isinstance(id, str) or not id:
            return tuple(options), f"option {n} has no id"
        if len(id) > MAX_OPTION_ID:
            return tuple(options), f"the id of option {n} has more than {MAX_OPTION_ID} characters"
        if not isinstance(name, str) or not name.strip():
            return tuple(options), f"option {n} has no name"
        first = next((m for m, known in enumerate(options, 1) if known.id == id), 0)
        options.append(PermissionOption(id, name, text_of(kind)))
        if first:
            return tuple(options), f"options {first} and {n} have the same id, {one_line(visible(id), 40)}"
    return tuple(options), ""


def find_choice_fault(asked: PermissionRequest | None, option: str, *, is_edited: bool = False) -> str:
    """Why an approval with that option chooses nothing, which completes "…, because"; empty where it chooses one.

    Args:
        asked: The permission; None for any other proposal, of which there is nothing to choose.
        option: The id; empty where the approval names none.
        is_edited: Whether the arguments were changed.
    """
    if asked is None:
        return f"it offers no option, and {one_line(option, 60)!r} was chosen" if option else ""
    if asked.fault or is_edited:
        return asked.fault or "its arguments are not edited: choose one of its options"
    if option:
        return "" if asked.find(option) else f"it offers no option with the id {one_line(option, 60)!r}"
    return "" if asked.default else "it does not offer exactly one option of the kind allow_once"


def chosen_option(permission: PermissionRequest, sent: Mapping[str, Any]) -> PermissionOption | None:
    """The option that the payload of a request chooses; None where it chooses nothing."""
    arguments = mapping_of(member(sent, "params", "arguments"))
    return permission.find(arguments[OPTION]) if OPTION in arguments else permission.default


def decision_of(option: PermissionOption | None, *, is_rejected: bool) -> str:
    """What a decision on a permission said, such as `allowed`; empty where it chose no option and rejected nothing."""
    if is_rejected or option is None:
        return "rejected" if is_rejected else ""
    return _DECISIONS.get(option.kind) or f"{option.quoted} chosen"


def without_choice(permission: PermissionRequest, sent: Mapping[str, Any]) -> dict[str, Any]:
    """The payload of a request without its choice, which is no edit; unchanged where it names no option of the list."""
    params = mapping_of(sent.get("params"))
    arguments = dict(mapping_of(params.get("arguments")))
    if permission.find(arguments.get(OPTION)) is None:
        return dict(sent)
    del arguments[OPTION]
    return {**sent, "params": {**params, "arguments": arguments}}
