"""A call that writes a file is approved after its change was shown, and only while the file is the one that was shown."""

from __future__ import annotations

import json
import sys
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from mew_lab.cli.join import TypedLast, obey
from mew_lab.errors import ConfigError, MewError, NotApproved
from mew_lab.lab.decisions import cards
from mew_lab.lab.decisions.cards import Card, type_in_terminal
from mew_lab.lab.decisions.gate import reading_time
from mew_lab.lab.decisions.policies import Policy
from mew_lab.lab.lab import Lab
from mew_lab.lab.labs import connect, up
from mew_lab.notebook.magics import RULES
from mew_lab.notebook.parser import parse
from mew_lab.protocol.visible import visible
from mew_lab.views.approvals.stored import draw_cards

from ..bridge.real_servers import npm_server
from .looking import approve, call, eventually, propose

SERVER = Path(__file__).parent.parent / "bridge" / "saving_server.py"
OLD = "beans\nthe orchid ledger\n"

pytestmark = pytest.mark.threat(14)


@pytest.fixture
def garden(lab: Lab, tmp_path: Path) -> Path:
    """A folder that was given to a server whose tool `save` its owner marked."""
    folder = tmp_path / "work" / "garden"
    folder.mkdir(parents=True)
    (folder / "plan.txt").write_text(OLD)
    lab.bridge("notes", [sys.executable, str(SERVER)], cwd=folder, writes={"save": ("path", "content")})
    return folder


def save(lab: Lab, content: str = "beans\npeas\n", path: str = "plan.txt") -> Card:
    return propose(lab, call("save", path=path, content=content), to=("notes",))


def show(lab: Lab, card: Card, view: str = "v") -> Any:
    """A view shows the card, and what it would change."""
    lab.decisions.record_shown(card.id, view=view, digest=card.digest)
    work = lab.decisions.compare_file(card.id, digest=card.digest, view=view)
    [(diff, _)] = lab.loop.run(work, timeout=10, doing="comparing")
    return diff


def press(lab: Lab, card: Card, view: str = "v") -> str:
    click = lab.decisions.click(view)
    return lab.decisions.decide(card.id, digest=card.digest, decision="approve", click=click).result(10)


def notes(lab: Lab) -> list[dict[str, Any]]:
    """The notes of the decisions in the journal."""
    return [json.loads(record.detail) for record in lab.log.held if record.event == "decided"]


def test_the_receipt_names_the_old_file_and_its_hash(lab: Lab, garden: Path) -> None:
    card = save(lab)
    assert show(lab, card).rows == ((" ", "beans"), ("-", "the orchid ledger"), ("+", "peas"))
    press(lab, card)
    [note] = notes(lab)
    digest = sha256(OLD.encode()).hexdigest()
    assert note["file"] == {"path": str(garden / "plan.txt"), "size": len(OLD), "sha256": digest}
    assert note["digest"] == card.digest
    eventually(lambda: (garden / "plan.txt").read_text() == "beans\npeas\n")


def test_a_press_of_a_view_that_has_not_shown_the_change_sends_nothing(lab: Lab, garden: Path) -> None:
    card = save(lab)
    show(lab, card, "another view")
    lab.decisions.record_shown(card.id, view="v", digest=card.digest)
    with pytest.raises(NotApproved, match="has not shown yet what would change"):
        press(lab, card)
    assert notes(lab) == [] and (garden / "plan.txt").read_text() == OLD


@pytest.mark.parametrize("how", ["other content", "gone", "a link to the same"])
def test_another_file_than_the_shown_one_refuses_the_press(lab: Lab, garden: Path, how: str) -> None:
    card, plan = save(lab), garden / "plan.txt"
    show(lab, card)
    if how == "other content":
        plan.write_text("leeks\n")
    else:
        plan.rename(garden / "moved.txt")
    if how == "a link to the same":
        plan.symlink_to("moved.txt")
    with pytest.raises(NotApproved, match=r"plan\.txt inside garden/ has changed since it was shown"):
        press(lab, card)
    assert notes(lab) == []
    again = lab.decisions.card(card.id)
    assert again.state == "open" and "look at what would change now" in again.notices[0]
    with pytest.raises(NotApproved, match="has not shown"):  # the view must show it anew
        press(lab, again)
    show(lab, again)
    press(lab, again)
    assert len(notes(lab)) == 1


def test_of_two_views_each_is_held_to_what_it_has_shown(lab: Lab, garden: Path) -> None:
    card = save(lab)
    show(lab, card, "early")
    (garden / "plan.txt").write_text("leeks\n")
    show(lab, card, "late")
    with pytest.raises(NotApproved, match="has changed since"):
        press(lab, card, "early")
    show(lab, card, "late")
    press(lab, card, "late")


def test_a_typed_approval_and_a_policy_leave_the_old_file_in_the_receipt(lab: Lab, garden: Path) -> None:
    approve(lab, save(lab).id)
    eventually(lambda: (garden / "plan.txt").read_text() == "beans\npeas\n")
    lab.decide = Policy.approve()
    save(lab, "leeks\n")
    eventually(lambda: (garden / "plan.txt").read_text() == "leeks\n")
    sizes = [note["file"]["size"] for note in notes(lab)]
    assert sizes == [len(OLD), len("beans\npeas\n")]


def test_pictures_texts_and_pages_that_are_kept_have_counts_and_no_old_line(
    lab: Lab, garden: Path, tmp_path: Path
) -> None:
    card = save(lab)
    show(lab, card)
    told = eventually(lambda: (lab.decisions.card(card.id).file or card.file).told)  # type: ignore[union-attr]
    assert told == "+1 −1 lines"
    kept = [draw_cards(lab.decisions.pending()), str(lab.proposals()[0])]
    press(lab, card)
    eventually(lambda: lab.decisions.card(card.id).state == "done")
    lab.report(tmp_path / "page.html")
    kept += [draw_cards(lab.decisions.decided()), (tmp_path / "page.html").read_text()]
    assert "orchid" not in "".join(kept) and repr(lab.decisions.card(card.id)).count("orchid") == 0
    assert all("rites plan.txt inside garden/: +1 −1 lines" in page for page in kept)


def test_the_old_content_of_a_server_that_this_lab_did_not_start_is_not_known(lab: Lab, garden: Path) -> None:
    lab.join("files", "tool")
    card = propose(lab, call("write_file", path=str(garden / "plan.txt"), content="x"), to=("files",))
    assert card.file is not None and card.file.why == "the old content is not known here"
    with pytest.raises(MewError):
        raise MewError(str(show(lab, card).why))
    press(lab, card)
    assert "file" not in notes(lab)[0]


def test_an_edit_on_the_card_is_held_to_the_shown_file_as_well(lab: Lab, garden: Path) -> None:
    card = save(lab)
    show(lab, card)
    edit = lab.decisions.editing.review_arguments(card.id, '{"path": "plan.txt", "content": "leeks\\n"}')
    lab.decisions.record_shown(card.id, view="v", digest=edit.digest)
    (garden / "plan.txt").write_text("changed\n")
    click = lab.decisions.click("v")
    with pytest.raises(NotApproved, match="has changed since it was shown"):
        lab.decisions.decide(card.id, digest=edit.digest, decision="approve", click=click).result(10)


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_what_is_shown_of_the_server_of_files_is_what_it_writes(lab: Lab, tmp_path: Path) -> None:
    folder = tmp_path / "work" / "garden"
    folder.mkdir(parents=True)
    (folder / "plan.txt").write_text("north: beans\nsouth: peas\r\nwest: $& beans\n")
    lab.bridge("files", [*npm_server("@modelcontextprotocol/server-filesystem"), str(folder)])
    for tool, arguments, rows in (
        ("write_file", {"path": "plan.txt", "content": "north: beans\nsouth: peas\nwest: $& beans\n"},
         [(" ", "north: beans"), ("-", "south: peas\r"), ("+", "south: peas"), (" ", "west: $& beans")]),
        ("edit_file", {"path": str(folder / "plan.txt"), "edits": [{"oldText": "peas", "newText": "$& leeks"}]},
         [(" ", "north: beans"), ("-", "south: peas"), ("+", "south: $& leeks"), (" ", "west: $& beans")]),
        ("write_file", {"path": "new.md", "content": "# New\n"}, []),
    ):  # fmt: skip
        card = propose(lab, call(tool, **arguments), to=("files",))
        diff = show(lab, card)
        assert list(diff.rows) == rows and card.warnings == ()
        press(lab, card)
        eventually(lambda card=card: lab.decisions.card(card.id).state == "done")
        if rows:
            made = [line for sign, line in rows if sign in " +"]
            assert (folder / "plan.txt").read_bytes().decode().splitlines() == made
    assert (folder / "new.md").read_text() == "# New\n"
    other = propose(lab, call("edit_file", path="plan.txt", edits=[{"oldText": " north", "newText": "x"}]), to=("files",))  # fmt: skip
    assert "result not computed" in show(lab, other).why
    tried = propose(lab, call("edit_file", path="plan.txt", edits=[], dryRun=True), to=("files",))
    assert tried.file is None


def test_the_time_to_read_is_that_of_the_lines_that_differ(
    lab: Lab, garden: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cards, "MOST_READING", 15.0)
    long = "".join(f"bed {n} has beans of the year before last\n" for n in range(200))
    (garden / "plan.txt").write_text(long)
    card = save(lab, long.replace("bed 7 ", "plot 7 "))
    before = reading_time(card, frozenset())
    show(lab, card)
    after = reading_time(lab.decisions.card(card.id), frozenset())
    assert before == 15.0 and after < 6


def test_a_marked_tool_of_a_server_elsewhere_is_refused(lab: Lab) -> None:
    with pytest.raises(ConfigError, match="started here"):
        lab.bridge("far", "http://127.0.0.1:9/mcp", writes={"save": ("path", "content")})


# --- in a terminal, for servers of a file, and for those of a space.yaml --------------------------------------------


def typed(lab: Lab, line: str, shown: TypedLast | None = None) -> str:
    """What the terminal prints for a line."""
    try:
        return obey(lab, line, shown)
    except NotApproved as told:
        return str(told)


@pytest.fixture
def terminal(lab: Lab) -> Lab:
    """A lab whose person types, as `mew-lab join` has it."""
    lab.decisions.type_it, lab.decisions.tells_changes = type_in_terminal, True
    return lab


@pytest.mark.parametrize("line", ["/approve {id}", "/approve"])
def test_a_terminal_shows_the_same_hunks_with_the_whole_card(terminal: Lab, garden: Path, line: str) -> None:
    old = [f"line {n}" for n in range(40)]
    (garden / "plan.txt").write_text("\n".join([*old, "api_key = sk-live-0123456789abcdef", "end", ""]))
    card, last = (
        save(terminal, "\n".join([*old[:20], "the \x1b[2J orchid", *old[21:], "", "end", ""])),
        TypedLast(),
    )
    told = typed(terminal, line.format(id=card.id), last)
    rows = show(terminal, card).rows
    assert [f"  {sign} {visible(text)}" for sign, text in rows] == told.splitlines()[-len(rows) - 1 : -1]
    assert (
        "  - line 20" in told.splitlines() and "\x1b" not in told and "sk-live-0123456789abcdef" not in told
    )
    assert typed(terminal, line.format(id=card.id), last).startswith("Approved: ")
    eventually(lambda: "orchid" in (garden / "plan.txt").read_text())


@pytest.mark.parametrize("line", ["/approve {id}", "/approve"])
def test_a_file_that_changed_since_the_terminal_showed_it_is_shown_anew(
    terminal: Lab, garden: Path, line: str
) -> None:
    card, last = save(terminal), TypedLast()
    line = line.format(id=card.id)
    assert "  - the orchid ledger" in typed(terminal, line, last)
    (garden / "plan.txt").write_text("beans\nquite another line\n")
    assert "has changed since it was shown" in typed(terminal, line, last)
    assert "  - quite another line" in typed(terminal, line, last) and notes(terminal) == []
    assert typed(terminal, line, last).startswith("Approved: ")


def test_the_text_of_a_notebook_tells_no_old_content(lab: Lab, garden: Path) -> None:
    card = save(lab)
    with pytest.raises(NotApproved) as told:
        lab.approve(card.id)
    assert "orchid" not in str(told.value) and "orchid" not in str(lab.proposals()[0])
    lab.approve(card.id)


def test_a_terminal_elsewhere_says_that_the_old_content_is_not_known(lab: Lab, tmp_path: Path) -> None:
    lab.join("files", can="tool")
    lab.enrol("ann", "human")
    there = connect(lab.url, space=lab.space, token_file=lab.token_file("ann"), name="ann")
    there.decisions.type_it, there.decisions.tells_changes = type_in_terminal, True
    (tmp_path / "plan.txt").write_text(OLD)
    pending = lab.join("bot").propose(
        "files/write_file", {"path": str(tmp_path / "plan.txt"), "content": "x"}
    )
    eventually(lambda: (found := there.decisions.queue.find(pending.id)) and found.is_read)
    told = typed(there, f"/approve {pending.id}")
    assert "the old content is not known here" in told and "orchid" not in told


def configured(folder: Path, **more: Any) -> None:
    entry = {"command": sys.executable, "args": [str(SERVER)], **more}
    (folder / ".mcp.json").write_text(json.dumps({"mcpServers": {"notes": entry}}))
    (folder / "plan.txt").write_text(OLD)


@pytest.mark.parametrize("how", ["python", "magic"])
@pytest.mark.slow
def test_a_tool_of_a_file_of_servers_is_marked_by_the_owner_and_by_no_file(
    lab: Lab, tmp_path: Path, how: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "work" / "garden"
    folder.mkdir(parents=True)
    configured(folder, writes={"save": ["path", "content"]})
    monkeypatch.setattr("builtins.input", lambda question: "yes")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    lab.bridge_all(folder / ".mcp.json")
    assert save(lab).file is None  # the file comes from others, and its word is none
    lab.leave("notes")
    if how == "python":
        lab.bridge_all(folder / ".mcp.json", writes={"notes": {"save": ("path", "content")}})
    else:
        options = parse(f"bridge-all {folder}/.mcp.json --writes notes/save=path,content", names={}).options
        RULES["bridge-all"](options, None)
    card = save(lab, "beans\nleeks\n")
    assert show(lab, card).rows == ((" ", "beans"), ("-", "the orchid ledger"), ("+", "leeks"))
    with pytest.raises(ConfigError, match=r"names 'note', and .* has no such server; did you mean 'notes'"):
        lab.bridge_all(folder / ".mcp.json", writes={"note": {"save": ("path", "content")}})


@pytest.mark.parametrize("word", ["save", "save=path", "save=path,", "=path,content", "save=,content"])
def test_a_mark_that_names_no_two_arguments_is_refused(lab: Lab, word: str) -> None:
    with pytest.raises(ConfigError, match=r"--writes takes each tool once.* save=path,content; not"):
        RULES["bridge"](
            parse(f"bridge notes --writes {word} -- python x.py", names={}).options, ["python", "x.py"]
        )


def test_a_server_of_a_space_file_has_its_marks_there(tmp_path: Path) -> None:
    folder = tmp_path / "work" / "garden"
    (folder / "below").mkdir(parents=True)
    (folder / "below" / "plan.txt").write_text(OLD)
    (folder / "space.yaml").write_text(
        json.dumps(
            {
                "space": {"id": "garden", "owner": "human"},
                "participants": {
                    "human": {"capabilities": [{"kind": "*"}]},
                    "notes": {
                        "type": "mcp-bridge",
                        "mcp_server": {"command": sys.executable, "args": [str(SERVER)], "cwd": "below"},
                        "bridge_config": {
                            "writes": {"save": ["path", "content"]},
                            "quorum": 1,
                            "deciders": ["human"],
                        },
                        "capabilities": [{"kind": "mcp/response"}],
                    },
                },
            }
        )
    )
    lab = up(folder / "space.yaml", share_review=True)
    eventually(lambda: "notes" in lab.me.participant.client.participants)
    lab.join("bot")
    card = save(lab)
    assert show(lab, card).rows == ((" ", "beans"), ("-", "the orchid ledger"), ("+", "peas"))
    assert "1 of human must say yes, or notes refuses it" in lab.decisions.queue.find(card.id).review  # type: ignore[union-attr]
    press(lab, card)
    eventually(lambda: (folder / "below" / "plan.txt").read_text() == "beans\npeas\n")
    [note] = notes(lab)
    assert note["file"]["path"] == str(folder / "below" / "plan.txt")
    with pytest.raises(
        MewError, match="Not executed, and nothing is used up: a call by its sender's own right"
    ):
        lab.me.call("notes/save", path="plan.txt", content="x").result(20)
    outside = save(lab, path=str(folder / "space.yaml"))
    assert show(lab, outside).rows == () and "is in no folder that was given" in show(lab, outside).why
