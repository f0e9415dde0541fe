"""Whatever leaves a log has its likely secrets masked and says so, and a masked copy claims nothing about its journal."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from mew_lab.cli import main
from mew_lab.errors import ConfigError
from mew_lab.log.export import export_as_peers
from mew_lab.log.journal import Journal
from mew_lab.log.log import Log, open_log
from mew_lab.log.redaction import mask_markup
from mew_lab.protocol.likely_secrets import SecretMask

from .agent_sessions import ClaudeStory
from .test_verification import decides, digest_of, proposes, sends, stage

TOKEN = "ghp_" + "aB3dE6gH9j" * 3 + "kL2nP7"
PASSWORD = "orchid4711"
COMMAND = f"export API_KEY={TOKEN}; psql postgres://ann:{PASSWORD}@db.example/x"
PLAIN = "tools"


def secret_session(folder: Path) -> Log:
    story = ClaudeStory()
    story.prompt(f"use {TOKEN}, please")
    story.call("t1", "Bash", {"command": COMMAND, "password": "plum4711"})
    story.result("t1", f"done with {TOKEN}", toolUseResult={"stdout": f"and {TOKEN}", "stderr": ""})
    story.note("attachment-of-later", text=f"kept {TOKEN}")
    story.say("done")
    return open_log(story.write(folder / "s.jsonl"))


def holds(text: str) -> list[str]:
    return [secret for secret in (TOKEN, PASSWORD, "plum4711") if secret in text]


def test_jsonl_is_masked_says_so_in_its_first_line_and_is_a_log(tmp_path: Path) -> None:
    log = secret_session(tmp_path)
    text = log.select().to_jsonl()
    assert holds(text) == []
    first = json.loads(text.splitlines()[0])
    about = json.loads(first["detail"])
    assert (first["event"], about["masked"]) == ("opened", True)
    assert about["note"] == "6 likely secrets masked"  # the line of the result has one more than its message
    (tmp_path / "copy.jsonl").write_text(text)
    again = open_log(tmp_path / "copy.jsonl")
    assert [one["kind"] for one in again] == [one["kind"] for one in log]
    assert again.faults == ("likely secrets in it were masked when it was written",)
    assert holds(log.select().to_jsonl(secrets="keep")) == [TOKEN, PASSWORD, "plum4711"]
    assert log.filter('kind == "mcp/request"').to_jsonl(secrets="keep").count("\n") == 1
    plain = log.filter('payload.text == "done"').to_jsonl()
    assert "masked" not in plain


def test_a_copy_for_oneself_is_whole_and_one_to_pass_on_is_masked(tmp_path: Path) -> None:
    log = secret_session(tmp_path)
    saved = log.save(tmp_path / "own.jsonl")
    own = open_log(tmp_path / "own.jsonl")
    assert [*own] == [*log]
    assert [one.received for one in own.records][1:] == [one.received for one in log.records][1:]
    assert "masked" not in str(saved)
    said = log.save(tmp_path / "shared.jsonl", secrets="mask")
    assert str(said).startswith("Saved 6 messages, 7 likely secrets masked to ")
    assert holds((tmp_path / "shared.jsonl").read_text()) == []
    assert (
        "likely secrets in it were masked when it was written" in open_log(tmp_path / "shared.jsonl").faults
    )
    for name, secrets, found in (
        ("a.parquet", "mask", []),
        ("b.parquet", "keep", [TOKEN, PASSWORD, "plum4711"]),
    ):
        log.to_parquet(tmp_path / name, secrets=secrets)
        again = open_log(tmp_path / name)
        assert holds("".join(f"{one.raw}{one.received}" for one in again.records)) == found
        assert len(again) == len(log)
        assert again.is_masked is (secrets == "mask")


def test_traces_are_masked_and_name_it(tmp_path: Path) -> None:
    log = secret_session(tmp_path)
    said = log.export_otlp(tmp_path / "t.json", content=True)
    text = (tmp_path / "t.json").read_text()
    assert holds(text) == []
    assert str(said).endswith("6 likely secrets masked.")  # an event is in no export
    again = open_log(tmp_path / "t.json")
    assert again.is_masked
    assert [one["kind"] for one in again] == [one["kind"] for one in log]
    log.export_otlp(tmp_path / "k.json", content=True, secrets="keep")
    assert holds((tmp_path / "k.json").read_text()) == [TOKEN, PASSWORD, "plum4711"]
    bare = log.export_otlp(tmp_path / "n.json")
    assert (
        bare.left_out == "Contents of messages are not in it." and not open_log(tmp_path / "n.json").is_masked
    )


def approved(folder: Path) -> Path:
    """The journal of a gateway in which a call with a secret was shown, approved and executed."""
    call: dict[str, Any] = {
        "method": "tools/call",
        "params": {"name": "write_file", "arguments": {"text": COMMAND}},
    }
    played = stage().play(proposes(payload=call))
    played.play(decides(digest=digest_of("p-1", call)), sends(payload=call))
    journal = Journal(folder / "journal.jsonl", epoch=1)
    journal.append(played.records)
    journal.close()
    return folder / "journal.jsonl"


def test_a_masked_copy_verifies_nothing_and_claims_no_flaw(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = approved(tmp_path)
    log = open_log(path)
    assert len(log.verify().consents.consented) == 1
    copy = tmp_path / "copy.jsonl"
    log.save(copy, secrets="mask")
    result = open_log(copy).verify()
    assert "likely secrets were masked when this copy was written" in str(result)
    assert (result.intact, result.ok, result.status(), result.status(unchained_ok=True)) == (
        False,
        False,
        2,
        0,
    )
    assert "consent" not in str(result) and "nobody" not in str(result) and "decided" not in str(result)
    for words in (["verify", str(copy)], ["journal", "verify", str(copy)]):
        with pytest.raises(SystemExit) as ended:
            main(words)
        assert ended.value.code == 2
        out = capsys.readouterr().out
        assert "likely secrets were masked when this copy was written" in out
        assert "was changed" not in out


def test_a_journal_that_only_says_it_was_masked_is_verified_as_any(tmp_path: Path) -> None:
    path = approved(tmp_path)
    journal = tmp_path / "changed.jsonl"
    text = path.read_text("utf-8").replace("write_file", "wipe_disks")
    journal.write_text(text.replace('"detail":"{', '"detail":"{\\"masked\\":true,', 1), "utf-8")
    assert json.loads(json.loads(journal.read_text("utf-8").splitlines()[0])["detail"])["masked"] is True
    result = open_log(journal).verify()
    assert (result.ok, result.status(), result.status(unchained_ok=True)) == (False, 1, 1)
    assert "was changed" in str(result)


def test_the_files_of_peers_are_masked_unless_they_are_to_be_kept(tmp_path: Path) -> None:
    path = approved(tmp_path)
    for name, secrets, found in (("mask", "mask", []), ("keep", "keep", [TOKEN, PASSWORD])):
        folder = tmp_path / name
        folder.mkdir()
        done = export_as_peers(path, folder, secrets=secrets)
        text = done.history.read_text() + done.decisions.read_text()
        assert holds(text) == found
        assert ("likely secrets masked" in str(done)) is (secrets == "mask")
        assert all(json.loads(line) for line in text.splitlines())


@pytest.mark.parametrize("verb", ["to_parquet", "save", "export_otlp"])
def test_another_word_is_refused_before_anything_is_written(tmp_path: Path, verb: str) -> None:
    log = secret_session(tmp_path)
    with pytest.raises(ConfigError, match="'mask' or 'keep'"):
        getattr(log, verb)(tmp_path / "x", secrets="show")
    assert not (tmp_path / "x").exists()


def stored(log: Log) -> dict[str, str]:
    """What a notebook stores of the values of its cells."""
    exchange = log.follow("t1")
    made: dict[str, Any] = {
        "df": log.df,
        "all of df": log.df[["payload", "kind"]],
        "column": log.df["payload"],
        "chat": log.chat(),
        "requests": log.requests(),
        "exchange": exchange,
        "at": log.at(5),
        "diagnosis": log.diagnose(),
        "talk": log.charts.talk(),
        "picture": exchange.diagram,
        "feed": log.view.feed,
    }
    texts = {}
    for name, value in made.items():
        parts = [repr(value), str(value)]
        if hasattr(value, "_repr_html_"):
            parts.append(str(value._repr_html_()))
        if hasattr(value, "to_string"):
            parts += [value.to_string(), value.to_string(max_colwidth=None) if name != "column" else ""]
        if hasattr(value, "to_html"):
            parts.append(value.to_html())
        if name in ("exchange", "talk", "picture"):
            parts += value._repr_mimebundle_().values()
        if name == "feed":
            parts += value.draw()[1].values()
        texts[name] = "\n".join(parts)
    return texts


def test_what_a_notebook_stores_is_masked_and_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = secret_session(tmp_path)
    texts = stored(log)
    assert {name: found for name, text in texts.items() if (found := holds(text))} == {}
    assert "likely secrets masked" in texts["all of df"]
    assert "1 likely secret masked" in texts["chat"]
    assert "likely secrets masked" in texts["picture"]
    assert "likely secrets masked" in texts["feed"]
    assert log.df["payload"].iloc[0]["text"] == f"use {TOKEN}, please"  # the values are as they were
    monkeypatch.setenv("MEW_LAB_SECRETS", "keep")
    kept = stored(log)
    assert "masked" not in "".join(kept.values())
    assert TOKEN in kept["exchange"] and TOKEN in kept["feed"] and PASSWORD in kept["all of df"]


@pytest.mark.parametrize(
    "secret", ['hunter"2x', "hunter'2x", "hun&lt;ter2x", "hun&amp;ter2x", "hun&ter2x", "hun&quot;2x"]
)
@pytest.mark.parametrize("around", ["", " ", "\n  "])
def test_a_secret_in_markup_is_masked_however_its_marks_are_written(secret: str, around: str) -> None:
    mask = SecretMask()
    text = f"<th>password</th><td>{around}{secret}{around}</td>"
    assert mask_markup(text, mask) == f"<th>password</th><td>{around}[masked: named secret]{around}</td>"
    assert mask.found == 1


def test_markup_is_masked_in_texts_and_tooltips_and_stays_markup() -> None:
    mask = SecretMask()
    before = (
        f'<style>.a{{content:"{TOKEN}"}}</style><b title="{TOKEN} &amp; more">password</b><td>plum&amp;7</td>'
        f"<code>password</code>: <i>string</i><p>{TOKEN} &lt;b&gt;</p>"
    )
    assert mask_markup(before, mask) == (
        f'<style>.a{{content:"{TOKEN}"}}</style><b title="[masked: GitHub token] &amp; more">password</b>'
        "<td>[masked: named secret]</td><code>password</code>: <i>string</i><p>[masked: GitHub token] &lt;b&gt;</p>"
    )
    assert mask.found == 3
