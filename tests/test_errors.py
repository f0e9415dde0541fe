"""The tree of errors: what is drawn is what is there."""

from __future__ import annotations

import inspect
import re

import pytest

from mew_lab import errors

DRAWN = re.compile(
    r"^(?P<indent>[│ ]*)(?:[├└]─ )?(?P<name>[A-Z]\w+)(?: \(also (?P<also>\w+)\))?", re.MULTILINE
)


def drawn() -> dict[str, tuple[str, str | None]]:
    """Name -> (name of the parent, another base) as the docstring draws them."""
    picture = (errors.__doc__ or "").split("```")[1]
    above: list[str] = []
    found: dict[str, tuple[str, str | None]] = {}
    for line in picture.strip().splitlines():
        match = DRAWN.match(line)
        assert match is not None, line
        depth = 0 if "─" not in line else len(match["indent"]) // 3 + 1
        above[depth:] = [match["name"]]
        found[match["name"]] = (above[depth - 1] if depth else "Exception", match["also"])
    return found


def test_the_picture_shows_every_class_under_its_parent() -> None:
    classes = {
        name: one
        for name, one in vars(errors).items()
        if inspect.isclass(one) and one.__module__ == errors.__name__
    }
    there = {
        name: (one.__bases__[0].__name__, one.__bases__[1].__name__ if len(one.__bases__) > 1 else None)
        for name, one in classes.items()
    }
    assert there == drawn()
    assert set(errors.__all__) == set(classes)


def test_each_error_keeps_what_the_picture_promises() -> None:
    made = [
        errors.ProtocolError("m", code="c", section="§4", raw="r"),
        errors.Refused("m", code="c"),
        errors.CapabilityViolation("m", attempted_kind="chat", capabilities=[{"kind": "x"}]),
        errors.ProposalEnded("m", proposal="p"),
        errors.ProposalRejected(proposal="p", by="b", reason="r"),
        errors.ToolFailed("m", code=1, data={}),
        errors.ConnectionLost("m", clean=True, close_code=1006),
        errors.NotAdmitted("m", space="s"),
        errors.NoReply("m", after_s=1.0, waiting_for="w"),
        errors.ConfigError("m", path="p", key="k"),
        errors.JournalError("m", path="p"),
        errors.HeadsDiffer("m", path="p", missing=("a", "b")),
        errors.MissingLibrary("m", name="pandas", extra="frames"),
        errors.ReplayMismatch("m", index=1, expected=2, actual=3),
    ]
    picture = (errors.__doc__ or "").split("```")[1]
    for one in made:
        (line,) = re.findall(rf"─ {type(one).__name__}\b.*", picture)
        for promised in re.findall(r" \.(\w+)", line):
            assert hasattr(one, promised), f"{type(one).__name__}.{promised}"


@pytest.mark.req("S-L2-25")
def test_a_rejection_reads_as_the_specification_writes_it() -> None:
    error = errors.ProposalRejected(proposal="p-1", by="filesystem-service", reason="unsafe")
    assert str(error) == "Proposal rejected by filesystem-service: unsafe"
    assert (error.proposal, error.by, error.reason) == ("p-1", "filesystem-service", "unsafe")


def test_a_violation_is_a_refusal_with_its_code() -> None:
    error = errors.CapabilityViolation("m", attempted_kind="chat", capabilities=[{"kind": "mcp/*"}])
    assert (error.code, error.attempted_kind, error.capabilities) == (
        "capability_violation",
        "chat",
        ({"kind": "mcp/*"},),
    )


def test_no_reply_is_a_timeout_for_whoever_catches_one() -> None:
    with pytest.raises(TimeoutError):
        raise errors.NoReply("m", after_s=1.0, waiting_for="git")
