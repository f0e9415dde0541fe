"""Journals with lines of every kind that a program or an enemy could leave in them, made from a seed."""

from __future__ import annotations

import json
import random

from mew_lab.log.line import NO_CHAIN, chain_line, write_line
from tests.log.sessions import session
from tests.log.stage import Stage

__all__ = ["hostile_journal", "hostile_lines"]


def honest_lines(dice: random.Random, events: int) -> list[bytes]:
    """The chained lines of a random session, without their line feeds."""
    stage = Stage()
    for event in session(stage.space, dice.randrange(1 << 30), events):
        stage.play(event)
    lines, chain = [], NO_CHAIN
    for record in stage.records:
        line, chain = chain_line(write_line(record), chain)
        lines.append(line[:-1])
    return lines


MESSAGE = b'{"id":"x1","from":"bot","to":["fs"],"kind":"mcp/request","payload":{"method":"tools/call","params":{"name":"f"}}}'
HEAD = (
    b'{"seq":7,"now":"2026-11-21T22:40:01.123456Z","event":"received","space":"demo","participant":"bot",'
    b'"connection":"c1","via":"memory","verdict":"accepted","code":"","pattern":"","detail":"","received":null'
)


def hostile_lines() -> list[bytes]:
    """Lines that break one rule each, or look as if they did."""
    usual = HEAD + b',"envelope":' + MESSAGE + b"}"
    chain = b',"chain":"' + b"0" * 64 + b'"}'
    change = [
        (b'"kind":"mcp/request"', b'"kind":5'),
        (b'"kind":"mcp/request"', b'"kind":"a","kind":"b"'),
        (b'"kind":"mcp/request"', b'"kin\\u0064":"c","kind":"d"'),
        (b'"id":"x1"', b'"id":["x1"]'),
        (b'"id":"x1"', b'"id":"\\u0000"'),
        (b'"id":"x1"', b'"id":"\\ud800"'),
        (b'"id":"x1"', b'"id":"\xff"'),
        (b'"id":"x1"', b'"id":"\xf0\x9f\x98\x80"'),
        (b'"id":"x1"', b'"id":123456789012345678901234567890'),
        (b'"id":"x1"', b'"correlation_id":["a","b",3,""]'),
        (b'"id":"x1"', b'"correlation_id":"a"'),
        (b'"id":"x1"', b'"correlation_id":{"a":1}'),
        (b'"to":["fs"]', b'"to":"fs"'),
        (b'"to":["fs"]', b'"to":["fs",null,"git"]'),
        (b'"to":["fs"]', b'"to":[null]'),
        (b'"to":["fs"]', b'"to":[["fs"]]'),
        (b'"to":["fs"]', b'"to":7'),
        (b'"name":"f"', b'"name":["f"]'),
        (b'"name":"f"', b'"name":"f","name":"g"'),
        (b'"method":"tools/call"', b'"method":{}'),
        (b'"params":', b'"params":3,"more":'),
        (b'"payload":{', b'"payload":[{'),
        (b'"payload":{', b'"payload":null,"x":{'),
        (b'"name":"f"}}}', b'"name":"f"},}}'),
        (b'"name":"f"}}}', b'"name":NaN}}}'),
        (b'"name":"f"}}}', b'"name":-Infinity}}}'),
        (b'"name":"f"}}}', b'"name":' + b"[" * 70 + b"]" * 70 + b"}}}"),
        (b'"name":"f"}}}', b'"name":' + b"[" * 3000 + b"]" * 3000 + b"}}}"),
        (b'"name":"f"}}}', b'"name":"' + b"[{" * 70 + b'"}}}'),
        (b'"name":"f"}}}', b'"name":"f"}}} '),
        (b'"seq":7', b'"seq":07'),
        (b'"seq":7', b'"seq":-7'),
        (b'"seq":7', b'"seq":-9223372036854775808'),
        (b'"seq":7', b'"seq":7.0'),
        (b'"seq":7', b'"seq":"7"'),
        (b'"seq":7', b'"seq":true'),
        (b'"seq":7', b'"seq":9223372036854775808'),
        (b'"seq":7', b'"seq":999999999999999999'),
        (b'"seq":7', b'"seq":1_0'),
        (b'"seq":7', b'"seq" : 7'),
        (b'"seq":7', b'"seq":7,"seq":8'),
        (b'"event"', b'"seq":9,"event"'),
        (b'"event":"received"', b'"event":"received","seq":9'),
        (b'"event":"received"', b'"event":"received","s\\u0065q":9'),
        (b'"event":"received"', b'"event":"received","now":"2020-01-01T00:00:00.000000Z"'),
        (b'"event":"received"', b'"event":5'),
        (b'"event":"received"', b'"event":"received","text":"other"'),
        (b"22:40:01.123456Z", b"22:40:01Z"),
        (b"22:40:01.123456Z", b"22:61:01.123456Z"),
        (b"22:40:01.123456Z", b"22:40:60.123456Z"),
        (b"22:40:01.123456Z", b"22:40:01.12345xZ"),
        (b"22:40:01.123456Z", b"22:40:01.123456+01:00"),
        (b"2026-11-21T", b"2026-11-21 "),
        (b"2026-11-21T", b"2026-02-30T"),
        (b"2026-11-21T", b"0000-11-21T"),
        (b"2026-11-21T", b"2026-W4-121"),
        (b'"verdict":"accepted"', b'"verdict":"refused"'),
        (b'"verdict":"accepted"', b'"verdict":null'),
        (b'"verdict":"accepted"', b'"verdict":"accepted","received":"before"'),
        (b'"verdict":"accepted"', b'"verdict":"accepted","received":5'),
        (b'"verdict":"accepted"', b'"verdict":"sent","to":["c1","c2"]'),
        (b'"verdict":"accepted"', b'"verdict":"sent","to":["c1",2]'),
        (b'"verdict":"accepted"', b'"verdict":"accepted","future":{"a":[1]}'),
        (b'"verdict":"accepted"', b'"verdict":"accepted","detail":"' + b"y" * 3000 + b'"'),
        (b'"verdict":"accepted"', b'"verdict":"accepted","detail":"\\u0000\\n\xc3\xa9"'),
        (b',"envelope":', b', "envelope": '),
        (b',"envelope":', b',"envelope":{},"envelope":'),
        (b"}}}}", b'}}},"after":1}'),
    ]
    lines = [usual.replace(old, new, 1) for old, new in change]
    assert usual not in lines
    lines += [line[:-1] + chain for line in (usual, *lines)]
    lines += [
        usual[:-1] + b',"chain":"' + b"g" * 64 + b'"}',
        usual[:-1] + b" }",
        usual[:-1] + b" " + chain,
        usual[:-1] + chain.replace(b":", b" : "),
        usual[:-1] + b',"chain":"' + b"\\u0030" * 64 + b'"}',
        usual + b"\r",
        usual + b" ",
        b" " + usual,
        usual + usual,
    ]
    refusal = b'{"seq":8,"now":"2026-11-21T22:40:01.123456Z","event":"received","verdict":"refused","detail":'
    lines += [
        refusal + b'"{\\"size\\":9000,\\"sha256\\":\\"0\\",\\"messages\\":1,\\"why\\":\\"\\"}","text":"{\\"kind\\":"}',
        refusal + b'"{\\"size\\":9000,\\"sha256\\":\\"0\\",\\"messages\\":1,\\"why\\":\\"\\"}","envelope":' + MESSAGE + b"}",
        refusal + b'"","base64":"7aCA"}',
        refusal + b'"","base64":"!"}',
        refusal + b'"","text":"a\\nb"}',
        refusal + b'"","text":5}',
        refusal + b'""}',
        b"", b"  ", b"\t\r", b"null", b"[]", b"{}", b"[" * 5000, b"\x00\x00", b"\xef\xbb\xbf" + usual, b'"', b"\xff",
        json.dumps({"seq": 9, "now": "2026-11-21T22:40:01Z", "event": "note", "detail": "é \U0001f600"}).encode(),
    ]  # fmt: skip
    return lines


def hostile_journal(seed: int, *, events: int = 60, odd: int = 60) -> bytes:
    """A journal whose honest lines alternate with hostile ones; its end may be torn."""
    dice = random.Random(seed)
    lines = honest_lines(dice, events)
    strange = hostile_lines()
    for _ in range(odd):
        line = dice.choice(strange)
        if dice.random() < 0.3:  # a byte of an honest or a hostile line is another one
            line = bytearray(dice.choice([line, dice.choice(lines)]) or b"x")
            line[dice.randrange(len(line))] = dice.choice(b'{}[]",:0\\ xZ\x00\xff')
            line = bytes(line).replace(b"\n", b"")
        lines.insert(dice.randrange(1, len(lines) + 1), line)
    data = b"\n".join(lines) + b"\n"
    end = dice.random()
    if end < 0.3:
        data = data[: -dice.randint(1, 60)]
    elif end < 0.5:
        data += b"  "
    return data
