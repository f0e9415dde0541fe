"""Finds what one text quotes of another: word for word, in part, or in another spelling; pure.

A text becomes a set of hashed features: windows of letters, runs of three words, and short texts that name something
(addresses, hosts, paths, numbers, quoted words). Two texts that share a feature share words. Case, accents, look-alike
letters, white space, punctuation and invisible characters are folded before; percent-encoding, base64, hexadecimal
digits, HTML entities and JSON escapes are decoded. A paraphrase or a translation is not found: it has other words.

Spec: threat 29.
"""

from __future__ import annotations

import base64
import binascii
import html
import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping
from heapq import nlargest
from itertools import compress, islice, pairwise
from typing import Any, NamedTuple
from urllib.parse import unquote

from mew_lab.protocol.bounded import BoundedDict
from mew_lab.protocol.steps import Steps, finish
from mew_lab.protocol.text import cut_middle, fold
from mew_lab.protocol.visible import middle, one_line

__all__ = ["Query", "ToolOutputs", "features_of", "leaves", "query_of", "read_features", "read_query"]

WINDOW = 16  # letters and digits
STRIDE = 8  # so that 23 in a row hold a whole window of the other text
DENSE_WINDOW = 6  # of a script that writes no blanks between words
LONGEST_TOKEN = 200
SHORTEST_WORD = 6  # letters of a whole argument that is one plain word
MAX_DECODED = 50_000  # characters that decoding may add to one text
MAX_ENCODED = 40  # pieces of one text that are decoded

# Of one request that an agent works on:
MAX_FEATURES = 100_000  # about 10 MB
MAX_TEXT = 100_000  # characters of one output, or of the request
MAX_ARGUMENTS = 60_000  # characters of the arguments of one call
MAX_LEAVES = 1000  # texts, numbers, lists and objects there
MAX_PLACE = 200  # characters of the name of a place
MAX_QUOTES = 20

A_STEP = 500  # values, or small pieces of a text, between two pauses

# Function words of several languages; a run of words without any of them is specific to its author.
_STOP = frozenset(
    """
    the a an and or but if then else of to in on at by for from with without into over under as is are was
    were be been being am do does did done has have had having will would shall should can could may might
    must not no yes so such than that this these those there here it its he she they them his her their our
    your my me we us you i who whom which what when where why how all any each every some one two more most
    less other another same own only just also very too now up down out off again further once after before
    between during about against until while because please thank thanks ok hello dear der die das den dem des
    ein eine einer eines einem einen und oder aber wenn dann von zu zum zur im auf aus bei mit nach seit vor
    über unter ist sind war waren sein wird werden wurde hat haben hatte nicht kein keine auch nur noch schon
    sehr es er sie wir ihr ich du man als wie für bitte danke le la les un une et ou mais si de au aux en dans
    sur par pour avec sans est sont ce cette ces il elle ils elles nous vous je tu que qui ne pas el los las
    uno unos unas y o pero al con sin por para son este esta se su lo
    """.split()  # noqa: SIM905 - words read better than a list
)
# Common values and names of schemas and programs: as a whole argument they are no quote.
_SCHEMA = frozenset(
    """
    string number integer boolean object default content context arguments argument result results message
    messages markdown format plain create update delete insert append replace remove search select filter
    verbose summary enabled disabled ascending descending public private status value values option options
    method params title description required properties success failed failure pending completed active
    inactive unknown minutes hours seconds english german french spanish length limit offset before latest
    newest oldest random simple normal medium strict utf8 readme origin master current previous document
    comment config setting settings output source target folder directory project branch commit file files
    name names path paths text type types list true false null none main head trunk develop local remote
    """.split()  # noqa: SIM905 - words read better than a list
)
_WORD = re.compile(r"[^\W_]+")
# Thai, Lao, Burmese, Khmer, Chinese, Japanese, Korean.
_DENSE = re.compile(
    "[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u2e80-\u2fff\u3040-\u9fff\uac00-\ud7af\uf900-\ufaff\U00020000-\U0003ffff]+"
)
# Each begins where a run begins and never gives back what it took, so that no text takes more than its length.
_ADDRESS = re.compile(r"(?<![\w.+-])[\w.+-]{1,64}+@(?:[\w-]{1,63}+\.){1,8}[\w-]{2,63}+")
_NAMED = re.compile(r"(?<![\w-])(?:[\w-]{1,63}+\.){1,8}[a-z][\w-]{1,62}+")
_PATH = re.compile(r"(?<![\w.~$%-])[\w.~$%-]{0,64}+[/\\][\w.~$%/\\-]{3,200}+")
_NUMBER = re.compile(r"(?<!\d)(?:\d{1,3}(?:[,.'\u2019 _]\d{3}){1,10}(?!\d)|\d{4,40}+)(?:[.,]\d{1,2}(?!\d))?")
_DIGITS = re.compile(r"\d{3}")  # no number that counts is without
_IP = re.compile(r"(?<![\d.])\d{1,3}(?:\.\d{1,3}){3}(?![\d.])")
_PHONE = re.compile(r"\+\d[\d ()/.-]{5,30}+")
_SPELT = re.compile(r"\s{0,3}[\[({<]\s{0,3}(at|dot)\s{0,3}[\])}>]\s{0,3}", re.IGNORECASE)
_QUOTED = re.compile(
    r"['\"`\u2018\u201c\u201e\u00ab\u2039]([^\W_]{4,40}+)['\"`\u2019\u201d\u201c\u00bb\u203a]"
)
_JOINED = re.compile(r"(?<![^\W_])[^\W_]{1,40}+(?:[_-][^\W_]{1,40}+){1,6}")
_BASE64 = re.compile(r"[A-Za-z0-9+/_-]{16,60000}+={0,2}")
_HEX = re.compile(r"(?<![0-9A-Fa-f])(?:[0-9A-Fa-f]{2}[ :]?){8,20000}+")
_PLAIN_NAME = re.compile(r"[\w.$-]{1,64}")
_ESCAPE = re.compile(r"\\u([0-9A-Fa-f]{4})|\\x([0-9A-Fa-f]{2})|\\([nrt\"'\\/])")


def spellings(text: str) -> Steps[list[str]]:
    """The text and its decoded forms; decoded forms are decoded again, twice."""
    texts = [text]
    room = MAX_DECODED
    begin = 0  # of what the last pass has added
    for _ in range(3):
        latest, begin = texts[begin:][-MAX_ENCODED:], len(texts)
        for encoded in latest:
            for decoded in islice(_decode(encoded), MAX_ENCODED):
                if decoded and decoded not in texts and len(decoded) <= room and len(texts) < 2 * MAX_ENCODED:
                    room -= len(decoded)
                    texts.append(decoded)
                yield
    return texts


def _decode(text: str) -> Iterator[str]:
    if "%" in text:
        plain = unquote(text.replace("+", " "))
        if plain != text:
            yield plain
    if "&" in text and ";" in text and (plain := html.unescape(text)) != text:
        yield plain
    if "<" in text or "(" in text or "[" in text or "{" in text:
        plain = _SPELT.sub(lambda hit: "@" if hit[1].lower() == "at" else ".", text)
        if plain != text:
            yield plain
    if "\\" in text and (plain := _ESCAPE.sub(_unescape, text)) != text:
        yield plain
    for hit in islice(_HEX.finditer(text), MAX_ENCODED):
        yield _readable(bytes.fromhex(hit[0].replace(":", "")))
    for piece in nlargest(MAX_ENCODED, _BASE64.findall(text), key=len):
        body = piece.rstrip("=").replace("-", "+").replace("_", "/")
        try:
            yield _readable(base64.b64decode(body + "=" * (-len(body) % 4)))
        except (binascii.Error, ValueError):
            continue


def _unescape(hit: re.Match[str]) -> str:
    if hit[3]:
        return {"n": "\n", "r": "\r", "t": "\t"}.get(hit[3], hit[3])
    return chr(int(hit[1] or hit[2], 16))


def _readable(data: bytes) -> str:
    """The text of these bytes; empty where they are no text."""
    for coding in ("utf-8", "utf-16-le") if b"\0" in data else ("utf-8",):
        try:
            text = data.decode(coding)
        except UnicodeDecodeError:
            continue
        if text.isprintable() or sum(c.isprintable() or c in "\n\r\t" for c in text) >= 0.95 * len(text):
            return text
    return ""


def leaves(
    value: Any, *, most: int, names: bool = True, numbers: bool = True
) -> Iterator[tuple[bool, str, str | None]]:
    """Yields every text and number of a JSON value in order: whether it is a member's name, its place, the text.

    If there are more than `most` of them, lists and objects counted, the last text is None. A long place is cut in its
    middle, so that neither depth nor long names let it grow. An empty text means nothing: it is also yielded after many
    values that are no texts.

    Args:
        names: Whether to yield the name of each member of an object, before its value.
        numbers: Whether to yield numbers as texts; otherwise they are not counted either.
    """
    kinds = str | int | float | Mapping | list | tuple if numbers else str | Mapping | list | tuple
    waiting: list[Iterator[tuple[bool, str, Any]]] = [iter([(False, "", value)])]
    left = most
    passed = 0
    while waiting:
        for is_name, where, inner in waiting[-1]:
            passed += 1
            if passed % A_STEP == 0:
                yield False, "", ""
            if inner is None or isinstance(inner, bool) or not isinstance(inner, kinds):
                continue
            if not left:
                yield False, where, None
                return
            left -= 1
            if isinstance(inner, Mapping):
                waiting.append(_members(where, inner, names))
                break
            if isinstance(inner, list | tuple):
                waiting.append(_items(where, inner))
                break
            yield is_name, where, inner if isinstance(inner, str) else str(inner)
        else:
            waiting.pop()


def _members(where: str, value: Mapping[Any, Any], names: bool) -> Iterator[tuple[bool, str, Any]]:
    for name, inner in value.items():
        text = str(name)
        short = cut_middle(text, 60)
        at = cut_middle(f"{where}.{short}" if where else short, MAX_PLACE)
        if names:
            yield True, f"the name {at}", text
        yield False, at, inner


def _items(where: str, value: Iterable[Any]) -> Iterator[tuple[bool, str, Any]]:
    return ((False, cut_middle(f"{where}[{n}]", MAX_PLACE), inner) for n, inner in enumerate(value))


def tokens(folded: str, words: list[str]) -> Steps[set[str]]:
    """The names in a folded text: addresses, hosts, paths, numbers of four digits, quoted words."""
    names: set[str] = set()
    if "@" in folded:
        for hit in _ADDRESS.finditer(folded):
            names.add(hit[0].strip(".-+"))
            names.add(hit[0].partition("@")[2].strip(".-"))
        yield
    if "." in folded:
        names.update(_IP.findall(folded))
        yield
        for name in _NAMED.findall(folded):
            labels = name.split(".")
            names.update(".".join(labels[n:]) for n in range(len(labels) - 1))
            if len(labels) > 2:  # a common ending identifies nothing
                names.difference_update(end for end in (".".join(labels[-2:]),) if len(end) < 8)
        yield
    if "+" in folded:
        names.update(digits for hit in _PHONE.findall(folded) if len(digits := re.sub(r"\D", "", hit)) >= 7)
        yield
    if "/" in folded or "\\" in folded:
        names.update(hit[0].replace("\\", "/").strip("./") for hit in _PATH.finditer(folded))
        yield
    if _DIGITS.search(folded):
        for n, hit in enumerate(_NUMBER.finditer(folded)):
            names.update(_numbers(hit[0]))
            if n % A_STEP == A_STEP - 1:
                yield
    if "_" in folded or "-" in folded:
        names.update(_JOINED.findall(folded))
        yield
    names.update(word for word in words if not word.isalpha() and not word.isdigit())
    names.update(word for word in _QUOTED.findall(folded) if not word.isdigit())
    return {
        name
        for name in names
        if 4 <= len(name) <= LONGEST_TOKEN and name not in _STOP and name not in _SCHEMA
    }


def _numbers(text: str) -> Iterator[str]:
    """The digits of a number as text; a year alone, a round thousand and fewer than four digits do not count."""
    for part in {text, re.split(r"[.,]\d{1,2}$", text)[0]}:
        digits = re.sub(r"\D", "", part).lstrip("0")
        is_round = digits.rstrip("0") in ("1", "2", "5")
        is_year = len(digits) == 4 and digits[:2] in ("19", "20")
        if 4 <= len(digits) <= 40 and not is_round and not is_year:
            yield digits


def _windows(letters: str, stride: int) -> Iterator[int]:
    starts = range(0, len(letters) - WINDOW + 1, stride)
    return map(hash, map(letters.__getitem__, map(slice, starts, map(WINDOW.__add__, starts))))


def _runs(words: list[str]) -> Iterator[tuple[int, tuple[str, str, str]]]:
    """Yields each three words in a row that are no function words, with their place."""
    own = [word not in _STOP for word in words]
    starts = compress(range(len(words)), map(all, zip(own, own[1:], own[2:], strict=False)))
    for n in starts:
        first, second, third = words[n : n + 3]
        if len(first) + len(second) + len(third) >= 8:
            yield n, (first, second, third)


def features_of(text: str, *, every: bool = False, alone: bool = True) -> set[int]:
    """The features of a text that may be quoted, in one piece; see `read_features`."""
    return finish(read_features(text, every=every, alone=alone))


def read_features(text: str, *, every: bool = False, alone: bool = True) -> Steps[set[int]]:
    """The features of a text that may be quoted.

    Args:
        every: Each window rather than each eighth, and each word: for the text whose features are excluded.
        alone: Whether to include single words and pairs, for arguments that consist only of these.
    """
    features: set[int] = set()
    for spelling in (yield from spellings(text)):
        folded = fold(spelling)
        yield
        words = _WORD.findall(folded)
        named = yield from tokens(folded, words)
        yield from _take(features, _windows("".join(words), 1 if every else STRIDE))
        yield from _take(features, (hash(run) for _, run in _runs(words)))
        if dense := "" if folded.isascii() else "".join(_DENSE.findall(folded)):
            grams = (dense[n : n + DENSE_WINDOW] for n in range(len(dense) - DENSE_WINDOW + 1))
            yield from _take(features, (hash(("dense", gram)) for gram in grams))
        if alone:
            different = set(words) - _STOP
            named.update(word for word in different - _SCHEMA if len(word) >= SHORTEST_WORD or every)
            yield
            pairs = {
                first + second
                for first, second in pairwise(words)
                if first in different and second in different
            }
            named.update(pair for pair in pairs if len(pair) >= 8)
        yield
        features.update(map(hash, named))
    return features


def _take(features: set[int], more: Iterator[int]) -> Steps[None]:
    """Adds features, with a pause after many."""
    while part := list(islice(more, 10 * A_STEP)):
        features.update(part)
        yield


class Query(NamedTuple):
    """The features to search, each with its place, in the order of the places; `whole` is whether all was read."""

    places: dict[int, str]
    whole: bool


def query_of(value: Any, *, most: int, characters: int, plain_names: bool = True) -> Query:
    """The features of a JSON value that may quote others, in one piece; see `read_query`."""
    return finish(read_query(value, most=most, characters=characters, plain_names=plain_names))


def read_query(value: Any, *, most: int, characters: int, plain_names: bool = True) -> Steps[Query]:
    """The features of a JSON value that may quote others: of each text, of each name, and of all texts in a row.

    Args:
        most: Texts, numbers, lists and objects that are read.
        characters: The limit for all texts together, decoded forms included.
        plain_names: Whether names of members count that are one word, as those of parameters are.
    """
    places: dict[int, str] = {}
    whole = True
    left = characters
    sequences: dict[tuple[bool, int], _TextSequence] = {}
    for is_name, place, text in leaves(value, most=most):
        if text == "":
            yield
            continue
        if text is None or left <= 0:
            whole = False
            break
        if is_name and not plain_names and _PLAIN_NAME.fullmatch(text):
            continue
        whole = whole and len(text) <= left
        for nth, spelling in enumerate((yield from spellings(text[:left]))):
            left -= len(spelling)
            folded = fold(spelling)
            words = _WORD.findall(folded)
            yield
            sequences.setdefault((is_name, min(nth, 1)), _TextSequence()).add(place, words, folded)
            named = yield from tokens(folded, words)
            if not is_name and 0 < len(words) <= 2 and not words[0].isdigit():
                named.add("".join(words))  # it is the whole argument
            for token in named:
                places.setdefault(hash(token), place)
    for sequence in sequences.values():
        yield from sequence.collect(places)
    return Query(places, whole)


class _TextSequence:
    """Texts in a row, read as one text, so that a quote that is split over two of them is found."""

    def __init__(self) -> None:
        self.places: list[str] = []
        self.words: list[str] = []
        self.from_word: list[int] = []
        self.letters: list[str] = []
        self.from_letter: list[int] = []
        self.size = 0
        self.dense: list[tuple[str, str]] = []

    def add(self, place: str, words: list[str], folded: str) -> None:
        self.places.append(place)
        self.from_word.append(len(self.words))
        self.from_letter.append(self.size)
        self.words += words
        letters = "".join(words)
        self.letters.append(letters)
        self.size += len(letters)
        if not folded.isascii() and (dense := "".join(_DENSE.findall(folded))):
            self.dense.append((place, dense))

    def collect(self, places: dict[int, str]) -> Steps[None]:
        for passed, (n, run) in enumerate(_runs(self.words), 1):
            places.setdefault(hash(run), self.places[bisect_right(self.from_word, n) - 1])
            if passed % A_STEP == 0:
                yield
        letters = "".join(self.letters)
        for nth, start in enumerate(self.from_letter):
            end = self.from_letter[nth + 1] if nth + 1 < len(self.from_letter) else len(letters)
            for n in range(start, min(end, len(letters) - WINDOW + 1)):
                places.setdefault(hash(letters[n : n + WINDOW]), self.places[nth])
                if n % A_STEP == 0:
                    yield
        for place, dense in self.dense:
            for n in range(len(dense) - DENSE_WINDOW + 1):
                places.setdefault(hash(("dense", dense[n : n + DENSE_WINDOW])), place)
                if n % A_STEP == 0:
                    yield


class ToolOutputs:
    """The outputs of tools during one request, to find the arguments that quote them.

    Text of a tool's output is untrusted data: an argument that quotes it, and not the request, may follow an injected
    instruction. Beyond the limit the oldest features are forgotten first.
    """

    def __init__(self, request: str) -> None:
        self._request = request[:MAX_TEXT]
        self._tools: BoundedDict[int, str] = BoundedDict(MAX_FEATURES)

    @property
    def size(self) -> int:
        """The number of features that are held."""
        return len(self._tools)

    def add(self, tool: str, output: str) -> None:
        """Records the features of a tool's output."""
        for feature in features_of(output[:MAX_TEXT]):
            self._tools.setdefault(feature, tool)

    def list_quotes(self, arguments: Mapping[str, Any]) -> list[str]:
        """One line for each argument whose text stands in a tool's output and not in the request."""
        if not self._tools:
            return []
        places = query_of(arguments, most=MAX_LEAVES, characters=MAX_ARGUMENTS).places
        hits = places.keys() & self._tools.keys()
        if hits:
            hits -= features_of(self._request, every=True)
        tools = {places[feature]: self._tools[feature] for feature in sorted(hits)}
        order = [place for place in dict.fromkeys(places.values()) if place in tools]
        return [
            f"{middle(place, 120)} quotes what {one_line(tools[place], 120)} returned"
            for place in order[:MAX_QUOTES]
        ]
