"""Makes the forms of a card: one for its arguments, one to confirm an edit, one to confirm a grant.

Each form is made in the kernel and sent as text. A confirmation carries the digest of the content that was sent.

Spec: threats 3, 14, 22.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from concurrent.futures import Future
from typing import Any

from mew_lab.errors import MewError
from mew_lab.lab.decisions.cards import LONG_NAME, Click, lines_of
from mew_lab.lab.decisions.edits import EditField, EditReview
from mew_lab.lab.decisions.grant_preview import LIMITS, Allowed, GrantOffer, GrantOffers
from mew_lab.lab.decisions.limited_grants import LimitedGrants
from mew_lab.lab.session import Session
from mew_lab.protocol.visible import middle, visible
from mew_lab.views.approvals.model import argument, compare_lines, place_warnings, short
from mew_lab.views.tools.schema_form import plan
from mew_lab.views.ui.acts import Act, ActResult
from mew_lab.views.ui.pictures import clock_time

__all__ = ["CardForms", "limits"]

MOST_NOTE = 1000  # characters


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

    def _form(self, params: Mapping[str, Any]) -> Future[ActResult]:
        async def form() -> ActResult:
            editing, id = self._session.decisions.editing, _id(params)
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

        return self._session.loop.submit(form())

    def _review(self, params: Mapping[str, Any]) -> Future[ActResult]:
        changes, arguments = params.get("changes", []), params.get("arguments")
        if not isinstance(changes, list) or not all(isinstance(change, dict) for change in changes):
            raise MewError("The view sent no changes, so nothing was changed.")

        async def review() -> ActResult:
            editing = self._session.decisions.editing
            if isinstance(arguments, str):
                edit = editing.review_arguments(_id(params), arguments)
            else:
                edit = editing.review(_id(params), changes)
            return ActResult("This would be sent.", _pack_review(edit))

        return self._session.loop.submit(review())

    def _offer(self, params: Mapping[str, Any]) -> Future[ActResult]:
        values, limit, target = params.get("values"), params.get("limit"), params.get("target", "")
        flags = {
            "read_only": params.get("readOnly", False),
            "opened": params.get("opened", False),
            "aware": params.get("aware", False),
        }
        malformed = not all(isinstance(flag, bool) for flag in (values, *flags.values()))
        if malformed or not isinstance(limit, str) or not isinstance(target, str):
            raise MewError("The view requested a malformed grant, so nothing was done. Run its cell again.")

        async def offer() -> ActResult:
            to = (target,) if target else ()
            grant = await self._offers.offer(
                _id(params), values=bool(values), limit=limit, target=to, **flags
            )
            return ActResult("This would be granted.", _pack_offer(grant))

        return self._session.loop.submit(offer())

    def _take_back(self, params: Mapping[str, Any]) -> Future[ActResult]:
        """Revokes a permission, or ends a rule for alike calls, that was given here; the approval stands."""
        id = params.get("grant")
        if not isinstance(id, str) or id not in self._granting:
            raise MewError("That permission was not given here, so nothing was revoked.")

        async def take_back() -> ActResult:
            if id in self._session.decisions.alike:
                await self._granting.revoke(id)
                return ActResult("Alike calls wait for you again. The approval itself was sent and stands.")
            await self._granting.revoke(id)
            return ActResult("The permission is revoked. The approval itself was sent and stands.")

        return self._session.loop.submit(take_back())

    def _find_out(self, params: Mapping[str, Any]) -> Future[Any]:
        """Records what the person found out about a call of unknown outcome. Spec: rulings R35, R42."""
        happened, note = params.get("happened"), params.get("note", "")
        if not isinstance(happened, bool) or not isinstance(note, str) or len(note) > MOST_NOTE:
            raise MewError("The view sent a malformed answer, so nothing was recorded. Run its cell again.")
        return self._session.loop.submit(self._session.record_outcome(_id(params), happened, note.strip()))


def limits() -> list[str]:
    """The limits that a grant may have, the narrowest first."""
    return list(LIMITS)


def _write_json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def _id(params: Mapping[str, Any]) -> str:
    id = params.get("id")
    if not isinstance(id, str):
        raise MewError("The view named no proposal, so nothing was done.")
    return id


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
        "warnings": place_warnings(review.warnings, review.arguments),
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
