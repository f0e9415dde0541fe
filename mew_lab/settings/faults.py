"""The faults of settings with their key paths, and the hint to the nearest known name.

Every reader of settings collects `Fault`s and raises them in one `ConfigError`, so that a file is mended in one pass.
A key path is written `participants.bot.tokens[0]`. No value of a setting is shown, because it may be a secret.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, get_args

from mew_lab.errors import ConfigError

if TYPE_CHECKING:  # a notebook's parser needs the spelling hint alone
    from pydantic import BaseModel, ValidationError

__all__ = [
    "Fault",
    "NestedFaults",
    "did_you_mean",
    "faults_error",
    "kind_of",
    "model_faults",
    "place",
    "printable",
]

MAX_REPORTED = 50  # faults; a file with more is another kind of file
MAX_STEP = 80  # characters of one step of a key path
MAX_WORD = 60  # characters of the longest word that gets a spelling hint


class Fault(NamedTuple):
    """One fault and its key path; `key` is empty where the whole file is at fault."""

    key: str
    problem: str

    def __str__(self) -> str:
        return f"{self.key}: {self.problem}" if self.key else self.problem


class NestedFaults(ValueError):
    """Raised by a model's validator: the faults of one value, with key paths within it."""

    def __init__(self, faults: Iterable[Fault]) -> None:
        self.faults = list(faults)
        super().__init__("; ".join(map(str, self.faults)))


def faults_error(faults: Sequence[Fault], source: object) -> ConfigError:
    """One error about all faults of a file, a line each; its `key` is that of the first."""
    count = f"{len(faults)} faults" if len(faults) != 1 else "1 fault"
    lines = [f"- {fault}" for fault in faults[:MAX_REPORTED]]
    more = [f"- and {len(faults) - MAX_REPORTED} more"] if len(faults) > MAX_REPORTED else []
    text = "\n".join([f"{source} has {count}:", *lines, *more])
    return ConfigError(text, path=str(source), key=faults[0].key)


def place(at: str, *steps: str | int) -> str:
    """The key path of the value `steps` below `at`, such as `tools[1].prompt`."""
    for step in steps:
        if isinstance(step, int):
            at += f"[{step}]"
        else:
            at += f".{printable(step, MAX_STEP)}" if at else printable(step, MAX_STEP)
    return at


def printable(text: str, limit: int) -> str:
    """The text in at most `limit` characters, with control characters and lone surrogates as escapes."""
    shown = "".join(
        c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in text[: limit + 1]
    )
    return shown if len(shown) <= limit else shown[: limit - 1] + "…"


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """`did you mean 'name'?` with the nearest known name, or nothing where none is near."""
    import difflib  # only where something is wrong

    near = difflib.get_close_matches(word[:MAX_WORD], list(known), n=1)
    return f"did you mean {near[0]!r}?" if near else ""


def kind_of(value: object) -> str:
    """The type of a value as errors name it: `text`, `a list`, `nothing`."""
    if value is None:
        return "nothing"
    if isinstance(value, bool):
        return "true or false"
    if isinstance(value, Mapping):
        return "a mapping"
    if isinstance(value, list | tuple):
        return "a list"
    if isinstance(value, float):
        return "a number with a fraction"
    return "text" if isinstance(value, str) else "a number" if isinstance(value, int) else "this"


# --- faults that a model reports ---------------------------------------------------------------------------------

WANTED = {
    "string_type": "text (in quotes, where it looks like something else)",
    "bool_": "true or false",
    "int_": "a whole number",
    "float_": "a number",
    "list_type": "a list",
    "dict_type": "a mapping of keys to values",
    "model_": "a mapping of keys to values",
}


_TELLING = "whom to tell that something waits is yours to say: by notify= of up and connect, --notify or MEW_LAB_NOTIFY"
_SHARING = "what your lab shares is yours to say: by share_review= of up and connect, or --share-review"
PERSONAL: Mapping[str, str] = {
    **dict.fromkeys(("notify", "notify_content", "notify_secret"), _TELLING),
    "share_review": _SHARING,
    **dict.fromkeys(
        ("quorum", "deciders"),
        "that of a lab is set by its person (quorum= and deciders= of up and connect, --quorum, --decider), that of an "
        "MCP server in its bridge_config",
    ),
}
"""What no file sets, for a file may come from others: how else it is set."""


def model_faults(error: ValidationError, *, root: type[BaseModel]) -> Iterator[Fault]:
    """The faults in a model's error, each with a sentence; `root` is the model of the whole file."""
    for detail in error.errors(include_url=False):
        steps = detail["loc"]
        cause = detail.get("ctx", {}).get("error")
        if isinstance(cause, NestedFaults):
            for inner in cause.faults:
                dot = "." if inner.key and not inner.key.startswith("[") else ""
                yield Fault(place("", *steps) + dot + inner.key, inner.problem)
        elif steps[-1:] == ("[key]",):
            yield Fault(place("", *steps[:-1]), str(cause or detail["msg"]))
        else:
            yield Fault(place("", *steps), _sentence(detail, root))


def _sentence(detail: Any, root: type[BaseModel]) -> str:
    """The sentence for a fault: what is wrong and the remedy, without the value."""
    kind, steps, value = detail["type"], detail["loc"], detail["input"]
    if kind == "extra_forbidden":
        if (personal := PERSONAL.get(str(steps[-1]))) is not None:
            return f"it is not read from here; {personal}"
        known = list(_section(steps, root).model_fields)
        hint = did_you_mean(str(steps[-1]), known)
        hint = hint or f"known are {', '.join(known)}, and x-… for notes of your own"
        return f"there is no such key here; {hint}"
    if kind == "missing":
        return f"{steps[-1]!r} is missing" + ("; it is the space's name" if steps == ("space", "id") else "")
    if kind == "value_error":
        return str(detail["ctx"]["error"])
    if kind == "literal_error":
        expected = detail["ctx"]["expected"]
        known = [word.strip("'") for word in expected.replace(" or ", ", ").split(", ")]
        hint = did_you_mean(str(value), known)
        return f"it must be {expected}" + (f"; {hint}" if hint else "")
    wanted = next((words for start, words in WANTED.items() if kind.startswith(start)), "")
    if wanted:
        return f"it must be {wanted}, not {kind_of(value)}"
    message: str = detail["msg"]
    return message.replace("Input should be", "it must be")


def _section(steps: tuple[int | str, ...], root: type[BaseModel]) -> type[BaseModel]:
    """The model of the mapping that holds a key."""
    model = root
    for step in steps[:-1]:
        field = model.model_fields.get(str(step))
        model = (_model_in(field.annotation) if field else None) or model
    return model


def _model_in(annotation: object) -> type[BaseModel] | None:
    from pydantic import BaseModel

    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    return next((model for part in get_args(annotation) if (model := _model_in(part))), None)
