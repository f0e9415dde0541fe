"""A lab bridges the servers of a file, and servers with values for their environment."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from mew_lab.errors import ConfigError, MewError
from mew_lab.lab.lab import Lab
from mew_lab.lab.labs import connect, up
from mew_lab.lab.loop import LoopThread
from mew_lab.views.approvals.question_cards import question_data

ODD = str(Path(__file__).parents[1] / "bridge" / "odd_server.py")
SLOW = str(Path(__file__).parents[1] / "bridge" / "slow_server.py")
CANARY = "canary-5ecret-0123456789"


@pytest.fixture(autouse=True)
def own_state(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path_factory.mktemp("state")))


@pytest.fixture
def typing(monkeypatch: pytest.MonkeyPatch) -> Callable[..., list[str]]:
    """A person at the prompt, who types these answers; gives the questions that she was asked."""

    def type_answers(*answers: str) -> list[str]:
        asked: list[str] = []
        left = list(answers)

        def answer(question: str) -> str:
            asked.append(question)
            if not left:
                raise EOFError
            return left.pop(0)

        monkeypatch.setattr("builtins.input", answer)
        monkeypatch.setattr("getpass.getpass", lambda question: answer(f"secret {question}"))
        return asked

    return type_answers


def write(servers: dict[str, Any], **more: Any) -> None:
    Path(".mcp.json").write_text(json.dumps({"mcpServers": servers, **more}))


def environment_of(lab: Lab, name: str) -> dict[str, Any]:
    lab.decide = None
    return json.loads(lab.call(f"{name}/env").result(timeout=20).text)  # type: ignore[no-any-return]


def test_a_mapping_gives_the_server_its_values(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FROM_HERE", "x")
    lab.bridge("odd", ["python", ODD], env={"HOME": "/elsewhere", "NOT_SET_HERE": CANARY})
    got = environment_of(lab, "odd")["env"]
    assert (got["HOME"], got["NOT_SET_HERE"]) == ("/elsewhere", CANARY) and "FROM_HERE" not in got
    lab.bridge("named", ["python", ODD], env=["FROM_HERE"])
    assert environment_of(lab, "named")["env"]["FROM_HERE"] == "x"
    with pytest.raises(ConfigError, match="names of variables to pass on, or a mapping"):
        lab.bridge("text", ["python", ODD], env="FROM_HERE")  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="FROM_HERE must be text"):
        lab.bridge("number", ["python", ODD], env={"FROM_HERE": 1})  # type: ignore[dict-item]


def test_the_time_of_a_bridge_is_that_of_its_start(lab: Lab) -> None:
    with pytest.raises(MewError, match=r"did not answer `initialize` within 0\.4 s"):
        lab.bridge("mute", ["python", ODD, "mute"], timeout=0.4)


def test_a_long_start_is_printed_by_the_thread_that_waits(
    lab: Lab, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mew_lab.bridge.process.TELL_AFTER", 0.1)
    said: list[str] = []

    def go_on(line: str) -> None:
        said.append(line)
        (tmp_path / "go").touch()  # the server answers once its words have been printed

    monkeypatch.setattr("mew_lab.lab.config_bridges.print", lambda line, **_: go_on(line), raising=False)
    lab.bridge("slow", ["python", SLOW, str(tmp_path / "go"), "1"], env={"API_KEY": CANARY})
    assert said and all(line.startswith("slow: ") for line in said) and CANARY not in "".join(said)


def test_a_wait_calls_what_prints_and_once_more_at_its_end() -> None:
    loop, calls = LoopThread("idle"), list[str]()

    async def work() -> int:
        calls.append("work")
        return 3

    assert loop.run(work(), timeout=5, doing="x", idle=lambda: calls.append("idle")) == 3
    assert calls[-1] == "idle" and "work" in calls
    loop.stop()


@pytest.mark.threat(28)
def test_the_servers_of_a_file_take_part_after_a_typed_yes_which_is_asked_for_once(
    lab: Lab,
    typing: Callable[..., list[str]],
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("MY_TOKEN", CANARY)
    odd = {"command": sys.executable, "args": [ODD], "env": {"TOKEN": "${MY_TOKEN}", "K": "${input:k}"}}
    write(
        {"My odd": odd, "second": {**odd, "env": {}}, "bad": {"url": "ftp://x"}, "off": {"disabled": True}},
        inputs=[{"id": "k", "password": True, "description": "the key"}],
    )
    asked = typing("yes", "key-" + CANARY, "no")
    listed = lab.bridge_all()
    shown = capsys.readouterr().out
    assert [row[:4] for row in listed.rows[:1]] == [("My odd", "My-odd", 5, "bridged")]
    assert {row[0]: row[3][:8] for row in listed.rows[1:]} == dict.fromkeys(
        ("second", "bad", "off"), "left out"
    )
    assert len(asked) == 3 and asked[1] == "secret the key: "
    assert "reads    MY_TOKEN" in shown and CANARY not in shown + str(listed) + repr(listed.rows)
    assert environment_of(lab, "My-odd")["env"]["TOKEN"] == CANARY
    assert environment_of(lab, "My-odd")["env"]["K"] == "key-" + CANARY
    # Again: what takes part is left alone, and nobody is asked about it.
    asked = typing("yes")
    again = {row[0]: row[3] for row in lab.bridge_all()}
    assert "is a participant already" in again["My odd"] and again["second"] == "bridged" and len(asked) == 1
    # The yes outlives the lab.
    lab.down()
    asked = typing("key")
    other = up("other")
    assert {row[0]: row[3] for row in other.bridge_all(only=["My odd", "second"])} == dict.fromkeys(
        ("My odd", "second"), "bridged"
    )
    assert asked == ["secret the key: "]


class Cell:
    """A cell that shows cards: what was asked in it, and the answers that a person gives there by a click."""

    def __init__(self, lab: Lab, *answers: str, silent: bool = False) -> None:
        self.lab = lab
        self.answers = list(answers)
        self.asked: list[dict[str, Any]] = []
        self.is_silent = False
        self._silent = silent
        self.ended = 0

    def __call__(self, lab: Lab, _id: str) -> Cell:
        assert lab is self.lab
        self.is_silent = False
        return self

    def tick(self) -> None:
        (question,) = self.lab.asked.pending()
        self.asked.append(question_data(question))
        if self._silent:
            self.is_silent = True
            return
        gate = self.lab.asked.gate
        gate.record_shown(question, view="v1", digest=question.digest)
        click = gate.click("v1")._replace(at=gate.click("v1").at + 60)  # the person reads for a minute
        decided = self.lab.asked.decide(
            question.id, digest=question.digest, action=self.answers.pop(0), click=click
        )
        assert "confirmed" not in decided.result(10), "no gateway has to confirm it"

    def end(self) -> None:
        self.ended += 1


@pytest.fixture
def cell(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Cell]:
    def make(*answers: str, silent: bool = False) -> Cell:
        made = Cell(lab, *answers, silent=silent)
        monkeypatch.setattr(
            "mew_lab.lab.lab.find_above", lambda name: made if name == "watch_question" else None
        )
        return made

    return make


@pytest.mark.threat(28)
def test_in_a_notebook_each_server_is_a_card_that_is_asked_once(
    lab: Lab, cell: Callable[..., Cell], typing: Callable[..., list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MY_TOKEN", CANARY)
    odd = {"command": sys.executable, "args": [ODD, f"--key={CANARY}"], "env": {"TOKEN": "${MY_TOKEN}"}}
    evil = {"command": "sh", "args": ["-c", "true\u202e\x1b[2J\nreads    nothing"]}
    write(
        {
            "odd": odd,
            "evil\nname": evil,
            "remote": {"url": "https://tools.example/mcp", "headers": {"X-Key": CANARY}},
        }
    )
    typed, here = typing(), cell("accept", "decline", "cancel")
    before = len(lab.log)
    listed = {row[0]: row[3] for row in lab.bridge_all()}
    assert typed == [] and here.ended == 3
    assert listed.pop("odd") == "bridged"
    assert all("it was not allowed; its digest is" in why for why in listed.values()) and len(listed) == 2
    first, second, third = here.asked
    assert first["kind"] == "start" and first["title"].startswith("Start the MCP server odd? ")
    assert first["title"].endswith(".mcp.json wants to, in your name")
    lines = dict(line.split(None, 1) for line in first["message"].split("\n"))
    assert ODD in lines["command"] and lines["folder"] == str(Path.cwd())
    assert (lines["sets"], lines["reads"]) == ("TOKEN", "MY_TOKEN") and len(lines["digest"]) == 64
    assert first["plan"] is None and "Any change of the entry asks you again" in first["sent"]
    assert second["message"].count("\n") == 3, "a command cannot make lines of its own"
    assert second["title"].isprintable() and all(line.isprintable() for line in second["message"].split("\n"))
    assert "address  https://tools.example/mcp" in third["message"] and "X-Key" in third["message"]
    assert CANARY not in json.dumps(here.asked) + repr(lab.asked.decided())
    kinds = lab.log.df["kind"].iloc[before:].tolist()
    assert "mcp/response" not in kinds, "no answer of the person goes into the space"
    # The yes is kept; what changed is asked about again.
    lab.leave("odd")
    write({"odd": odd, "evil\nname": evil})
    here = cell("decline")
    assert {row[0]: row[3] for row in lab.bridge_all()}["odd"] == "bridged" and len(here.asked) == 1
    lab.leave("odd")
    write({"odd": {**odd, "args": [ODD]}})
    here = cell("decline")
    assert "it was not allowed" in lab.bridge_all().rows[0][3] and len(here.asked) == 1


def test_where_no_page_shows_the_card_the_yes_is_typed(
    lab: Lab, cell: Callable[..., Cell], typing: Callable[..., list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    write(
        {
            "odd": {"command": sys.executable, "args": [ODD]},
            "second": {"command": sys.executable, "args": [ODD]},
        }
    )
    typed, here = typing("yes", "no"), cell(silent=True)
    assert [row[3][:8] for row in lab.bridge_all().rows] == ["bridged", "left out"]
    assert len(typed) == 2 and len(here.asked) == 1, "one card is enough to know that no page is there"
    assert lab.asked.pending() == []
    [ended] = lab.asked.decided()
    assert ended.outcome == "the cell does not wait for an answer any more", (
        "no server waits: none has started"
    )
    # A run whose decisions are made by a policy asks as text, and one without a person leaves it out.
    here = cell("accept")
    monkeypatch.setenv("MEW_LAB_DECIDE", "approve")
    assert "nobody has allowed it on this computer" in str(lab.bridge_all())
    assert here.asked == []


def test_without_a_person_only_what_is_trusted_takes_part(lab: Lab) -> None:
    write({"odd": {"command": sys.executable, "args": [ODD, "${input:mode}"]}}, inputs=[{"id": "mode"}])
    (row,) = lab.bridge_all()
    digest = row[3].partition("digest: ")[2][:64]
    assert len(digest) == 64 and digest in str(lab.bridge_all())
    (row,) = lab.bridge_all(trust=[digest], inputs={"mode": "good"})
    assert row[3] == "bridged" and environment_of(lab, "odd")["cwd"] == str(Path.cwd())


def test_a_server_that_does_not_start_costs_no_other(lab: Lab, typing: Callable[..., list[str]]) -> None:
    write(
        {
            "gone": {"command": "no-such-program-at-all", "args": [f"--token={CANARY}"]},
            "ends": {"command": sys.executable, "args": [ODD, "exit"]},
            "odd": {"command": sys.executable, "args": [ODD]},
        }
    )
    typing("yes", "yes", "yes")
    listed = lab.bridge_all()
    states = {row[0]: row[3] for row in listed}
    assert states["odd"] == "bridged"
    assert "there is no program" in states["gone"] and "ended (exit 1)" in states["ends"]
    assert CANARY not in str(listed) + repr(listed.rows) + str(lab.faults)


def test_a_file_that_cannot_be_read_is_one_sentence(lab: Lab) -> None:
    with pytest.raises(ConfigError, match="there is no such file"):
        lab.bridge_all()
    write({})
    assert str(lab.bridge_all()) == "servers\nThe file names no server."
    with pytest.raises(ConfigError, match="has no server 'x'"):
        lab.bridge_all(only=["x"])
    with pytest.raises(ConfigError, match="a digest is a SHA-256"):
        lab.bridge_all(trust=["x"])


def test_a_space_elsewhere_asks_nobody(lab: Lab, typing: Callable[..., list[str]]) -> None:
    write({"odd": {"command": sys.executable, "args": [ODD]}})
    far = connect(lab.url, space=lab.space, token_file=lab.token_file("human"), as_id="human-2", name="far")
    asked = typing("yes")
    with pytest.raises(MewError, match="runs elsewhere"):
        far.bridge_all()
    assert asked == []


@pytest.mark.threat(28)
def test_a_server_never_takes_the_place_of_another_participant(
    lab: Lab, typing: Callable[..., list[str]]
) -> None:
    """The names are those of a stranger's file: one may be that of an agent, or of the person."""
    lab.enrol("coder", "agent")
    odd = {"command": sys.executable, "args": [ODD]}
    write({"coder": odd, "human": odd, "CODER": odd, "odd": odd})
    typing("yes", "yes", "yes", "yes")
    states = {row[0]: row[3] for row in lab.bridge_all()}
    assert "is another participant" in states["coder"] and "is a participant already" in states["human"]
    assert states["CODER"] == states["odd"] == "bridged"  # as CODER-2
    assert {"CODER-2", "odd"} <= lab.seats.keys() and "coder" not in lab.seats
    lab.leave("odd")
    assert {row[0]: row[3] for row in lab.bridge_all(only=["odd"])} == {"odd": "bridged"}
