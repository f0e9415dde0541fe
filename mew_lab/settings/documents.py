"""Reads and writes YAML and JSON as bounded plain data with one unambiguous meaning.

Scalars mean what YAML 1.2's core schema says (`no`, `on`, `12:30` and dates are text), because other implementations
read them so. Only values that JSON can hold are accepted: no other tags, no keys that are not text, no cycles.

`read_file` reads a file of settings. Such files hold secrets, so its errors quote no value of the file.
`read_yaml` reads any other text, and its errors quote the fault.

Spec: threats 8 and 26.
"""

from __future__ import annotations

import json
import math
import os
import re
from pathlib import Path
from typing import Any

import yaml
from yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode

from mew_lab.errors import ConfigError
from mew_lab.settings.faults import printable

__all__ = [
    "MAX_FILE",
    "has_aliases",
    "has_comments",
    "is_file",
    "read_document",
    "read_file",
    "read_jsonc",
    "read_yaml",
    "write_yaml",
]

MAX_FILE = 1024 * 1024  # bytes of a file of settings
MAX_VALUES = 100_000  # of a YAML text, counted as if every alias were written out, as a JSON writer would do
MAX_DEPTH = 64  # of lists and mappings, as of a message (R7)
MAX_DIGITS = 300  # of a whole number; int() takes no more than some thousands
MAX_SCANNED = 200_000  # characters of a text that is searched for comments token by token

_TAG = "tag:yaml.org,2002:"
_KNOWN = frozenset(_TAG + name for name in ("null", "bool", "int", "float", "str", "seq", "map", "merge"))


# The reader's messages for these faults quote no value of the file; for all others only the position is reported.
_QUOTABLE = re.compile(
    r"stands twice|stands inside|nested|aliases unfold|must be text|another document"
    r"|expected [^,]*, but (?:found|got) '<?[a-z \[\]{}?:,-]{1,20}>?'|mapping values are not allowed here"
    r"|could not find expected|unexpected end of stream|cannot start any token"
)
_LINE = re.compile(r"line \d+, column \d+")


def is_file(path: str | Path) -> bool:
    """Whether a regular file is there; False for a pipe or device, which would be read without end."""
    try:
        return Path(path).is_file()
    except (OSError, ValueError):  # too long for a name, or a NUL in it
        return False


def read_file(path: str | Path, *, what: str, limit: int = MAX_FILE) -> str:
    """The text of a file of settings. `what` names its kind in errors, such as `space file`.

    Args:
        limit: the greatest size of the file, in bytes.

    Raises:
        ConfigError: there is no such file, it is larger than the limit, or it is not UTF-8 text.
    """
    path = Path(path)
    source = printable(str(path), 300)

    def unreadable(reason: str) -> ConfigError:
        return ConfigError(f"cannot read the {what} {source}: {reason}", path=source)

    if not is_file(path):
        # `Path.exists` raises where a name is too long.
        raise unreadable("it is no regular file" if os.path.exists(path) else "there is no such file")  # noqa: PTH110
    try:
        with path.open("rb") as file:
            data = file.read(limit + 1)
    except OSError as fault:
        raise unreadable(fault.strerror or str(fault)) from None
    if len(data) > limit:
        raise unreadable(f"it is larger than {limit >> 20} MiB")
    try:
        return data.decode("utf-8-sig")
    except UnicodeError:
        raise unreadable("it is not UTF-8 text") from None


def read_document(text: str, *, path: str, max_values: int = MAX_VALUES) -> object:
    """The value of a settings document, read as JSON where it is JSON, else as YAML; None when it is empty.

    Args:
        max_values: as in `read_yaml`.

    Raises:
        ConfigError: it cannot be read; the error names line and column and quotes no value.
    """
    if text.lstrip().startswith("{"):
        try:
            return _read_json(text)
        except (ValueError, RecursionError):
            pass  # a mapping of YAML may begin so, too; then the YAML reader reports the fault
    try:
        return read_yaml(text, path=path, max_values=max_values)
    except ConfigError as fault:
        if _QUOTABLE.search(str(fault)):
            raise
        at = _LINE.search(str(fault))
        message = f"{path} is neither YAML nor JSON that is read here{f': see {at[0]}' if at else ''}"
        raise ConfigError(message, path=path) from None


def read_jsonc(text: str, *, path: str) -> object:
    """The value of a JSON text that may have comments (`//` and `/* */`) and commas before a closing bracket.

    Raises:
        ConfigError: it cannot be read; the error names line and column and quotes no value.
    """
    plain = _JSONC.sub(_blank, text)
    try:
        return _read_json(_LAST_COMMA.sub(lambda match: match[1] or " ", plain))
    except json.JSONDecodeError as fault:
        at, problem = f"line {fault.lineno}, column {fault.colno}: ", fault.msg
    except RecursionError:
        at, problem = "", "it is nested too deeply"
    except ValueError as fault:
        at, problem = "", str(fault)
    raise ConfigError(f"{path} is not the JSON that is read here: {at}{problem}", path=path)


# Texts are matched first, so that what looks like a comment within one stays. A text or comment without an end matches
# up to the end of the file: a search for its end from each further place would take quadratic time.
_JSONC = re.compile(r'"(?:[^"\\]|\\.)*"?|//[^\n\r]*|/\*.*?(?:\*/|\Z)', re.DOTALL)
_LAST_COMMA = re.compile(r'("(?:[^"\\]|\\.)*"?)|,(?=\s*[}\]])', re.DOTALL)


def _blank(match: re.Match[str]) -> str:
    """A text unchanged; a comment as blanks, so that a fault is found at the line and column that it has."""
    found = match[0]
    return found if found.startswith('"') else re.sub(r"[^\n\r]", " ", found)


def _read_json(text: str) -> object:
    """The value of a JSON text; ValueError for a duplicate key, a number beyond a double, or too deep nesting."""

    def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        members = dict(pairs)
        if len(members) != len(pairs):
            seen: set[str] = set()
            twice = next(key for key, _ in pairs if key in seen or seen.add(key))  # type: ignore[func-returns-value]
            raise ValueError(f"the key {printable(twice, 40)!r} stands twice in one mapping")
        return members

    def finite(number: str) -> float:
        if not math.isfinite(value := float(number)):
            raise ValueError("a number is too large")
        return value

    def whole(digits: str) -> int:
        if len(digits) > MAX_DIGITS:
            raise ValueError("a number has too many digits")
        return int(digits)

    value = json.loads(
        text, object_pairs_hook=unique, parse_float=finite, parse_constant=finite, parse_int=whole
    )
    if _depth(value) > MAX_DEPTH:
        raise ValueError("it is nested too deeply")
    return value


def _depth(value: object) -> int:
    if not isinstance(value, dict | list):
        return 0
    return 1 + max(map(_depth, value.values() if isinstance(value, dict) else value), default=0)


class _Loader(yaml.SafeLoader):
    """PyYAML's safe loader with the scalars of YAML 1.2 and without the tags that JSON cannot hold."""

    yaml_implicit_resolvers: dict[Any, Any] = {}
    yaml_constructors = {
        tag: make for tag, make in yaml.SafeLoader.yaml_constructors.items() if tag is None or tag in _KNOWN
    }


def _resolve(name: str, pattern: str, first: str) -> None:
    _Loader.add_implicit_resolver(_TAG + name, re.compile(rf"(?:{pattern})\Z"), list(first))


_resolve("null", r"~|null|Null|NULL|", "~nN")
_Loader.yaml_implicit_resolvers.setdefault("", []).append((_TAG + "null", re.compile(r"\Z")))
_resolve("bool", r"true|True|TRUE|false|False|FALSE", "tTfF")
_resolve("int", r"[-+]?[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+", "-+0123456789")
_resolve("float", r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?", "-+.0123456789")
_resolve("merge", r"<<", "<")


def _int(loader: _Loader, node: ScalarNode) -> int:
    text = str(node.value)
    try:
        # Base 10 where no base is written: a leading zero is no octal in YAML 1.2.
        return int(text, {"0o": 8, "0x": 16}.get(text[:2], 10))
    except ValueError:
        raise _fault(node, f"the number {text[:20]} cannot be read") from None


def _float(loader: _Loader, node: ScalarNode) -> float:
    number = float(node.value)
    if number in (float("inf"), float("-inf")):
        raise _fault(node, f"the number {node.value[:20]} is too large")
    return number


_PAIR = re.compile("[\\ud800-\\udbff][\\udc00-\\udfff]")


def _str(loader: _Loader, node: ScalarNode) -> str:
    """A string; a pair of JSON surrogate escapes becomes the one character that it encodes."""
    return _PAIR.sub(
        lambda match: match[0].encode("utf-16", "surrogatepass").decode("utf-16"), str(node.value)
    )


_Loader.add_constructor(_TAG + "int", _int)
_Loader.add_constructor(_TAG + "str", _str)
_Loader.add_constructor(_TAG + "float", _float)


class _Dumper(yaml.SafeDumper):
    """PyYAML's safe writer; it quotes each string that YAML 1.1 or 1.2 would read as another type."""

    yaml_implicit_resolvers = {
        first: [
            *yaml.SafeDumper.yaml_implicit_resolvers.get(first, ()),
            *_Loader.yaml_implicit_resolvers.get(first, ()),
        ]
        for first in {*yaml.SafeDumper.yaml_implicit_resolvers, *_Loader.yaml_implicit_resolvers}
    }

    def ignore_aliases(self, data: Any) -> bool:
        return True


def _text(dumper: _Dumper, text: str) -> ScalarNode:
    return dumper.represent_scalar(_TAG + "str", text, style="|" if "\n" in text else None)


_Dumper.add_representer(str, _text)


def _list(dumper: _Dumper, values: list[Any]) -> SequenceNode:
    """A list; numbers stand side by side, since a vector of thousands would take a line for each."""
    numbers = bool(values) and all(
        isinstance(value, int | float) and not isinstance(value, bool) for value in values
    )
    return dumper.represent_sequence(_TAG + "seq", values, flow_style=numbers)


_Dumper.add_representer(list, _list)


def write_yaml(value: object) -> str:
    """The YAML of dicts, lists, texts, numbers, booleans and None, in their order; `read_yaml` gives them back.

    Raises:
        ConfigError: the value holds another type.
    """
    try:
        return str(yaml.dump(value, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=110))
    except (yaml.YAMLError, RecursionError) as fault:
        raise ConfigError(f"this cannot be written as YAML: {str(fault)[:200]}") from None


def has_aliases(text: str) -> bool:
    """Whether a YAML text has an anchor or an alias; a text that cannot be scanned has none."""
    if "&" not in text and "*" not in text:
        return False
    try:
        tokens = yaml.scan(text, Loader=_Loader)
        return any(isinstance(token, yaml.AnchorToken | yaml.AliasToken) for token in tokens)
    except yaml.YAMLError:
        return False


def has_comments(text: str) -> bool:
    """Whether a YAML text has comments, which plain data does not hold. Of a large text, only whole lines are seen."""
    if "#" not in text:
        return False
    if len(text) > MAX_SCANNED:
        return any(line.lstrip().startswith("#") for line in text.splitlines())
    end = 0
    try:
        for token in yaml.scan(text, Loader=_Loader):
            if "#" in text[end : token.start_mark.index]:
                return True
            end = max(end, token.end_mark.index)
    except yaml.YAMLError:
        return False
    return "#" in text[end:]


def read_yaml(text: str, *, path: str = "", max_values: int = MAX_VALUES) -> object:
    """Returns the value of one YAML document: dicts, lists, strings, numbers, booleans and None; None when empty.

    `path` names the source in errors. It refuses duplicate keys, tags beyond the core schema, keys that are not text,
    and a second document. It also refuses more than `max_values` values, with every alias written out, and an alias
    inside what it names.

    Raises:
        ConfigError: one sentence with line and column.
    """
    try:
        loader = _Loader(text)
        try:
            node = loader.get_single_node()
            if node is None:
                return None
            _check(node, max_values)
            return loader.construct_document(node)
        finally:
            loader.dispose()
    except yaml.MarkedYAMLError as fault:
        mark = fault.problem_mark or fault.context_mark
        where = f"line {mark.line + 1}, column {mark.column + 1}: " if mark else ""
        problem = (fault.problem or fault.context or "it cannot be read").strip()
        raise _not_yaml(path, where + problem) from None
    except RecursionError:
        raise _not_yaml(path, "it is nested too deeply") from None
    except KeyError as fault:  # PyYAML's answer to `!!bool maybe`
        raise _not_yaml(path, f"{fault} does not fit its tag") from None
    except (yaml.YAMLError, ValueError) as fault:
        raise _not_yaml(path, str(fault).splitlines()[0]) from None


def _not_yaml(path: str, problem: str) -> ConfigError:
    return ConfigError(f"{path or 'this text'} is not the YAML that is read here: {problem}", path=path)


def _check(root: Node, max_values: int) -> None:
    """Refuses values that JSON cannot hold, and bounds the number of values with every alias written out."""
    sizes: dict[int, int] = {}
    above: set[int] = set()

    def size(node: Node, depth: int) -> int:
        if id(node) in above:
            raise _fault(node, "an alias stands inside what it names")
        if node.tag not in _KNOWN:
            raise _fault(node, f"the tag {node.tag.replace(_TAG, '!!')} is not read here")
        if isinstance(node, ScalarNode):
            return 1
        if depth > MAX_DEPTH:
            raise _fault(node, f"it is nested more than {MAX_DEPTH} levels deep")
        # A node that was counted is not walked again, so an alias bomb costs no more than its text; its depth
        # may be understated by that, which the count makes harmless.
        if id(node) in sizes:
            return sizes[id(node)]
        above.add(id(node))
        if isinstance(node, MappingNode):
            _check_keys(node)
            parts = [part for pair in node.value for part in pair]
        else:
            assert isinstance(node, SequenceNode)
            parts = node.value
        total = 1
        for part in parts:
            total += size(part, depth + 1)
            if total > max_values:
                raise _fault(node, f"its aliases unfold to more than {max_values} values")
        above.discard(id(node))
        sizes[id(node)] = total
        return total

    size(root, 1)


def _check_keys(node: MappingNode) -> None:
    seen: set[str] = set()
    for key, _ in node.value:
        if key.tag == _TAG + "merge":
            continue
        if key.tag != _TAG + "str" or not isinstance(key, ScalarNode):
            raise _fault(key, "a key must be text; put it in quotes")
        if key.value in seen:
            raise _fault(key, f"the key {key.value[:40]!r} stands twice in one mapping")
        seen.add(key.value)


def _fault(node: Node, problem: str) -> yaml.MarkedYAMLError:
    return yaml.MarkedYAMLError(problem=problem, problem_mark=node.start_mark)
