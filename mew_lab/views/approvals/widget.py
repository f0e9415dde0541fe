"""Shows the cards of proposals, on which a human decides; exactly the shown content is sent.

The browser sends back an id, the digest of the shown content, a decision and a nonce, never a payload. The lab builds
the request from the proposal, or the edit, that the kernel holds. A message is refused, with a notice on the view, when

- its nonce is not that of this widget: it comes from a saved notebook or another kernel;
- it has unknown members, or its values are of another type;
- the lab refuses the click: it alone knows the proposal, and records what each page has shown, and since when.

No part of a decision is synced state, so a notebook saves none of it.

The views hold at most 200 open cards, the oldest, and 200 decided ones. Further open cards are counted and follow later.

Spec: §3.2.1, §3.3.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Coroutine, Mapping, Sequence
from concurrent.futures import CancelledError, Future
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import Any, Literal, NamedTuple

from mew_lab.errors import MewError
from mew_lab.lab.actions import cancel_sequence, may_cancel_sequence
from mew_lab.lab.decisions.cards import Card, Click, whole
from mew_lab.lab.decisions.decisions import HumanDecisions
from mew_lab.lab.decisions.grant_preview import Allowed
from mew_lab.lab.decisions.limited_grants import LimitedGrants
from mew_lab.lab.decisions.old_files import covered_rows
from mew_lab.lab.decisions.owned_rules import OwnedRules
from mew_lab.lab.decisions.questions import Question, Questions
from mew_lab.lab.decisions.rule_suggestions import RuleSuggestions
from mew_lab.lab.decisions.running_calls import RunningCalls
from mew_lab.lab.decisions.statistics import describe_hurry, describe_shares
from mew_lab.lab.session import Session
from mew_lab.ledger.reasoning import ReasoningSequence
from mew_lab.protocol.bounded import BoundedDict
from mew_lab.protocol.payloads.mcp import REASON_CODES
from mew_lab.protocol.text import count_of, elapsed
from mew_lab.protocol.visible import middle, one_line, visible
from mew_lab.sdk.kept_results import KeptResults
from mew_lab.sdk.participant import MEWParticipant
from mew_lab.views.approvals.card_forms import CardForms, limits
from mew_lab.views.approvals.model import card_data, diff_data, outcome_line
from mew_lab.views.approvals.question_cards import QuestionCards
from mew_lab.views.approvals.stored import draw_cards
from mew_lab.views.ui.acts import ANEW, Act, ActingView, ActResult, Submit
from mew_lab.views.ui.kept import KeptLoads
from mew_lab.views.ui.live import count_while
from mew_lab.views.ui.running import RunningList

__all__ = ["ApprovalsView", "view_of"]

KEPT = 200
OPEN = 200
WHOLE_CHARACTERS = 2_000_000
MOST_FACES = 1000
WAITING = "Waiting for approval."
NOT_OURS = f"This view does not belong to the running kernel, so nothing was decided. {ANEW}"
Decision = Literal["approve", "reject"]
Despite = Literal["", "rejected"]


class CardChoice(NamedTuple):
    """What a page chose for one card; the digest is that of the card or of an edit of it."""

    decision: Decision
    digest: str
    reason: str = ""
    target: str = ""
    offer: str = ""
    despite: Despite = ""
    option: str = ""


class _Story(NamedTuple):
    """What a cell waits for where nothing needs a decision: in words, since when, and whose reasoning it waits for.

    Where it is `over`, `time` is how long it took; else when it began; epoch, seconds.
    """

    text: str = ""
    time: float = 0.0
    over: bool = False
    thinking: tuple[ReasoningSequence, ...] = ()


def view_of(session: Session, granting: LimitedGrants, *, only: str = "") -> ApprovalsView:
    """Makes the view of this space, or, for a cell that waits, of what belongs to the proposal or call `only`."""
    return ApprovalsView(
        session.decisions,
        forms=CardForms(session, granting),
        questions=session.asked,
        results=session.me.participant.results,
        submit=session.loop.submit,
        me=session.me.participant.client.id,
        participant=session.me.participant,
        running=session.decisions.running,
        rules=session.decisions.rules,
        suggested=session.decisions.suggested,
        only=only,
        space=session.space,
    )


class ApprovalsView(ActingView):
    """The cards of one participant. It may be shown several times; all views show the same state.

    Without `forms` a card can only be approved or rejected. `questions` are those of servers to this person. `me` is the
    participant that decides, for the statistics, and `space` the name of its space. `rules` are those of this person,
    `suggested` the one that her decisions suggest. `results` loads results that were too large for a message, `running`
    are the calls that run, and `submit` runs a load or a cancel on the loop. As `participant` a person cancels the
    reasoning for which a cell waits.
    With `only` it shows the card of that proposal, and the questions to which that proposal or call has led; and the
    same of those that it follows later.
    """

    part = "approvals"
    title = "approvals"
    beats = True

    def __init__(
        self,
        decisions: HumanDecisions,
        *,
        forms: CardForms | None = None,
        questions: Questions | None = None,
        results: KeptResults | None = None,
        submit: Submit | None = None,
        me: str = "",
        participant: MEWParticipant | None = None,
        running: RunningCalls | None = None,
        rules: OwnedRules | None = None,
        suggested: RuleSuggestions | None = None,
        only: str = "",
        space: str = "",
        **settings: Any,
    ) -> None:
        self._decisions = decisions
        self._loads = KeptLoads(results, post=self.post) if results is not None else None
        self._forms = forms
        self._rules, self._suggested = rules, suggested
        self._me = me
        self._participant = participant
        self._space = space
        self._only = {only} if only else set[str]()  # empty: all
        # Guards the tables below: cards change on the loop's thread, messages arrive on the kernel's.
        self._book = threading.Lock()
        self._cards: dict[str, Card] = {}
        self._past: dict[str, None] = {}  # those decided, in the order of deciding
        self._fresh: dict[str, None] = {}
        self._out: set[str] = set()  # cards that went to the views
        self._sent: set[str] = set()
        self._values: deque[tuple[str, str, int]] = deque(maxlen=1000)
        # What the views have shown: (view, proposal, digest). After a click each is told anew when it may be approved.
        self._faces: BoundedDict[tuple[str, str, str], None] = BoundedDict(MOST_FACES)
        self._is_paced = False  # whether a decision has changed these times
        self._waiting = 0
        self._story = _Story()
        self._questions: QuestionCards | None = None
        self._running: RunningList | None = None
        super().__init__(submit=submit, **settings)
        self.on_close(decisions.subscribe(self._on_change))
        if rules is not None:
            self.on_close(rules.changed.add(self.wake))
        if running is not None:
            self._running = RunningList(running, wake=self.wake, only=self._only)
            self.on_close(self._running.end)
        if questions is not None:
            self._questions = QuestionCards(questions, self.wake, only=self._only)
            self.on_close(self._questions.end)
        self._take_cards(self._shows)

    def follow(self, id: str) -> None:
        """Shows this proposal, and the questions to which this proposal or call has led, beside the first one."""
        if id in self._only:
            return
        self._only.add(id)
        self._take_cards(lambda card: card.id == id)
        if self._questions is not None:
            self._questions.follow(id)
        if self._running is not None:
            self._running.renew()
        self.wake()

    def _shows(self, card: Card) -> bool:
        return not self._only or card.id in self._only

    def _take_cards(self, shows: Callable[[Card], bool]) -> None:
        # What changed since the subscription is newer than this list.
        for card in [*self._decisions.decided(), *self._decisions.pending()]:
            with self._book:
                if card.id not in self._cards and shows(card):
                    self._keep(card)

    def waiting(self) -> AbstractContextManager[None]:
        """A context in which a cell waits for a decision: meanwhile the live views send a ping each second."""
        return count_while(self._count)

    def tell_story(
        self,
        text: str,
        *,
        since: float,
        over: bool = False,
        thinking: Sequence[ReasoningSequence] = (),
    ) -> None:
        """Tells what the cell waits for where nothing needs a decision, or, where it is `over`, how that ended.

        Args:
            since: When it began; epoch, seconds. It is told how long that was, or has been.
            thinking: The reasoning that it waits for; each has a button where this participant may cancel it.
        """
        now = self.clock().timestamp()
        story = (
            _Story(visible(text), now - since if over else since, over, tuple(thinking)) if text else _Story()
        )
        if story != self._story:
            self._story = story
            self.wake()

    def unheard_for(self) -> float | None:
        """Seconds since the last message of a view; None when no view ever sent one."""
        return None if self.last_ping is None else time.monotonic() - self.last_ping

    def _count(self, change: int) -> None:
        with self._book:
            self._waiting += change
        self.wake()

    def _on_change(self, card: Card) -> None:
        if not self._shows(card):
            return
        with self._book:
            was = self._cards.get(card.id)
            # Another proposal has taken the id, or this one is asked for again (R39).
            is_replaced = was is not None and (was.seq, was.unmet) != (card.seq, card.unmet)
            if is_replaced:
                del self._cards[card.id]
                self._past.pop(card.id, None)
            self._keep(card)
            # In the order in which they changed: the earlier proposal makes room before another takes its id.
            self._fresh.pop(card.id, None)
            self._fresh[card.id] = None
            self._is_paced = self._is_paced or card.state not in ("reading", "open")
            if is_replaced or not card.is_open:
                self._sent.discard(card.id)
                self._forget()
        self.wake()
        if not card.is_open:
            self.store_decision()

    def _keep(self, card: Card) -> None:
        self._cards[card.id] = card
        if card.is_open:
            self._past.pop(card.id, None)
        else:
            self._past.setdefault(card.id)

    def _forget(self) -> None:
        """Drops the cards that were decided first, once no view shows them as open any more."""
        for old in list(self._past)[: max(0, len(self._past) - KEPT)]:
            if self._views and old in self._fresh and old in self._out:
                continue
            del self._cards[old], self._past[old]
            self._fresh.pop(old, None)
            self._out.discard(old)

    # Messages to the views.

    def _snapshot(self, start: int) -> dict[str, Any]:
        with self._book:
            self._admit()
            out = set(self._out)
            if len(self._views) == 1:  # this one, whose snapshot has all changes
                self._fresh.clear()
        cards = [card_data(card, me=self._me) for card in self._in_order() if card.id in out]
        questions = self._questions.all() if self._questions else []
        running = self._running.all() if self._running else []
        now = self.clock().timestamp()
        return {"now": now, "cards": cards, "questions": questions, "running": running}

    def _news(self) -> list[dict[str, Any]]:
        with self._book:
            self._admit()
            fresh = [self._cards[id] for id in self._fresh if id in self._out]
            self._fresh.clear()
            self._forget()
            paced, self._is_paced = self._is_paced, False
            for face in list(self._faces):
                if (card := self._cards.get(face[1])) is None or not card.can_be_approved:
                    del self._faces[face]
            faces = list(self._faces) if paced else []
        items: list[dict[str, Any]] = [{"t": "card", "card": card_data(card, me=self._me)} for card in fresh]
        items += self._questions.news() if self._questions else []
        items += self._running.news() if self._running else []
        while self._values:
            items.append(self._value(*self._values.popleft()))
        items += [self._shown(*face) for face in faces]
        return items

    def _admit(self) -> None:
        """Adds cards to the views, the oldest first, while there is room; decided cards always have room."""
        room = OPEN - sum(1 for id in self._out if (card := self._cards.get(id)) and card.is_open)
        for id, card in self._cards.items():
            if id not in self._out and (not card.is_open or room > 0):
                room -= card.is_open
                self._out.add(id)
                self._fresh[id] = None

    def _heading(self) -> dict[str, Any]:
        decided = self._decisions.decided()
        with self._book:
            more = sum(1 for id, card in self._cards.items() if card.is_open and id not in self._out)
        return {
            "space": visible(self._space),
            "banner": visible(self._decisions.banner()),
            "targets": [[name, middle(name, 40)] for name in self._decisions.targets()],
            "reasons": [list(pair) for pair in REASON_CODES.items()],
            "waiting": self._waiting > 0,
            "limits": limits() if self._forms else [],
            "closed": self._forms is not None and self._forms.knows_closed,
            "only": bool(self._only),
            "story": self._story_data(),
            "shares": describe_shares(decided, me=self._me) if self._me and not self._only else "",
            "suggestion": None if self._only or self._suggested is None else self._suggested.tell(),
            "hurry": describe_hurry(decided, me=self._me) if self._me else "",
            "more": more,
        }

    def _story_data(self) -> dict[str, Any]:
        me, story = self._participant, self._story
        mine = [one for one in story.thinking if me is not None and may_cancel_sequence(me, one)]
        thinking = [{"key": one.key, "owner": visible(middle(one.owner, 40))} for one in mine]
        return story._asdict() | {"thinking": thinking}

    def _value(self, proposal: str, digest: str, index: int) -> dict[str, Any]:
        arguments = self._decisions.rows(proposal, digest)
        if arguments is None or not 0 <= index < len(arguments):
            return {"t": "notice", "text": "That argument is no longer held."}
        text = whole(*arguments[index])
        if len(text) > WHOLE_CHARACTERS:
            return self._notice(
                proposal, "This argument is too long to be shown whole, so it cannot be approved here."
            )
        self._decisions.record_opened(proposal, digest, index)
        return {"t": "value", "proposal": proposal, "digest": digest, "index": index, "text": text}

    # Messages from the views.

    def _acts(self) -> Mapping[str, Act]:
        more = (part.acts() for part in (self._forms, self._questions) if part is not None)
        own: dict[str, Act] = {
            "decide_all": self._decide_all,
            "again": self._show_again,
            "ask_again": self._ask_again,
            "old_file": self._compare_file,
        }
        if self._rules is not None:
            own |= {"stop_rule": self._stop_rule}
        if self._suggested is not None:
            own |= {"try_rule": self._try_rule, "dismiss_rule": self._dismiss_rule}
        if self._loads:
            own |= {"load": self._load, "stop_load": self._loads.stop}
        if self._running:
            own |= self._running.acts()
        if self._participant is not None:
            own["cancel_thinking"] = self._cancel_thinking
        return own | {name: act for acts in more for name, act in acts.items()}

    async def _try_rule(self, rule: str) -> str:
        """Lets the suggested rule with that SHA-256 judge in silence."""
        assert self._suggested is not None  # else there is no such act
        return self._suggested.take(rule)

    async def _dismiss_rule(self, rule: str) -> str:
        assert self._suggested is not None  # else there is no such act
        return self._suggested.dismiss(rule)

    async def _stop_rule(self, rule: str) -> str:
        """Stops the rule with that SHA-256, which has approved a call."""
        assert self._rules is not None  # else there is no such act
        return self._rules.stop_by_click(rule)

    def _cancel_thinking(self, key: int) -> Coroutine[Any, Any, str]:
        me = self._participant
        assert me is not None  # else there is no such act
        for sequence in self._story.thinking:
            if sequence.key == key:
                return cancel_sequence(me, sequence, "superseded")
        raise MewError("That reasoning does not go on any more, so nothing was cancelled.")

    async def _load(self, key: str, id: str) -> ActResult:
        assert self._loads is not None  # else there is no such act
        with self._book:
            card = self._cards.get(id)
        return await self._loads.load(key, None if card is None else card.kept)

    def _messages(self) -> Mapping[str, Callable[..., None]]:
        return {"value": self._open_value, "seen": self._is_shown, "decide": self._decide}

    def _refuse_message(self, kind: str, members: Mapping[str, Any]) -> None:
        if kind == "decide":
            proposal, nonce = members.get("id"), members.get("nonce")
            text = (
                "The view sent a malformed decision, so nothing was decided."
                if self.is_own(nonce)
                else NOT_OURS
            )
            self.post(self._notice(proposal if isinstance(proposal, str) else "", text) | {"again": True})

    def _open_value(self, id: str, index: int, digest: str = "") -> None:
        card = self._cards.get(id)
        self._values.append((id, digest or (card.digest if card else ""), index))
        self.wake()

    def _is_shown(self, view: str, id: str, digest: str) -> None:
        if view and self._decisions.record_shown(id, view=view, digest=digest):
            with self._book:
                self._faces[view, id, digest] = None
            self.post(self._shown(view, id, digest))

    def _shown(self, view: str, proposal: str, digest: str) -> dict[str, Any]:
        """The confirmation that the view shows this, with the seconds until it may be approved there."""
        left = self._decisions.seconds_left(proposal, view=view, digest=digest)
        return {"t": "shown", "view": view, "id": proposal, "digest": digest, "left": round(left, 3)}

    def _decide(
        self,
        view: str,
        id: str,
        digest: str,
        decision: Decision,
        nonce: str,
        reason: str = "",
        target: str = "",
        offer: str = "",
        despite: Despite = "",
        option: str = "",
    ) -> None:
        click, choice = (
            self._decisions.click(view),
            CardChoice(decision, digest, reason, target, offer, despite, option),
        )
        with self._book:
            card = self._cards.get(id)
            refusal = self._refusal(choice, card, click) if self.is_own(nonce) else NOT_OURS
            if not refusal:
                self._sent.add(id)
        if refusal or card is None:
            self.post(self._notice(id, refusal) | {"again": True})
            return
        self._begin_decision(card, choice, click).add_done_callback(
            lambda done: self._finish_decision(card.id, done, view=click.view)
        )

    def _begin_decision(self, card: Card, choice: CardChoice, click: Click) -> Future[str] | Future[Allowed]:
        to = (choice.target,) if choice.target else ()
        # The digest is that of the card or of an edit; the lab compares it once more.
        try:
            if choice.offer and self._forms:
                return self._forms.take(
                    card.id, digest=choice.digest, offer=choice.offer, click=click, target=to
                )
            return self._decisions.decide(
                card.id,
                digest=choice.digest,
                decision=choice.decision,
                click=click,
                reason=choice.reason,
                target=to,
                despite=(choice.despite,) if choice.despite else (),
                option=choice.option,
            )
        except Exception as error:
            failed: Future[str] = Future()
            failed.set_exception(error)
            return failed

    def _show_again(self, id: str, digest: str) -> ActResult:
        """The whole card of a proposal that was rejected and not withdrawn, for a person who may approve it (R32)."""
        with self._book:
            card = self._cards.get(id)
        if card is None or not card.can_be_approved or digest != card.digest:
            raise MewError("That proposal can no longer be approved, so its card is not shown again.")
        return ActResult("Shown again.", card_data(replace(card, state="open"), me=self._me))

    async def _ask_again(self, id: str, digest: str) -> str:
        return await self._decisions.ask_again(id, digest=digest)

    async def _compare_file(self, id: str, digest: str, view: str) -> ActResult:
        """What the call would change in a file, for the page that shows it now; it goes to no other place."""
        if not view:
            raise MewError(f"The page did not say which view shows the file. {ANEW}")
        changes = await self._decisions.compare_file(id, digest=digest, view=view)
        rows = self._decisions.rows(id, digest) or ()
        shown = covered_rows(changes)
        covers = [index for index, (pointer, _) in enumerate(rows) if pointer in shown]
        for index in covers:
            self._decisions.record_opened(id, digest, index)
        with self._book:
            card = self._cards.get(id)
        about = "" if card is None or card.permission is None else f"as {card.named(card.proposer)} states it"
        at = self.clock().timestamp()
        files = [diff_data(diff, write.path, at=at, stated=about) for diff, write in changes]
        return ActResult("Compared.", {"files": files, "covers": covers})

    def _decide_all(
        self,
        view: str,
        cards: list[list[str]],
        decision: Decision,
        reason: str = "",
        despite: Despite = "",
    ) -> Future[str]:
        """Decides several cards, each by its own digest; decides none of them when one decision is refused."""
        click = self._decisions.click(view)
        if not cards or not all(len(pair) == 2 for pair in cards):
            raise MewError("The view named no proposals, so nothing was decided.")
        begun: list[tuple[Card, CardChoice]] = []
        with self._book:
            for id, digest in cards:
                card, choice = self._cards.get(id), CardChoice(decision, digest, reason, despite=despite)
                if card is not None and card.permission is not None:
                    raise MewError(f"None of them was decided: {card.request} is decided by itself.")
                if (refusal := self._refusal(choice, card, click)) or card is None:
                    raise MewError(f"None of them was decided. {refusal}")
                begun.append((card, choice))
            if len({card.id for card, _ in begun}) != len(begun):
                raise MewError("The view named a proposal twice, so nothing was decided.")
            self._sent |= {card.id for card, _ in begun}
        futures = [self._begin_decision(card, choice, click) for card, choice in begun]
        total: Future[str] = Future()
        left = [len(futures)]
        failed: list[str] = []

        def finish(card: Card, done: Future[str]) -> None:
            self._finish_decision(card.id, done)
            with self._book:
                left[0] -= 1
                failed.extend([card.id] if done.cancelled() or done.exception() else [])
                last = left[0] == 0
            if last:
                sentence = f"{len(futures) - len(failed)} of {len(futures)} decided"
                total.set_result(sentence)

        for (card, _), future in zip(begun, futures, strict=True):
            future.add_done_callback(lambda done, card=card: finish(card, done))  # type: ignore[misc]
        return total

    def _refusal(self, choice: CardChoice, card: Card | None, click: Click) -> str:
        """The reason why this choice decides nothing, as a sentence; empty when it is valid.

        Whether the proposal can be decided so, the lab alone judges.
        """
        if card is None:
            return "That proposal is unknown, so nothing was decided."
        if card.id in self._sent:
            return "A decision about this proposal is under way; the second one changed nothing."
        if self._over:
            return f"Nothing was decided: {self._over}"
        if choice.offer and self._forms is None:
            return "The view sent a malformed decision, so nothing was decided."
        if not click.view:
            return f"Nothing was decided: the page did not say which view was clicked. {ANEW}"
        if choice.decision == "reject" and (choice.target or choice.offer or choice.option):
            return "A rejection has no target and no option, and gives no permission, so nothing was decided."
        return self._decisions.refusal(
            card.id,
            digest=choice.digest,
            decision=choice.decision,
            click=click,
            target=(choice.target,) if choice.target else (),
            # A press for a permission overrides no rejection.
            despite=(choice.despite,) if choice.despite and not choice.offer else (),
            option=choice.option,
        )

    def _finish_decision(
        self, proposal: str, future: Future[str] | Future[Allowed], *, view: str = ""
    ) -> None:
        try:
            error = future.exception()
        except CancelledError:
            error = RuntimeError("the decision was ended, and may have been sent")
        if error is not None:
            self._report_failure(proposal, error)
        elif isinstance(done := future.result(), Allowed):
            text = f"Approved, and allowed for {one_line(done.to, 64)} ({done.limit})."
            if done.here:
                text = f"Approved; alike calls of {one_line(done.to, 64)} are approved here ({done.limit})."
            self.post({"t": "granted", "view": view, "grant": done.grant, "text": text})

    def _report_failure(self, proposal: str, error: BaseException) -> None:
        with self._book:
            self._sent.discard(proposal)
            # The card is sent again, so that a view which waits for an answer enables its buttons again.
            if proposal in self._cards:
                self._fresh[proposal] = None
        self.post(self._notice(proposal, one_line(str(error) or type(error).__name__, 400)))

    def _notice(self, proposal: str, text: str) -> dict[str, Any]:
        return {"t": "notice", "proposal": proposal, "text": text}

    # Pictures.

    def _in_order(self) -> list[Card]:
        with self._book:
            return sorted(self._cards.values(), key=lambda card: card.seq)

    def _as_shown(self) -> list[Card]:
        """The open cards as a page shows them, then the decided ones, the last decision first."""
        cards = self._in_order()
        opened = sorted((card for card in cards if card.is_open), key=lambda card: -len(card.warnings))
        past = sorted(
            (card for card in cards if not card.is_open), key=lambda card: -(card.decided_at or 0.0)
        )
        return [*opened, *past]

    @property
    def open_cards(self) -> int:
        """The number of proposals that wait for a decision."""
        return sum(card.is_open for card in self._in_order())

    def badge(self) -> str:
        """The number of proposals and questions that wait for the person, as text; empty for none."""
        waiting = self.open_cards + len(self._open_questions())
        return f"{waiting} open" if waiting else ""

    def _open_questions(self) -> list[Question]:
        return self._questions.open() if self._questions else []

    def _static_text(self) -> str:
        cards = self._as_shown()
        waiting, asked = [card for card in cards if card.is_open], self._open_questions()
        if asked:
            return f"{count_of(len(asked), 'question')} to you, first: {asked[0].request}"
        if self._only:
            lines = [*self._told_lines(), *(outcome_line(card, me=self._me) for card in cards)]
            return WAITING if waiting else "; ".join(lines)
        first = f", first: {waiting[0].request}" if waiting else ""
        return f"Approvals: {len(waiting)} open, {len(cards) - len(waiting)} decided{first}"

    def _static_html(self) -> str:
        return self._drawn(titled=not self._only, told=self._told_lines())

    def _told_lines(self) -> list[str]:
        """What a cell was told beside its cards: how long the answer took, and the ends of calls."""
        text, took, over, _ = self._story
        ended = self._running.ended() if self._running else []
        return [
            *([f"{text}, {elapsed(took)}"] if over else []),
            *(f"{call} {end.text}" for call, end in ended),
        ]

    def _brief_html(self) -> str:
        return self._drawn(decided=3)

    def _drawn(self, **how: Any) -> str:
        questions = [*self._open_questions(), *(self._questions.ended() if self._questions else [])]
        return draw_cards(self._as_shown(), questions=questions, me=self._me, **how)
