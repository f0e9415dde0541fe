"""Tells a program of the user's that something waits for her decision: a signed message to an address that she set.

The address is an argument of `up` and `connect`, an option of `%mew` and programs, or the environment variable
MEW_LAB_NOTIFY, so it is hers; a space.yaml cannot set it. The message says the space, how many proposals and questions
wait, and for how long the oldest does. Where she asked for it, it also names proposer, tool and digest of each, never
arguments. It has no link, and nothing decides through it.

It is signed as Standard Webhooks says, with a secret in a file that only she can read. It goes over https, or over http
to this machine, in a thread of its own: no redirect is followed, no proxy of the environment is used, no more than the
status of the answer is read, each of 3 tries has 5 seconds, and one message a minute is the most.

Spec: Standard Webhooks 1.0; threats 1, 25, 28.
"""

from __future__ import annotations

import asyncio
import base64
import os
import secrets
import socket
import time
import uuid
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

from mew_lab.errors import ConfigError
from mew_lab.gateway.auth import read_token_file
from mew_lab.lab.decisions.cards import Card
from mew_lab.protocol.address import is_this_machine
from mew_lab.protocol.envelope import compact
from mew_lab.protocol.token import Token
from mew_lab.protocol.visible import one_line
from mew_lab.sdk.group import run_aside
from mew_lab.settings.environment import state_folder
from mew_lab.transport.scratch import path_beside
from mew_lab.version import VERSION

__all__ = ["Notifier", "Notify", "notify_from"]

VARIABLE, CONTENT = "MEW_LAB_NOTIFY", "MEW_LAB_NOTIFY_CONTENT"
WITHIN = 5.0  # seconds of one try, from the search for the address to the status of the answer
TRIES = 3
AGAIN_AFTER = (1.0, 5.0)  # seconds before the second and the third try
APART = 60.0  # seconds between two messages
GATHERING = 1.0  # seconds in which proposals that come together are one message
MOST_NAMED = 20  # proposals of one message
MAX_NAME = 80  # characters
LEAST_KEY = 24  # bytes; Standard Webhooks, "Signature scheme"
THREAD = "mew-lab-notify"
TYPE = "mew_lab.waiting"


@dataclass(frozen=True, slots=True)
class Notify:
    """Where to tell that something waits.

    Attributes:
        url: https, or http on this machine. It may hold a secret, so it is shown nowhere but its host.
        content: Whether proposer, tool and digest of each proposal are told, too.
        secret_file: The file of the secret, `whsec_` and Base64; None is `notify.secret` in the user's folder of state.
            Where it is missing, it is made, readable by her alone.
    """

    url: Token
    content: bool = False
    secret_file: Path | None = None

    @property
    def host(self) -> str:
        """Such as `https://example.org`, for a sentence."""
        import httpx2

        url = httpx2.URL(self.url.reveal())
        return one_line(f"{url.scheme}://{url.host}", 120)

    @classmethod
    def of(cls, url: str | Token, *, content: bool = False, secret_file: Path | str | None = None) -> Notify:
        """What a setting states.

        Raises:
            ConfigError: It is no address that a secret may be sent to.
        """
        text = url.reveal() if isinstance(url, Token) else url
        fault = _find_fault(text)
        if fault:
            raise ConfigError(f"Cannot tell anybody what waits: {fault}", key="notify")
        return cls(Token(text), bool(content), None if secret_file is None else Path(secret_file))

    def with_options(self, *, content: bool = False, secret_file: Path | str | None = None) -> Notify:
        """The same address, told more, or signed with the secret of another file."""
        file = self.secret_file if secret_file is None else Path(secret_file).expanduser()
        return replace(self, content=self.content or content, secret_file=file)


def _find_fault(text: str) -> str:
    """Why an address cannot be told; empty where it can. The address is not repeated, for it may hold a secret."""
    import httpx2  # here and below: whoever tells nobody does not wait for it

    if not text.isprintable() or " " in text or "\\" in text:
        return "notify is no URL"
    try:
        url = httpx2.URL(text)
    except (httpx2.InvalidURL, TypeError, ValueError):
        return "notify is no URL"
    if url.userinfo or url.fragment:
        return "notify has a user name or a fragment, which no address of a hook has"
    if not url.host:
        return "notify names no host"
    if url.port is not None and not 0 < url.port < 65536:
        return "notify has a port that is none, from 1 to 65535"
    if url.scheme == "https" or (url.scheme == "http" and is_this_machine(url.host)):
        return ""
    return "notify is https://…, or http:// to this machine: elsewhere others could read what is sent"


def notify_from(
    stated: str | Path | Notify | bool | None, *, environ: Mapping[str, str] = os.environ
) -> Notify | None:
    """Whom to tell: the argument, else what the user's environment says; None where nobody is told.

    Args:
        stated: An address, the path of a file that holds it and that only she can read, a `Notify`, or False for nobody,
            whatever the environment says.

    Raises:
        ConfigError: It is no address that a secret may be sent to, or others can read its file.
    """
    if isinstance(stated, Path):
        return Notify.of(_read_address(stated))
    if isinstance(stated, Notify):
        return Notify.of(stated.url, content=stated.content, secret_file=stated.secret_file)
    if stated is not None and stated is not False:
        if not isinstance(stated, str | Token):
            raise ConfigError(
                "notify is an address, such as https://example.org/hook, the Path of a file that holds it, or False, "
                f"and not of type {type(stated).__name__}",
                key="notify",
            )
        return Notify.of(stated)
    if stated is False:
        return None
    url = environ.get(VARIABLE, "")
    return Notify.of(url, content=environ.get(CONTENT, "") == "1") if url else None


def _read_address(path: Path) -> Token:
    try:
        return read_token_file(path)
    except ConfigError as fault:
        raise ConfigError(
            "Cannot tell anybody what waits: notify is https://…, or the path of a file that holds such an address; "
            f"{fault}",
            path=str(path),
            key="notify",
        ) from None


class Waiting(NamedTuple):
    """What waits for a decision: the open cards, how many questions, and since when the oldest, in seconds."""

    cards: Sequence[Card]
    questions: int
    since: float


class Notifier:
    """Tells one address of what waits in one lab. It runs on the lab's loop, its messages in a thread.

    Args:
        waiting: What waits now.
        fault: Called with a sentence where a message could not be delivered.
    """

    def __init__(
        self,
        notify: Notify,
        *,
        space: str,
        waiting: Callable[[], Waiting],
        fault: Callable[[str], object],
        clock: Callable[[], float] = time.time,
        apart: float = APART,
        wait: Callable[[float], Awaitable[object]] = asyncio.sleep,
    ) -> None:
        self._notify = notify
        self._space = space
        self._waiting = waiting
        self._fault = fault
        self._clock = clock
        self._apart = apart
        self._wait = wait
        self._sign = _signer(_read_secret(notify))
        self._known: set[str] = set()
        self._task: asyncio.Task[None] | None = None
        self._next = 0.0  # the loop's time from which another message may be sent
        self._is_over = False

    def note(self, id: str, is_open: bool) -> None:
        """Takes that a proposal or a question is open, or is not any more. To be called on the loop."""
        if not is_open:
            self._known.discard(id)
        elif id not in self._known and not self._is_over:
            self._known.add(id)
            if self._task is None or self._task.done():
                self._task = asyncio.get_running_loop().create_task(self._tell())

    def close(self) -> None:
        """Tells nothing any more."""
        self._is_over = True
        if self._task is not None:
            self._task.cancel()

    async def _tell(self) -> None:
        loop = asyncio.get_running_loop()
        told: set[str] = set()
        while not self._is_over and not self._known <= told:
            await self._wait(max(GATHERING, self._next - loop.time()))
            told = set(self._known)
            waiting = self._waiting()
            if not waiting.cards and not waiting.questions:
                continue  # somebody, or a policy, was faster
            self._next = loop.time() + self._apart
            await self._deliver(self._body(waiting))

    def _body(self, waiting: Waiting) -> str:
        now = self._clock()
        data: dict[str, Any] = {
            "space": one_line(self._space, MAX_NAME),
            "waiting": len(waiting.cards) + waiting.questions,
            "oldest_seconds": max(0, int(now - waiting.since)),
        }
        if self._notify.content:
            data["proposals"] = [
                {
                    "proposer": one_line(card.proposer, MAX_NAME),
                    "tool": one_line(card.tool or card.method, MAX_NAME),
                    "digest": card.digest,
                }
                for card in waiting.cards[:MOST_NAMED]
            ]
        at = datetime.fromtimestamp(now, UTC)
        return compact({"type": TYPE, "timestamp": f"{at:%Y-%m-%dT%H:%M:%SZ}", "data": data})

    async def _deliver(self, body: str) -> None:
        id = f"msg_{uuid.uuid4().hex}"  # the same for each try, by which a receiver knows a repeat
        why = ""
        for n in range(TRIES):
            if n:
                await self._wait(AGAIN_AFTER[n - 1])
            status, why = await run_aside(lambda: self._send_once(id, body), name=THREAD)
            if 200 <= status < 300:
                return
            if status == 410:  # Standard Webhooks: the receiver wants no more
                self._is_over = True
                why = "it answered 410, so it is told nothing more"
            if status and status < 500 and status != 429:
                break
        self._fault(f"{self._notify.host} could not be told that something waits for you: {why}")

    def _send_once(self, id: str, body: str) -> tuple[int, str]:
        """Sends a message, in a thread; returns the status of the answer, 0 without one, and what was wrong."""
        try:
            with asyncio.Runner(loop_factory=_new_loop) as runner:
                status = runner.run(self._post(id, body))
        except TimeoutError:
            return 0, f"it gave no answer within {WITHIN:g} s"
        except Exception as fault:  # a library's error may quote the address
            return 0, f"it cannot be reached ({type(fault).__name__})"
        if 300 <= status < 400:
            return (
                status,
                f"it answered {status}, and no redirect is followed: set the address that it leads to",
            )
        return status, f"it answered {status}"

    async def _post(self, id: str, body: str) -> int:
        import httpx2

        now = datetime.now(UTC)
        headers = {
            "content-type": "application/json",
            "accept-encoding": "identity",
            "user-agent": f"mew_lab/{VERSION}",
            "webhook-id": id,
            "webhook-timestamp": str(int(now.timestamp())),
            "webhook-signature": self._sign(id, now, body),
        }
        async with (
            asyncio.timeout(WITHIN),
            httpx2.AsyncClient(
                trust_env=False,
                follow_redirects=False,
                timeout=WITHIN,
                limits=httpx2.Limits(max_connections=1),
            ) as client,
            client.stream(
                "POST", self._notify.url.reveal(), content=body.encode(), headers=headers
            ) as answer,
        ):
            return int(answer.status_code)  # the body is not read


def _read_secret(notify: Notify) -> Token:
    """The secret of the hook, made where there is none yet.

    Raises:
        ConfigError: It cannot be read or made, or others may read its file.
    """
    path = notify.secret_file
    if path is None:
        folder = state_folder()
        if folder is None:
            raise ConfigError(
                "There is no folder of yours for notify.secret; name a file with secret_file", key="notify"
            )
        path = folder / "notify.secret"
    _make_secret(path)
    return read_token_file(path, short=False)


def _signer(secret: Token) -> Callable[[str, datetime, str], str]:
    """What signs a message.

    Raises:
        ConfigError: It is no secret of Standard Webhooks.
    """
    from standardwebhooks.webhooks import Webhook

    try:  # the library takes what is no Base64
        key = base64.b64decode(secret.reveal().removeprefix("whsec_"), validate=True)
    except ValueError:
        key = b""
    if len(key) < LEAST_KEY:
        raise ConfigError(
            f"The file of the hook's secret holds none: it is whsec_ and the Base64 of {LEAST_KEY} bytes or more, and "
            "is made where it is missing",
            key="notify",
        )
    return Webhook(key).sign


def _make_secret(path: Path) -> None:
    """Makes the file of a secret where there is none: whole at once, for another process may make it, too."""
    text = "whsec_" + base64.b64encode(secrets.token_bytes(32)).decode() + "\n"
    try:
        if os.path.lexists(path):
            return
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        beside = path_beside(path)
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_NOFOLLOW", 0)
        try:
            with os.fdopen(os.open(beside, flags, 0o600), "w") as file:
                file.write(text)
            try:
                os.link(beside, path)
            except FileExistsError:
                pass
            except OSError:  # a file system without links
                beside.replace(path)
        finally:
            beside.unlink(missing_ok=True)
    except (OSError, ValueError) as fault:
        why = getattr(fault, "strerror", None) or fault
        shown = one_line(str(path), 300)
        raise ConfigError(f"Cannot make the secret of the hook, {shown}: {why}", path=shown) from None


def _new_loop() -> asyncio.AbstractEventLoop:
    """A loop that waits for the search for an address no longer than a try; nor does the end of the process."""
    loop = asyncio.new_event_loop()

    async def find(host: Any, port: Any, **how: int) -> Any:
        return await run_aside(lambda: socket.getaddrinfo(host, port, **how), name=THREAD)

    loop.getaddrinfo = find  # type: ignore[method-assign]
    return loop
