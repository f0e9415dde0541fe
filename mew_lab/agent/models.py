"""Makes models: by name (`model_of`), from data (`ScriptedModel`), from a function (`FunctionModel`).

`model_of` loads only the adapter that it needs. The other two are for lessons, tests, and users who want to decide each
reply themselves.

Spec: SDK "Layer 3" (`model`, `apiKey`, `baseURL`).
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from mew_lab.agent.model import Message, Model, Reply, ReplySettings, ToolCall, ToolSpec
from mew_lab.agent.prompts import fill_template
from mew_lab.agent.turn import CurrentTurn, format_reply, read_turn
from mew_lab.errors import ConfigError, ModelFailed
from mew_lab.protocol.token import Token
from mew_lab.protocol.visible import one_line
from mew_lab.settings.documents import read_file, read_yaml

__all__ = ["OFFLINE", "FunctionModel", "ScriptedModel", "model_of", "with_settings"]

OFFLINE = "offline"
MAX_STARTS = 64  # places in a request at which one `when` is tried
_SENTENCE_END = re.compile(r"[?!\n]|\.(?=\s|$)")
_PLACE = re.compile(r"\{(\w+)\}")


def model_of(
    spec: Model | str | None,
    *,
    base_url: str | None = None,
    api_key: str | Token | None = None,
    sampling: Mapping[str, float] | None = None,
) -> Model:
    """The model that a specification names. A model that is made here from a name must be closed with `aclose`.

    Args:
        spec: a model, which is returned unchanged; "offline" or None for the built-in one, which follows rules and
            needs no server; any other text is the name of a model behind the chat completions API.
        base_url: the address of that API; None is the default of the `openai` package.
        api_key: its key; None where none is needed, or where OPENAI_API_KEY holds it.
        sampling: figures for its replies, see `CompletionsModel`; the built-in model ignores them.

    Raises:
        ConfigError: a server is given without the name of a model, or with a built-in or ready model; or
            `CompletionsModel` refuses an argument.
    """
    if isinstance(spec, str) and spec != OFFLINE:
        from mew_lab.agent.completions import CompletionsModel

        return CompletionsModel(spec, base_url=base_url, api_key=api_key, sampling=sampling)
    if base_url is not None:
        raise ConfigError(
            "base_url= names a server, but model= names none of its models: give the name of a model there",
            key="model",
        )
    if spec is None or isinstance(spec, str):
        from mew_lab.agent.offline import OfflineModel

        return OfflineModel()
    if not callable(getattr(spec, "reply", None)) or not callable(getattr(spec, "aclose", None)):
        raise ConfigError(
            f"model= is a {type(spec).__name__}, which is neither the name of a model nor one: it lacks reply or aclose",
            key="model",
        )
    return spec


def with_settings(model: Model, settings: ReplySettings) -> Model:
    """The model with these settings; the model itself where it takes none, or where all are unset."""
    adapt = getattr(model, "with_settings", None)
    if adapt is None or settings == ReplySettings():
        return model
    adapted: Model = adapt(settings)
    return adapted


# --- a model that is a script --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Step:
    """One reply: a call, or an answer. Its texts hold places such as `{city}`."""

    say: str = ""
    call: str = ""
    arguments: Any = None
    why: str = ""


@dataclass(frozen=True)
class _Rule:
    texts: tuple[re.Pattern[str], ...]
    places: tuple[str, ...]
    steps: tuple[_Step, ...]


class ScriptedModel:
    """A model that follows a script, which is data. The same request gives the same replies.

    A script is a list of rules. The first rule whose `when` stands in the request applies. It is searched as whole
    words, without regard to case; each `{name}` in it stands for words of one sentence. A rule without `when` always
    applies. Its `replies` follow one after another in a turn: a call (`call` is the `participant/tool`, beside it
    `arguments` and `why`) or an answer (`say`). A rule of one reply may hold it itself. In texts and arguments `{name}`
    is replaced by its words in the request, `{observation}` by the answer of the last call, and `{observation1}` by
    that of the first call.

        - when: weather in {city}
          replies:
            - {call: weather-service/get_weather, arguments: {city: "{city}"}, why: I ask for the weather.}
            - {say: "In {city}: {observation}"}
        - {when: who are you, say: I follow a script.}

    Where no rule applies, or its replies are used up, the answer states that. A message that is addressed to nobody is
    answered where a rule with a `when` applies.

    Args:
        script: the rules.
        name: the name of the model.

    Raises:
        ConfigError: the script is invalid; `key` names the place.
    """

    max_tokens: int | None = None

    def __init__(self, script: Sequence[Mapping[str, Any]], *, name: str = "script") -> None:
        if not isinstance(script, list | tuple):
            raise ConfigError("A script is a list of rules", key="script")
        self.name = name
        self._rules = tuple(_read_rule(rule, f"script[{place}]") for place, rule in enumerate(script))

    @classmethod
    def from_file(cls, path: str | Path) -> ScriptedModel:
        """The script of a YAML or JSON file, under the name of the file.

        Raises:
            ConfigError: it cannot be read, or holds no script.
        """
        text = read_file(path, what="script")
        return cls(read_yaml(text, path=str(path)), name=Path(path).stem)  # type: ignore[arg-type]

    async def reply(
        self,
        messages: Sequence[Message],
        *,
        tools: Sequence[ToolSpec] = (),
        schema: Mapping[str, Any] | None = None,
        on_text: Callable[[str], None] | None = None,
    ) -> Reply:
        """The next reply of the script; see `Model.reply`."""
        turn = read_turn(messages)
        reply, attends = Reply("My script has no answer to that."), False
        for rule in self._rules:
            values = _match(rule, turn.request)
            if values is not None:
                reply, attends = _script_reply(rule, turn, values), bool(rule.places or rule.texts[0].pattern)
                break
        reply = format_reply(reply, schema, attends=attends)
        if on_text is not None and reply.text:
            on_text(reply.text)
        return reply

    async def aclose(self) -> None:
        """There is nothing to let go of."""


def _script_reply(rule: _Rule, turn: CurrentTurn, places: Mapping[str, str]) -> Reply:
    if turn.steps >= len(rule.steps):
        return Reply("My script ends here.")
    values = {**places, "observation": turn.done[-1].observation if turn.done else ""}
    values |= {f"observation{number}": call.observation for number, call in enumerate(turn.done, 1)}
    step = rule.steps[turn.steps]
    why = _fill(step.why, values)
    if not step.call:
        return Reply(str(_fill(step.say, values)), why)
    arguments: dict[str, Any] = _fill(step.arguments or {}, values)
    return Reply("", why, (ToolCall(f"scripted-{turn.steps + 1}", step.call, arguments),))


def _fill(value: Any, values: Mapping[str, str]) -> Any:
    """The value with each known `{name}` in its texts replaced, once; inserted texts are not filled again."""
    if isinstance(value, str):
        return fill_template(value, values)
    if isinstance(value, Mapping):
        return {key: _fill(inner, values) for key, inner in value.items()}
    return [_fill(inner, values) for inner in value] if isinstance(value, list) else value


def _read_rule(value: Any, where: str) -> _Rule:
    rule = _check_members(value, {"when", "replies", "say", "call", "arguments", "why"}, where)
    replies = rule.get("replies")
    when = rule.get("when", "")
    if not isinstance(when, str):
        raise ConfigError(f"{where}.when must be text", key=f"{where}.when")
    if replies is None:
        steps = [_read_step({key: value for key, value in rule.items() if key != "when"}, where)]
    elif isinstance(replies, list) and replies and not {"say", "call", "arguments", "why"} & rule.keys():
        steps = [_read_step(reply, f"{where}.replies[{place}]") for place, reply in enumerate(replies)]
    else:
        raise ConfigError(
            f"{where}.replies must be a list, and holds all that is replied", key=f"{where}.replies"
        )
    return _Rule(*_read_when(when, where), tuple(steps))


def _read_step(value: Any, where: str) -> _Step:
    step = _check_members(value, {"say", "call", "arguments", "why"}, where)
    for key in ("say", "call", "why"):
        if not isinstance(step.get(key, ""), str):
            raise ConfigError(f"{where}.{key} must be text", key=f"{where}.{key}")
    if not isinstance(step.get("arguments", {}), dict):
        raise ConfigError(f"{where}.arguments must be a mapping", key=f"{where}.arguments")
    if bool(step.get("say")) == bool(step.get("call")):
        raise ConfigError(f"{where} needs either `say` or `call`", key=where)
    return _Step(**step)


def _check_members(value: Any, known: set[str], where: str) -> dict[str, Any]:
    if not isinstance(value, Mapping):
        raise ConfigError(f"{where} must be a mapping", key=where)
    for key in value:
        if key not in known:
            message = f"{where} has no {one_line(str(key), 40)!r}; there are {', '.join(sorted(known))}"
            raise ConfigError(message, key=where)
    return dict(value)


def _read_when(when: str, where: str) -> tuple[tuple[re.Pattern[str], ...], tuple[str, ...]]:
    """The texts of a `when` as expressions for whole words, and the names of the places between them."""
    texts, names = _PLACE.split(when)[::2], _PLACE.split(when)[1::2]
    if len(set(names)) < len(names) or "" in texts[1:-1]:
        message = f"{where}.when needs a text between two places, and a name of its own for each"
        raise ConfigError(message, key=f"{where}.when")
    whole = (
        (r"(?<!\w)" if text[:1].isalnum() else "")
        + re.escape(text)
        + (r"(?!\w)" if text[-1:].isalnum() else "")
        for text in texts
    )
    return tuple(re.compile(text, re.IGNORECASE) for text in whole), tuple(names)


def _match(rule: _Rule, request: str) -> dict[str, str] | None:
    """The words in the places, where the texts follow each other in the request; None where they do not.

    Each place ends where the next text begins first, the last one with its sentence. Nothing is tried twice but the
    beginning, so that no request is slow to read.
    """
    first, *others = rule.texts
    for begin in islice(first.finditer(request), MAX_STARTS):
        values, at = dict[str, str](), begin.end()
        for name, following in zip(rule.places, others, strict=True):
            sentence = _SENTENCE_END.search(request, at)
            limit = sentence.start() if sentence else len(request)
            if following.pattern:
                match = following.search(request, at + 1)
                end, after = match.span() if match else (-1, -1)
            else:
                end = after = limit
            values[name] = request[at:end].strip()
            if not at < end <= limit or not values[name]:
                break
            at = after
        else:
            return values
    return None


# --- a model that is a function ------------------------------------------------------------------------------------

Replies = Reply | ToolCall | str


class FunctionModel:
    """A model that is a function of the messages and the tools, for tests and for users.

    Args:
        function: called with `messages` and `tools`, and awaited where it gives something to await. It returns a
            Reply, a ToolCall, or the text of an answer.
        name: the name of the model.
        max_tokens: the length of its context; None leaves it open.
        images: whether it gets the pictures in the answers of tools.
    """

    def __init__(
        self,
        function: Callable[[Sequence[Message], Sequence[ToolSpec]], Replies | Awaitable[Replies]],
        *,
        name: str = "function",
        max_tokens: int | None = None,
        images: bool = False,
    ) -> None:
        self.name = name
        self.images = images
        self.max_tokens = max_tokens
        self._function = function

    async def reply(
        self,
        messages: Sequence[Message],
        *,
        tools: Sequence[ToolSpec] = (),
        schema: Mapping[str, Any] | None = None,
        on_text: Callable[[str], None] | None = None,
    ) -> Reply:
        """The reply that the function returns; see `Model.reply`.

        With a schema a text that is JSON counts as it is; any other reply is put into the schema's form.

        Raises:
            ModelFailed: it returned something else. Exceptions of the function are not caught.
        """
        returned: Any = self._function(messages, tools)
        if inspect.isawaitable(returned):
            returned = await returned
        if isinstance(returned, str):
            reply = Reply(returned)
        elif isinstance(returned, ToolCall):
            reply = Reply(tool_calls=(returned,))
        elif isinstance(returned, Reply):
            reply = returned
        else:
            raise ModelFailed(
                f"the function of the model {one_line(self.name, 80)} returned {type(returned).__name__}; "
                "it must return a Reply, a ToolCall or a text",
                model=self.name,
            )
        if reply.tool_calls or not reply.text.lstrip().startswith("{"):
            reply = format_reply(reply, schema)
        if on_text is not None and reply.text:
            on_text(reply.text)
        return reply

    async def aclose(self) -> None:
        """There is nothing to let go of."""
