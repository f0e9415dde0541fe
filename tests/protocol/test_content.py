"""The answer of a request is the same parts for each of its readers; a picture is believed by its bytes alone."""

from __future__ import annotations

import base64
import struct
import unicodedata
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mew_lab.protocol.content import (
    Block,
    CheckedPicture,
    ContentPart,
    describe_part,
    for_line,
    for_model,
    for_page,
    for_phrase,
    for_text,
    picture_of,
    pictures_of,
    read_parts,
    size_text,
    without_bytes,
)


def blocks(raw: Any) -> list[Block]:
    return for_page(read_parts(raw))


def png(width: int, height: int) -> bytes:
    return (
        b"\x89PNG\r\n\x1a\n"
        + struct.pack(">I", 13)
        + b"IHDR"
        + struct.pack(">II", width, height)
        + b"\x08\x06\0\0\0"
    )


JPEG = (
    b"\xff\xd8\xff\xe0\x00\x04ab" + b"\xff\xc0\x00\x0b\x08" + struct.pack(">HH", 7, 9) + b"\x01\x01\x11\x00"
)
GIF = b"GIF89a" + struct.pack("<HH", 3, 4) + b"\0\0\0;"
WEBP = b"RIFF\x1a\0\0\0WEBPVP8X\x0a\0\0\0\0\0\0\0" + (4).to_bytes(3, "little") + (5).to_bytes(3, "little")
SVG = b"<svg xmlns='http://www.w3.org/2000/svg' onload='alert(1)'/>"


def text_of(body: bytes) -> str:
    return base64.b64encode(body).decode()


@pytest.mark.parametrize(
    ("body", "mime"),
    [(png(2, 3), "image/png"), (JPEG, "image/jpeg"), (GIF, "image/gif"), (WEBP, "image/webp")],
)
def test_a_picture_is_what_its_first_bytes_say(body: bytes, mime: str) -> None:
    assert picture_of(text_of(body)) == Block("image", text_of(body), mime)


@pytest.mark.threat(3, 9)
@pytest.mark.parametrize(
    "data",
    [text_of(SVG), text_of(b""), text_of(b"%PDF-1.7"), "no base64!", 7, None, text_of(png(100_000, 100_000)),
     text_of(png(0, 5)), "A" * 2_000_001, text_of(b"\x89PNG\r\n\x1a\n"), text_of(b"\xff\xd8\xff")],
)  # fmt: skip
def test_what_is_no_bearable_picture_is_a_line_of_text(data: Any) -> None:
    block = picture_of(data)
    assert block.kind == "note" and "not shown" in block.text


def test_text_is_text_and_json_in_it_is_laid_out() -> None:
    raw = {
        "content": [
            {"type": "text", "text": "two\nlines"},
            {"type": "text", "text": '{"a":[1]}'},
            {"type": "text", "text": "{no json"},
        ]
    }
    assert blocks(raw) == [
        Block("text", "two\nlines"), Block("json", '{\n  "a": [\n    1\n  ]\n}'), Block("text", "{no json"),
    ]  # fmt: skip


def test_a_structured_value_is_shown_once() -> None:
    same = {"content": [{"type": "text", "text": '{"a": 1}'}], "structuredContent": {"a": 1}}
    assert len(blocks(same)) == 1
    more = {"content": [{"type": "text", "text": "one"}], "structuredContent": {"a": 1}}
    assert blocks(more)[1] == Block("json", '{\n  "a": 1\n}')
    # As the filesystem server and FastMCP say their content again, and what only looks like that.
    one, two = text("one"), text("two")
    for content, again in (([one], "one"), ([one, two], [one, two]), ([PICTURE], [PICTURE])):
        assert len(blocks({"content": content, "structuredContent": {"content": again}})) == len(content)
    for content, other in (
        ([one], "two"),
        ([one, two], "one"),
        ([one, two], [two, one]),
        ([one], [one, two]),
        ([], []),
    ):
        assert len(blocks({"content": content, "structuredContent": {"content": other}})) == len(content) + 1
    assert len(blocks({"content": [one], "structuredContent": {"content": "one", "count": 1}})) == 2


def test_every_other_part_is_named() -> None:
    raw = {"content": [
        {"type": "audio", "data": "x"}, {"type": "resource", "resource": {"uri": "file:///a", "blob": "AAAA"}},
        {"type": "resource", "resource": {"uri": "file:///b", "text": "its text"}},
        {"type": "resource_link", "uri": "file:///c", "name": "C", "mimeType": "text/plain", "size": 3_400}, "nonsense",
        {"type": "new"}, {},
    ]}  # fmt: skip
    assert [(block.kind, block.text) for block in blocks(raw)] == [
        ("note", "Not shown: a sound, 1 character that are no base64."),
        ("note", "Not shown: a resource of no named type, 3 bytes, file:///a."),
        ("text", "its text"),
        ("note", "Link to C: file:///c (text/plain, 3 kB by its own account)"),
        ("note", "Not shown: a part that is no object."),
        ("note", "Not shown: a part of type new."),
        ("note", "Not shown: a part of type null."),
    ]


@pytest.mark.threat(9, 17)
def test_a_result_is_visible_and_bounded() -> None:
    assert (
        blocks({"content": [{"type": "text", "text": "a\u202eb\x1b[31m"}]})[0].text == "a\\u202eb\\u001b[31m"
    )
    (long,) = blocks({"content": [{"type": "text", "text": "x" * 60_000}]})
    assert long.text.endswith("… 10 000 more characters: lab.log.df has all") and len(long.text) < 50_100
    assert blocks({"content": [{"type": "text", "text": "x"}] * 70})[-1].text == "Not shown: 20 more parts."


@pytest.mark.trap("T-14")
def test_a_text_of_json_keeps_the_digits_that_came() -> None:
    text = '{"a": 1.00000000000000000001, "b": 1e3, "c": %s}' % ("7" * 400)
    (block,) = blocks({"content": [{"type": "text", "text": text}]})
    assert block.kind == "json"
    assert "1.00000000000000000001" in block.text and "1e3" in block.text and "7" * 400 in block.text


@pytest.mark.trap("T-14")
@pytest.mark.parametrize("text", ['{"a": NaN}', '{"a": 1e400}', "[-Infinity]", '["\\ud800"]'])
def test_a_text_that_looks_like_json_and_is_none_is_shown_as_it_came(text: str) -> None:
    assert blocks({"content": [{"type": "text", "text": text}]}) == [Block("text", text)]


@pytest.mark.trap("T-14")
@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (float("nan"), "nan"),
        (float("inf"), "inf"),
        ({"a": float("-inf")}, "{'a': -inf}"),
        ("\ud800", "'\\ud800'"),
    ],
)
def test_a_structured_value_that_json_cannot_say_is_shown_as_python_writes_it(value: Any, shown: str) -> None:
    raw = {"content": [{"type": "text", "text": "beside it"}], "structuredContent": value}
    assert blocks(raw) == [Block("text", "beside it"), Block("text", shown)]
    (huge,) = blocks(10**5000)
    assert "<int without a text" in huge.text


def test_true_is_not_one() -> None:
    raw = {"content": [{"type": "text", "text": '{"a": 1}'}], "structuredContent": {"a": True}}
    assert [block.text for block in blocks(raw)] == ['{\n  "a": 1\n}', '{\n  "a": true\n}']


@pytest.mark.parametrize("raw", [None, 7, [1], {"tools": []}, {"content": "no list"}])
def test_a_result_of_another_shape_is_shown_as_json(raw: Any) -> None:
    assert [block.kind for block in blocks(raw)] == ["json"]


# --- names ---


@pytest.mark.parametrize(
    ("part", "name"),
    [
        (ContentPart("image", data=text_of(png(2, 3)), mime="image/png"), "image/png, 29 bytes"),
        (ContentPart("image", data=text_of(JPEG), mime="image/jpg"), "image/jpeg, 21 bytes"),
        (ContentPart("image", data=text_of(JPEG), mime="image/png"), "image/jpeg, 21 bytes, sent as image/png"),
        (ContentPart("image", data=text_of(b"MZ" * 20_000), mime="image/png"), "no image/png, though sent as one, 40 kB"),
        (ContentPart("image", data=text_of(SVG), mime="image/svg+xml"), "image/svg+xml, 59 bytes"),
        (ContentPart("image", data="%" * 5_000, mime="image/png"), "image/png, 5 000 characters that are no base64"),
        (ContentPart("image", data=f"data:image/png;base64,{text_of(png(2, 3))}"), "image/png, 29 bytes"),
        (ContentPart("image", data="\n".join(["iVBORw0K", "GgoAAAAN"])), "image/png, 12 bytes"),
        (ContentPart("image"), "a picture without content"),
        (ContentPart("audio", data="AAAA", mime="audio/wav\x1b[2J"), "audio/wav\\u001b[2J, 3 bytes"),
        (ContentPart("resource", uri="file:///a"), "a resource without content, file:///a"),
        (ContentPart("resource", "abc", uri="file:///a", mime="text/x"), "text/x, 3 characters, file:///a"),
        (ContentPart("link"), "link without an address"),
        (ContentPart("link", name="b"), "link b without an address"),
    ],
)  # fmt: skip
def test_a_part_is_named_by_its_bytes_and_not_by_what_it_is_called(part: ContentPart, name: str) -> None:
    assert describe_part(part) == name


@pytest.mark.parametrize(
    ("size", "text"), [(0, "0 bytes"), (1, "1 byte"), (999, "999 bytes"), (34_400, "34 kB"), (3_700_000, "3.7 MB")]
)  # fmt: skip
def test_a_size_is_told_in_the_unit_that_a_person_reads(size: int, text: str) -> None:
    assert size_text(size) == text


# --- a model ---


def text(words: str) -> dict[str, Any]:
    return {"type": "text", "text": words}


PICTURE = {"type": "image", "data": text_of(png(2, 3)), "mimeType": "image/png"}
FILE = {
    "type": "resource",
    "resource": {"uri": "file:///a.py", "mimeType": "text/x-python", "text": "print()"},
}
LINK = {"type": "resource_link", "uri": "https://a.example.org/b", "name": "b"}


@pytest.mark.parametrize(
    ("raw", "seen"),
    [
        ({"content": [text("one"), text("two")]}, "one\ntwo"),
        ({"content": [text("downloaded"), FILE]}, "downloaded\n[file:///a.py, text/x-python]\nprint()"),
        ({"content": [FILE]}, "print()"),
        ({"content": [LINK]}, "[link to b: https://a.example.org/b]"),
        ({"content": [PICTURE]}, "[image/png, 29 bytes]"),
        ({"content": [text("6 items")], "structuredContent": {"items": [1]}}, "6 items"),
        ({"content": [], "structuredContent": {"items": [1]}}, '{"items":[1]}'),
        ({"content": [text("  \n")], "structuredContent": {"items": [1]}}, '{"items":[1]}'),
        ({"structuredContent": {"items": [1]}, "_meta": {"secret": 1}}, '{"items":[1]}'),
        ({"content": [{"type": "new"}], "structuredContent": {"items": [1]}}, '{"items":[1]}'),
        ({"content": [PICTURE], "structuredContent": {"items": [1]}}, '[image/png, 29 bytes]\n{"items":[1]}'),
        ({"content": [text("")], "structuredContent": {"result": ""}}, "(no output)"),
        ({"content": [text("")], "structuredContent": {"result": 0}}, '{"result":0}'),
        ({"content": [text("")], "structuredContent": {"result": None}}, '{"result":null}'),
        ({"content": [], "structuredContent": {"result": []}}, '{"result":[]}'),
        ({"content": [LINK], "structuredContent": {"items": [1]}}, "[link to b: https://a.example.org/b]"),
        ({"content": [], "_meta": {"secret": 1}}, "(no output)"),
        ({"sum": 8, "_meta": {"secret": 1}}, '{"sum":8}'),
        (8, "8"),
        ("eight", "eight"),
    ],
)
def test_a_model_gets_what_the_content_carries_else_the_structured_value_and_never_both(
    raw: Any, seen: str
) -> None:
    assert for_model(read_parts(raw)) == (seen, ())


def test_a_model_that_takes_pictures_gets_checked_ones_and_their_names() -> None:
    lying = {**PICTURE, "data": text_of(SVG)}
    raw = {"content": [text("look"), PICTURE, lying, {"type": "resource", "resource": {
        "uri": "file:///c", "mimeType": "image/gif", "blob": text_of(GIF)}}]}  # fmt: skip
    seen = for_model(read_parts(raw), images=True)
    assert seen.pictures == (
        CheckedPicture("image/png", PICTURE["data"]),
        CheckedPicture("image/gif", text_of(GIF)),
    )
    assert seen.text.split("\n") == [
        "look", "[image/png, 29 bytes: picture 1]", "[no image/png, though sent as one, 59 bytes]",
        "[image/gif, 14 bytes, file:///c: picture 2]",
    ]  # fmt: skip
    assert len(for_model(read_parts({"content": [PICTURE] * 9}), images=True).pictures) == 4
    both = {"content": [PICTURE], "structuredContent": {"items": [1]}}
    assert for_model(read_parts(both), images=True).text == "[image/png, 29 bytes: picture 1]"


def test_a_read_resource_and_a_filled_prompt_are_parts_too() -> None:
    several = {"contents": [{"uri": "a:1", "text": "one"}, {"uri": "a:2", "blob": "AAAA", "mimeType": "x/y"}]}
    assert for_model(read_parts(several, "resources/read")).text == "[a:1]\none\n[x/y, 3 bytes, a:2]"
    prompt = {"description": "about", "messages": [
        {"role": "user", "content": [text("one"), text("two")]}, {"role": "assistant", "content": PICTURE}, 3]}  # fmt: skip
    parts = read_parts(prompt, "prompts/get")
    assert (
        for_model(parts).text
        == "user: one\ntwo\nassistant: [image/png, 29 bytes]\n[a part that is no object]"
    )
    assert [block.text for block in for_page(parts)][:3] == ["About", "user:", "one"]


# --- people ---


def test_a_text_names_what_it_cannot_draw_and_a_line_says_what_there_is() -> None:
    raw = {"content": [PICTURE, text("two\nlines\x1b[2J"), LINK]}
    parts = read_parts(raw)
    assert for_text(parts) == (
        "[image/png, 29 bytes]\ntwo\nlines\\u001b[2J\n[link to b: https://a.example.org/b]"
    )
    assert for_line(parts) == (
        "two\\nlines\\u001b[2J [image/png, 29 bytes] [link to b: https://a.example.org/b]"
    )
    assert for_phrase(parts) == "“two\\nlines\\u001b[2J”, image/png, 29 bytes and 1 more part"
    assert (
        for_text(read_parts({"content": [text("x" * 50)]}), limit=10)
        == "x" * 10 + "\n[40 more characters left out]"
    )


def test_a_text_is_whole_however_many_parts_it_has() -> None:
    raw = {"content": [text(str(n)) for n in range(300)] + [PICTURE] * 300}
    shown = for_text(read_parts(raw)).split("\n")
    assert shown == [*map(str, range(300)), "[300 more parts left out]"]


def test_csv_is_a_table_and_what_only_claims_to_be_one_is_text() -> None:
    def csv(words: str) -> list[Block]:
        return blocks({"content": [{"type": "resource", "resource": {
            "uri": "t:1", "mimeType": "text/csv; charset=utf-8", "text": words}}]})  # fmt: skip

    (table,) = csv('bed,note\nnorth,"a, b\u202e"\nsouth\n')
    assert table == Block("table", "", rows=(("bed", "note"), ("north", "a, b\\u202e"), ("south", "")))
    (long,) = csv("n\n" + "1\n" * 1_000)
    assert len(long.rows) == 201 and long.text == "Not shown: 800 more rows."
    (wide,) = csv(",".join(map(str, range(150))))
    assert len(wide.rows[0]) == 100 and wide.text == "Not shown: 50 more columns."
    for words in ("a\nb,hidden", 'a\n"open', "", "a\n" + '"' + "x" * 200_000 + '"'):
        assert [block.kind for block in csv(words)] == ["text"], words[:20]


def test_bytes_are_named_where_a_payload_is_copied() -> None:
    payload = {"jsonrpc": "2.0", "id": 1, "result": {"content": [text("a"), PICTURE, {"type": "resource", "resource": {
        "uri": "u", "blob": "AAAA"}}], "isError": False}}  # fmt: skip
    copied = without_bytes(payload)
    assert copied["result"]["content"][1] == {**PICTURE, "data": "[image/png, 29 bytes]"}
    assert copied["result"]["content"][2]["resource"]["blob"] == "[a resource of no named type, 3 bytes, u]"
    assert payload["result"]["content"][1] is PICTURE
    for same in ({"result": {"content": [text("a")]}}, {"result": 3}, {"text": "chat"}, 3):
        assert without_bytes(same) is same or without_bytes(same) == same


# --- hostile ---

UGLY = "\x1b]0;owned\x07\u009b31m\u202e\r\x00\ud800"
WORDS = st.text(st.sampled_from([*UGLY, "\n", "\t", "a", ",", '"', "=", "/", "{"]), max_size=30)
SMALL = st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), WORDS)
VALUES = st.recursive(SMALL, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(WORDS, inner, max_size=3), max_leaves=5)  # fmt: skip
DATA = st.one_of(st.binary(max_size=40).map(text_of), st.sampled_from([text_of(png(9, 9)), text_of(JPEG)]), WORDS, VALUES)  # fmt: skip
MIMES = st.one_of(st.sampled_from(["image/png", "text/csv", "text/csv;x", "audio/wav"]), WORDS, VALUES)
RESOURCES = st.fixed_dictionaries({}, optional={
    "uri": VALUES, "mimeType": MIMES, "text": st.one_of(WORDS, VALUES), "blob": DATA})  # fmt: skip
BLOCKS = st.one_of(VALUES, st.fixed_dictionaries({"type": st.one_of(st.sampled_from(
    ["text", "image", "audio", "resource", "resource_link"]), VALUES)}, optional={
    "text": st.one_of(WORDS, VALUES), "data": DATA, "mimeType": MIMES, "uri": VALUES, "name": VALUES, "title": VALUES,
    "size": VALUES, "resource": st.one_of(RESOURCES, VALUES), "_meta": st.just({"k": "SECRET"})}))  # fmt: skip
RESULTS = st.one_of(VALUES, st.fixed_dictionaries({}, optional={
    "content": st.one_of(st.lists(BLOCKS, max_size=4), VALUES), "structuredContent": VALUES,
    "contents": st.one_of(st.lists(st.one_of(RESOURCES, VALUES), max_size=3), VALUES),
    "messages": st.lists(st.one_of(VALUES, st.fixed_dictionaries({"role": VALUES, "content": BLOCKS})), max_size=3),
    "description": VALUES, "_meta": st.just({"k": "SECRET"})}))  # fmt: skip


def hidden(shown: str) -> set[str]:
    return {c for c in shown if unicodedata.category(c) in ("Cc", "Cf", "Cs")} - {"\n", "\t"}


@pytest.mark.threat(3, 17, 47)
@given(RESULTS, st.sampled_from(["tools/call", "resources/read", "prompts/get", "x"]))
def test_no_answer_of_a_peer_hurts_a_reader(raw: Any, method: str) -> None:
    parts = read_parts(raw, method)
    for shown in (for_text(parts), for_line(parts), for_phrase(parts), *map(describe_part, parts)):
        assert not hidden(shown)
    assert len(for_line(parts, 60)) <= 60 and "\n" not in for_line(parts)
    for block in for_page(parts):
        assert block.kind in ("text", "json", "table", "image", "note")
        assert not hidden(block.text) and not hidden("".join(cell for row in block.rows for cell in row))
        assert (block.kind == "image") == bool(block.mime)
        assert len({len(row) for row in block.rows}) <= 1
    seen = for_model(parts, images=True)
    assert seen.text and "SECRET" not in seen.text.replace('"_meta"', "")
    assert for_model(parts).pictures == () and all(
        Block("image", data, mime) == picture_of(data) for mime, data in seen.pictures
    )
    assert len(pictures_of([raw])) == 1
    without_bytes({"result": raw})


def test_a_bomb_of_base64_costs_its_reading_and_is_named() -> None:
    bomb = {"content": [{"type": "image", "data": "A" * 30_000_000, "mimeType": "image/png"}]}
    parts = read_parts(bomb)
    assert for_text(parts) == "[no image/png, though sent as one, 22.5 MB]"
    assert for_model(parts, images=True) == ("[no image/png, though sent as one, 22.5 MB]", ())
    assert [block.kind for block in for_page(parts)] == ["note"]
    few = read_parts({"content": [text("x")] * 100_000}, most=50)
    assert len(few) == 51 and for_phrase(few) == "“x”, 49 more texts, 99 950 more parts"
    many = read_parts({"content": [{}] * 100_000})
    assert len(for_model(many).text) < 20_000 and len(for_text(many)) < 2_000 and len(for_page(many)) == 51


def test_a_line_has_only_what_has_room() -> None:
    parts = read_parts({"content": [text(""), text("abcdef"), text("more")]})
    assert for_line(parts, 4) == "abc…" and describe_part(parts[1]) == "6 characters"
    links = [{"type": "resource_link", "uri": f"t:{n}", "name": "n"} for n in range(9)]
    assert len(for_line(read_parts({"content": links}), 8)) <= 8


def test_a_text_that_only_begins_like_json_does_not_hide_the_structured_value() -> None:
    shown = blocks({"content": [text("{open")], "structuredContent": {"a": 1}})
    assert [block.kind for block in shown] == ["text", "json"]


def test_pictures_of_one_run_are_bounded_together() -> None:
    data = text_of(png(2, 3) + bytes(1_400_000))
    raw = {"content": [{"type": "image", "mimeType": "image/png", "data": data}]}
    *shown, last = pictures_of([raw] * 5)
    assert [[block.kind for block in blocks] for blocks in shown] == [["image"]] * 4
    assert last == [Block("note", "The pictures are not shown: there are too many.")]


def test_a_table_that_is_too_long_to_be_laid_out_is_text() -> None:
    words = "a,b\n" + "1,2\n" * 1_300_000
    table = {"uri": "t:1", "mimeType": "text/csv", "text": words}
    assert [block.kind for block in blocks({"content": [{"type": "resource", "resource": table}]})] == [
        "text"
    ]
