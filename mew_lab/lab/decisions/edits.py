"""Edits of a proposal before its approval: the changes, their review, and the exact request that is then sent.

An edit is kept under the digest of its own bytes. Its confirmation names that digest, and what is sent is made from the
kept edit, never from the confirmation. An edit that does not fit the tool's schema gets a warning; the schema comes
from a peer, so it blocks nothing.

Everything runs on the loop's thread. Spec: §3.2.1, ruling R17; threats 6, 14.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from mew_lab.errors import MewError
from mew_lab.lab.call_check import misfits
from mew_lab.lab.decisions.cards import dangers
from mew_lab.ledger.calls import Proposal, shown
from mew_lab.protocol.bounded import BoundedDict
from mew_lab.protocol.envelope import read_strict
from mew_lab.protocol.json_schema import members_of
from mew_lab.protocol.visible import one_line
from mew_lab.sdk.decisions import edit_proposal, rebuild_proposed
from mew_lab.sdk.participant import MEWParticipant
from mew_lab.sdk.request_rows import Rows, argument_of, row_name, rows_of, write_value

__all__ = ["EditField", "EditReview", "EditedRow", "Edits"]

MAX_EDITS = 8  # edits of one proposal that are kept
MAX_PROPOSALS = 200
MAX_TEXT = 200_000  # characters that can be edited here
MAX_FIELDS = 200
ASKING = 2.0  # seconds to wait for the tools of a target


class EditField(NamedTuple):
    """One argument to be edited: `text` is the text of a string, or the JSON of any other value; `hint` is its type."""

    name: str
    text: str
    is_text: bool
    hint: str


class EditedRow(NamedTuple):
    """One row of the request before and after, each as JSON text; None where the request has no such row."""

    pointer: str
    was: str | None
    now: str | None

    @property
    def name(self) -> str:
        """The displayed name of the row."""
        return row_name(self.pointer)

    @property
    def changed(self) -> bool:
        """Whether the edit changes the row."""
        return self.was != self.now


@dataclass(frozen=True, slots=True, kw_only=True)
class EditReview:
    """A changed proposal to be confirmed. `digest` identifies it; `params` will be sent."""

    proposal: str
    digest: str
    params: dict[str, Any]
    lines: tuple[EditedRow, ...]
    warnings: tuple[str, ...]

    @property
    def arguments(self) -> tuple[tuple[str, str], ...]:
        """The rows of the request that will be sent, as on a card."""
        return tuple((line.pointer, line.now) for line in self.lines if line.now is not None)

    @property
    def summary(self) -> str:
        """The changes as text, for the proposer."""
        changes = []
        for line in self.lines:
            name = one_line(line.name, 60)
            if line.was is None:
                changes.append(f"{name} added: {one_line(line.now or '', 200)}")
            elif line.now is None:
                changes.append(f"{name} removed (was {one_line(line.was, 200)})")
            elif line.changed:
                changes.append(f"{name}: {one_line(line.was, 200)} → {one_line(line.now, 200)}")
        return "; ".join(changes[:20]) + ("; …" if len(changes) > 20 else "")


class Edits:
    """The reviewed edits that wait for one human's confirmation.

    Args:
        request_id: The id of the request that would be sent for a proposal.
        hints: Gives the remarks on the rows of an edit and its proposer, beside the risks.
        folders: Gives the folders that a person gave to the targets.
    """

    def __init__(
        self,
        me: MEWParticipant,
        *,
        request_id: Callable[[str], str] = lambda proposal: "",
        hints: Callable[[Rows, str], tuple[str, ...]] = lambda rows, proposer: (),
        folders: Callable[[Sequence[str]], Sequence[str]] = lambda to: (),
    ) -> None:
        self._me = me
        self._request_id = request_id
        self._hints = hints
        self._folders = folders
        self._reviews: BoundedDict[str, BoundedDict[str, EditReview]] = BoundedDict(MAX_PROPOSALS)
        self._schemas: BoundedDict[tuple[str, str], Mapping[str, Any]] = BoundedDict(MAX_PROPOSALS)
        self._begun: set[str] = set()  # open proposals that a person has begun to edit

    async def form(self, proposal: str) -> tuple[EditField, ...]:
        """The arguments that can be changed, in order. Requests the target's tools once, where permitted.

        Raises:
            MewError: There is no such proposal, or it cannot be edited here.
        """
        proposed = self._proposal(proposal)
        self._begun.add(proposal)
        values = _values(proposed)
        await self._ask(proposed)
        schema = self._schema(proposed)
        fields = tuple(
            EditField(
                name,
                value if isinstance(value, str) else write_value(value),
                isinstance(value, str),
                _hint(schema, name),
            )
            for name, value in values.items()
        )
        if len(fields) > MAX_FIELDS or sum(len(field.text) for field in fields) > MAX_TEXT:
            raise MewError(
                f"Cannot edit {proposal[:80]!r} here: it has more than {MAX_FIELDS} arguments or {MAX_TEXT} "
                "characters; reject it with the wanted change as the reason"
            )
        return fields

    def has_begun(self, proposal: str) -> bool:
        """Whether a person has begun to edit it."""
        return proposal in self._begun

    def review(self, proposal: str, changes: Sequence[Mapping[str, Any]]) -> EditReview:
        """Applies changes to a proposal; keeps the result until it is confirmed or replaced by another edit.

        Each change is `{"index": n, "text": …}` (a string), `{"index": n, "json": …}` (any value, as JSON text),
        `{"index": n, "remove": true}` or `{"name": …, "json": …}` (one more); `index` counts the fields of `form`.

        Raises:
            MewError: A change is not possible (with the argument and the reason), or nothing is changed.
        """
        proposed = self._proposal(proposal)
        self._begun.add(proposal)
        before = _values(proposed)
        after = _apply(before, changes)
        request = rebuild_proposed(proposed, id=self._request_id(proposal))
        payload = request["payload"]
        params = payload.get("params") or {}
        new = {**params, "arguments": after} if proposed.tool else after
        edit = edit_proposal(proposed, new)
        was = dict(rows_of(request))
        rows = rows_of({**request, "payload": {**payload, "params": edit.params}})
        now = dict(rows)
        # A value that was empty and has members now is shown by the rows of its members.
        filled = {at for at in was if at not in now and any(row.startswith(f"{at}/") for row in now)}
        arguments = [at for at in (*was, *now) if argument_of(at) is not None]
        places = [at for at in dict.fromkeys([*arguments, *was, *now]) if at not in filled]
        lines = tuple(EditedRow(at, was.get(at), now.get(at)) for at in places)
        values = _values_in(edit.params, tool=proposed.tool)
        warnings = (
            *misfits(self._schema(proposed), values),
            *self._hints(rows, proposed.proposer),
            *dangers(rows, folders=self._folders(proposed.to)),
        )
        review = EditReview(
            proposal=proposal, digest=edit.digest, params=edit.params, lines=lines, warnings=warnings
        )
        self._reviews.setdefault(proposal, BoundedDict(MAX_EDITS))[review.digest] = review
        return review

    def review_arguments(self, proposal: str, text: str) -> EditReview:
        """Like `review`, for the whole of the arguments as JSON text; a value that is equal stays as it was written.

        Raises:
            MewError: As `review`; or the text is no JSON object.
        """
        before = _values(self._proposal(proposal))
        try:
            after = read_strict(text, limit=4 * MAX_TEXT)
        except MewError as fault:
            raise MewError(
                f"Cannot edit it: the arguments are no JSON object: {one_line(str(fault), 160)}"
            ) from None
        changes: list[Mapping[str, Any]] = []
        for n, (name, value) in enumerate(before.items()):
            if name not in after:
                changes.append({"index": n, "remove": True})
            elif (now := write_value(after[name])) != write_value(value):
                changes.append({"index": n, "json": now})
        changes += [{"name": name, "json": write_value(after[name])} for name in after if name not in before]
        if not changes:
            raise MewError("There are no changes yet.")
        return self.review(proposal, changes)

    def schema(self, proposal: str) -> Mapping[str, Any]:
        """The schema of the proposed tool's arguments, once `form` has asked for it; empty where there is none."""
        return self._schema(self._proposal(proposal))

    def reviewed(self, proposal: str, digest: str) -> EditReview | None:
        """The reviewed edit with that digest; None when there is none."""
        reviews = self._reviews.get(proposal)
        return reviews.get(digest) if reviews else None

    def forget(self, proposal: str) -> None:
        """Discards the edits of a decided proposal."""
        self._begun.discard(proposal)
        self._reviews.pop(proposal, None)

    def _proposal(self, id: str) -> Proposal:
        proposed = self._me.proposals.get(id)
        if proposed is None:
            raise MewError(f"Cannot edit {id[:80]!r}: there is no such proposal here")
        return proposed

    async def _ask(self, proposal: Proposal) -> None:
        schemas_of = {
            (listed.participant, listed.name): listed.input_schema
            for listed in self._me.discovery.get_available_tools()
        }
        for target in proposal.to[:3] if proposal.tool else ():
            key = (target, proposal.tool)
            if key in schemas_of:
                self._schemas[key] = schemas_of[key]
            elif key not in self._schemas:
                try:
                    tools = await self._me.list_tools(target, timeout=ASKING)
                except MewError:  # it is edited without the tool's schema
                    continue
                schemas = (tool.get("inputSchema") for tool in tools if tool["name"] == proposal.tool)
                schema = next(schemas, None)
                self._schemas[key] = schema if isinstance(schema, Mapping) else {}

    def _schema(self, proposal: Proposal) -> Mapping[str, Any]:
        for target in proposal.to:
            if schema := self._schemas.get((target, proposal.tool)):
                return schema
        return {}


def _values(proposal: Proposal) -> dict[str, Any]:
    params = shown(proposal.envelope)["payload"].get("params")
    if params is not None and not isinstance(params, dict):
        raise MewError(f"Cannot edit {proposal.id[:80]!r}: its params are no object; approve or reject it")
    return _values_in(params or {}, tool=proposal.tool)


def _values_in(params: Mapping[str, Any], *, tool: str) -> dict[str, Any]:
    if not tool:
        return dict(params)
    arguments = params.get("arguments", {})
    if not isinstance(arguments, dict):
        raise MewError(
            f"Cannot edit a call of {tool[:80]!r}: its arguments are no object; approve or reject it"
        )
    return dict(arguments)


def _apply(before: Mapping[str, Any], changes: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    names = list(before)
    after = dict(before)
    for change in changes[: 2 * MAX_FIELDS]:
        index, name = change.get("index"), change.get("name")
        if isinstance(index, int) and not isinstance(index, bool) and 0 <= index < len(names):
            name = names[index]
        elif not isinstance(name, str) or not name or len(name) > 200:
            raise MewError("Cannot edit it: a change names neither an existing argument nor a new one")
        elif name in after:
            raise MewError(f"Cannot add {one_line(name, 60)}: there is such an argument already")
        if change.get("remove") is True:
            after.pop(name, None)
        elif isinstance(text := change.get("text"), str):
            after[name] = text
        else:
            after[name] = _read(name, change.get("json"))
    return after


def _read(name: str, text: Any) -> Any:
    if not isinstance(text, str):
        raise MewError(f"Cannot change {one_line(name, 60)}: its new value is missing")
    try:
        members = read_strict(f'{{"value":{text}}}', limit=4 * MAX_TEXT)
        if len(members) != 1:
            raise MewError("there is more than one value")
        return members["value"]
    except (MewError, KeyError) as fault:
        raise MewError(
            f'Cannot change {one_line(name, 60)}: {one_line(text, 60)} is no JSON value; a text needs quotes ("…"). '
            f"{one_line(str(fault), 160)}"
        ) from None


def _hint(schema: Mapping[str, Any], name: str) -> str:
    member = members_of(schema).get(name)
    kind = member.schema.get("type") if member and isinstance(member.schema, Mapping) else None
    kinds = [kind] if isinstance(kind, str) else kind if isinstance(kind, list) else []
    words = [str(word)[:20] for word in kinds[:4]]
    if member is not None and member.required:
        words.append("required")
    return one_line(", ".join(words), 80)
