"""Performs the acts that the buttons of a view request.

A view sends the name of an act, its parameters, and the nonce that this kernel gave to the view. A request with
another nonce comes from a saved notebook or from another kernel, and is refused. The types of the parameters are checked
here, before the act starts its work. The view that sent the request gets the outcome as a sentence. Nothing here waits.
Nothing here is synced state, so a notebook saves none of it.

The acts themselves are listed by the subclasses.
"""

from __future__ import annotations

import hmac
import secrets
from collections.abc import Callable, Coroutine, Mapping
from concurrent.futures import CancelledError, Future
from typing import Any, NamedTuple, Protocol

from mew_lab.errors import MewError
from mew_lab.lab.listing import Listing
from mew_lab.lab.subscribers import Subscribers
from mew_lab.protocol.visible import one_line
from mew_lab.views.ui.live import LiveView
from mew_lab.views.ui.messages import read_message

__all__ = ["ANEW", "Act", "ActResult", "ActingView", "Submit"]

ANEW = "Run its cell again, or load its page anew."
STALE = f"This view does not belong to the running kernel, so nothing was done. {ANEW}"
Submit = Callable[[Coroutine[Any, Any, Any]], "Future[Any]"]


class ActResult(NamedTuple):
    """The result of an act: the sentence that the person reads, and data for the view that requested the act."""

    sentence: str
    value: Any = None


Act = Callable[..., "Coroutine[Any, Any, Any] | Future[Any] | ActResult | str"]
"""Takes what the view sent as `with`, see `ui.messages`; raises a MewError, whose text the person reads, to refuse it.

A coroutine is run on the loop. The result, or that of the future, is an `ActResult`, or an object whose `str` is the
sentence.
"""


class Stopping(Protocol):
    """The one stop of a lab, as `lab/stop.py` has it; its methods run on the loop."""

    @property
    def text(self) -> str:
        """Who stopped the lab and when; empty while it is not stopped."""

    @property
    def changed(self) -> Subscribers[()]: ...
    async def stop(self) -> Listing:
        """Stops everything; returns what was seen to happen."""

    async def go(self, shown_in: str = "") -> Listing:
        """Lists what going on undoes; where that was shown before, does it."""


class ActingView(LiveView):
    """A live view with buttons, whose acts `_acts` lists. The views of a lab can also stop it and go on.

    Args:
        submit: Runs the coroutine of an act on the loop.
    """

    def __init__(self, *, submit: Submit | None = None, **settings: Any) -> None:
        self._nonce = secrets.token_hex(16)
        self._submit_act = submit
        self._stopping: tuple[Stopping, Submit] | None = None
        super().__init__(**settings)

    def _acts(self) -> Mapping[str, Act]:
        """The acts by the names that the front end uses."""
        return {}

    @property
    def acts(self) -> Mapping[str, Act]:
        """The acts that a page may request, by name."""
        return (
            self._acts() if self._stopping is None else {**self._acts(), **self._stop_acts(*self._stopping)}
        )

    def follow_stop(self, stopping: Stopping, submit: Submit) -> None:
        """Shows from now on whether the lab is stopped, and lets a page stop it and go on."""
        self._stopping = stopping, submit
        self.on_close(stopping.changed.add(lambda: self.post({"t": "stopped", "text": stopping.text})))

    def _stop_acts(self, stopping: Stopping, submit: Submit) -> Mapping[str, Act]:
        async def stop() -> ActResult:
            return _stop_result(await stopping.stop(), done=True)

        async def go_on(page: str) -> ActResult:
            report = await stopping.go(f"{self._nonce} {page[:100]}")
            return _stop_result(report, done=not stopping.text)

        def take_stop() -> Future[Any]:
            return submit(stop())

        def take_go_on(page: str) -> Future[Any]:
            return submit(go_on(page))

        return {"stop everything": take_stop, "go on": take_go_on}

    def _gather(self) -> list[dict[str, Any]]:
        about = {"nonce": self._nonce}
        if self._stopping is not None:
            about["stopped"] = self._stopping[0].text
        return [item | about if item.get("t") == "snapshot" else item for item in super()._gather()]

    def _common_messages(self) -> dict[str, Callable[..., None]]:
        return super()._common_messages() | {"act": self._take_act}

    def is_own(self, nonce: object) -> bool:
        """Whether this kernel gave the nonce to a page of this view."""
        given = nonce.encode("utf-8", "replace") if isinstance(nonce, str) else b""
        return hmac.compare_digest(given, self._nonce.encode())

    def _take_act(self, view: str, job: int, act: str, nonce: Any = None, with_: Any = None) -> None:
        # The nonce is examined first: a page of another kernel is told so, whatever it sends.
        self._report_act(view, job, lambda: self._run_act(act, nonce, with_))

    def _run_act(self, name: str, nonce: Any, given: Any) -> Any:
        if not self.is_own(nonce):
            raise MewError(STALE)
        act = self.acts.get(name)
        if act is None:
            raise MewError(f"The view requested an act that this kernel does not know. {ANEW}")
        members = read_message(act, given)
        if members is None:
            raise MewError(
                f"The view sent an incomplete or malformed request ({name}), so nothing was done. {ANEW}"
            )
        begun = act(**members)
        return self._submit_act(begun) if isinstance(begun, Coroutine) and self._submit_act else begun

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
                outcome.add_done_callback(lambda done: self._report_act(view, job, done.result))
                return
            sentence, value = outcome if isinstance(outcome, ActResult) else (str(outcome), None)
            self._answer_act(view, job, "done", one_line(sentence, 600), value)

    def _answer_act(self, view: str, job: int, how: str, sentence: str, value: Any = None) -> None:
        self.post({"t": how, "view": view, "job": job, "said": sentence, "value": value})


def _stop_result(report: Listing, *, done: bool) -> ActResult:
    lines = [f"{what}: {seen}" for what, seen in report]
    return ActResult(report.title or report.empty, {"done": done, "lines": lines})
