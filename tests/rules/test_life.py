"""The life of a rule: it acts only where its owner adopted it, and falls at the first doubt; reviews are one of a block."""

from __future__ import annotations

from collections import Counter
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mew_lab.errors import ConfigError
from mew_lab.rules.life import BLOCKS, LONGEST_BLOCK, Happened, Life, advance, is_review
from mew_lab.rules.rule import parse_rule

from ..conftest import examples

RULE = parse_rule("When coder asks files to run read_file with nothing: approve", tool_hash="0" * 64)
DAY = 86_400.0


def happened(life: Life, *events: str, by: str = "ada", t: float = 100.0) -> Life:
    for what in events:
        life = advance(life, Happened(what=what, t=t, by=by), RULE)  # type: ignore[arg-type]
    return life


ACTIVE = happened(Life(owner="ada"), "tried", "adopted")


def test_a_rule_is_tried_adopted_and_counts_its_uses() -> None:
    assert happened(Life(owner="ada"), "tried").state == "shadow"
    assert ACTIVE.acts and ACTIVE.adopted == 100
    used = happened(ACTIVE, "used", "used", "confirmed")
    assert (used.uses, used.recent, used.confirmed) == (2, (100.0, 100.0), 1)
    shadow = happened(Life(owner="ada"), "tried", "agreed", "agreed", "disagreed")
    assert (shadow.agreed, shadow.disagreed, shadow.acts) == (2, 1, False)


@pytest.mark.parametrize("what", ["rejected", "edited", "stopped", "tool_changed", "unknown", "lab_stopped"])
def test_it_falls_at_the_first_doubt_and_returns_by_a_new_adoption_alone(what: str) -> None:
    fallen = happened(ACTIVE, "used", what)
    assert (fallen.state, fallen.acts) == ("suspended", False) and fallen.why
    with pytest.raises(ConfigError, match="approves nothing"):
        happened(fallen, "used")
    with pytest.raises(ConfigError, match="cannot become active"):
        happened(fallen, "looked")
    again = happened(fallen, "adopted", t=200.0)
    assert (again.acts, again.uses, again.adopted) == (True, 0, 200.0)


def test_another_person_pauses_it_until_the_owner_looks() -> None:
    paused = happened(ACTIVE, "rejected", by="bert")
    assert (paused.state, paused.acts) == ("paused", False) and "bert" in paused.why
    with pytest.raises(ConfigError, match="only ada decides"):
        happened(paused, "looked", by="bert")
    assert happened(paused, "looked").acts
    assert happened(ACTIVE, "edited", by="bert").state == "paused"
    for what in ("tried", "adopted", "stopped"):
        with pytest.raises(ConfigError, match="only ada decides"):
            happened(Life(owner="ada") if what != "stopped" else ACTIVE, what, by="bert")


def test_it_expires_by_its_uses_and_its_days() -> None:
    life = ACTIVE
    for _ in range(RULE.uses):
        life = happened(life, "used")
    assert (life.state, life.whole) == ("expired", 1)
    assert happened(ACTIVE, "passed", t=100 + 30 * DAY - 1).acts
    late = happened(ACTIVE, "passed", t=100 + 30 * DAY)
    assert (late.state, late.whole) == ("expired", 0)
    with pytest.raises(ConfigError, match="expired approves nothing"):
        happened(ACTIVE, "used", t=100 + 31 * DAY)


EVENTS = ["tried", "adopted", "used", "confirmed", "rejected", "edited", "stopped", "looked", "tool_changed", "unknown",
          "lab_stopped", "passed", "agreed", "disagreed"]  # fmt: skip


@given(
    steps=st.lists(
        st.tuples(st.sampled_from(EVENTS), st.sampled_from(["ada", "bert", ""]), st.floats(0, 2 * DAY)),
        max_size=60,
    )
)
@settings(max_examples=examples(300), deadline=None)
def test_in_no_order_of_events_does_it_act_without_its_owner(steps: list[tuple[str, str, float]]) -> None:
    life, t, allowed = Life(owner="ada"), 0.0, False
    for what, by, seconds in steps:
        t += seconds
        before = life
        try:
            life = advance(life, Happened(what=what, t=t, by=by), RULE)  # type: ignore[arg-type]
        except ConfigError:
            continue
        if what == "adopted":
            assert by == "ada"
            allowed = True
        elif what in ("rejected", "edited", "stopped", "tool_changed", "unknown", "lab_stopped"):
            assert not life.acts
        if what == "looked":
            assert by == "ada" and before.state == "paused"
        assert allowed or not life.acts
        assert life.uses <= RULE.uses and len(life.recent) <= life.uses
        assert not life.acts or (life.adopted is not None and t < life.adopted + RULE.days * DAY)


def test_one_of_each_block_is_a_review_at_any_place() -> None:
    assert BLOCKS[0] == 3 and max(BLOCKS) == LONGEST_BLOCK == 5 and sorted(BLOCKS) == [*BLOCKS]
    dice = Random(1)
    for size in set(BLOCKS):
        places: Counter[int] = Counter()
        for _ in range(300):
            secret = dice.randbytes(16)
            block = dice.randrange(1000)
            chosen = [n for n in range(size) if is_review(secret, RULE, block * size + n, size=size)]
            assert len(chosen) == 1
            places[chosen[0]] += 1
        assert min(places[n] for n in range(size)) > 300 / size / 2, places


def test_the_choice_is_nobodys_to_guess_and_the_same_in_each_state() -> None:
    """It depends on the secret, the rule and the number alone: there is no state among its arguments."""
    first, second = ([is_review(secret, RULE, n) for n in range(300)] for secret in (b"a" * 16, b"b" * 16))
    assert first != second and first == [is_review(b"a" * 16, RULE, n) for n in range(300)]
    other = RULE.bound("1" * 64)
    assert first != [is_review(b"a" * 16, other, n) for n in range(300)]
    for wrong in (lambda: is_review(b"short", RULE, 0), lambda: is_review(b"a" * 16, RULE, 0, size=6)):
        with pytest.raises(ValueError, match="has"):
            wrong()
