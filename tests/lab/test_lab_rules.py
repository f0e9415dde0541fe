"""What a person does with rules in a lab: list, try, adopt, stop; and where that is kept."""

from __future__ import annotations

import json
import os
import stat
import threading
from pathlib import Path
from typing import Any

import pytest

from mew_lab.errors import ConfigError, MewError
from mew_lab.lab.decisions.kept_rules import KeptRule, RuleStore, StoredRules
from mew_lab.lab.lab_rules import own_decisions
from mew_lab.rules.learner import learn
from mew_lab.rules.life import Life
from mew_lab.rules.rule import ApprovalRule, parse_rule
from mew_lab.views.approvals.model import card_data
from mew_lab.views.approvals.widget import view_of

from .looking import eventually
from .test_owned_rules import TEXT, Ruled

DIGEST = "0" * 64


@pytest.fixture
def ruled() -> Ruled:
    return Ruled()


@pytest.fixture
def person(monkeypatch: pytest.MonkeyPatch) -> None:
    """A person sits at a prompt."""
    monkeypatch.setattr("builtins.input", lambda prompt="": "")  # a kernel replaces it


def taught() -> Ruled:
    """A lab whose person has approved enough alike calls for a rule to be suggested, and rejected one."""
    ruled = Ruled()
    for n in range(14):
        ruled.click(ruled.propose(f"docs/t{n}.md"))
    ruled.click(ruled.propose("secrets/key"), "reject")
    eventually(lambda: (ruled.lab.log.decisions()["outcome"] == "rejected").any())
    return ruled


def test_what_a_person_has_decided_is_suggested_as_a_candidate_that_does_nothing() -> None:
    ruled = taught()
    [row] = ruled.lab.rules
    assert (row.number, row.state, row.why) == (1, "candidate", "")
    assert row.evidence.startswith("learned from your decisions: 16 of 16, wrong in at most")
    assert "rule 1 is a candidate: When coder asks notebook to run read with path" in str(ruled.lab.rules)
    assert all(ruled.settled(ruled.propose(f"docs/c{n}.md")).is_open for n in range(4))


def test_adopting_shows_the_words_first_the_wrong_ones_before_the_others_and_then_adopts(
    person: None,
) -> None:
    ruled = taught()
    text = "When coder asks notebook to run read with path any, and nothing else: approve"
    with pytest.raises(MewError):
        ruled.lab.rules.adopt(9)
    words = str(ruled.lab.rules.adopt(TEXT))
    assert words.startswith(f"Rule 2: {TEXT}") and words.endswith(
        "Nothing was adopted yet. Repeat it to adopt the rule."
    )
    assert '"x-closed":true' in words.replace(" ", "") and "of 17 decisions it would have made" in words
    assert [row.state for row in ruled.lab.rules] == ["candidate"], text
    assert str(ruled.lab.rules.adopt(TEXT)).startswith(
        "Rule 2 approves calls from now on; lab.rules.stop(2) ends that"
    )
    assert ruled.lab.rules[0].state == "active"
    [noted] = ruled.notes("rule")
    assert (noted["what"], noted["how"], noted["rule"]["text"]) == ("adopted", "typed", TEXT)


def test_the_wrong_ones_of_the_past_are_told_first(person: None) -> None:
    ruled = Ruled()
    for n in range(4):
        ruled.click(ruled.propose(f"docs/{n}.md"))
    ruled.click(ruled.propose("docs/bad.md"), "reject")
    ruled.click(ruled.propose("docs/last.md"))
    eventually(lambda: len(ruled.lab.log.decided_calls()) == 8)
    told = [line.strip() for line in str(ruled.lab.rules.adopt(TEXT)).splitlines() if line.startswith("    ")]
    assert told[0].startswith("WRONG, you rejected it, #") and told[0].endswith('path="docs/bad.md"')
    assert told[1].startswith("as you decided, #") and len(told) == 7


def test_a_person_who_is_sure_adopts_at_once(ruled: Ruled, person: None) -> None:
    assert "approves calls" in str(ruled.lab.rules.adopt(TEXT, sure=True))
    ruled.lab.rules.stop()
    assert "Nothing was adopted yet" in str(ruled.lab.rules.adopt(TEXT)), "it was not shown before"


@pytest.mark.parametrize("where", ["no prompt", "thread"])
def test_a_program_adopts_only_after_the_words_and_with_a_second_word(
    ruled: Ruled, where: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Beside a person at a prompt, a thread such as that of a tool is a program too."""
    monkeypatch.delattr("sys.ps1", raising=False)  # a shell of another test sets it
    if where == "thread":
        monkeypatch.setattr("builtins.input", lambda prompt="": "")  # a kernel replaces it

    def adopt(**more: Any) -> str:
        told: list[str] = []
        work = lambda: told.append(str(ruled.lab.rules.adopt(TEXT, **more)))  # noqa: E731
        if where == "thread":
            thread = threading.Thread(target=work)
            thread.start()
            thread.join(20)
        else:
            work()
        return told[0]

    assert "Nothing was adopted yet" in adopt(sure=True)
    assert "lab.rules.adopt(1, sure=True) adopts it, for no person types here" in adopt()
    assert "Nothing was adopted yet" in adopt()
    assert "approves calls" in adopt(sure=True)
    [noted] = ruled.notes("rule")
    assert noted["how"] == "script"


def test_a_tried_rule_judges_in_silence_and_its_record_counts(ruled: Ruled) -> None:
    ruled.lab.rules.try_(TEXT)
    cards = [ruled.settled(ruled.propose(f"docs/{n}.md")) for n in range(6)]
    assert all(card.is_open for card in cards) and not ruled.notes("reviewed")
    for card in cards[:4]:
        ruled.click(card)
    ruled.click(cards[4], "reject")
    outside = ruled.propose("elsewhere/x.md")
    ruled.click(outside, "reject")
    [row] = [row for row in ruled.lab.rules if row.state == "shadow"]
    assert row.evidence == "written by hand; as you decided 4 times, otherwise 1"
    assert str(ruled.lab.rules.stop(row.number)) == "Stopped: rule 1"
    assert not [row for row in ruled.lab.rules if row.state == "shadow"]


def test_a_rule_that_is_written_by_hand_reaches_no_further_than_what_was_approved(
    ruled: Ruled, person: None
) -> None:
    ruled.lab.rules.adopt(TEXT.replace("docs/", "src/"), sure=True)
    assert all(ruled.settled(ruled.propose(f"src/{n}.md")).is_open for n in range(4))
    [row] = ruled.lab.rules
    assert (
        row.evidence.startswith("written by hand; adopted at ") and "0 calls approved since" in row.evidence
    )


def test_recent_says_which_rule_approved_a_call_that_it_ran_and_stops_it(ruled: Ruled) -> None:
    kept, lab = ruled.adopt(), ruled.lab
    card = next(card for n in range(2) if not (card := ruled.settled(ruled.propose(f"docs/{n}.md"))).is_open)
    card = eventually(lambda: (now := ruled.now(card)).state == "done" and now)
    data = card_data(card, me="human")
    assert (data["decision"], data["outcome"]) == ("Approved by rule 1", card.outcome)
    assert data["rule"] == {"sha256": kept.rule.sha256, "name": "rule 1", "text": TEXT}
    view = view_of(lab, lab.granting)

    def stop(sha256: str) -> str:
        return lab.loop.run(view.acts["stop_rule"](rule=sha256), timeout=10, doing="stopping")

    with pytest.raises(MewError, match="none of yours"):
        stop("0" * 64)
    assert (
        stop(kept.rule.sha256) == "Rule 1 is stopped: such calls wait for you again. What it approved stands."
    )
    assert (kept.life.state, ruled.notes("rule")[-1]["how"]) == ("suspended", "click")
    assert stop(kept.rule.sha256) == "Rule 1 is suspended already."


def test_a_rule_is_suggested_below_recent_and_is_tried_or_dismissed_there() -> None:
    ruled = taught()
    lab = ruled.lab
    view = view_of(lab, lab.granting)
    offered = eventually(lambda: lab.loop.call(lab.decisions.suggested.tell))
    assert offered["text"] == "16 like this approved. Try a rule?" and "with path" in offered["rule"]

    def act(name: str, sha256: str) -> str:
        return lab.loop.run(view.acts[name](rule=sha256), timeout=10, doing="trying")

    with pytest.raises(MewError, match="Another rule is suggested by now"):
        act("try_rule", "0" * 64)
    assert act("try_rule", offered["sha256"]).startswith(
        "Rule 1 judges in silence from now on and approves nothing"
    )
    assert lab.loop.call(lab.decisions.suggested.tell) is None
    assert [row.state for row in lab.rules if row.rule.sha256 == offered["sha256"]] == ["shadow"]
    assert all(ruled.settled(ruled.propose(f"docs/n{n}.md")).is_open for n in range(3))
    lab.rules.stop()
    assert act("dismiss_rule", offered["sha256"]).startswith("It is not suggested again")
    assert lab.loop.call(lab.decisions.suggested.tell) is None


# --- a file of the project ------------------------------------------------------------------------------------------------


def test_a_file_of_the_project_is_text_of_candidates_written_by_others(ruled: Ruled, tmp_path: Path) -> None:
    (tmp_path / "mew-rules.yaml").write_text(f"rules:\n  - {TEXT}\n")
    [row] = ruled.lab.rules
    assert (row.state, row.evidence) == ("candidate", "written by others, in mew-rules.yaml")
    assert all(ruled.settled(ruled.propose(f"docs/{n}.md")).is_open for n in range(4))
    ruled.adopt()
    assert [row.state for row in ruled.lab.rules] == ["active"]
    (tmp_path / "mew-rules.yaml").write_text(f"rules:\n  - {TEXT.replace('docs/', 'doc/')}\n")
    assert [row.state for row in ruled.lab.rules] == ["active", "candidate"], (
        "a changed character is another rule"
    )
    (tmp_path / "mew-rules.yaml").write_text("rules: [&a x, *a]\nstate: adopted\n")
    assert "mew-rules.yaml is not read: " in str(ruled.lab.rules)


# --- where it is kept -------------------------------------------------------------------------------------------------------


def files() -> list[Path]:
    return sorted((Path(os.environ["XDG_STATE_HOME"]) / "mew-lab" / "rules").glob("*.json"))


@pytest.fixture(autouse=True)
def own_state(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path_factory.mktemp("state")))


def test_adoption_is_kept_outside_the_project_for_its_owner_alone_and_goes_on_in_the_next_run() -> None:
    ruled = Ruled()
    kept = ruled.adopt()
    [file] = files()
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    for n in range(3):
        ruled.settled(ruled.propose(f"docs/{n}.md"))
    used = kept.life.uses
    assert used == 2 and json.loads(file.read_text())["rules"][0]["life"]["uses"] == used
    ruled.lab.down()
    again = Ruled()
    [kept] = again.lab.loop.call(lambda: again.rules.kept)
    meanwhile = sum("rule" in one for one in again.notes("decided"))
    assert (kept.life.state, kept.life.uses, kept.number) == ("active", used + meanwhile, 1)
    assert sum(not again.settled(again.propose(f"docs/{n}.md")).is_open for n in range(6)) in (3, 4, 5)


def test_a_card_says_what_was_decided_on_calls_like_it_before_the_space_was_resumed() -> None:
    ruled = Ruled()
    ruled.click(ruled.propose("src/a.md"), "reject")
    path = ruled.lab.host.journal.path
    ruled.lab.down()
    again = Ruled(resume=path)  # which approves two calls more
    card = again.propose("docs/c.md")
    assert card.history == "like this: 4 approved, 1 rejected, last today"
    assert [one.teaches for one in again.lab.decisions.past.calls] == [True] * 5


def test_the_evidence_of_a_kept_rule_is_what_its_words_rest_on_now() -> None:
    """More decisions change the rate that is learned, and so the SHA-256 of the candidate, and not what it says."""
    ruled = taught()
    [row] = ruled.lab.rules
    ruled.lab.rules.try_(row.rule)
    for n in range(14):
        ruled.click(ruled.propose(f"docs/u{n}.md"))
    eventually(lambda: sum(one.verdict == "approved" for one in ruled.lab.log.decided_calls()) == 30)
    [again] = learn(own_decisions(ruled.lab))
    assert again.rule.words == row.rule.words and again.rule.sha256 != row.rule.sha256
    assert "learned from your decisions: 30 of 30, wrong in at most" in str(ruled.lab.rules.show(row.rule))


def test_while_another_process_has_the_rules_of_a_person_nothing_is_approved_here(tmp_path: Path) -> None:
    ruled = Ruled()
    ruled.adopt()
    ruled.lab.down()
    state = Path(os.environ["XDG_STATE_HOME"]) / "mew-lab"
    other = RuleStore(lambda: state, person="human", place=str(tmp_path.resolve()), space="demo")
    assert other.acquire() == ""
    again = Ruled()
    assert "No rule acts here: the rules of demo are in use in process " in str(again.lab.rules)
    assert all(again.settled(again.propose(f"docs/{n}.md")).is_open for n in range(4))
    for change in (again.lab.rules.try_, again.lab.rules.stop, again.adopt):
        with pytest.raises(MewError, match="in use in process"):
            change(TEXT)
    other.release()
    assert "No rule acts here" not in str(again.lab.rules)
    assert sum(not again.settled(again.propose(f"docs/y{n}.md")).is_open for n in range(3)) == 2


def test_without_the_lock_nothing_is_approved(ruled: Ruled) -> None:
    ruled.adopt()
    [file] = files()
    file.with_suffix(".lock").unlink()
    assert all(ruled.settled(ruled.propose(f"docs/{n}.md")).is_open for n in range(4))


def test_a_use_that_cannot_be_counted_is_none(ruled: Ruled, monkeypatch: pytest.MonkeyPatch) -> None:
    kept = ruled.adopt()
    state = Path(os.environ["XDG_STATE_HOME"])
    [file] = files()
    (state / "mew-lab").rename(state / "elsewhere")
    (state / "mew-lab").symlink_to(state / "elsewhere")
    file.unlink()
    file.mkdir()  # it cannot be replaced
    assert all(ruled.settled(ruled.propose(f"docs/{n}.md")).is_open for n in range(4))
    assert kept.life.uses == 0 and not [one for one in ruled.notes("decided") if "rule" in one]


def stored(tmp_path: Path, *, person: str = "ada") -> tuple[RuleStore, ApprovalRule, Path]:
    store = RuleStore(lambda: tmp_path, person=person, place="/p", space="demo")
    assert store.acquire() == ""
    rule = parse_rule(TEXT, tool_hash=DIGEST)
    life = Life(owner=person, state="active", adopted=1.0, since=1.0)
    store.write(StoredRules((KeptRule(1, rule, life, "learned"),), 2))
    [file] = (tmp_path / "rules").glob("*.json")
    return store, rule, file


def test_what_is_kept_is_read_back(tmp_path: Path) -> None:
    store, rule, _ = stored(tmp_path)
    [kept] = store.read().rules
    assert (kept.rule, kept.number, kept.life.state, store.read().next) == (rule, 1, "active", 2)


FAULTS: list[tuple[str, Any]] = [
    ("version", 2), ("person", "ben"), ("space", "other"), ("next", 1), ("next", True), ("rules", {}), ("rules", [1]),
    ("rules.0.text", TEXT.replace("docs/", "/")), ("rules.0.tool_sha256", "1" * 64), ("rules.0.an_hour", 31),
    ("rules.0.uses", 10_000), ("rules.0.days", 10**9), ("rules.0.number", "1"), ("rules.0.origin", "mine"),
    ("rules.0.life.state", "king"), ("rules.0.life.owner", "ben"), ("rules.0.life.adopted", None),
    ("rules.0.life.adopted", -1), ("rules.0.life.uses", -1), ("rules.0.life.uses", 1.5), ("rules.0.life.recent", ["x"]),
    ("rules.0.life.recent", None), ("rules.0.life.more", 1), ("rules.0.approved", [{"t": 1, "arguments": "x"}]),
    ("rules.0.approved", None),
]  # fmt: skip


@pytest.mark.parametrize(
    ("place", "value"), FAULTS, ids=[f"{place}={value!r:.20}" for place, value in FAULTS]
)
def test_a_record_that_is_not_as_it_was_written_gives_no_rule(tmp_path: Path, place: str, value: Any) -> None:
    store, _, file = stored(tmp_path)
    whole = json.loads(file.read_text())
    *path, last = [int(part) if part.isdigit() else part for part in place.split(".")]
    at = whole
    for part in path:
        at = at[part]
    at[last] = value
    file.write_text(json.dumps(whole))
    with pytest.raises(ConfigError, match=r"No rule acts: .* Remove that file to begin without rules"):
        store.read()


def test_a_record_that_others_may_have_written_or_a_link_gives_no_rule(tmp_path: Path) -> None:
    store, _, file = stored(tmp_path)
    file.chmod(0o666)
    with pytest.raises(ConfigError, match="others may have written it"):
        store.read()
    file.chmod(0o600)
    file.rename(tmp_path / "real.json")
    file.symlink_to(tmp_path / "real.json")
    with pytest.raises(ConfigError, match="it is no plain file"):
        store.read()


def test_a_lab_with_a_damaged_record_says_so_and_lets_nothing_act() -> None:
    ruled = Ruled()
    ruled.adopt()
    ruled.lab.down()
    [file] = files()
    file.write_text("{}")
    again = Ruled()
    assert any("No rule acts: " in fault for fault in again.lab.faults)
    assert all(again.settled(again.propose(f"docs/{n}.md")).is_open for n in range(4))
    with pytest.raises(MewError, match="Remove that file"):
        again.adopt()
    assert file.read_text() == "{}", "nothing of the person's is thrown away"
    assert "No rule acts here" in str(again.lab.rules)


def test_another_folder_with_a_space_of_that_name_has_other_rules(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ruled = Ruled()
    ruled.adopt()
    ruled.lab.down()
    (tmp_path / "clone").mkdir()
    monkeypatch.chdir(tmp_path / "clone")
    again = Ruled()
    assert not again.lab.loop.call(lambda: again.rules.kept)
    assert again.settled(again.propose("docs/x.md")).is_open
