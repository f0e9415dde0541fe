"""Holds the address of a server so that no secret in it can be shown by accident, and reads the host of an address.

A user name, a password, a query and a fragment may be secrets, and so may the parameters of a path. `str` and `repr` of
an address show `…` in their place; only `reveal` returns the text as it was given. What looks like a secret is masked in
other texts too, as `protocol.token` does it: a library may log the address that it was given.

`read_host` is for an address that a person may open: it says which host her browser goes to, and refuses what browsers
and other readers read differently.

Spec: §5.2; threat 28. WHATWG URL "Host parsing".
"""

from __future__ import annotations

import re
import unicodedata
from ipaddress import IPv4Address, IPv6Address, ip_address
from typing import Final, NamedTuple
from urllib.parse import SplitResult, quote, unquote, urlsplit

from mew_lab.protocol.token import LEAST_TOKEN, Token
from mew_lab.protocol.visible import one_line, visible

__all__ = ["Address", "WebHost", "is_this_machine", "read_host"]

MOST: Final = 300  # characters that are shown
HIDDEN: Final = "…"
_LEAST_PAIR: Final = 8  # characters of `key=value`
_HOST: Final = re.compile(r"([\w.-]{1,253}|\[[0-9A-Fa-f:.]{2,45}\])?(:[0-9]{0,5})?")
# Where a path may hold more than names: parameters, and an escaped query, fragment or user.
_PARAMETER: Final = re.compile(r";|=|%3[bdf]|%23|%40", re.IGNORECASE)


class Address(str):
    """The address of a server, which reads without its secrets.

    As a `str` its value is what may be shown. It equals the text that it was made of.
    """

    __slots__ = ("_whole",)

    _whole: str

    def __new__(cls, text: str) -> Address:
        if isinstance(text, Address):
            return text
        address = super().__new__(cls, one_line(_show(text), MOST))
        address._whole = text
        for secret in _secrets(text):
            Token(secret)  # remembered, so that a text of a library does not show it
        return address

    def reveal(self) -> str:
        """The address as it was given: for a connection. Never show it."""
        return self._whole

    @property
    def parts(self) -> SplitResult:
        """The parts of the whole address.

        Raises:
            ValueError: it is no address.
        """
        parts = urlsplit(self._whole)
        _ = parts.hostname, parts.port
        return parts

    def find_secret(self) -> str:
        """What stands in the address and may be a secret: such as `a query`; nothing where there is none."""
        rest, _, fragment = self._whole.partition("#")
        rest, _, query = rest.partition("?")
        if "@" in rest.partition("://")[2].partition("/")[0] or not _HOST.fullmatch(_authority(rest)):
            return "a user or password"
        if _PARAMETER.search(rest.partition("://")[2]):
            return "a parameter"
        return "a fragment" if fragment else "a query" if query else ""

    def __repr__(self) -> str:
        return repr(str.__str__(self))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, str) and self._whole == (
            other.reveal() if isinstance(other, Address) else other
        )

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __hash__(self) -> int:
        return hash(self._whole)

    def __reduce_ex__(self, protocol: object) -> tuple[type[str], tuple[str]]:
        return str, (str.__str__(self),)  # a pickle travels: it gets what may be shown

    def __copy__(self) -> Address:
        return self

    def __deepcopy__(self, memo: object) -> Address:
        return self


def _authority(rest: str) -> str:
    """The part between the scheme and the path, without what stands before an `@`."""
    return rest.partition("://")[2].partition("/")[0].rpartition("@")[2]


def _show(text: str) -> str:
    """The text without what may be a secret. It need not be a correct address."""
    rest = re.split(r"[?#]", text, maxsplit=1)[0]
    scheme, colon, tail = rest.partition("://")
    hidden = "" if rest == text else f"{text[len(rest)]}{HIDDEN}"
    if not colon:  # no address: a user and a password may stand anywhere before an `@`
        return (f"{HIDDEN}@{rest.rpartition('@')[2]}" if "@" in rest else rest) + hidden
    host, slash, path = tail.partition("/")
    host = host.rpartition("@")[2]
    if not _HOST.fullmatch(host):  # such as a password with a slash or a question mark in it
        return f"{scheme}://{HIDDEN}"
    plain = _PARAMETER.split(path, maxsplit=1)[0]
    return f"{scheme}://{host}{slash}{path if plain == path else plain + HIDDEN}{hidden}"


def _secrets(text: str) -> set[str]:
    """What looks like a secret in an address, as it is written and as a library may write it."""
    found: set[str] = set()
    rest, _, fragment = text.partition("#")
    rest, _, query = rest.partition("?")
    tail = rest.partition("://")[2] or rest
    user = tail.rpartition("@")[0]
    words = [*query.split("&"), *fragment.split("&"), *rest.partition(";")[2].split(";")]
    for pair in words:
        name, equals, value = pair.partition("=")
        if name == "space":  # names the space at a gateway; a token is never given so
            continue
        found |= {pair} if len(pair) >= _LEAST_PAIR and equals else set()
        found |= {one for one in (name, value) if len(one) >= LEAST_TOKEN}
    if user:
        found |= {user, *(one for one in user.split(":") if len(one) >= _LEAST_PAIR)}
    return found | {unquote(one) for one in found} | {quote(one, safe="=") for one in found}


# --- the host as a browser reads it ---

_WEB: Final = re.compile(r"(https?)://([^/?#]*)", re.IGNORECASE)
_AUTHORITY: Final = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[^\[\]:]+)(?::([0-9]{0,5}))?")
_NUMBER: Final = re.compile(r"[0-9]+|0[xX][0-9A-Fa-f]*")
_LETTERS: Final = frozenset({"Ll", "Lo", "Lm", "Mn", "Mc", "Nd"})
_LOCAL_NAMES: Final = frozenset({"localhost", "local", "internal", "lan", "home", "intranet", "corp"})
_METADATA: Final = IPv4Address("169.254.169.254")


class WebHost(NamedTuple):
    """The host of an address.

    Attributes:
        text: The host as a browser shows it, with the port where the address has one.
        remarks: What a person should know of it, one sentence each.
    """

    text: str
    remarks: tuple[str, ...]


def read_host(url: str) -> WebHost:
    """The host that a browser goes to.

    Raises:
        ValueError: the address names none, or one that is read in several ways; the message is a predicate.
    """
    web = _WEB.match(url)
    authority = web[2] if web else ""
    if not web or not authority or not url.isprintable() or " " in url:
        raise ValueError("has no URL that begins with https:// and names a host")
    if "@" in authority:
        raise ValueError("has a URL with a user name or password before its host")
    parts = _AUTHORITY.fullmatch(authority)
    if not parts or int(parts[2] or 0) > 65535:
        raise ValueError("has a URL whose host and port are no correct ones")
    name = parts[1].lower()
    remarks = ["the address is not encrypted"] if web[1].lower() == "http" else []
    address = _read_number(name)
    shown = name
    if address is not None:
        shown = f"[{address}]" if address.version == 6 else str(address)
        if shown != name:
            remarks.append(f"the host is written as {one_line(name, 60)} and means {shown}")
        remarks += _remark_on_number(address)
    else:
        remarks += _remark_on_name(name)
    return WebHost(f"{shown}:{int(parts[2])}" if parts[2] else shown, tuple(remarks))


def _read_number(name: str) -> IPv4Address | IPv6Address | None:
    """The number that a host is, however it is written; None for a name.

    Raises:
        ValueError: it ends as a number does, and is none.
    """
    if name.startswith("["):
        try:
            return IPv6Address(name[1:-1])
        except ValueError:
            raise ValueError("has a URL whose host is no correct number") from None
    labels = name.removesuffix(".").split(".")
    if not _NUMBER.fullmatch(labels[-1]):
        return None
    if len(labels) > 4 or not all(map(_NUMBER.fullmatch, labels)):
        raise ValueError("has a URL whose host is no correct number")
    try:
        *first, last = map(_value_of, labels)
    except ValueError:
        raise ValueError("has a URL whose host is no correct number") from None
    if any(number > 255 for number in first) or last >= 256 ** (4 - len(first)):
        raise ValueError("has a URL whose host is no correct number")
    return IPv4Address(sum(number << 8 * (3 - n) for n, number in enumerate(first)) + last)


def is_this_machine(host: str) -> bool:
    """Whether a host is this machine by its name or number alone: `localhost`, or an address of the loopback."""
    try:
        return host == "localhost" or ip_address(host).is_loopback
    except ValueError:
        return False


def _value_of(digits: str) -> int:
    """A part of a number, of base 16, 8 or 10 as it begins."""
    if digits.startswith("0x"):
        return int(digits[2:] or "0", 16)
    return int(digits, 8) if digits.startswith("0") else int(digits)


def _remark_on_number(address: IPv4Address | IPv6Address) -> list[str]:
    if isinstance(address, IPv6Address):
        address = address.ipv4_mapped or address.sixtofour or address
    if address.is_loopback or address.is_unspecified:
        return [f"the host {address} is your own computer"]
    if address.is_link_local:
        secrets = ", where computers of a cloud keep their secrets" if address == _METADATA else ""
        return [f"the host {address} is in the network beside your computer{secrets}"]
    plain = [] if address.is_global else [f"the host {address} is in a local network"]
    return plain or ["the host is a number and has no name"]


def _remark_on_name(name: str) -> list[str]:
    """What a person should know of the name of a host.

    Raises:
        ValueError: it holds what no name of a host has.
    """
    labels = name.removesuffix(".").split(".")
    letters = all(
        c in "-_" or "a" <= c <= "z" or c.isdecimal() or (c > "~" and unicodedata.category(c) in _LETTERS)
        for label in labels
        for c in label
    )
    # A browser maps widths, ligatures and full stops of other scripts before it looks a name up, and drops what shows
    # nothing, such as the selector of a variant.
    if (
        not all(labels)
        or not letters
        or visible(name) != name
        or unicodedata.normalize("NFKC", name).casefold() != name
    ):
        raise ValueError("has a URL whose host has characters that are read in several ways")
    remarks = []
    if not name.isascii():
        plain = ".".join(
            label if label.isascii() else f"xn--{label.encode('punycode').decode('ascii')}"
            for label in labels
        )
        remarks.append(f"the host has letters that may look like others: it means {one_line(plain, 80)}")
    elif any(label.startswith("xn--") for label in labels):
        remarks.append("the host has letters of another script")
    if labels[-1] == "localhost":
        remarks.append(f"the host {one_line(name, 60)} is your own computer")
    elif len(labels) == 1 or labels[-1] in _LOCAL_NAMES:
        remarks.append(f"the host {one_line(name, 60)} is in a local network")
    return remarks
