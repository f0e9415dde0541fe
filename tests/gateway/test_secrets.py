"""Secrets planted everywhere: none of them comes into the journal, the peers' files, a log, a repr or an error.

A token that a peer says itself, in a message that is delivered to all, stands in the journal as it was delivered: a
gateway that blotted it out there would tell everybody who guesses tokens when a guess was right. The peers' files,
which nobody replays, show its mask.
"""

from __future__ import annotations

import io
import json
import logging
import tempfile
import traceback
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mew_lab.errors import MewError
from mew_lab.gateway.admission import bearer, read_join, without_join
from mew_lab.gateway.auth import mint
from mew_lab.gateway.config import ParticipantConfig, SpaceConfig
from mew_lab.gateway.delivery import Frame
from mew_lab.gateway.gateway import Gateway
from mew_lab.log.journal import Journal
from mew_lab.log.log import open_log
from mew_lab.log.peer_files import JournalLines
from mew_lab.protocol.token import Token, mask

LIMIT = 4096
ODD = ["token-of-a-file-ümläut", 'a-token"with\\quotes', "short", "tok_…that-looks-masked"]
pieces = st.text('ab{}[]":,\\\n #é\u2028', max_size=8)


class Ear:
    """A connection that hears."""

    def __init__(self) -> None:
        self.heard: list[str] = []

    def put(self, frame: Frame) -> None:
        self.heard.append(str(frame.message))

    def close(self, code: int, reason: str, *, drop: bool = False) -> None:
        self.heard.append(reason)

    async def alive(self, timeout: float) -> bool:
        return True


def escape(secret: str, every: int) -> str:
    """The secret as a string of JSON may write it, with each so-manyth character spelt out."""
    if not every:
        return json.dumps(secret, ensure_ascii=False)[1:-1]
    return "".join(
        f"\\u{ord(one):04x}" if at % every == 0 else json.dumps(one, ensure_ascii=False)[1:-1]
        for at, one in enumerate(secret)
    )


def planted(draw: st.DrawFn, secret: str) -> tuple[str, str]:
    """A text with the secret somewhere in it, and the kind of place."""
    around, behind = draw(pieces), draw(pieces)
    quoted = json.dumps(around, ensure_ascii=False)[1:-1] + escape(secret, draw(st.sampled_from([0, 1, 3])))
    place = draw(
        st.sampled_from(
            ["value", "key", "from", "id", "kind", "refused", "join", "torn join", "late", "frame"]
        )
    )
    text = {
        "value": f'{{"kind":"chat","payload":{{"text":["{quoted}"]}}}}',
        "key": f'{{"kind":"chat","payload":{{"{quoted}":{{"{quoted}":1}}}}}}',
        "from": f'{{"kind":"chat","from":"{quoted}","payload":{{}}}}',
        "id": f'{{"kind":"chat","id":"x{escape(secret, 0)}","payload":{{}}}}',
        "kind": f'{{"kind":"{quoted}","payload":{{}}}}',
        "refused": f'{{"kind":"system/x","payload":{{"text":"{quoted}"}}}}',
        "join": f'{{"type":"join","space":"demo","token":"{escape(secret, 2)}"}}',
        "torn join": f'{{"type":"join","space":"demo","token":"{secret}"',
        "late": f'{{"kind":"system/join","payload":{{"token":"{quoted}"}}}}',
        "frame": f"#{secret}#{behind}",
    }[place]
    return text, place


def told(value: Any) -> str:
    """Every way in which a value may be shown by accident."""
    return f"{value!r} {value!s} {value}"


@pytest.mark.threat(1)
@settings(suppress_health_check=[HealthCheck.too_slow], deadline=None)
@given(st.data())
def test_a_secret_comes_nowhere(data: st.DataObject) -> None:
    secret = data.draw(st.sampled_from([*ODD, "minted", "minted"]))
    token = mint() if secret == "minted" else Token(secret)
    secret = token.reveal()
    places = [planted(data.draw, secret) for _ in range(data.draw(st.integers(1, 6)))]
    out = io.StringIO()
    theirs = logging.StreamHandler(out)
    logging.getLogger().addHandler(theirs)
    folder = Path(tempfile.mkdtemp())
    gateway = Gateway()
    try:
        people = {name: ParticipantConfig(capabilities=[{"kind": "*"}]) for name in ("anna", "bert")}
        journal = Journal(folder / "journal.jsonl")
        gateway.add_space(SpaceConfig(name="demo", participants=people), journal=journal)
        gateway.tokens.add("demo", "anna", token)
        shown = (
            told(gateway.tokens)
            + told(vars(gateway.tokens))
            + told(journal)
            + told(bearer(f"Bearer {secret}"))
        )
        with pytest.raises(MewError) as caught:
            gateway.tokens.add("demo", "bert", token)
        shown += "".join(traceback.format_exception(caught.value)) + told(caught.value)
        logger = logging.getLogger("mew_lab.gateway.of-this-test")
        ears = {name: Ear() for name in people}
        names = {name: gateway.admit("demo", name, ear) for name, ear in ears.items()}
        for text, _ in places:
            shown += told(read_join(text, limit=LIMIT))
            gateway.receive("demo", names["anna"], without_join(text, limit=LIMIT))
            logger.error("of %s: %r", text, ValueError(secret))
        gateway.post("demo", "anna", '{"kind":"space/invite","payload":{"participant_id":"dora"}}')
        (ack,) = (one for one in ears["anna"].heard if '"space/invite-ack"' in one)
        minted = json.loads(ack)["payload"]["token"]
        maker = JournalLines("the journal")
        records = list(open_log(folder / "journal.jsonl").records)
        lines = [line for record in records for some in maker.take(record) for line in some]
        every = folder.joinpath("journal.jsonl").read_text() + "\n".join(lines) + shown + out.getvalue()
        assert minted not in every + "".join(ears["bert"].heard)
        for line in (json.dumps(json.loads(line), ensure_ascii=False) for line in lines):
            assert secret not in line and json.dumps(secret, ensure_ascii=False)[1:-1] not in line
        assert secret not in shown + out.getvalue()
        said = {"value", "key", "from", "id", "kind", "refused", "frame"}
        if not any(place in said for _, place in places):  # then nobody has said it but in a join frame
            decoded = json.dumps([list(record) for record in records], default=str, ensure_ascii=False)
            assert secret not in decoded and escape(secret, 0) not in decoded
    finally:
        logging.getLogger().removeHandler(theirs)
        gateway.close()
        journal.close()
    assert mask(secret) == secret or secret in ODD
