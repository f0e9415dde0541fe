"""Makes the forms of a card: one for its arguments, one to confirm an edit, one to confirm a grant.

Each form is made in the kernel and sent as text. A confirmation carries the digest of the content that was sent.

Spec: threats 3, 14, 22.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from typing import Any

from mew_lab.errors import MewError
from mew_lab.lab.decisions.cards import LONG_NAME, Click, lines_of
from mew_lab.lab.decisions.edits import EditField, EditReview
from mew_lab.lab.decisions.grant_preview import LIMITS, Allowed, GrantOffer, GrantOffers
from mew_lab.lab.decisions.limited_grants import LimitedGrants
from mew_lab.lab.decisions.risks import rank_warnings
from mew_lab.lab.listing import Note
from mew_lab.lab.session import Session
from mew_lab.protocol.visible import middle, visible
from mew_lab.views.approvals.model import argument, compare_lines, place_warnings, short
from mew_lab.views.tools.schema_form import plan
from mew_lab.views.ui.acts import Act, ActResult
from mew_lab.views.ui.pictures import clock_time

__all__ = ["CardForms", "limits"]


class CardForms:
    """The forms beside the cards of one lab: arguments, edits and grants."""

    def __init__(self, session: Session, granting: LimitedGrants) -> None:
        self._session = session
        self._granting = granting
        self._offers = GrantOffers(session, granting)

    @property
    def knows_closed(self) -> bool:
        """Whether the gateway gives closed permissions as closed ones."""
        return self._granting.knows_closed

    def acts(self) -> Mapping[str, Act]:
        """The acts of the forms, by name."""
        return {
            "form": self._form,
            "review": self._review,
            "offer": self._offer,
            "take_back": self._take_back,
            "found_out": self._find_out,
        }

    def take(
        self, proposal: str, *, digest: str, offer: str, click: Click, target: tuple[str, ...]
    ) -> Future[Allowed]:
        """Approves the proposal by that click, and gives the offered permission."""
        return self._session.loop.submit(
            self._offers.take(proposal, digest=digest, offer=offer, click=click, target=target)
        )

    async def _form(self, id: str) -> ActResult:
        editing = self._session.decisions.editing
        fields = await editing.form(id)
        value: dict[str, Any] = {"fields": [_pack_field(field) for field in fields]}
        # The form that Tools has, where the tool describes its arguments.
        if schema := editing.schema(id):
            members = [
                f"{_write_json(field.name)}: {_write_json(field.text) if field.is_text else field.text}"
                for field in fields
            ]
            value |= {"plan": plan(schema), "value": f"{{{', '.join(members)}}}"}
        return ActResult("The arguments can be edited.", value)

    async def _review(
        self, id: str, changes: Sequence[Mapping[str, Any]] = (), arguments: str | None = None
    ) -> ActResult:
        editing = self._session.decisions.editing
        edit = editing.review(id, changes) if arguments is None else editing.review_arguments(id, arguments)
        return ActResult("This would be sent.", _pack_review(edit))

    async def _offer(
        self,
        id: str,
        values: bool,
        limit: str,
        target: str = "",
        read_only: bool = False,
        opened: bool = False,
        aware: bool = False,
    ) -> ActResult:
        to = (target,) if target else ()
        grant = await self._offers.offer(
            id, values=values, limit=limit, target=to, read_only=read_only, opened=opened, aware=aware
        )
        return ActResult("This would be granted.", _pack_offer(grant))

    async def _take_back(self, grant: str) -> ActResult:
        """Revokes a permission, or ends a rule for alike calls, that was given here; the approval stands."""
        if grant not in self._granting:
            raise MewError("That permission was not given here, so nothing was revoked.")
        is_rule = grant in self._session.decisions.alike
        await self._granting.revoke(grant)
        ended = "Alike calls wait for you again." if is_rule else "The permission is revoked."
        return ActResult(f"{ended} The approval itself was sent and stands.")

    async def _find_out(self, id: str, happened: bool, note: str = "") -> Note:
        """Records what the person found out about a call of unknown outcome. Spec: rulings R35, R42."""
        return await self._session.record_outcome(id, happened, note.strip())


def limits() -> list[str]:
    """The limits that a grant may have, the narrowest first."""
    return list(LIMITS)


def _write_json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def _pack_field(field: EditField) -> dict[str, Any]:
    # The text is what is edited, so it is not escaped here: it goes into the value of a text area alone.
    return {
        "name": visible(field.name),
        "text": field.text,
        "isText": field.is_text,
        "hint": visible(field.hint),
    }


def _pack_review(review: EditReview) -> dict[str, Any]:
    lines = []
    index = 0
    for line in review.lines:
        row: dict[str, Any] = {"name": middle(line.name, LONG_NAME), "how": "same"}
        if line.now is None:
            row |= {"how": "removed", "was": "\n".join(lines_of(line.was or "")[:40])}
        else:
            row |= argument(line.pointer, line.now) | {"index": index}
            index += 1
            if line.was is None:
                row["how"] = "added"
            elif line.changed:
                row |= {"how": "changed", "was": argument(line.pointer, line.was)["text"]}
                row["lines"] = compare_lines(line.was, line.now)
        lines.append(row)
    return {
        "digest": review.digest,
        "short": short(review.digest),
        "lines": lines,
        "warnings": place_warnings(rank_warnings(review.warnings), review.arguments),
    }


def _pack_offer(offer: GrantOffer) -> dict[str, Any]:
    matches = offer.matches
    examples = [
        f"{clock_time(example.t)}  {example.sender} → {', '.join(example.to) or 'all'}  {example.kind}  {example.what}"
        for example in matches.examples
    ]
    parts = [f"  {_write_json(key)}: {_write_json(value)}" for key, value in offer.pattern.items()]
    pattern = "{\n" + ",\n".join(parts) + "\n}"
    return {
        "digest": offer.digest,
        "short": short(offer.digest),
        "to": visible(offer.to),
        "pattern": "\n".join(visible(line) for line in pattern.split("\n")),
        "limit": offer.limit,
        "count": matches.count,
        "of": matches.looked_at,
        "examples": [visible(text) for text in examples],
        "remarks": [visible(remark) for remark in offer.remarks],
        "here": offer.here,
        "ask": visible(offer.ask),
    }
