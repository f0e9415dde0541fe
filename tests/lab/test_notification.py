"""The hook: what it sends to whom, signed; and receivers that redirect, dawdle, flood, or answer without an end."""

from __future__ import annotations

import asyncio
import json
import os
import socket
import stat
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from standardwebhooks.webhooks import Webhook, WebhookVerificationError

from mew_lab.errors import ConfigError, MewError
from mew_lab.lab import notification
from mew_lab.lab.decisions.policies import Policy
from mew_lab.lab.labs import up
from mew_lab.lab.notification import Notifier, Notify, Waiting, notify_from
from mew_lab.protocol.token import Token

from ..waiting import until
from .looking import call, eventually, propose

Answer = Callable[[BaseHTTPRequestHandler], None]


class Receiver:
    """A program on this machine that gets messages; `answers` are what it does with each, the last one again."""

    def __init__(self) -> None:
        self.got: list[tuple[dict[str, str], bytes, str]] = []
        self.answers: list[Answer] = [lambda handler: respond(handler, 204)]
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["content-length"]))
                receiver.got.append(({k.lower(): v for k, v in self.headers.items()}, body, self.path))
                answers = receiver.answers
                (answers.pop(0) if len(answers) > 1 else answers[0])(self)

            do_GET = do_POST

            def log_message(self, *_: object) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self.server.server_port}/hook/s3cret-path"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()


def respond(handler: BaseHTTPRequestHandler, status: int, **headers: str) -> None:
    handler.send_response(status)
    for name, value in headers.items():
        handler.send_header(name, value)
    handler.send_header("content-length", "0")
    handler.end_headers()


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    made = Receiver()
    yield made
    made.server.shutdown()
    made.server.server_close()


@pytest.fixture(autouse=True)
def at_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.delenv("MEW_LAB_NOTIFY", raising=False)


def secret() -> str:
    return Path("state/mew-lab/notify.secret").read_text().strip()


def test_it_is_told_once_what_waits_and_nothing_more(receiver: Receiver) -> None:
    lab = up(notify=receiver.url)
    for n in range(3):
        propose(lab, call("pay", to="ada", euros=n))
    (headers, body, _) = eventually(lambda: receiver.got and receiver.got[0])
    told = Webhook(secret()).verify(body, headers)
    assert told["type"] == "mew_lab.waiting" and told["data"].keys() == {"space", "waiting", "oldest_seconds"}
    assert told["data"]["space"] == "demo" and 1 <= told["data"]["waiting"] <= 3
    assert 0 <= told["data"]["oldest_seconds"] < 60
    with pytest.raises(WebhookVerificationError):
        Webhook(secret()).verify(body.replace(b"demo", b"dem0"), headers)
    assert stat.S_IMODE(Path("state/mew-lab/notify.secret").stat().st_mode) == 0o600
    assert secret() not in repr(lab.notify) and "s3cret-path" not in repr(lab.notify)


def test_with_content_it_names_proposer_tool_and_digest_and_never_arguments(receiver: Receiver) -> None:
    lab = up(notify=Notify.of(receiver.url, content=True))
    card = propose(lab, call("pay\n\x1b[31m", to="ada-lovelace"), to=("notebook",))
    body = eventually(lambda: receiver.got and receiver.got[0][1]).decode()
    (one,) = json.loads(body)["data"]["proposals"]
    assert one == {"proposer": "bot", "tool": one["tool"], "digest": card.digest}
    assert "\n" not in one["tool"] and "\x1b" not in one["tool"] and "pay" in one["tool"]
    assert "ada-lovelace" not in body and "://" not in body


def test_what_a_policy_or_a_person_decides_at_once_is_told_to_nobody(receiver: Receiver) -> None:
    lab = up(notify=receiver.url)

    @lab.tool
    def add(a: int, b: int) -> int:
        return a + b

    lab.decide = Policy.approve()
    lab.join("bot").call("notebook/add", a=1, b=2).result(10)
    lab.decide = None
    propose(lab, call("other"))
    told = eventually(lambda: receiver.got and receiver.got[0])
    assert json.loads(told[1])["data"]["waiting"] == 1 and len(receiver.got) == 1


def test_it_is_the_users_setting_and_no_space_file_can_set_it(
    receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    Path("space.yaml").write_text(
        f"space: {{id: demo, name: demo}}\nnotify: {receiver.url}\nparticipants:\n  human: {{capabilities: []}}\n"
    )
    try:
        lab = up("space.yaml")
    except MewError as fault:
        assert "notify" in str(fault)
    else:
        assert lab.notify is None
        lab.down()
    monkeypatch.setenv("MEW_LAB_NOTIFY", receiver.url)
    monkeypatch.setenv("MEW_LAB_NOTIFY_CONTENT", "1")
    stated = notify_from(None)
    assert stated is not None and stated.content and notify_from(False) is None
    lab = up("mine")
    propose(lab, call("pay"))
    assert eventually(lambda: receiver.got)
    monkeypatch.setenv("MEW_LAB_NOTIFY", "http://example.org/s3cret")
    with pytest.raises(ConfigError, match="https") as refused:
        up("another")
    assert "s3cret" not in str(refused.value)


@pytest.mark.parametrize(
    "url",
    [
        "http://example.org/hook",
        "http://127.0.0.1.example.org/",
        "http://127.0.0.1@example.org/",
        "http://example.org#@127.0.0.1/",
        "http://10.0.0.1/",
        "http://0.0.0.0/",
        "https://ada:secret@example.org/",
        "https:///hook",
        "ftp://127.0.0.1/",
        "file:///etc/passwd",
        "javascript:alert(1)",
        "127.0.0.1/hook",
        "http://127.0.0.1\\@example.org/",
        "http://[::ffff:8.8.8.8]/",
        "",
        "https://exa mple.org/",
        "http://\x00127.0.0.1/",
    ],
)
def test_an_address_that_others_could_read_is_refused(url: str) -> None:
    with pytest.raises(ConfigError, match="Cannot tell anybody") as refused:
        Notify.of(url)
    assert "secret" not in str(refused.value)


@pytest.mark.parametrize(
    "url", ["https://example.org/h?k=1", "http://127.3.2.1/", "http://[::1]:8/", "http://localhost/x"]
)
def test_https_and_this_machine_are_taken(url: str) -> None:
    assert Notify.of(url).url.reveal() == url


class Told:
    """A notifier on this loop with a clock that takes no time, and what it said of faults."""

    def __init__(self, url: str, **options: Any) -> None:
        self.faults: list[str] = []
        self.waited: list[float] = []
        self.waiting = 1
        self.notifier = Notifier(
            Notify.of(url),
            space="demo",
            waiting=lambda: Waiting([], self.waiting, time.time() - 5),
            fault=self.faults.append,
            wait=self._wait,
            **options,
        )

    async def _wait(self, seconds: float) -> None:
        self.waited.append(seconds)
        await asyncio.sleep(0)


async def test_a_redirect_is_not_followed_and_not_tried_again(receiver: Receiver) -> None:
    elsewhere = Receiver()
    for status in (301, 302, 303, 307, 308):
        receiver.answers = [lambda handler, status=status: respond(handler, status, location=elsewhere.url)]
        told, before = Told(receiver.url), len(receiver.got)
        told.notifier.note("p", True)
        await until(lambda told=told: told.faults)
        assert "no redirect is followed" in told.faults[0] and str(status) in told.faults[0]
        assert "s3cret-path" not in told.faults[0] and len(receiver.got) == before + 1
    assert not elsewhere.got
    elsewhere.server.server_close()


async def test_no_proxy_of_the_environment_is_used(
    receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    proxy = Receiver()
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy", "HTTPS_PROXY"):
        monkeypatch.setenv(name, proxy.url)
    for name in ("NO_PROXY", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
    told = Told(receiver.url)
    told.notifier.note("p", True)
    await until(lambda: receiver.got)
    assert not proxy.got and not told.faults
    proxy.server.server_close()


async def test_three_tries_with_one_id_and_no_more(receiver: Receiver) -> None:
    receiver.answers = [lambda handler: respond(handler, 503)]
    told = Told(receiver.url)
    told.notifier.note("p", True)
    await until(lambda: told.faults)
    assert len(receiver.got) == 3 and len({headers["webhook-id"] for headers, _, _ in receiver.got}) == 1
    assert "answered 503" in told.faults[0] and told.waited[1:] == [1.0, 5.0]
    receiver.answers = [lambda handler: respond(handler, 500), lambda handler: respond(handler, 200)]
    told.notifier.note("q", True)
    await until(lambda: len(receiver.got) == 5)
    assert len(told.faults) == 1


async def test_a_receiver_that_wants_no_more_is_told_no_more(receiver: Receiver) -> None:
    receiver.answers = [lambda handler: respond(handler, 410)]
    told = Told(receiver.url, apart=0.0)
    told.notifier.note("p", True)
    await until(lambda: told.faults)
    told.notifier.note("q", True)
    for _ in range(20):
        await asyncio.sleep(0)
    assert len(receiver.got) == 1 and "nothing more" in told.faults[0]


async def test_a_flood_of_proposals_is_one_message_a_minute(receiver: Receiver) -> None:
    told = Told(receiver.url)
    for n in range(10_000):
        told.notifier.note(f"p{n}", True)
    await until(lambda: receiver.got)
    for n in range(10_000):
        told.notifier.note(f"q{n}", True)
    await until(lambda: len(receiver.got) == 2)
    assert told.waited[0] == 1.0 and any(59 < one <= 60 for one in told.waited[1:])
    told.notifier.note("one more", True)  # what came before it was told by then
    await until(lambda: len(receiver.got) == 3)
    assert sum(59 < one <= 60 for one in told.waited) == 2


@pytest.mark.parametrize("how", ["silent", "drip", "endless", "headers"])
async def test_a_slow_or_endless_answer_ends_after_the_limit_and_blocks_nothing(
    how: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(notification, "WITHIN", 1.5)
    monkeypatch.setattr(notification, "TRIES", 1)
    ended = threading.Event()

    def serve(listener: socket.socket) -> None:
        peer, _ = listener.accept()
        with closing(peer):
            try:
                peer.settimeout(20)
                peer.recv(65536)
                if how == "endless":
                    peer.sendall(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n")
                if how in ("drip", "headers"):
                    peer.sendall(b"HTTP/1.1 200 OK\r\n")
                while how != "silent":
                    chunk = {"endless": b"10000\r\n" + b"x" * 0x10000 + b"\r\n", "drip": b"x"}.get(
                        how, b"a: b\r\n" * 999
                    )
                    peer.sendall(chunk)
                    if how == "drip":
                        ended.wait(0.05)
                peer.recv(1)
            except OSError:
                pass
            ended.set()

    with socket.create_server(("127.0.0.1", 0)) as listener:
        threading.Thread(target=serve, args=(listener,), daemon=True).start()
        told = Told(f"http://127.0.0.1:{listener.getsockname()[1]}/")
        slowest, began = 0.0, time.monotonic()
        told.notifier.note("p", True)
        while not (ended.is_set() and (told.faults or how == "endless")) and time.monotonic() < began + 15:
            at = time.monotonic()
            await asyncio.sleep(0.001)
            slowest = max(slowest, time.monotonic() - at)
        assert ended.is_set(), "the connection is still open"
        if how != "endless":  # the status came, and nothing else is read
            assert "could not be told" in told.faults[0]
        assert slowest < 1.5  # as long as a loop that waited for the receiver would stand still


async def test_a_server_of_tls_that_nobody_vouches_for_gets_nothing(receiver: Receiver) -> None:
    told = Told(receiver.url.replace("http://", "https://"))
    told.notifier.note("p", True)
    await until(lambda: told.faults)
    assert "cannot be reached" in told.faults[0] and not receiver.got


def test_a_secret_that_others_can_read_or_that_is_none_is_refused(receiver: Receiver, tmp_path: Path) -> None:
    file = tmp_path / "own.secret"
    file.write_text("whsec_" + "QUJD" * 8)
    file.chmod(0o644)
    with pytest.raises(MewError, match="chmod 600"):
        up("open", notify=Notify(Token(receiver.url), secret_file=file))
    file.chmod(0o600)
    file.write_text("whsec_!" * 5)
    with pytest.raises(MewError):
        up("none", notify=Notify(Token(receiver.url), secret_file=file))


def test_neither_address_nor_secret_are_logged(
    receiver: Receiver, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    caplog.set_level("DEBUG")
    receiver.answers = [lambda handler: respond(handler, 400)]
    lab = up(notify=receiver.url)
    propose(lab, call("pay"))
    eventually(lambda: lab.faults)
    out = capfd.readouterr()
    for text in (caplog.text, out.out, out.err, str(lab.faults)):
        assert "s3cret-path" not in text and secret() not in text


# --- as a stranger would try it --------------------------------------------------------------------------------------


def test_a_search_for_the_address_that_never_ends_takes_no_longer_than_a_try(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ended, waiting = threading.Event(), threading.Event()

    def search(*_: object, **__: object) -> Any:
        waiting.set()
        ended.wait(60)
        raise socket.gaierror(1, "nobody")

    monkeypatch.setattr(notification, "WITHIN", 0.2)
    monkeypatch.setattr(notification, "TRIES", 1)
    monkeypatch.setattr(notification, "GATHERING", 0.0)
    told: list[str] = []

    async def run() -> float:
        notifier = Notifier(
            Notify.of("https://nowhere.example/s3cret"),
            space="demo",
            waiting=lambda: Waiting((), 1, time.time()),
            fault=told.append,
        )
        monkeypatch.setattr(socket, "getaddrinfo", search)
        began = time.monotonic()
        notifier.note("q", True)
        await until(lambda: told)
        return time.monotonic() - began

    try:
        assert asyncio.run(run()) < 20 and waiting.is_set()
    finally:
        ended.set()
    assert "gave no answer within 0.2 s" in told[0] and "s3cret" not in told[0]
    assert not [one for one in threading.enumerate() if one.name.startswith("asyncio_") and not one.daemon]


def test_several_processes_that_make_the_secret_at_once_have_the_same_one(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    file, seen = tmp_path / "own" / "notify.secret", list[str]()
    opened = os.fdopen

    def open_and_look(*args: Any) -> Any:
        """At the moment at which a secret is not written yet, another process reads."""
        handle = opened(*args)
        seen.append(file.read_text() if file.exists() else "nothing yet")
        return handle

    monkeypatch.setattr(os, "fdopen", open_and_look)

    def make() -> None:
        Notifier(
            Notify.of("https://x.example/", secret_file=file),
            space="demo",
            waiting=lambda: Waiting((), 0, 0.0),
            fault=print,
        )

    threads = [threading.Thread(target=make) for _ in range(16)]
    for one in threads:
        one.start()
    for one in threads:
        one.join(20)
    secrets = {text for text in seen if text != "nothing yet"}
    assert secrets <= {file.read_text()} and file.read_text().startswith("whsec_")
    assert stat.S_IMODE(file.stat().st_mode) == 0o600 and [*file.parent.iterdir()] == [file]


@pytest.mark.parametrize("file", ["x" * 300, "a\0b", "/dev/null/x", "."])
def test_a_file_that_can_hold_no_secret_is_told_in_a_sentence(file: str) -> None:
    with pytest.raises(ConfigError):
        up(notify=Notify.of("https://x.example/", secret_file=file))


@pytest.mark.parametrize("stated", [5, 0, b"https://hook/s3cret", ["https://hook/s3cret"], object(), 1.5])
def test_what_is_no_address_is_told_by_its_type_alone(stated: Any) -> None:
    with pytest.raises(ConfigError, match="and not of type") as told:
        up(notify=stated)
    assert "s3cret" not in str(told.value)


@pytest.mark.parametrize("port", ["0", "65536", "99999"])
def test_a_port_that_is_none_is_refused_before_anything_waits(port: str) -> None:
    for url in (f"https://x.example:{port}/", f"http://127.0.0.1:{port}/"):
        with pytest.raises(ConfigError, match="from 1 to 65535"):
            Notify.of(url)
