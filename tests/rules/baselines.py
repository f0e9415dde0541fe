"""Other ways to learn from the same decisions, to compare rules with: trained on the first decisions, tried on the next.

Nothing lives here: all first decisions are a person's, and nothing falls. The decision tree needs scikit-learn, which
nothing else needs; where it is not installed, the table has no such row.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib.util import find_spec
from itertools import islice
from random import Random
from typing import Any, NamedTuple

from mew_lab.protocol.difference import equality_key
from mew_lab.protocol.envelope import compact
from mew_lab.rules.approvals import Approvals
from mew_lab.rules.decided_calls import AskedCall, DecidedCall
from mew_lab.rules.judgements import judge
from mew_lab.rules.learner import learn

from .policies import Generator, Proposed
from .simulation import Person

Says = Callable[[Proposed], bool]


class Counts(NamedTuple):
    """What a method approved of some calls: rightly, wrongly, and how many deserved it."""

    right: int = 0
    wrong: int = 0
    deserving: int = 0


def rules(decided: Sequence[DecidedCall]) -> Says:
    return _rules_of(decided, strict=False)


def strict(decided: Sequence[DecidedCall]) -> Says:
    """No rejection ever: a rule that covers one is none."""
    return _rules_of(decided, strict=True)


def _rules_of(decided: Sequence[DecidedCall], *, strict: bool) -> Says:
    found = [one.rule for one in learn(decided) if not (strict and one.rejected)]
    approvals, used = Approvals(decided), {rule.sha256: list[float]() for rule in found}

    def says(proposed: Proposed) -> bool:
        for rule in found:
            times = used[rule.sha256]
            if judge(rule, proposed.call, approvals, now=proposed.t, used=times[-rule.an_hour :]):
                times.append(proposed.t)
                return True
        return False

    return says


def exact(decided: Sequence[DecidedCall]) -> Says:
    """What was approved before, and never rejected, in exactly this form."""
    yes = {_exactly(one) for one in decided if one.verdict == "approved"}
    yes -= {_exactly(one) for one in decided if one.verdict == "rejected"}
    return lambda proposed: _exactly(proposed.call) in yes


def always(decided: Sequence[DecidedCall]) -> Says:
    """Each call of a tool of which most calls were approved."""
    tools: dict[tuple[str, str], list[bool]] = {}
    for one in decided:
        tools.setdefault((one.proposer, one.tool), []).append(one.verdict == "approved")
    good = {tool for tool, told in tools.items() if 2 * sum(told) >= len(told)}
    return lambda proposed: (proposed.call.proposer, proposed.call.tool) in good


def tree(decided: Sequence[DecidedCall]) -> Says:
    """A decision tree with at least 12 decisions in a leaf, which approves where at least 98 % of a leaf were."""
    from sklearn.feature_extraction import DictVectorizer  # type: ignore[import-not-found]
    from sklearn.tree import DecisionTreeClassifier  # type: ignore[import-not-found]

    vectors, model = DictVectorizer(), DecisionTreeClassifier(min_samples_leaf=12, random_state=1)
    labels = [one.verdict == "approved" for one in decided]
    if len(set(labels)) < 2:
        return lambda proposed: labels[0]
    model.fit(vectors.fit_transform([_features(one) for one in decided]), labels)
    at = list(model.classes_).index(True)

    def says(proposed: Proposed) -> bool:
        rows = vectors.transform([_features(proposed.call)])
        return bool(model.predict_proba(rows)[0][at] >= 0.98)

    return says


def _exactly(call: DecidedCall | AskedCall) -> str:
    return equality_key([call.proposer, call.target, call.tool, call.arguments])


def _features(call: DecidedCall | AskedCall) -> dict[str, Any]:
    told: dict[str, Any] = {"(proposer)": call.proposer, "(tool)": call.tool}
    for name, value in (call.arguments or {}).items():
        if isinstance(value, str):
            parts = value.split("/")
            told |= {f"{name}.{n}": part for n, part in enumerate(parts[:-1])}
            told |= {
                f"{name}.end": value.rsplit(".", 1)[-1],
                f"{name}.length": len(value),
                f"{name}.text": value,
            }
        else:
            told[name] = compact(value) if isinstance(value, dict | list) else value
    return told


METHODS: dict[str, Callable[[Sequence[DecidedCall]], Says]] = {
    "rules": rules,
    "exact match": exact,
    "always, per tool": always,
    "no rejection ever": strict,
}
if find_spec("sklearn") is not None:
    METHODS["decision tree"] = tree


def compare(generator: Generator, seed: int, first: int, test: int = 200) -> dict[str, Counts]:
    """What each method approves of the calls behind the first ones of a history."""
    person, source = (
        Person(Random(seed), offer=lambda decided: ()),
        generator.history(generator.kind_of(seed), seed),
    )
    for proposed in islice(source, first):
        person.take(proposed)
    tried = [*islice(source, test)]
    deserving = sum(one.deserves for one in tried)
    found = {}
    for name, method in METHODS.items():
        says = method(person.decided)
        yes = [one.deserves for one in tried if says(one)]
        found[name] = Counts(sum(yes), len(yes) - sum(yes), deserving)
    return found
