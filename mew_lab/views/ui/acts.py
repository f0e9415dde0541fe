"""Views with buttons: a page asks for an act by name, and the kernel does it where the request is its own.

A view sends the name of an act, what the person chose, and the nonce that this kernel gave it: what comes out of a
saved notebook, or from another kernel, is refused. An act checks what it was given, starts work and gives a `Future`;
what became of it goes to the view that asked, as a sentence. Nothing here waits, and nothing here is synced state, so
nothing of it is saved.

It does not know the acts; a subclass lists them.
"""

from __future__ import annotations

import hmac
import json
import secrets
from collections.abc import Callable, Mapping
from concurrent.futures import CancelledError, Future
from typing import Any, NamedTuple

from mew_lab.errors import MewError
from mew_lab.protocol.visible import one_line
from mew_lab.views.ui.live import LiveWidget

__all__ = ["Act", "ActResult", "ActingWidget"]

MOST_CHARACTERS = 1_000_000
MOST_UNDER_WAY = 64
STALE = "This view does not belong to the running kernel, so nothing was done. Run its cell again."


class ActResult(NamedTuple):
    """What an act gives: the sentence that the person reads, and data for the view that asked."""

    sentence: str
    value: Any = None


Act = Callable[[Mapping[str, Any]], "Future[Any] | ActResult | str"]
"""Takes what the view sent as `with`, a JSON object; refuses with a MewError whose sentence the person reads.

A future's result is an `ActResult`, or anything whose `str` is the sentence.
"""


class ActingWidget(LiveWidget):
    """A live view with buttons; `_acts` names what they do."""

    def __init__(self, **traits: Any) -> None:
        self._nonce = secrets.token_hex(16)
        self._jobs: set[tuple[str, int]] = set()
        super().__init__(**traits)

    def _acts(self) -> Mapping[str, Act]:
        """The acts by the names that the front end uses."""
        return {}

    def _gather(self) -> list[dict[str, Any]]:
        return [
            item | {"nonce": self._nonce} if item.get("t") == "snapshot" else item
            for item in super()._gather()
        ]

    def _handle(self, message: dict[str, Any]) -> None:
        if message.get("t") == "act":
            self._begin(message)

    def _begin(self, message: dict[str, Any]) -> None:
        view, job = str(message.get("view"))[:40], message.get("job")
        if not isinstance(job, int):
            return
        try:
            outcome = self._run_act(message)
        except MewError as refusal:
            self._answer_act(view, job, "failed", one_line(str(refusal), 600))
        except Exception as error:
            self.fault(error)
            self._answer_act(view, job, "failed", f"{type(error).__name__}: {one_line(str(error), 400)}")
        else:
            if isinstance(outcome, Future):
                self._jobs.add((view, job))
                outcome.add_done_callback(lambda done: self._finish_act(view, job, done))
            else:
                self._report_act(view, job, outcome)

    def _run_act(self, message: dict[str, Any]) -> Any:
        nonce, params = message.get("nonce"), message.get("with", {})
        if not isinstance(nonce, str) or not hmac.compare_digest(
            nonce.encode("utf-8", "replace"), self._nonce.encode()
        ):
            raise MewError(STALE)
        act = self._acts().get(str(message.get("act")))
        if act is None or not isinstance(params, dict):
            raise MewError("The view asked for something that this kernel does not know. Run its cell again.")
        if len(json.dumps(params)) > MOST_CHARACTERS:
            raise MewError(f"That is more than {MOST_CHARACTERS} characters; send it in code: lab.send(…).")
        if len(self._jobs) >= MOST_UNDER_WAY:
            raise MewError(
                f"{MOST_UNDER_WAY} acts of this view wait for their end already; wait for one of them."
            )
        return act(params)

    def _finish_act(self, view: str, job: int, done: Future[Any]) -> None:
        self._jobs.discard((view, job))
        try:
            result = done.result()
        except CancelledError:
            self._answer_act(view, job, "failed", "It was cancelled before it was done.")
        except MewError as refusal:
            self._answer_act(view, job, "failed", one_line(str(refusal), 600))
        except Exception as error:
            self.fault(error)
            self._answer_act(view, job, "failed", f"{type(error).__name__}: {one_line(str(error), 400)}")
        else:
            self._report_act(view, job, result)

    def _report_act(self, view: str, job: int, outcome: Any) -> None:
        sentence, value = outcome if isinstance(outcome, ActResult) else (str(outcome), None)
        self._answer_act(view, job, "done", one_line(sentence, 600), value)

    def _answer_act(self, view: str, job: int, how: str, sentence: str, value: Any = None) -> None:
        self.post({"t": how, "view": view, "job": job, "said": sentence, "value": value})
