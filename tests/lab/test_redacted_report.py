"""A report for a colleague: names in place of "you", only what a filter selects, and no value that was redacted."""

from __future__ import annotations

import json
import random
import stat
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from mew_lab.cli import main
from mew_lab.errors import ConfigError, FilterError
from mew_lab.lab.html_report import session_page
from mew_lab.lab.lab import Lab
from mew_lab.log.log import Log, open_log
from mew_lab.log.redaction import REDACTED, LogRedaction
from mew_lab.space.events import Record

from .looking import approve

SECRET = 'Ünder "lock" & <key>\\4711'


def live(messages: list[dict[str, Any]]) -> Log:
    log = Log.live(space="demo")
    start = datetime(2026, 1, 1, tzinfo=UTC)
    for seq, members in enumerate(messages, 1):
        full = {
            "protocol": "mew/v0.4",
            "id": f"m{seq}",
            "ts": start.isoformat(),
            "from": "ada",
            "to": [],
            **members,
        }
        log.observe(
            Record(
                seq,
                start + timedelta(seconds=seq),
                "received",
                "demo",
                full["from"],
                verdict="accepted",
                raw=json.dumps(full),
            )
        )
    return log


def nested(value: Any, dice: random.Random) -> Any:
    match dice.randrange(6):
        case 0:
            return {f"key {value}": value}
        case 1:
            return [1, {"deep": [value, f"before{value}after"]}]
        case 2:
            return json.dumps({"inside": value})  # JSON within JSON, as tools give it
        case 3:
            return json.dumps({"inside": json.dumps([value], ensure_ascii=False)}, ensure_ascii=False)
        case 4:
            return f"{'x' * 1995}{value}"  # where a page cuts its texts
    return value


@pytest.mark.parametrize("seed", range(8))
def test_a_redacted_value_stands_nowhere_in_the_page(seed: int) -> None:
    dice = random.Random(seed)
    call = {
        "method": "tools/call",
        "params": {"name": f"pay {SECRET}", "arguments": {"to": nested(SECRET, dice)}},
    }
    messages = [
        {"kind": "mcp/proposal", "from": f"bot {SECRET}", "to": ["bank"], "payload": call},
        {"kind": "mcp/request", "to": ["bank"], "correlation_id": ["m1"], "payload": call},
        {
            "kind": "mcp/response",
            "from": "bank",
            "to": ["ada"],
            "correlation_id": ["m2"],
            "payload": {"result": {"content": [{"type": "text", "text": str(nested(SECRET, dice))}]}},
        },
        {"kind": "chat", "payload": {"text": str(nested(SECRET, dice))}},
        {"kind": "reasoning/start", "payload": {"message": SECRET}},
        {"kind": "mcp/reject", "correlation_id": ["m1"], "payload": {"reason": SECRET}},
        {"kind": f"x-{SECRET}", "id": SECRET, "payload": {SECRET: SECRET}},
        {
            "kind": "mcp/request",
            "to": ["bank"],
            "payload": {"method": "tools/call", "params": {"name": "n", "arguments": {"pin": 4711}}},
        },
    ]
    log = live(messages)
    plain = session_page(log)
    assert "4711" in plain and "lock" in plain
    page = session_page(
        log, redaction=LogRedaction(values=[SECRET, "4711"]), me=SECRET, roles={"bank": f"at {SECRET}"}
    )
    for part in ("4711", "lock", "Ünder", "&lt;key&gt;"):
        assert part not in page, part
    assert REDACTED in page and "Redacted" in page


def test_only_what_a_filter_selects_is_in_it_and_contents_can_be_left_out() -> None:
    log = live(
        [
            {"kind": "chat", "payload": {"text": "a private word"}},
            {
                "kind": "mcp/request",
                "to": ["bank"],
                "payload": {
                    "method": "tools/call",
                    "params": {"name": "pay", "arguments": {"iban": "DE00"}, "x": "hidden"},
                },
            },
            {
                "kind": "mcp/response",
                "from": "bank",
                "to": ["ada"],
                "correlation_id": ["m2"],
                "payload": {"result": {"total": "12,50"}},
            },
            {
                "kind": "mcp/response",
                "from": "bank",
                "to": ["ada"],
                "correlation_id": ["m2"],
                "payload": {"error": {"code": 5, "message": "broke"}},
            },
        ]
    )
    redaction = LogRedaction(filter='kind ~ "mcp/*"', contents="from == ada")
    page = session_page(log, redaction=redaction)
    assert "a private word" not in page and "12,50" in page
    assert "pay" in page and not any(word in page for word in ("iban", "DE00", "hidden"))
    assert str(redaction) == "1 message left out by a filter; the contents of 1 message left out"
    assert str(redaction) in page
    everything = LogRedaction(contents='kind ~ "*"')
    page = session_page(log, redaction=everything)
    assert not any(word in page for word in ("private", "iban", "12,50", "total", "broke"))
    with pytest.raises(FilterError):
        session_page(log, redaction=LogRedaction(filter="kind =="))


def test_two_journals_with_the_same_numbers_are_not_mixed_up(tmp_path: Path, lab: Lab) -> None:
    one, two = (
        live([{"kind": "chat", "payload": {"text": "stays"}}]),
        live([{"kind": "chat/cancel", "payload": {}, "id": "goes"}]),
    )
    records = [*one.records, *two.records]

    class Both:
        space, vantage, sign = "demo", "gateway", "#"

        def __init__(self) -> None:
            self.records = records

        def filter(self, text: str) -> Any:
            return one.filter(text)

    kept = list(LogRedaction(filter='kind == "chat"').records(Both()))
    assert [json.loads(record.raw or "")["payload"] for record in kept] == [{"text": "stays"}]


def test_a_saved_session_is_a_page_for_a_colleague(
    lab: Lab, adding: Any, tmp_path: Path, capsys: Any
) -> None:
    pending = lab.join("bot").call("notebook/add", a=4711, b=1)
    approve(lab, pending.id)
    pending.result(10)
    said = str(lab.report("live.html", redact=["4711"]))
    assert "replaced by [redacted]" in said
    lab.save("saved.jsonl")
    log = open_log("saved.jsonl")
    assert "Wrote the report of" in log.report("own.html")
    with pytest.raises(ConfigError, match=r"log.report\('own.html', overwrite=True\)"):
        log.report("own.html")
    assert main(["report", "saved.jsonl", "--redact", "4711", "--filter", 'kind ~ "mcp/*"']) == 0
    assert "saved.html" in capsys.readouterr().out
    Path("secrets.txt").write_text(
        "4711 \n\n", encoding="utf-8-sig"
    )  # as an editor writes it that marks UTF-8
    assert main(["report", "saved.jsonl", "-o", "two.html", "--redact-from", "secrets.txt"]) == 0
    for name in ("live.html", "saved.html", "two.html"):
        page = Path(name).read_text()
        assert "4711" not in page and REDACTED in page and ">you<" not in page and "by you" not in page, name
        assert "by human" in page
        assert stat.S_IMODE(Path(name).stat().st_mode) == 0o600
    assert "4711" in Path("own.html").read_text()
    assert main(["report", "saved.jsonl"]) == 1 and "--overwrite" in capsys.readouterr().err
    Path("secrets.txt").write_text("4711\n", encoding="utf-16")
    assert main(["report", "saved.jsonl", "-o", "no.html", "--redact-from", "secrets.txt"]) == 1
    assert "secrets.txt: it is not UTF-8 text" in capsys.readouterr().err and not Path("no.html").exists()
    assert main(["report", "nothing.jsonl"]) == 1


def test_a_value_that_is_none_is_refused() -> None:
    for values in ([""], ["  "], ["x"] * 101, [5]):
        with pytest.raises(ConfigError):
            LogRedaction(values=values)  # type: ignore[arg-type]


# --- hostile contents ------------------------------------------------------------------------------------------------

ESCAPED = {
    "letters as escapes": lambda text: "".join(f"\\u{ord(c):04X}" for c in text),
    "letters in lower case": lambda text: "".join(f"\\u{ord(c):04x}" for c in text),
    "slashes": lambda text: json.dumps(text)[1:-1].replace("/", "\\/"),
    "some of both": lambda text: "".join(
        f"\\u{ord(c):04x}" if n % 3 == 0 else json.dumps(c)[1:-1] for n, c in enumerate(text)
    ),
    "of Python": lambda text: "".join(f"\\x{ord(c):02x}" for c in text),
}


@pytest.mark.threat(28)
@pytest.mark.parametrize("how", ESCAPED)
@pytest.mark.parametrize("deep", range(3))
def test_a_value_is_found_in_every_spelling_that_json_allows(how: str, deep: int) -> None:
    value = 'C:\\a"b/\\"key\\\\=é4711\\'
    text = f'{{"inside": "{ESCAPED[how](value)}"}}'
    for _ in range(deep):
        text = json.dumps({"inside": text})
    redaction = LogRedaction(values=[value])
    assert REDACTED in redaction.text(text) and redaction.replaced == 1
    for part in ("4711", b"4711".hex(), ESCAPED[how]("4711")[-6:]):
        assert part not in redaction.text(text)


def test_a_value_beyond_16_bits_is_found_as_json_escapes_it() -> None:
    for text in ("the 🌵 key", json.dumps("the 🌵 key"), json.dumps(json.dumps("🌵 key"))):
        redacted = LogRedaction(values=["🌵"]).text(text)
        assert REDACTED in redacted and "🌵" not in redacted and "f335" not in redacted


@pytest.mark.parametrize("seed", range(20))
def test_all_but_a_value_stays_as_it_is(seed: int) -> None:
    dice = random.Random(seed)
    parts = ["\\", "\\\\", "\\n", "\\u0041", "\\ud83c", "x", "é", '\\"', "\\q", "\\x4"]
    before, after = ("".join(dice.choices(parts, k=30)) for _ in range(2))
    before, after = f"{before}(", f"){after}"  # what stands beside it escapes nothing of it
    for spelt in ("#value#", "\\u0023value\\u0023"):
        assert LogRedaction(values=["#value#"]).text(before + spelt + after) == f"{before}{REDACTED}{after}"


def test_values_that_overlap_leave_no_part_of_themselves() -> None:
    assert LogRedaction(values=["aba"]).text("xababay") == f"x{REDACTED}y"
    assert LogRedaction(values=["secret-12", "12-of-ann"]).text("(secret-12-of-ann)") == f"({REDACTED})"
    assert LogRedaction(values=["4711"]).text("47114711") == REDACTED * 2


def test_what_is_redacted_is_not_redacted_again_however_many_values_there_are() -> None:
    letters = [*dict.fromkeys(REDACTED)]
    redaction = LogRedaction(values=letters)
    text = redaction.text("er" * 500)
    assert len(text) <= 1000 * len(REDACTED) and text.replace(REDACTED, "") == ""


@pytest.mark.parametrize("text", ["\\" * 100_000, '\\"' * 50_000, ("\\" * 7 + '"') * 12_000, "a\\" * 50_000])
def test_a_text_that_was_made_to_be_slow_is_read_in_linear_time(text: str) -> None:
    redaction = LogRedaction(values=['\\"' * 20 + "x", "\\\\" * 10 + "y", "a\\a\\a\\z", '"' * 30 + "z"])
    began = time.monotonic()
    assert redaction.text(text) == text
    assert time.monotonic() - began < 20


def test_two_keys_that_become_the_same_keep_their_values() -> None:
    log = live([{"kind": "chat", "payload": {"of ann": 1, "of bob": 2, "of x": 3}}])
    [record] = LogRedaction(values=["ann", "bob"]).records(log)
    assert sorted(json.loads(record.raw or "")["payload"].values()) == [1, 2, 3]


@pytest.mark.threat(28)
def test_a_message_of_which_only_the_beginning_is_kept_is_left_out_whole() -> None:
    value = "sk-live-0123456789"
    log = Log.live(space="demo")
    raw = '{"kind": "chat", "payload": {"text": "' + "x" * 50 + value[:9]  # it ends within the value
    now = datetime(2026, 1, 1, tzinfo=UTC)
    log.observe(Record(1, now, "received", "demo", "bot", verdict="refused", code="oversize", raw=raw))
    [record] = LogRedaction(values=[value]).records(log)
    assert record.raw == REDACTED
    assert "sk-live" not in session_page(log, redaction=LogRedaction(values=[value]))


HIDDEN = "hidden-words"


@pytest.mark.threat(28)
@pytest.mark.parametrize(
    ("kind", "payload"),
    [
        ("mcp/response", {"error": {"code": HIDDEN, "message": "x"}}),
        ("mcp/response", {"error": {"code": {"why": HIDDEN}}}),
        ("mcp/response", {"jsonrpc": HIDDEN, "id": HIDDEN, "result": {HIDDEN: 1}}),
        ("mcp/request", {"method": "completion/complete", "params": {"name": HIDDEN}}),
        ("mcp/request", {"method": {"tools/call": HIDDEN}, "params": [HIDDEN]}),
        ("chat", {"method": HIDDEN, "params": {"name": HIDDEN}, "text": HIDDEN, "id": HIDDEN}),
        ("participant/status", {"status": HIDDEN, "event": HIDDEN}),
    ],
)
def test_nothing_but_the_frame_of_a_message_is_kept(kind: str, payload: dict[str, Any]) -> None:
    log = Log.live(space="demo")
    members = {
        "protocol": "mew/v0.4",
        "id": "m1",
        "from": "bot",
        "kind": kind,
        "payload": payload,
        "x-note": HIDDEN,
    }
    now, pattern = datetime(2026, 1, 1, tzinfo=UTC), json.dumps({"kind": kind, "payload": {"params": HIDDEN}})
    raw = json.dumps(members)
    log.observe(
        Record(1, now, "received", "demo", "bot", verdict="accepted", pattern=pattern, detail=HIDDEN, raw=raw)
    )
    redaction = LogRedaction(contents="from == bot")
    [record] = redaction.records(log)
    assert HIDDEN not in repr(record) and HIDDEN not in session_page(log, redaction=redaction)
    kept = json.loads(record.raw or "")
    assert (kept["kind"], kept["from"]) == (kind, "bot")
