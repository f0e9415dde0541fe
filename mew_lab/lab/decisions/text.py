"""Shows proposals as text, whole or marked as cut, and approves the proposals that such a text has shown.

An entry of a listing carries the digest of the shown proposal, so approving it sends exactly that. A typed id is
approved only after its whole card was printed: by the first characters of the digest, or by a second approval. Where it
is still being read, the command waits until it was, and an entry that shows no more than that counts as its id.

`str`, which `print` and a notebook's display call, counts as shown. `repr` does not: debuggers, tracebacks and logs
call it for any object, and nobody has read the result.

Spec: §3.2.1, ruling R29; threats 17, 36.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from mew_lab.errors import MewError, NotApproved
from mew_lab.lab.decisions.cards import LONG_NAME, Card, is_folded, lines_of, whole
from mew_lab.lab.decisions.gate import LEAST_DIGITS, MOST_ROWS, Gate
from mew_lab.lab.listing import Listing, Note
from mew_lab.ledger.options import PermissionOption
from mew_lab.protocol.text import count_of
from mew_lab.protocol.visible import middle, one_line, visible
from mew_lab.sdk.request_rows import is_routine, row_name

if TYPE_CHECKING:
    from mew_lab.lab.decisions.decisions import HumanDecisions

__all__ = [
    "COLUMNS",
    "READ_WITHIN",
    "Approvable",
    "ListedProposal",
    "Proposals",
    "approve",
    "card_lines",
    "decided_line",
    "reject",
    "tell_card",
]

COLUMNS = ("id", "from", "to", "call", "since", "state")
MOST_LISTED = 50  # proposals that a listing shows in full
MOST_TOLD = 2_000_000  # characters of one card
READ_WITHIN = 10.0  # seconds that a decision waits for a proposal that is being read


def card_lines(card: Card, *, cut: bool = False) -> list[str]:
    """The lines of a card: proposer and tool, then the warnings, then everything that would be sent.

    With `cut`, rows that a view would fold are given only by their beginning and their size.
    """
    lines = [f"{visible(card.request)}   digest {card.digest[:8]}   ({visible(card.id)})"]
    if card.repeats:
        lines.append(f"  ! {visible(card.repeats)}")
    if card.why:
        lines.append(f"  {visible(card.why)}")
    if card.history:
        lines.append(f"  {visible(card.history)}")
    lines += [
        f"  {line}" for line in (*map(visible, card.notices), card.writes, visible(card.review)) if line
    ]
    if card.hints:
        lines.append(f"  {', '.join(card.hints)}, by the tool's own word (annotations)")
    lines += [f"  ! {visible(warning)}" for warning in card.warnings]
    if card.refusal:
        lines.append(f"  ! cannot be approved: {visible(card.refusal)}")
    routine = [row for row in card.arguments if is_routine(*row) and not is_folded(*row)]
    rows = [row for row in card.arguments if row not in routine and row[0] not in card.retold]
    more_rows = max(0, len(rows) - MOST_ROWS) if cut else 0
    rows = rows[: len(rows) - more_rows]
    width = max((len(name) for pointer, _ in rows if len(name := row_name(pointer)) <= 24), default=0)
    for pointer, value in rows:
        name = row_name(pointer)
        if not is_folded(pointer, value):
            first, *more = lines_of(value)
        elif cut:
            size = f"{count_of(len(value), 'character')} in {count_of(len(lines_of(value)), 'line')}"
            first, more = f"{one_line(value, 160)}   [cut: {size}; open it before you approve]", []
            name = middle(name, LONG_NAME)
        else:
            first, more = "", whole(pointer, value).split("\n")
            name = middle(name, LONG_NAME)
        lines.append(f"  {name:<{width}}  {first}".rstrip())
        lines += [f"  {'':<{width}}  {line}" for line in more]
    if more_rows:
        lines.append(f"  [cut: {count_of(more_rows, 'more row')}; open them before you approve]")
    if card.is_read and not card.details:
        lines.append("  no arguments")
    if card.permission is not None:
        lines.append("  options, in its words:")
        lines += [f"    {name}   [{id}]   {about}" for name, about, id in card.option_lines]
        lines += [f"  a rejection: {card.permission.told_by_rejection}", f"  {card.foot}"]
    if routine:
        lines.append("  sent as  " + "  ".join(f"{row_name(at)} {visible(value)}" for at, value in routine))
    return lines


def decided_line(card: Card) -> str:
    """What became of a card, as one line: the decision, who decided, and the outcome."""
    by = f" by {one_line(card.by, 64)}" if card.by else ""
    outcome = f": {one_line(card.told, 200)}" if card.outcome else ""
    return f"{card.request}: {card.decided_as}{by}{outcome}"


class ListedProposal(tuple[Any, ...]):
    """One proposal of a listing: its cells, and `id` and `digest` of the shown proposal; `str` is the whole card.

    Approving it approves the shown proposal, even if another has taken its id since. `repr` is the text of the listing
    and does not count as shown.
    """

    _card: Card
    _number: int
    _gate: Gate

    def __new__(cls, card: Card, number: int, *, since: str, gate: Gate) -> ListedProposal:
        to = ", ".join(card.to) or "anybody"
        made = super().__new__(cls, (card.id, card.proposer, to, card.call, since, card.state))
        made._card, made._number, made._gate = card, number, gate
        return made

    @property
    def id(self) -> str:
        """The proposal's id."""
        return self._card.id

    @property
    def digest(self) -> str:
        """The SHA-256 of the shown proposal, in hex."""
        return self._card.digest

    @property
    def card(self) -> Card:
        """The shown card."""
        return self._card

    @property
    def options(self) -> tuple[PermissionOption, ...]:
        """The options of the permission of an agent; none of any other proposal."""
        return () if self._card.permission is None else self._card.permission.options

    @property
    def is_cut(self) -> bool:
        """Whether the listing cuts the card, and no text has shown the whole yet."""
        listed = self._number < MOST_LISTED
        return self._gate.is_cut(self._card) if listed else not self._gate.was_shown_whole(self._card)

    def open(self) -> str:
        """The whole card as text; all its rows count as opened from now on."""
        return tell_whole_card(self._card, self._gate)

    def lines(self, *, record: bool = True) -> list[str]:
        """Its lines in the listing; with `record` they count as shown from now on."""
        card = self._card
        if not card.is_open:
            return [f"{decided_line(card)}   ({visible(card.id)})"]
        if not (cut := self.is_cut) and record:
            self._gate.record_listed(card)
        return card_lines(card, cut=cut)

    def __copy__(self) -> ListedProposal:
        return self

    def __deepcopy__(self, memo: object) -> ListedProposal:
        return self

    def __reduce_ex__(self, protocol: object) -> Any:
        raise TypeError(
            "an entry of a listing cannot be stored: it is valid only in the kernel that has shown it"
        )

    def __str__(self) -> str:
        return self.open() if self._card.is_open else self.lines()[0]

    def __repr__(self) -> str:
        return "\n".join(self.lines(record=False))

    def _repr_pretty_(self, printer: Any, _cycle: bool) -> None:
        printer.text(str(self))  # IPython shows it, where mew_lab's own displays are not loaded


class Proposals(Listing):
    """The proposals of a space; iterating gives each as a `ListedProposal`, `str` shows all of them.

    `repr` is the same text and does not count as shown. `note` says how to decide, and `to_see` how to see the whole of
    the entry `{n}` with the id `{id}`: in the words of a notebook, unless a caller sets others.
    """

    def __init__(self, title: str, rows: Sequence[ListedProposal]) -> None:
        super().__init__(
            title,
            COLUMNS,
            list(rows),
            empty="Nothing to approve. A call that needs your approval appears here.",
            note="lab.approve(lab.proposals()[0]) approves the entry [0]; %mew reject ID [REASON]"
            if rows
            else "",
        )
        self.to_see = "print(lab.proposals()[{n}])"
        self._listed = tuple(rows)

    def __str__(self) -> str:
        return self._text(record=True)

    def __repr__(self) -> str:
        return self._text(record=False)

    def _repr_pretty_(self, printer: Any, _cycle: bool) -> None:
        printer.text(str(self))

    def _text(self, *, record: bool) -> str:
        lines = [self.title] if self.title else []
        for n, proposal in enumerate(self._listed[:MOST_LISTED]):
            first, *more = proposal.lines(record=record)
            lines += [f"[{n}] {first}", *more]
            if proposal.card.is_open and proposal.is_cut:
                lines.append(f"  {self._how_to_see(n)} shows it in full")
        if len(self._listed) > MOST_LISTED:
            more_rows = len(self._listed) - MOST_LISTED
            lines.append(f"{more_rows} more: {self._how_to_see(MOST_LISTED)} and so on")
        return "\n".join([*lines, self.note or ("" if self._listed else self.empty)])

    def _how_to_see(self, n: int) -> str:
        return self.to_see.format(n=n, id=visible(self._listed[n].card.id))


Approvable = str | ListedProposal | Card


def tell_whole_card(card: Card, gate: Gate) -> str:
    """The whole card as text; from now on it counts as shown.

    Raises:
        NotApproved: It is too long to be read.
    """
    size = sum(len(pointer) + len(value) for pointer, value in card.arguments)
    if size > MOST_TOLD:
        raise NotApproved(
            f"{card.request}: it is too long to be shown whole ({size} characters), so it cannot be approved here",
            code="not_opened",
        )
    text = "\n".join(card_lines(card))
    gate.record_whole(card)
    return text


async def tell_card(decisions: HumanDecisions, card: Card) -> str:
    """The whole card as text, with what its call would change in a file where a text tells that; it counts as shown.

    Raises:
        NotApproved: It is too long to be read.
    """
    change = await decisions.tell_change(card)
    if decisions.review.shares:
        decisions.review.note_shown(card)
    return "\n".join([tell_whole_card(card, decisions.gate), *change])


async def approve(
    decisions: HumanDecisions,
    what: Approvable,
    *,
    digest: str,
    target: tuple[str, ...],
    despite: tuple[str, ...] = (),
    option: str = "",
) -> Note:
    """Approves a proposal that a text has shown: an entry of a listing, or a typed id. To be awaited on the loop.

    Args:
        despite: `rejected` approves what a participant has rejected, `unknown` a repeat of a call of which nobody knows
            whether it took effect. Spec: R32, R35.
        option: The option of the permission of an agent, by its id or its name; empty means the only `allow_once`.

    Raises:
        NotApproved: Not all of it was shown yet; where possible, the text of the error shows it.
        MewError: As `HumanDecisions.carry_out`.
    """
    gate = decisions.gate
    shown = what.card if isinstance(what, ListedProposal) else what
    if isinstance(shown, Card) and shown.is_read:
        decisions.queue.check_same(shown)
        cut = what.is_cut if isinstance(what, ListedProposal) else gate.is_cut(shown)
        if cut and (shown.is_open or (despite and decisions.is_rejected(shown))):
            raise NotApproved(
                f"{shown.request}: not approved, because the listing cuts it; print its entry, such as "
                "print(lab.proposals()[0]), and approve it then",
                code="not_opened",
            )
        card, typed = shown, shown.digest[:LEAST_DIGITS]
    elif isinstance(shown, str | Card):
        digest = digest.replace(" ", "").lower()
        meant = decisions.card(shown, digest=digest) if isinstance(shown, str) else shown
        card, waited = await _once_read(decisions, meant, despite)
        typed = await _require_shown(decisions, card, digest, despite, before=waited)
    else:
        raise MewError(
            f"Cannot approve a {type(what).__name__}: it does not carry what was shown. "
            "lab.approve(lab.proposals()[0]) approves the first open one"
        )
    done = decisions.carry_out(
        card.id,
        digest=card.digest,
        decision="approve",
        target=target,
        typed=typed,
        despite=despite,
        option=_option_id(card, option),
    )
    return Note(await done)


def _option_id(card: Card, typed: str) -> str:
    """The id of the option that a person has typed by its id or name; what names none is left as it is.

    Raises:
        NotApproved: It names several.
    """
    found = card.permission.named(typed) if typed and card.permission is not None else ()
    if len(found) > 1:
        ids = ", ".join(f"{one.quoted} ({one_line(one.id, 40)})" for one in found)
        raise NotApproved(
            f"{card.request}: nothing was chosen, because {one_line(typed, 60)!r} names several options: {ids}; name "
            "one by its id, or choose it on its card",
            code="option",
        )
    return found[0].id if found else typed


async def reject(decisions: HumanDecisions, what: Approvable, reason: str) -> Note:
    """Rejects an entry of a listing, or an id; raises as `HumanDecisions.carry_out`."""
    shown = what.card if isinstance(what, ListedProposal) else what
    card = decisions.card(shown) if isinstance(shown, str) else shown
    by_id = isinstance(what, str) or not card.is_read
    card, _ = await _once_read(decisions, card)
    decisions.queue.check_same(card)
    done = decisions.carry_out(
        card.id,
        digest=None if by_id else card.digest,
        decision="reject",
        reason=reason,
        typed="" if by_id else card.digest[:LEAST_DIGITS],
    )
    return Note(await done)


async def _once_read(
    decisions: HumanDecisions, card: Card, despite: tuple[str, ...] = ()
) -> tuple[Card, bool]:
    """The card of the same proposal when nothing of it is left to be read, or else after `READ_WITHIN`.

    Nothing is left, too, where it ended meanwhile, because then nobody decides it. The second value says whether it
    had to be waited for.
    """

    if card.is_read:
        return card, False
    over = asyncio.Event()
    cards = (*decisions.pending(), *decisions.decided())
    latest = next((known for known in cards if known.seq == card.seq), card)

    def is_being_read(card: Card) -> bool:
        return not card.is_read and (card.is_open or bool(despite and decisions.is_rejected(card)))

    def observe(told: Card) -> None:
        nonlocal latest
        if told.seq == card.seq:
            latest = told
            if not is_being_read(told):
                over.set()

    waits = is_being_read(latest)
    if waits:
        end = decisions.subscribe(observe)
        try:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(READ_WITHIN):
                    await over.wait()
        finally:
            end()
    return latest, waits


async def _require_shown(
    decisions: HumanDecisions, card: Card, digest: str, despite: tuple[str, ...], *, before: bool
) -> str:
    """Returns the typed digits, or `yes`; requires that the proposal they mean was shown.

    `before` says that the command was given before anything could be shown, whatever another command has shown since.

    Raises:
        NotApproved: It was not shown yet; the error's text shows it.
    """
    if not card.is_read or (not card.is_open and not (despite and decisions.is_rejected(card))):
        return "yes"  # `carry_out` refuses it, with its outcome or because it is being read
    gate = decisions.gate
    gate.check_going(card)  # before it is shown, for the same command would be refused afterwards
    why, code = "", ""
    if digest and len(digest) < LEAST_DIGITS:
        why, code = (
            f"{one_line(digest, 20)!r} is no digest: give at least {LEAST_DIGITS} characters",
            "not_shown",
        )
    elif digest and not card.digest.startswith(digest):
        why = f"the present proposal with this id has another digest than {one_line(digest, 64)}"
        code = "digest_mismatch"
    elif digest and gate.is_cut(card):
        why, code = "not all of it was shown", "not_opened"
    elif digest and digest != card.digest and not gate.was_listed(card):
        # A beginning of a digest is short enough to be matched on purpose, so it counts only for a card shown here.
        why, code = "the proposal with this digest was not shown here", "not_shown"
    elif not digest and (before or not gate.was_shown_whole(card)):
        why, code = "this is what would be sent", "not_shown"
    if not why:
        return digest or "yes"
    how = (
        "To approve it, repeat the command, or give its digest: "
        f"{decisions.type_it(card.id, 'digest', card.digest[:LEAST_DIGITS])}"
    )
    if card.permission is not None:
        how = f"To choose an option, repeat the command with it: {decisions.type_it(card.id, 'option', 'OPTION')}"
    raise NotApproved(
        f"Not approved yet: {why}.\n{await tell_card(decisions, card)}\n{how}.",
        code=code,
    )
