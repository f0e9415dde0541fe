"""Performs the acts that the buttons of a view request.

A view sends the name of an act, its parameters, and the nonce that this kernel gave to the view. A request with
another nonce comes from a saved notebook or from another kernel, and is refused. An act checks its parameters, starts
its work and returns a `Future`. The view that sent the request gets the outcome as a sentence. Nothing here waits.
Nothing here is synced state, so a notebook saves none of it.

The acts themselves are listed by the subclasses.
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
    """The result of an act: the sentence that the person reads, and data for the view that requested the act."""

    sentence: str
    value: Any = None


Act = Callable[[Mapping[str, Any]], "Future[Any] | ActResult | str"]
"""Takes the JSON object that the view sent as `with`; raises a MewError, whose text the person reads, to refuse it.

The result of the future is an `ActResult`, or an object whose `str` is the sentence.
"""


class ActingWidget(LiveWidget):
    """A live view with buttons, whose acts `_acts` lists."""

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
        self._report_act(view, job, lambda: self._run_act(message))

    def _run_act(self, message: dict[str, Any]) -> Any:
        nonce, params = message.get("nonce"), message.get("with", {})
        if not isinstance(nonce, str) or not hmac.compare_digest(
            nonce.encode("utf-8", "replace"), self._nonce.encode()
        ):
            raise MewError(STALE)
        act = self._acts().get(str(message.get("act")))
        if act is None or not isinstance(params, dict):
            raise MewError("The view requested an act that this kernel does not know. Run its cell again.")
        if len(json.dumps(params)) > MOST_CHARACTERS:
            raise MewError(
                f"The input has more than {MOST_CHARACTERS} characters; send it in code: lab.send(…)."
            )
        if len(self._jobs) >= MOST_UNDER_WAY:
            raise MewError(
                f"{MOST_UNDER_WAY} actions of this view are still running; wait until one of them has ended."
            )
        return act(params)

    def _finish_act(self, view: str, job: int, done: Future[Any]) -> None:
        self._jobs.discard((view, job))
        self._report_act(view, job, done.result)

    def _report_act(self, view: str, job: int, get: Callable[[], Any]) -> None:
        """Answers with what `get` returns, now or when that future is done, or with the reason why it fails."""
        try:
            outcome = get()
        except CancelledError:
            self._answer_act(view, job, "failed", "The action was ended, and may have been done in part.")
        except MewError as refusal:
            self._answer_act(view, job, "failed", one_line(str(refusal), 600))
        except Exception as error:
            self.fault(error)
            self._answer_act(view, job, "failed", f"{type(error).__name__}: {one_line(str(error), 400)}")
        else:
            if isinstance(outcome, Future):
                self._jobs.add((view, job))
                outcome.add_done_callback(lambda done: self._finish_act(view, job, done))
                return
            sentence, value = outcome if isinstance(outcome, ActResult) else (str(outcome), None)
            self._answer_act(view, job, "done", one_line(sentence, 600), value)

    def _answer_act(self, view: str, job: int, how: str, sentence: str, value: Any = None) -> None:
        self.post({"t": how, "view": view, "job": job, "said": sentence, "value": value})
