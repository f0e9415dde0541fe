"""What an MCP server may ask a person, and what may be answered.

Spec: MCP 2025-11-25 and 2026-07-28 "Elicitation": flat objects of texts, numbers, booleans and choices, or an address.
"""

from __future__ import annotations

import contextlib
import json as JSON
import random
import shutil
import subprocess
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mew_lab.errors import ProtocolError
from mew_lab.protocol.address import read_host
from mew_lab.protocol.elicitation import (
    Elicitation,
    answer_faults,
    read_answer,
    read_elicitation,
)
from mew_lab.protocol.visible import visible

TITLED = [{"const": "#f00", "title": "Red"}, {"const": "#0f0", "title": "Green"}]
# The primitive schemas that the specification lists, each with a value that fits and one that does not.
FIELDS: dict[str, tuple[dict[str, Any], Any, Any]] = {
    "text": ({"type": "string", "minLength": 3, "maxLength": 50}, "abc", "ab"),
    "email": ({"type": "string", "format": "email"}, "ann@example.org", 1),
    "number": ({"type": "number", "minimum": 0, "maximum": 100}, 0.5, 101),
    "count": ({"type": "integer"}, 3, "3"),
    "sure": ({"type": "boolean", "default": False}, True, "yes"),
    "plain choice": ({"type": "string", "enum": ["Red", "Green"]}, "Red", "Blue"),
    "titled choice": ({"type": "string", "oneOf": TITLED}, "#f00", "Red"),
    "plain choices": ({"type": "array", "items": {"type": "string", "enum": ["a", "b"]}}, ["a", "b"], ["c"]),
    "titled choices": ({"type": "array", "items": {"anyOf": TITLED}, "maxItems": 1}, ["#0f0"], ["Red"]),
}


def form(fields: Any, **more: Any) -> dict[str, Any]:
    schema = {"type": "object", "properties": fields} | more
    return {"message": "How many?", "requestedSchema": schema}


def refused(params: dict[str, Any]) -> str:
    with pytest.raises(ProtocolError) as fault:
        read_elicitation(params)
    assert fault.value.code == "invalid_params"
    return str(fault.value)


@pytest.mark.parametrize("name", FIELDS)
def test_each_primitive_of_the_specification_is_asked_and_checked(name: str) -> None:
    field, good, bad = FIELDS[name]
    asked = read_elicitation(form({"value": field}, required=["value"]))
    assert (asked.message, asked.url, asked.host, asked.secrets) == ("How many?", "", "", ())
    assert read_answer(asked, {"action": "accept", "content": {"value": good}}) == {
        "action": "accept",
        "content": {"value": good},
    }
    for content in ({"value": bad}, {}, {"value": good, "more": 1}, [good], None):
        assert answer_faults(asked, content)
        with pytest.raises(ProtocolError):
            read_answer(asked, {"action": "accept", "content": content})


def test_a_refusal_of_values_says_which_and_why() -> None:
    asked = read_elicitation(form({"size": {"type": "integer", "maximum": 9}}))
    assert "size must be" in answer_faults(asked, {"size": 30})
    assert answer_faults(asked, {"siez": 3}) == "the form has no field siez"
    assert answer_faults(asked, None) == "there are no values"


@pytest.mark.parametrize("action", ["decline", "cancel"])
def test_a_refusal_carries_no_values(action: str) -> None:
    asked = read_elicitation(form({"size": {"type": "integer"}}))
    assert read_answer(asked, {"action": action, "content": {"size": 3}}) == {"action": action}


@pytest.mark.parametrize("result", [None, [], "accept", {}, {"action": "yes"}, {"action": None}])
def test_an_answer_without_one_of_the_three_actions_is_none(result: Any) -> None:
    with pytest.raises(ProtocolError, match="accept, decline, cancel"):
        read_answer(read_elicitation(form({"size": {"type": "integer"}})), result)


def test_an_address_is_shown_with_its_host_and_answered_without_values() -> None:
    asked = read_elicitation(
        {
            "mode": "url",
            "message": "Sign in",
            "url": "https://login.example.org:8443/a?b=c",
            "elicitationId": "1",
        }
    )
    assert asked.host == "login.example.org:8443" and dict(asked.schema) == {}
    assert read_answer(asked, {"action": "accept", "content": {"x": 1}}) == {"action": "accept"}


@pytest.mark.threat(51)
@pytest.mark.parametrize(
    "url",
    [
        *(None, 7, "", "login.example.org", "javascript:alert(1)", "file:///etc/passwd", "https:///path"),
        *("https://a b.example.org", "https://x\n.example.org", "https://[::1", "https://x/" + "a" * 5000),
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
    ],
)
def test_an_address_without_one_plain_host_of_the_web_is_not_shown(url: Any) -> None:
    assert "URL" in refused({"mode": "url", "message": "Sign in", "url": url})


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
    asked = read_elicitation({"mode": "url", "message": "Sign in", "url": url})
    assert asked.host == host
    assert any(remark in one for one in asked.remarks) if remark else asked.remarks == ()


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
        [node, "-e", READ], input=JSON.dumps(urls), capture_output=True, text=True, timeout=50
    )
    browsers = JSON.loads(run.stdout)
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


@pytest.mark.parametrize(
    ("params", "why"),
    [
        ({}, "has no message"),
        ({"message": 7}, "has no message"),
        ({"message": "x" * 8001}, "8001 characters"),
        ({"message": "x", "mode": "audio"}, "there are form and url"),
        ({"message": "x"}, "no schema of the type object"),
        ({"message": "x", "requestedSchema": []}, "no schema of the type object"),
        ({"message": "x", "requestedSchema": {"type": "array"}}, "no schema of the type object"),
        (form(None), "without fields"),
        (form({}), "without fields"),
        (form({f"f{n}": {"type": "string"} for n in range(51)}), "51 fields"),
        (form({"x": {"type": "string", "title": "t" * 70_000}}), "at most 65536"),
        (form({"x": {"type": "string", "default": {1, 2}}}), "is no JSON"),
        (form({"x": {"type": "string"}}, allOf=[]), "with allOf"),
        (form({"x": 1}), "that is no schema"),
        (form({"x": {"type": "object", "properties": {}}}), "with properties"),
        (form({"x": {"$ref": "#"}}), "with $ref"),
        (form({"x": {"type": ["string", "null"]}}), "of the type"),
        (form({"x": {}}), "of the type None"),
        (form({"x": {"type": "array"}}), "without fixed choices"),
        (form({"x": {"type": "array", "items": {"type": "string"}}}), "without fixed choices"),
        (form({"x": {"type": "array", "items": {"properties": {}}}}), "without fixed choices"),
        (form({"x": {"type": "array", "items": {"anyOf": [{"type": "string"}]}}}), "without fixed choices"),
        (form({"x": {"type": "string", "oneOf": [{"pattern": "a"}]}}), "whose choices are no texts"),
        (form({"x": {"type": "string", "pattern": "("}}), "cannot be checked"),
        (form({"x": {"type": "string", "enum": [f"c{n}" for n in range(201)]}}), "201 choices"),
        (form({"x": {"type": "string", "enum": ["a\n", "a\\n"]}}), "look the same"),
        (form({"x": {"type": "string", "oneOf": [{"const": "a b"}, {"const": "a  b"}]}}), "look the same"),
        (form({"a\u202e": {"type": "string"}, "a\\u202e": {"type": "string"}}), "look the same"),
    ],
)
def test_what_is_no_flat_form_is_refused_by_name(params: dict[str, Any], why: str) -> None:
    assert why in refused(params)


def test_fields_that_look_like_secrets_are_named() -> None:
    asked = read_elicitation(
        form(
            {
                "password": {"type": "string"},
                "a": {"type": "string", "title": "API key"},
                "b": {"type": "string", "description": "Your card number"},
                "c": {"type": "string", "description": "Your town"},
            }
        )
    )
    assert asked.secrets == ("password", "a", "b")


@pytest.mark.threat(50)
@pytest.mark.parametrize(
    "text",
    [
        *(
            "Enter your GitHub password and your API key",
            "pass word",
            "PIN_code",
            "userPin",
            "OTP",
            "otpCode",
            "2FA",
        ),
        *(
            "your recovery phrase",
            "the six digits: one-time code",
            "\uff30\uff21\uff33\uff33\uff37\uff2f\uff32\uff24",
        ),
        *("pass\u200bword", "p\u0430ssword", "p a s s w o r d", "Verification code", "seed phrase", "secret"),
    ],
)
def test_a_secret_is_found_in_each_text_of_a_form_however_it_is_spelt(text: str) -> None:
    plain = {"type": "string"}
    assert read_elicitation(form({"answer": plain}) | {"message": text}).is_secret
    assert read_elicitation(form({"answer": plain}, description=text)).is_secret
    assert read_elicitation(form({text: plain})).secrets == (text,)
    for more in (
        {"description": text},
        {"default": text},
        {"examples": ["x", {"deep": [text]}]},
        {"enumNames": [text]},
        {"x-note": text},
    ):
        assert read_elicitation(form({"answer": plain | more})).secrets == ("answer",)
    assert read_elicitation(form({"answer": plain}) | {"x-note": {"deep": [text]}}).is_secret


def test_what_is_only_chosen_is_no_secret() -> None:
    public = {"type": "string", "enum": ["public", "secret"], "default": "secret"}
    titled = {"type": "string", "oneOf": [{"const": "a", "title": "By token"}]}
    assert read_elicitation(form({"a": public, "b": titled})).secrets == ()


@pytest.mark.parametrize(
    "text", ["How many pears?", "compass words", "a spinning top", "Which town?", "opinion"]
)
def test_a_plain_question_asks_for_no_secret(text: str) -> None:
    asked = read_elicitation(form({"answer": {"type": "string", "title": text}}) | {"message": text})
    assert not asked.is_secret and asked.secrets == ()


json = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["type", "properties", "items", "enum", "oneOf", "const", "required"])
            | st.text(max_size=3),
            inner | st.sampled_from(["object", "string", "array"]),
            max_size=3,
        )
    ),
    max_leaves=12,
)


@given(json, json)
def test_any_json_is_a_question_or_refused_and_any_answer_fits_or_is_refused(
    schema: Any, answer: Any
) -> None:
    try:
        asked = read_elicitation({"message": "x", "requestedSchema": schema})
    except ProtocolError:
        return
    assert isinstance(asked, Elicitation) and schema["type"] == "object"
    try:
        given_ = read_answer(asked, {"action": "accept", "content": answer})
    except ProtocolError:
        return
    assert given_["content"] == answer and set(answer) <= set(schema["properties"])
