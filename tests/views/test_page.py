"""The page of a space outside Jupyter: who may reach it, how a browser signs in, and what goes over its socket."""

from __future__ import annotations

import contextlib
import http.client
import json
import socket
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from pages import bustle
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.sync.client import ClientConnection, connect

from mew_lab.errors import ConfigError
from mew_lab.lab.lab import Lab
from mew_lab.views.page import sessions as sessions_module
from mew_lab.views.page.server import HEADERS, PageServer, check_origin
from mew_lab.views.page.sessions import CODE_LIFE, IDLE, MOST_CODES, MOST_SESSIONS, PageSessions

pytestmark = [pytest.mark.ruling("R38")]
NAME = "https://lab.example.org"


class Clock:
    """A clock that a test sets."""

    now = 1000.0

    def __call__(self) -> float:
        return self.now


# --- sessions ------------------------------------------------------------------------------------------------


def test_a_code_is_good_once_and_for_two_minutes() -> None:
    clock = Clock()
    sessions = PageSessions(clock)
    code = sessions.new_code()
    assert len(code) >= 22  # 128 bits in base64
    secret = sessions.exchange(code)
    assert secret is not None and sessions.find(secret) is not None
    assert sessions.exchange(code) is None, "a second use"
    late = sessions.new_code()
    clock.now += CODE_LIFE
    assert sessions.exchange(late) is None, "a stolen code after two minutes"
    assert sessions.exchange("") is None and sessions.find("") is None and sessions.find(code) is None


def test_a_session_ends_when_nothing_was_done_for_twelve_hours_and_not_before() -> None:
    clock = Clock()
    sessions = PageSessions(clock)
    secret = sessions.exchange(sessions.new_code())
    assert secret is not None and IDLE == 12 * 3600
    session = sessions.find(secret)
    assert session is not None
    ended: list[str] = []
    session.on_end.append(lambda: ended.append("over"))
    clock.now += IDLE - 1
    session.use()
    clock.now += IDLE - 1
    assert sessions.find(secret) is session and not ended
    clock.now += 1
    assert sessions.find(secret) is None and ended == ["over"] and session.is_over


def test_codes_and_sessions_are_bounded_and_the_oldest_gives_way() -> None:
    sessions = PageSessions(Clock())
    codes = [sessions.new_code() for _ in range(MOST_CODES + 1)]
    assert sessions.exchange(codes[0]) is None and sessions.exchange(codes[1]) is not None
    secrets = [sessions.exchange(sessions.new_code()) for _ in range(MOST_SESSIONS + 1)]
    assert sessions.find(str(secrets[0])) is None and sessions.find(str(secrets[-1])) is not None
    pending = sessions.new_code()
    assert sessions.end_all() == MOST_SESSIONS
    assert sessions.find(str(secrets[-1])) is None and sessions.exchange(pending) is None


@pytest.mark.parametrize(
    "origin",
    [
        "http://lab.example.org", "lab.example.org", "https://", "https://a/b", "https://a?b", "https://a#b", "https://a:x",
        "https://user@a", "https://a:443:1", "*", "null", "", "https://läb.example", "https://a b", "https://a\r\nx: y",
    ],
)  # fmt: skip
def test_what_is_no_origin_of_https_is_refused(origin: str) -> None:
    with pytest.raises(ConfigError, match="an origin is https:// and the name of your proxy"):
        check_origin(origin)


def test_an_origin_is_told_as_browsers_write_it() -> None:
    assert check_origin("https://Lab.Example.org/") == NAME
    assert check_origin("https://lab.example.org:443") == NAME
    assert check_origin("https://lab.example.org:8443") == f"{NAME}:8443"
    assert check_origin("https://[::1]:8443") == "https://[::1]:8443"


# --- over the wire -------------------------------------------------------------------------------------------


class Served:
    """The page of a lab, and what a client can say to it."""

    def __init__(self, lab: Lab, **how: Any) -> None:
        self.lab = lab
        self.link = lab.serve_ui(**how).url  # type: ignore[attr-defined]
        self.server: PageServer = lab.page
        self.port = self.server.port
        self.host = f"127.0.0.1:{self.port}"
        self.origin = f"http://{self.host}"
        self.frames: list[dict[str, Any]] = []

    def ask(
        self, method: str, path: str, body: object = None, **headers: str | None
    ) -> tuple[int, dict[str, str], str]:
        """One request, as curl sends it: with no header but those."""
        sent = {name.replace("_", "-"): value for name, value in headers.items() if value is not None}
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=20)
        with contextlib.closing(connection):
            connection.putrequest(method, path, skip_host=True, skip_accept_encoding=True)
            data = body if isinstance(body, bytes) else b"" if body is None else json.dumps(body).encode()
            given = {"host": self.host, "content-length": str(len(data))} | sent
            for name, value in given.items():
                connection.putheader(name, value)
            connection.endheaders(data)
            answer = connection.getresponse()
            return (
                answer.status,
                {name.lower(): value for name, value in answer.getheaders()},
                answer.read().decode(),
            )

    def code(self) -> str:
        return str(self.lab.serve_ui().url).partition("#")[2]  # type: ignore[attr-defined]

    def sign_in(self, code: str, **headers: str | None) -> tuple[int, dict[str, str], str]:
        given = {"origin": self.origin, "content_type": "application/json"} | headers
        return self.ask("POST", "/ui/session", {"code": code}, **given)

    def session(self) -> str:
        status, _, text = self.sign_in(self.code())
        assert status == 200, text
        return str(json.loads(text)["session"])

    @contextlib.contextmanager
    def open(
        self, first: object, *, origin: str | None = None, path: str = "/ui/ws"
    ) -> Iterator[ClientConnection]:
        with connect(f"ws://{self.host}{path}", origin=origin or self.origin, max_size=None) as ws:  # type: ignore[arg-type]
            ws.send(first if isinstance(first, str) else json.dumps(first))
            yield ws

    @contextlib.contextmanager
    def page(self) -> Iterator[ClientConnection]:
        with self.open({"session": self.session()}) as ws:
            assert json.loads(ws.recv(20)) == {"welcome": "demo"}
            yield ws

    def until(self, ws: ClientConnection, part: str, kind: str, **members: Any) -> dict[str, Any]:
        """The first item of that kind that the part sends from now on."""
        end = time.monotonic() + 20
        while True:
            frame = json.loads(ws.recv(end - time.monotonic()))
            self.frames.append(frame)
            for item in frame["message"]["items"] if frame["part"] == part else ():
                if item["t"] == kind and members.items() <= item.items():
                    return dict(item)


def say(ws: ClientConnection, part: str, **message: Any) -> None:
    ws.send(json.dumps({"part": part, "message": message}))


def closed_with(ws: ClientConnection) -> int:
    with pytest.raises(ConnectionClosed) as closed:
        while True:
            ws.recv(20)
    assert closed.value.rcvd is not None
    return closed.value.rcvd.code


@pytest.fixture
def served(lab: Lab) -> Served:
    return Served(lab)


def test_the_link_holds_its_code_in_the_fragment_and_each_is_another(served: Served) -> None:
    address, _, code = served.link.partition("#")
    assert address == f"http://127.0.0.1:{served.port}/ui" and len(code) >= 22
    assert served.code() != served.code()


def test_it_listens_on_the_loopback_alone(served: Served) -> None:
    # Another address of this machine: what listens on all of them would take it.
    for own in {"127.0.0.2", socket.gethostbyname(socket.gethostname())} - {"127.0.0.1"}:
        with pytest.raises(OSError):
            socket.create_connection((own, served.port), timeout=2).close()


@pytest.mark.threat(24, 25)
def test_every_answer_has_the_headers_whatever_it_says(served: Served) -> None:
    policy = dict(HEADERS)[b"content-security-policy"].decode()
    assert policy == (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src data:; connect-src 'self'; "
        "frame-ancestors 'none'; base-uri 'none'; form-action 'none'"
    )
    answers = [
        served.ask("GET", "/ui"), served.ask("GET", "/ui/panel.js"), served.ask("GET", "/nowhere"),
        served.ask("GET", "/ui", host="evil.test"), served.ask("GET", "/ui?x=1"), served.ask("PUT", "/ui"),
        served.sign_in("wrong"), served.sign_in(served.code()), served.sign_in("x", origin="https://evil.test"),
        served.ask("POST", "/ui/control", {"act": "end"}),
    ]  # fmt: skip
    assert [status for status, _, _ in answers] == [200, 200, 404, 421, 400, 404, 403, 200, 403, 403]
    for _, headers, _ in answers:
        assert headers["content-security-policy"] == policy
        assert headers["referrer-policy"] == "no-referrer" and headers["x-content-type-options"] == "nosniff"
        assert (
            headers["cross-origin-opener-policy"] == "same-origin" and headers["cache-control"] == "no-store"
        )
        assert "set-cookie" not in headers and not any(name.startswith("access-control") for name in headers)
    with pytest.raises(InvalidStatus) as refused, served.open({}, origin="https://evil.test"):
        pass
    assert refused.value.response.headers["content-security-policy"] == policy
    with served.open({"session": "x"}) as ws:
        assert ws.response is not None and ws.response.headers["content-security-policy"] == policy


@pytest.mark.threat(25)
@pytest.mark.parametrize(
    "host",
    ["evil.test", "evil.test:{port}", "127.0.0.1", "localhost:1", "127.0.0.1.evil.test:{port}", "", "0.0.0.0:{port}", "lab.example.org"],
)  # fmt: skip
def test_another_name_for_this_server_is_refused(served: Served, host: str) -> None:
    name = host.format(port=served.port)
    for method, path in (
        ("GET", "/ui"),
        ("GET", "/ui/page.js"),
        ("POST", "/ui/session"),
        ("POST", "/ui/control"),
    ):
        status, _, text = served.ask(method, path, {}, host=name, origin=f"http://{name}")
        assert (status, "name it by its own address" in text) == (421, True), path


@pytest.mark.threat(24)
@pytest.mark.parametrize(
    "origin",
    [
        "https://evil.test", "null", "http://localhost:1", "http://127.0.0.1", "https://127.0.0.1:{port}", "http://localhost:{port}",
        "http://127.0.0.1:{port}.evil.test", "file://", "", "http://127.0.0.1:{port}/", "http://[::1]:{port}",
    ],
)  # fmt: skip
def test_a_page_of_another_origin_can_neither_sign_in_nor_connect(served: Served, origin: str) -> None:
    """Nor can one of another name of this very machine: only the page's own, as its Host says."""
    name = origin.format(port=served.port)
    code, secret = served.code(), served.session()
    status, _, text = served.sign_in(code, origin=name)
    assert status == 403 and "session" not in text
    assert served.ask("GET", "/ui/panel.js", origin=name)[0] == 403
    headers = {"Origin": name}
    with pytest.raises(InvalidStatus) as refused:
        connect(f"ws://{served.host}/ui/ws", additional_headers=headers).close()
    assert refused.value.response.status_code == 403
    assert served.sign_in(code)[0] == 200, "a refused request uses no code up"
    with served.open({"session": secret}) as ws:
        assert json.loads(ws.recv(20)) == {"welcome": "demo"}


@pytest.mark.threat(24)
def test_without_an_origin_nothing_is_done(served: Served) -> None:
    assert served.sign_in(served.code(), origin=None)[0] == 403
    with pytest.raises(InvalidStatus) as refused:
        connect(f"ws://{served.host}/ui/ws").close()
    assert refused.value.response.status_code == 403


def test_the_endpoints_of_the_space_refuse_the_page(served: Served) -> None:
    """A credential of the page is none of the space, and its origin is not known there."""
    address = served.lab.url.removeprefix("ws://").removesuffix("/ws")
    with pytest.raises(InvalidStatus) as refused:
        connect(f"ws://{address}/ws", origin=served.origin).close()  # type: ignore[arg-type]
    assert refused.value.response.status_code == 403
    connection = http.client.HTTPConnection(address, timeout=20)
    connection.request("GET", "/participants", headers={"authorization": f"Bearer {served.session()}"})
    assert connection.getresponse().status == 403
    connection.close()


@pytest.mark.threat(1)
@pytest.mark.parametrize(
    "path",
    ["/ui?code={code}", "/ui?token=x", "/ui/session?code={code}", "/ui/ws?session=x", "/ui/page.js?v=1"],
)
def test_nothing_is_taken_from_a_query(served: Served, path: str) -> None:
    code = served.code()
    for method in ("GET", "POST"):
        status, _, text = served.ask(method, path.format(code=code), {}, origin=served.origin)
        assert (status, "takes a query" in text) == (400, True)
    with pytest.raises(InvalidStatus):
        connect(f"ws://{served.host}/ui/ws?session=x", origin=served.origin).close()  # type: ignore[arg-type]
    assert served.sign_in(code)[0] == 200


def test_a_link_signs_one_browser_in_once(served: Served) -> None:
    code = served.code()
    assert served.sign_in(code)[0] == 200
    status, headers, text = served.sign_in(code)
    assert status == 403 and "used already, or is older than two minutes" in text and "session" not in text
    assert headers["content-type"].startswith("text/plain")


def test_a_stolen_code_opens_nothing_after_two_minutes(served: Served) -> None:
    clock = Clock()
    served.server.sessions = PageSessions(clock)
    code, late = served.code(), served.code()
    clock.now += CODE_LIFE - 1
    assert served.sign_in(code)[0] == 200
    clock.now += 1
    assert served.sign_in(late)[0] == 403


@pytest.mark.parametrize(
    ("body", "kind"),
    [
        (b"{}", "application/json"), (b"[]", "application/json"), (b'{"code": 7}', "application/json"), (b"", "application/json"),
        (b'{"code": "%s"}', "text/plain"), (b'{"code": "%s"}', "application/x-www-form-urlencoded"), (b'{"code": "%s"}', None),
        (b'{"code": "%s", "code": "%s"}', "application/json"), (b'{"code": "%s"' + b" " * 2000 + b"}", "application/json"),
        (b"[" * 900, "application/json"), (b'{"code": "\xff"}', "application/json"),
    ],
)  # fmt: skip
def test_only_a_small_json_object_signs_in(served: Served, body: bytes, kind: str | None) -> None:
    """A form of another page can send no JSON; what is malformed uses no code up."""
    code = served.code()
    sent = body.replace(b"%s", code.encode())
    status, _, text = served.ask("POST", "/ui/session", sent, origin=served.origin, content_type=kind)
    assert status == 400 and "application/json" in text
    assert served.sign_in(code)[0] == 200


@pytest.mark.parametrize(
    "first",
    [{"session": "wrong"}, {"session": 7}, {}, "x", "[]", '{"session": "a", "session": "b"}', json.dumps({"session": "x" * 5000})],
)  # fmt: skip
def test_a_socket_without_a_session_is_closed_and_learns_nothing(served: Served, first: object) -> None:
    with served.open(first) as ws:
        assert closed_with(ws) == 4401


def test_a_code_is_no_session(served: Served) -> None:
    with served.open({"session": served.code()}) as ws:
        assert closed_with(ws) == 4401


def test_a_flood_of_strangers_keeps_nobody_from_signing_in(served: Served) -> None:
    """Hundreds of wrong codes, half requests and silent sockets; the code that was printed is still good."""
    code = served.code()
    silent = [socket.create_connection(("127.0.0.1", served.port), timeout=20) for _ in range(300)]
    for n, one in enumerate(silent):
        with contextlib.suppress(OSError):  # those that were closed for others
            one.sendall(b"POST /ui/session HTTP/1.1\r\nhost: x\r\n" if n % 2 else b"")
    assert [served.sign_in(f"wrong-{n}")[0] for n in range(60)] == [403] * 60
    began = time.monotonic()
    status, _, text = served.sign_in(code)
    assert status == 200 and time.monotonic() - began < 10
    with served.open({"session": json.loads(text)["session"]}) as ws:
        assert json.loads(ws.recv(20)) == {"welcome": "demo"}
    for one in silent:
        one.close()


# --- what goes over the socket -------------------------------------------------------------------------------


def proposed(lab: Lab, **arguments: object) -> Any:
    tools = lab.seats.get("tools") or lab.join("tools", "tool")
    if not lab.seats.get("bot"):

        @lab.tool(seat=tools)
        def note(text: str) -> str:
            """Writes a note."""
            return text

        lab.join("bot")
    return lab.seats["bot"].propose("tools/note", arguments or {"text": "hello"})


def card_of(served: Served, ws: ClientConnection) -> tuple[str, dict[str, Any]]:
    """The nonce, and the open card."""
    say(ws, "approvals", t="snapshot", view="v", **{"from": 0})
    snapshot = served.until(ws, "approvals", "snapshot")
    cards = [*snapshot["cards"]]
    while not cards:
        cards.append(served.until(ws, "approvals", "card")["card"])
    return snapshot["nonce"], cards[-1]


def decide(ws: ClientConnection, nonce: str, card: dict[str, Any], /, **changes: Any) -> None:
    message = {
        "t": "decide",
        "view": "v",
        "id": card["id"],
        "digest": card["digest"],
        "decision": "approve",
        "nonce": nonce,
    }
    say(ws, "approvals", **message | changes)


def test_the_page_decides_as_a_notebook_does(served: Served) -> None:
    pending = proposed(served.lab)
    with served.page() as ws:
        nonce, card = card_of(served, ws)
        say(ws, "approvals", t="seen", view="v", id=card["id"], digest=card["digest"])
        served.until(ws, "approvals", "shown", id=card["id"])
        decide(ws, nonce, card)
        assert pending.result(20).text == "hello"
    [receipt] = [json.loads(str(one.detail)) for one in served.lab.log.held if "on_screen" in str(one.detail)]
    assert receipt["digest"] == card["digest"] and receipt["by"] == "human"
    assert receipt["on_screen"] >= 0


def test_another_nonce_digest_or_a_payload_decides_nothing(served: Served) -> None:
    pending = proposed(served.lab)
    with served.page() as ws:
        nonce, card = card_of(served, ws)
        say(ws, "approvals", t="seen", view="v", id=card["id"], digest=card["digest"])
        served.until(ws, "approvals", "shown", id=card["id"])
        for changes in (
            {"nonce": "0" * 32},
            {"digest": "0" * 64},
            {"payload": {"method": "x"}},
            {"decision": "grant"},
            {"view": "w"},
        ):
            decide(ws, nonce, card, **changes)
            served.until(ws, "approvals", "notice")
        assert pending.state == "open"


def test_a_click_on_what_was_not_shown_for_the_arming_time_is_refused(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mew_lab.lab.decisions.cards.ARMING", 0.5)
    pending = proposed(served.lab)
    with served.page() as ws:
        nonce, card = card_of(served, ws)
        decide(ws, nonce, card)  # never shown here
        served.until(ws, "approvals", "notice")
        say(ws, "approvals", t="seen", view="v", id=card["id"], digest=card["digest"])
        assert served.until(ws, "approvals", "shown", id=card["id"])["left"] > 0.2
        decide(ws, nonce, card)
        served.until(ws, "approvals", "notice")
        assert pending.state == "open"


@pytest.mark.threat(1)
def test_no_token_of_the_space_goes_over_the_socket(served: Served) -> None:
    lab = served.lab
    bustle(lab, "hello")
    tokens = {lab.token_file(name).read_text().strip() for name in ("human", "tools")}
    with served.page() as ws:
        for part in ("panel", *lab.view.panel.parts):
            say(ws, part, t="snapshot", view=part, **{"from": 0})
            served.until(ws, part, "snapshot")
        nonce = next(
            item["nonce"]
            for frame in served.frames
            if frame["part"] == "roster"
            for item in frame["message"]["items"]
            if item["t"] == "snapshot"
        )
        act = {"t": "act", "view": "roster", "nonce": nonce}
        invite = {"name": "guest", "can": "observer", "patterns": ""}
        say(ws, "roster", **act, job=1, act="invite", **{"with": invite})
        done = served.until(ws, "roster", "done", job=1)
        tokens |= {key.token.reveal() for key in lab.local.own_host("test").minted.values()}
        say(ws, "roster", **act, job=2, act="reveal", **{"with": {"id": str(done["value"])}})
        assert "never sent to this page" in served.until(ws, "roster", "failed", job=2)["said"]
        # A secret that a peer repeats is masked on its way, too.
        lab.chat(f"the token is {sorted(tokens)[0]}")
        say(ws, "chat", t="snapshot", view="again", **{"from": 0})
        served.until(ws, "chat", "snapshot", view="again")
    sent = json.dumps(served.frames)
    assert len(tokens) >= 3 and not [token for token in tokens if token in sent]


@pytest.mark.parametrize(
    "frame",
    ["x", "[]", "7", '{"part": "feed"', '{"part": "feed", "part": "feed", "message": {}}', "[" * 100_000, '{"a": NaN}'],
)  # fmt: skip
def test_a_frame_that_is_no_object_ends_the_socket(served: Served, frame: str) -> None:
    with served.page() as ws:
        ws.send(frame)
        assert closed_with(ws) == 1008


def test_what_no_view_takes_changes_nothing(served: Served) -> None:
    records = len(served.lab.log)
    with served.page() as ws:
        for frame in (
            {}, {"part": "feed"}, {"part": 7, "message": {}}, {"part": "__class__", "message": {"t": "snapshot", "view": "v"}},
            {"part": "workshop", "message": {"t": "snapshot", "view": "v"}}, {"part": "feed", "message": []},
            {"part": "feed", "message": {"t": "act", "act": "save"}}, {"part": "feed", "message": {"t": ["snapshot"]}},
            {"part": "panel", "message": {"t": "act", "view": "v", "job": 1, "act": "pause", "nonce": "x", "with": {}}},
        ):  # fmt: skip
            ws.send(json.dumps(frame))
        say(ws, "feed", t="snapshot", view="v", **{"from": 0})
        assert served.until(ws, "feed", "snapshot")["view"] == "v"
    assert len(served.lab.log) == records
    assert not any(view.faults for view in (served.lab.view.panel, *served.lab.view.panel.parts.values()))


def test_the_end_of_the_sessions_closes_the_pages_and_voids_the_links(served: Served) -> None:
    code, secret = served.code(), served.session()
    with served.open({"session": secret}) as ws:
        ws.recv(20)
        say(ws, "feed", t="snapshot", view="v", **{"from": 0})
        served.until(ws, "feed", "snapshot")
        assert "Ended 1 session" in str(served.lab.end_ui())
        assert closed_with(ws) == 4401
    assert served.sign_in(code)[0] == 403
    with served.open({"session": secret}) as ws:
        assert closed_with(ws) == 4401
    assert "Ended 0 sessions" in str(served.lab.end_ui())


def test_a_page_that_is_left_alone_is_signed_out(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sessions_module, "IDLE", 0.6)
    served = Served(lab)
    with served.page() as ws:
        say(ws, "approvals", t="snapshot", view="v", **{"from": 0})
        end = time.monotonic() + 10
        with pytest.raises(ConnectionClosed) as closed:
            while time.monotonic() < end:  # what a page sends by itself keeps no session
                say(ws, "approvals", t="ping", view="v")
                with contextlib.suppress(TimeoutError):
                    ws.recv(0.05)
        assert closed.value.rcvd is not None and closed.value.rcvd.code == 4401


def test_a_session_has_few_sockets_at_once(served: Served) -> None:
    secret = served.session()
    with contextlib.ExitStack() as stack:
        for _ in range(8):
            ws = stack.enter_context(served.open({"session": secret}))
            assert "welcome" in json.loads(ws.recv(20))
        with served.open({"session": secret}) as ws:
            assert closed_with(ws) == 1013


def test_a_closed_page_is_forgotten_by_the_views(served: Served) -> None:
    feed = served.lab.view.feed
    with served.page() as ws:
        say(ws, "feed", t="snapshot", view="v", **{"from": 0})
        served.until(ws, "feed", "snapshot")
        assert feed.has_view
    end = time.monotonic() + 20
    while feed.has_view:
        assert time.monotonic() < end
        served.lab.loop.call(lambda: None)


def test_the_space_that_stops_ends_its_page(served: Served) -> None:
    with served.page() as ws:
        served.lab.down()
        with pytest.raises(ConnectionClosed):
            while True:
                ws.recv(20)
    with pytest.raises(OSError):
        served.ask("GET", "/ui")
    assert served.lab.closed


def test_a_proxy_of_the_owner_is_named_and_no_other_is(lab: Lab) -> None:
    served = Served(lab, origin=NAME)
    assert served.link.startswith(f"{NAME}/ui#")
    name = NAME.removeprefix("https://")
    assert served.ask("GET", "/ui", host=name)[0] == 200
    assert served.ask("GET", "/ui", host="other.example.org")[0] == 421
    assert served.sign_in(served.code(), host=name, origin=NAME)[0] == 200
    for host, origin in (
        (name, "http://lab.example.org"), (name, served.origin), (served.host, NAME), (name, "https://other.example.org"),
        (f"{name}:8443", NAME),
    ):  # fmt: skip
        assert served.sign_in(served.code(), host=host, origin=origin)[0] == 403, (host, origin)
    assert served.sign_in(served.code())[0] == 200, "the loopback is still its own"


def test_a_page_is_served_once_and_a_link_comes_again(served: Served) -> None:
    assert str(served.lab.serve_ui()).startswith(
        "The page of demo, for one browser, to be opened within 2 minutes: http"
    )
    for how in ({"port": 1}, {"origin": NAME}):
        with pytest.raises(ConfigError, match="is served already, on port"):
            served.lab.serve_ui(**how)  # type: ignore[arg-type]
    assert served.lab.serve_ui(port=served.port).text


def test_a_port_that_is_taken_is_told(lab: Lab) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        with pytest.raises(ConfigError):
            lab.serve_ui(port=taken.getsockname()[1])
    assert lab.page is None and "no page" in str(lab.end_ui())


def test_only_the_token_of_the_page_controls_it(served: Served) -> None:
    token = served.lab.loop.call(served.server.allow_control).reveal()

    def control(act: object, **headers: str | None) -> tuple[int, str]:
        given = {"content_type": "application/json", "authorization": f"Bearer {token}"} | headers
        status, _, text = served.ask("POST", "/ui/control", {"act": act}, **given)
        return status, text

    assert control("link", authorization=None)[0] == 403
    assert control("link", authorization="Bearer x")[0] == 403
    assert control("link", authorization=f"Bearer {served.session()}")[0] == 403
    assert control("link", origin=served.origin)[0] == 403, "a web page has no business here"
    assert control("everything")[0] == 400
    status, text = control("link")
    assert status == 200 and served.sign_in(json.loads(text)["url"].partition("#")[2])[0] == 200
    assert "Ended" in json.loads(control("end")[1])["said"]


def test_a_page_that_takes_nothing_is_closed_and_holds_nobody(
    served: Served, monkeypatch: pytest.MonkeyPatch, browser: Callable[[Any], Any]
) -> None:
    monkeypatch.setattr("mew_lab.views.page.socket.MOST_WAITING", 200_000)
    other = browser(served.lab.view.chat)
    other.appear()
    secret, bot = served.session(), served.lab.join("bot")
    narrow = socket.socket()
    narrow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    narrow.connect(("127.0.0.1", served.port))
    with connect(
        f"ws://{served.host}/ui/ws", sock=narrow, origin=served.origin, max_size=None, max_queue=1
    ) as ws:  # type: ignore[arg-type]
        ws.send(json.dumps({"session": secret}))
        say(ws, "chat", t="snapshot", view="v", **{"from": 0})

        async def flood(first: int) -> None:
            for n in range(first, first + 100):
                await bot.participant.sender.say("chat", {"text": f"{n} " + "x" * 20_000})

        for first in range(0, 1000, 100):  # 20 MB, of which it reads nothing
            served.lab.loop.run(flood(first), timeout=60, doing="flooding")
        other.until(lambda: any("999 x" in str(item) for item in other.items[-50:]))
        taken = 0
        with pytest.raises(ConnectionClosed):
            while True:
                taken += len(ws.recv(20))
        assert taken < 10_000_000, "what it did not take was not kept for it"
