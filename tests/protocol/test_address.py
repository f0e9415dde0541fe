"""An address is written without what may be a secret, and its host is the one that a browser goes to.

Spec: WHATWG URL "Host parsing".
"""

from __future__ import annotations

import contextlib
import copy
import json
import pickle
import random
import shutil
import subprocess
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as some

from mew_lab.errors import MewError
from mew_lab.protocol.address import Address, read_host
from mew_lab.protocol.token import mask
from mew_lab.protocol.visible import visible

CANARY = "Canary5kQ0zV7r2Lx9"
# Each place where an address can hold a secret; `%s` is the secret, `@HOST` host and port.
PLACES = [
    "http://me:%s@HOST/mcp",
    "http://%s@HOST/mcp",
    "http://%s:pass@HOST/mcp",
    "http://me:a/%s@HOST/mcp",
    "http://me:a?%s@HOST/mcp",
    "http://me:a#%s@HOST/mcp",
    "http://me:a\\%s@HOST/mcp",
    "http://HOST/mcp?token=%s",
    "http://HOST/mcp?%s",
    "http://HOST/mcp?a=1&%s=2",
    "http://HOST?key=%s",
    "http://HOST/mcp?space=demo&access_token=%s#top",
    "http://HOST/mcp#%s",
    "http://HOST/mcp#access_token=%s",
    "http://HOST/mcp;session=%s",
    "http://HOST/mcp/token=%s",
    "http://HOST/mcp%%3Ftoken%%3D%s",
    "http://HOST/mcp?x=[%s",
    "me:%s@HOST",
    "HOST/mcp?key=%s",
    "//me:%s@HOST/mcp",
    "ftp://me:%s@HOST/",
    "http://me:%s@[::1/mcp",
]
ALPHABET = "abcXYZ0189-._~%2F+!$'()*, é\u202e\n"


def without_secret(text: str) -> bool:
    return CANARY.lower() not in text.lower()


@pytest.mark.drawn
@pytest.mark.threat(49)
@given(
    place=some.sampled_from(PLACES),
    before=some.text(ALPHABET, max_size=5),
    after=some.text(ALPHABET, max_size=5),
)
@example(place=PLACES[0], before="", after="")
def test_no_form_of_an_address_shows_what_may_be_a_secret(place: str, before: str, after: str) -> None:
    whole = place.replace("HOST", "127.0.0.1:9").replace("%s", before + CANARY + after).replace("%%", "%")
    address = Address(whole)
    shown = [
        str(address), repr(address), f"{address}", f"{address!r:>20}", f"{address:.99}", f"{address!s:.5}",
        "".join([address, ""]), address + "/x", "at " + address, json.dumps(address), json.dumps({address: 1}),
        str([address]), str(MewError(address)), repr(ValueError(address)), address[:], address.lower(), str(Path(address)),
        str(address.encode()), repr(copy.deepcopy([address])), str(pickle.dumps(address)), format(address), str(vars),
    ]  # fmt: skip
    assert [text for text in shown if not without_secret(text)] == []
    assert address.reveal() == whole and address == whole and (address != whole) is False
    assert Address(address) is copy.copy(address) is address
    assert Address("http://HOST/mcp") == "http://HOST/mcp" == str(Address("http://HOST/mcp"))


@pytest.mark.threat(49)
@given(
    place=some.sampled_from([place for place in PLACES if "://" in place]),
    before=some.text(ALPHABET, max_size=5),
    path=some.text("abcXYZ0189-._~/", max_size=9),
)
def test_what_is_found_in_an_address_is_what_is_hidden_of_it(place: str, before: str, path: str) -> None:
    plain = f"https://a.test:8080/{path}"
    assert Address(plain).find_secret() == "" and str(Address(plain)) == plain
    found = Address(place.replace("%s", before + CANARY).replace("%%", "%")).find_secret()
    assert found in ("a user or password", "a parameter", "a query", "a fragment")


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("http://me:word@a.test/", "a user or password"),
        ("http://a:word/mcp", "a user or password"),
        ("http://a.test/mcp;session=1?b", "a parameter"),
        ("http://a.test/?b#c", "a fragment"),
        ("http://a.test/?b", "a query"),
        ("http://a.test:80/b", ""),
    ],
)
def test_the_kind_of_a_secret_is_named(text: str, found: str) -> None:
    assert Address(text).find_secret() == found


def test_an_address_has_the_parts_of_its_whole() -> None:
    address = Address("http://me:word@a.test:80/b?c#d")
    parts = address.parts
    assert (parts.hostname, parts.port, parts.password, parts.query) == ("a.test", 80, "word", "c")


@pytest.mark.parametrize("text", ["http://[::1/", "http://a.test:x/", "http://a.test:65536/"])
def test_what_is_no_address_has_no_parts(text: str) -> None:
    with pytest.raises(ValueError):
        _ = Address(text).parts


# --- the host as a browser reads it ---


@pytest.mark.threat(51)
@pytest.mark.parametrize(
    "url",
    [
        *("", "login.example.org", "javascript:alert(1)", "file:///etc/passwd", "https:///path"),
        *("https://a b.example.org", "https://x\n.example.org", "https://[::1", "https://[1::2::3]/"),
        # What browsers and other readers read differently.
        *(
            "https://evil.test\\.github.com/login",
            "https://evil.test\\@github.com",
            "https://github.com@evil.test/",
        ),
        *("https://user:word@github.com/", "https://github.com%2eevil.test", "https://github.com;evil.test"),
        *("https://github.com:443:80/", "https://x:65536/", "https://1.2.3.4.5/", "https://256.1.1.1/"),
        *(
            "https://a..b/",
            "https://github.com\u3002evil.test/",
            "https://git\uff48ub.com/",
            "https://git\u00adhub.com/",
        ),
        *("https:/github.com/", "https:\\\\github.com/", "https://[fe80::1%25eth0]/", "https://1.2.3.08/"),
        f"https://{'9' * 5000}/",
    ],
)
def test_an_address_without_one_plain_host_of_the_web_has_none(url: str) -> None:
    with pytest.raises(ValueError, match="URL"):
        read_host(url)


@pytest.mark.threat(51)
@pytest.mark.parametrize(
    ("url", "host", "remark"),
    [
        ("https://GitHub.com/login", "github.com", ""),
        ("https://xn--bcher-kva.example/", "xn--bcher-kva.example", "letters of another script"),
        ("https://b\u00fccher.example/", "b\u00fccher.example", "it means xn--bcher-kva.example"),
        ("http://github.com/", "github.com", "the address is not encrypted"),
        ("https://2130706433/", "127.0.0.1", "the host is written as 2130706433 and means 127.0.0.1"),
        ("https://0x7f000001/", "127.0.0.1", "the host 127.0.0.1 is your own computer"),
        ("https://0x7f.1:80/", "127.0.0.1:80", "the host 127.0.0.1 is your own computer"),
        (f"https://0{'0' * 5000}177.0x{'0' * 5000}1/", "127.0.0.1", "is your own computer"),
        ("https://017700000001/", "127.0.0.1", "the host 127.0.0.1 is your own computer"),
        (
            "https://[::ffff:169.254.169.254]/",
            "[::ffff:a9fe:a9fe]",
            "computers of a cloud keep their secrets",
        ),
        ("https://169.254.169.254/", "169.254.169.254", "computers of a cloud keep their secrets"),
        ("https://10.0.0.1/", "10.0.0.1", "in a local network"),
        ("https://8.8.8.8/", "8.8.8.8", "is a number and has no name"),
        ("https://localhost:8888/", "localhost:8888", "your own computer"),
        ("https://intranet/", "intranet", "in a local network"),
    ],
)
def test_a_host_is_named_as_a_browser_reads_it(url: str, host: str, remark: str) -> None:
    read = read_host(url)
    assert read.text == host
    assert any(remark in one for one in read.remarks) if remark else read.remarks == ()


# What a host may consist of, and what readers of addresses disagree about.
PIECES = [
    *(
        "github.com",
        "evil.test",
        "a",
        "B",
        "1",
        "0x7f",
        "017",
        "127",
        "256",
        "4294967295",
        "xn--bcher-kva",
    ),
    *(".", ".", ".", "-", "_", ":", "80", "@", "\\", "/", "?", "#", "%2e", "%00", ";", "[::1]", "[", "]"),
    *(
        "\u3002",
        "\uff41",
        "\u00fc",
        "\u00ad",
        "\u200d",
        "\u0131",
        "<",
        "^",
        "|",
        "`",
        "{",
        "+",
        "&",
        "'",
        '"',
    ),
]
READ = """
const hosts = JSON.parse(require("fs").readFileSync(0, "utf8")).map((url) => {
  try { const read = new URL(url); return read.username || read.password ? "a user" : read.host; } catch { return null; }
});
console.log(JSON.stringify(hosts));
"""


@pytest.mark.drawn
@pytest.mark.threat(51)
def test_whatever_address_is_shown_a_browser_goes_to_the_host_that_is_named() -> None:
    """Node reads addresses by the same standard as browsers."""
    node = shutil.which("node")
    if node is None:
        pytest.skip("Node is not here")
    dice = random.Random(7)
    urls = ["https://" + "".join(dice.choices(PIECES, k=dice.randint(1, 6))) for _ in range(5000)]
    run = subprocess.run(
        [node, "-e", READ], input=json.dumps(urls), capture_output=True, text=True, timeout=50
    )
    browsers = json.loads(run.stdout)
    taken = 0
    for url, browser in zip(urls, browsers, strict=True):
        try:
            host = read_host(url).text
        except ValueError:
            continue
        if browser is None:  # it opens nothing
            continue
        taken += 1
        # A browser writes other letters in ASCII, and leaves the port of the scheme out.
        name, colon, port = host.rpartition(":") if not host.endswith("]") and ":" in host else (host, "", "")
        labels = [
            one if one.isascii() else "xn--" + one.encode("punycode").decode() for one in name.split(".")
        ]
        assert browser == ".".join(labels) + (colon + port if port not in ("", "443") else ""), url
    assert taken > 50


@pytest.mark.threat(51)
def test_a_character_of_a_host_that_shows_nothing_is_refused_as_a_browser_drops_it() -> None:
    hidden = [c for c in map(chr, range(0x80, 0xE0200)) if visible(c) != c]
    taken = []
    for c in hidden:
        for host in (f"git{c}hub.com", f"{c}a.test", f"a.test{c}"):
            with contextlib.suppress(ValueError):
                taken.append(read_host(f"https://{host}/").text)
    assert taken == []


def test_the_name_of_a_space_in_an_address_is_no_secret() -> None:
    Address("ws://h/ws?space=quarterly-forecast-2026")
    told = "quarterly-forecast-2026.csv is of ?space=quarterly-forecast-2026"
    assert mask(told) == told
