"""A model behind the chat completions API: `CompletionsModel`, streamed.

It works with any server of the chat completions API that the `openai` package uses: a provider, or a local one.

How one reply is made: `completion_request` builds the body, the client of the `openai` package sends it,
`completion_stream` reads the answer, and `completion_errors` words a failure. A request is repeated if the server
refused it temporarily, or if the connection broke before any text. If the server objects to a feature, it is repeated
without that feature.

Only the last step has the key: the client of the package holds a placeholder, and the request gets the key when it
is sent, only for the configured host.

Spec: SDK "Layer 3", "Native Format".
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import os
import re
import sys
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, NoReturn
from uuid import uuid4

from mew_lab.agent.completion_errors import SECRET, CompletionFailure, Redaction, failure_of_status
from mew_lab.agent.completion_request import SAMPLING, ServerSupport, ask_for_less, build_request
from mew_lab.agent.completion_stream import CompletionReader, ReplyAssembly, failure_of_break
from mew_lab.agent.model import Message, Reply, ReplySettings, ToolSpec, estimate_prompt
from mew_lab.errors import ConfigError
from mew_lab.protocol.address import read_host
from mew_lab.protocol.coerce import list_of, mapping_of, member
from mew_lab.protocol.text import ToolNames
from mew_lab.protocol.token import SecretFilter, Token
from mew_lab.protocol.visible import one_line

__all__ = ["CompletionsModel"]

NO_KEY = "none"  # sent where no key is needed, and the placeholder of a key
LONGEST = 10  # times `timeout` that one answer may take in all
DEFAULT_CONTEXT = 8192  # tokens, for a server that does not state its length
HOSTED_CONTEXT = 128_000  # for models of the package's maker, whose list does not state it
MAX_LISTING = 4 << 20  # bytes of a list of models that are read
MEASURE_S = 5.0  # seconds that a server has to list its models
LEAST_CONTEXT, MOST_CONTEXT = 256, 100_000_000  # tokens; other values are ignored
# As llama.cpp, LM Studio, vLLM, OpenRouter, Mistral and Groq spell it; the length in force before the greatest.
CONTEXT_KEYS = (
    "n_ctx", "loaded_context_length", "max_model_len", "context_length", "max_context_length", "context_window",
    "n_ctx_train",
)  # fmt: skip
LARGE_PROMPT = 2000  # tokens from which an empty answer may mean that the context is full
_FULL = (
    "The prompt has about {size} tokens, which may be more than the context that its server was started with: "
    "start it with a longer one, or give max_tokens= its length. Or its server failed: see its log."
)
# Doubled at each retry where the server states no time: a local server that loads its model is asked soon again.
_BACKOFF_S = 0.25
# What comes behind the end is a few bytes; a server that holds the connection open must not delay the reply.
_DRAIN_S = 0.2
_ERROR = 64 << 10  # bytes of an error that are read
# Names of models that take pictures, as their providers and the usual local servers write them.
_SEEING = re.compile(
    r"gpt-4o|gpt-4\.[1-9]|gpt-4-turbo|gpt-[5-9]|chatgpt-4o|(?:^|/)o(?:1|3|4-mini)(?!-mini|-preview)|claude-(?:3|[a-z]+-[4-9])"
    r"|gemini|gemma-?(?:3(?!n)|[4-9])|llava|bakllava|moondream|pixtral|minicpm-v|internvl|molmo|smolvlm|idefics|cogvlm"
    r"|phi-(?:3|3\.5|4)-(?:vision|multimodal)|llama-?4|mistral-small-?3\.[1-9]|mistral-medium|grok-[4-9]|nova-(?:lite|pro)"
    r"|(?:^|[^a-z])(?:vl|vlm|vision|omni)(?:[^a-z]|$)"
)
_WIRE = ("openai", "httpx", "httpcore")
_LOGGERS = [f"httpcore{n}.{part}" for n in ("", "2") for part in ("connection", "http11", "http2", "proxy")]


class _HttpFailure(Exception):
    """A status other than success, with the beginning of its body."""

    def __init__(self, status: int, headers: Mapping[str, str], body: bytes) -> None:
        super().__init__(f"status {status}")
        self.status, self.headers, self.body = status, headers, body


class _ServerConnection:
    """The state that models of one server share: the client, made at first use, and the features of the server."""

    def __init__(self, base_url: str | None, key: Token | None) -> None:
        self._base_url, self._key = base_url, key
        self._client: Any = _make_client(base_url, key)
        self.support = ServerSupport()
        self.measured = False
        self.context: int | None = None  # length in tokens, as the server states it

    def client(self) -> Any:
        """The client of the package; a new one after `aclose`."""
        if self._client is None:
            self._client = _make_client(self._base_url, self._key)
        return self._client

    async def aclose(self) -> None:
        client, self._client = self._client, None
        if client is not None:
            await client.close()


class CompletionsModel:
    """A model behind a server of the chat completions API. Close it with `aclose`.

    `OPENAI_API_KEY` and `OPENAI_BASE_URL` replace absent arguments, so a key of the environment is also sent to an
    explicit `base_url`. Nothing shows the key: no error, log, representation or reply, even if the server echoes it.
    Tools are sent under the names of `ToolNames` and returned as `participant/tool`.

    Args:
        model: the name of the model at the server.
        base_url: the address of the API, with its `/v1`; None is that of the package's maker.
        api_key: None where none is needed; then `base_url` is required.
        max_tokens: the length of its context, for trimming prompts; it is not sent to the server. None is 8192 (128 000
            for the models of the maker of the package) until `measure` has asked the server.
        timeout: seconds without a byte after which a request has failed, and the limit of all waits for retries
            together. An answer that keeps coming may take ten times that.
        max_retries: the number of retries after a temporary refusal (408, 409, 425, 429, 5xx).
        temperature: None leaves it to the server.
        tool_choice: "auto", "none", "required", or the `participant/tool` to call; None leaves it to the server.
            "required" and a name hold until the messages contain the answer of a tool.
        sampling: `temperature`, `top_p` and `max_tokens` (of one reply); omitted after a server objected to them.
        images: whether it takes pictures; None judges by its name. They are left out after a server objected to them.
        text_calls: whether calls count that it writes as `<tool_call>{"name": …, "arguments": {…}}</tool_call>` at the
            end of its text, as small models do. Each is a proposal, even where a request is permitted.

    Raises:
        ConfigError: a key is missing where one is needed, or an argument is invalid.
    """

    def __init__(
        self,
        model: str,
        *,
        base_url: str | None = None,
        api_key: str | Token | None = None,
        max_tokens: int | None = None,
        timeout: float = 60.0,
        max_retries: int = 2,
        temperature: float | None = None,
        tool_choice: str | None = None,
        sampling: Mapping[str, float] | None = None,
        images: bool | None = None,
        text_calls: bool = False,
        new_id: Callable[[], str] = lambda: f"call_{uuid4().hex[:12]}",
        clock: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        key, api_key = _read_key(api_key), None  # no frame keeps the text: a traceback may show it
        self.name, self.host = model, ""
        if not model:
            raise ConfigError("model= is empty: give the name of the model at its server", key="model")
        if not timeout > 0:
            raise ConfigError(f"timeout= is {timeout}: it must be a number of seconds above 0", key="timeout")
        base_url = base_url or os.environ.get("OPENAI_BASE_URL") or None
        self.max_tokens: int | None = max_tokens or (DEFAULT_CONTEXT if base_url else HOSTED_CONTEXT)
        self._measures = max_tokens is None
        self.host = _read_host(base_url) if base_url else "api.openai.com"
        self._key = _check_key(key, needed=base_url is None)
        self._timeout = timeout
        self._max_retries = max_retries
        self._temperature = temperature
        self._tool_choice = tool_choice
        self._sampling = {key: value for key, value in (sampling or {}).items() if key in SAMPLING}
        self.images = takes_images(model) if images is None else images
        self._text_calls = text_calls
        self._new_id = new_id
        self._clock = clock
        self._connection = _ServerConnection(base_url, self._key)

    def __repr__(self) -> str:
        return f"<CompletionsModel {one_line(self.name, 80)} at {self.host}>"

    def __reduce__(self) -> NoReturn:
        raise TypeError("a CompletionsModel holds a key and connections: make another one where it is needed")

    async def aclose(self) -> None:
        """Closes its connections; a later reply opens new ones. A second call does nothing."""
        await self._connection.aclose()

    def with_settings(self, settings: ReplySettings) -> CompletionsModel:
        """The same model with other settings; both use one connection, which `aclose` of either closes."""
        other = object.__new__(CompletionsModel)
        other.__dict__.update(self.__dict__)
        wishes = {"temperature": settings.temperature, "max_tokens": settings.max_tokens}
        chosen = {key: value for key, value in wishes.items() if value is not None}
        other._sampling = {**self._sampling, **chosen}
        if settings.temperature is not None:
            other._temperature = None  # else it would win
        other._timeout = settings.timeout or self._timeout
        other._tool_choice = settings.tool_choice or self._tool_choice
        if settings.images is not None:
            other.images = settings.images
        if settings.text_calls is not None:
            other._text_calls = settings.text_calls
        return other

    async def measure(self) -> None:
        """Reads the length of the model's context from `/v1/models`, unless it was given; a server may omit it.

        It repeats the request until there is one answer, and takes at most five seconds.
        """
        if not self._measures:
            return
        if not self._connection.measured:
            with contextlib.suppress(Exception):
                async with asyncio.timeout(min(MEASURE_S, self._timeout)):
                    self._connection.context = await self._context_of_server()
        self.max_tokens = self._connection.context or self.max_tokens

    async def _context_of_server(self) -> int | None:
        body = b""
        listing = self._connection.client().models.with_streaming_response.list()
        try:
            async with listing as response:
                async for piece in response.iter_bytes():
                    body += piece
                    if len(body) > MAX_LISTING:
                        return None
        finally:
            # Only a server that cannot be reached is asked again later, not a slow one or one that refuses.
            fault = sys.exception()
            self._connection.measured = fault is None or not _is_unreachable(fault)
        return context_length(json.loads(body), self.name)

    async def reply(
        self,
        messages: Sequence[Message],
        *,
        tools: Sequence[ToolSpec] = (),
        schema: Mapping[str, Any] | None = None,
        on_text: Callable[[str], None] | None = None,
    ) -> Reply:
        """The next message; see `Model.reply`.

        A call that cannot be made is returned with its fault. Cancelling closes the connection at once.

        Raises:
            ModelFailed: the server refused, cannot be reached, or was silent for too long; or its answer broke off, is
                no chat completion, or is longer than a mebibyte.
        """
        offered = () if schema is not None else tools
        names = ToolNames(
            [tool.name for tool in offered]
            + [call.name for message in messages for call in message.tool_calls]
        )
        support, retries, broke = self._connection.support, 0, False
        size = estimate_prompt(messages)
        loop = asyncio.get_running_loop()
        started = loop.time()
        while True:
            assembly = ReplyAssembly(
                names,
                offered=frozenset(tool.name for tool in offered),
                redaction=Redaction(self._key),
                new_id=self._new_id,
                on_text=on_text,
                text_calls=self._text_calls,
            )
            body = build_request(
                messages,
                model=self.name,
                tools=offered,
                schema=schema,
                names=names,
                support=support,
                temperature=self._temperature,
                tool_choice=self._tool_choice,
                sampling=self._sampling,
            )
            failure = await self._attempt(body, assembly)
            if failure is None:
                self._connection.support = support
                return assembly.reply()
            # Before any retry is counted: the same request would be refused again.
            if not failure.broken and (less := ask_for_less(support, body, failure)) is not None:
                support = less
                continue
            wait = 0.0
            if failure.broken:
                # Once, whatever `max_retries` says: a connection that was kept may have been closed by the server.
                again, broke = not broke, True
            else:
                wait = failure.retry_after_s if failure.retry_after_s is not None else _BACKOFF_S * 2**retries
                again = failure.retryable and retries < self._max_retries
                retries += 1
            if failure.empty and size >= min(LARGE_PROMPT, (self.max_tokens or LARGE_PROMPT) // 2):
                failure = failure._replace(help=_FULL.format(size=size))
            too_long = again and loop.time() - started + wait > self._timeout
            if too_long and failure.retry_after_s:
                asks = f"It asks to wait {wait:g} s; this model waits {self._timeout:g} s in all (timeout=)."
                failure = failure._replace(help=f"{asks} {failure.help}".rstrip())
            if assembly.emitted or not again or too_long:
                raise failure.error(model=self.name, host=self.host)
            await asyncio.sleep(wait)

    async def _attempt(self, body: dict[str, Any], assembly: ReplyAssembly) -> CompletionFailure | None:
        """Sends one request. A failure is returned, so that no traceback holds what the server sent."""
        loop = asyncio.get_running_loop()
        end = loop.time() + LONGEST * self._timeout
        try:
            async with asyncio.timeout(self._timeout) as limit:

                def alive() -> None:
                    limit.reschedule(min(loop.time() + self._timeout, end))

                return await self._exchange(body, assembly, alive)
        except TimeoutError:
            if not limit.expired():
                raise
        if loop.time() >= end:
            return CompletionFailure(f"its answer took longer than {LONGEST * self._timeout:g} s")
        return CompletionFailure(
            f"it was silent for {self._timeout:g} s",
            "A slow server needs a longer timeout=.",
        )

    async def _exchange(
        self, body: dict[str, Any], assembly: ReplyAssembly, alive: Callable[[], None]
    ) -> CompletionFailure | None:
        redaction = Redaction(self._key)
        async with contextlib.AsyncExitStack() as stack:
            try:
                request = self._connection.client().chat.completions.with_streaming_response.create(**body)
                response = await stack.enter_async_context(request)
            except Exception as err:
                return self._failure_of(err, redaction)
            pieces = await stack.enter_async_context(contextlib.aclosing(response.iter_bytes()))
            whole = response.headers.get("content-type", "").lower().startswith("application/json")
            reader = CompletionReader(assembly, redaction, whole=whole)
            while not reader.over:
                try:
                    piece = await anext(pieces, None)
                except Exception:
                    return failure_of_break(assembly)
                alive()
                reader.feed(piece)
            if reader.failure is None and piece is not None:
                await _drain(pieces)
            return reader.failure

    def _failure_of(self, err: BaseException, redaction: Redaction) -> CompletionFailure:
        causes = _causes(err)
        for cause in causes:
            if isinstance(cause, _HttpFailure):
                return failure_of_status(
                    cause.status, cause.headers, cause.body, redaction=redaction, now=self._clock()
                )
        reason = redaction.complaint(str(causes[-1])) or type(causes[-1]).__name__
        if _is_unreachable(err):
            return CompletionFailure(
                f"it cannot be reached ({one_line(reason, 200)})",
                "Is the server running, and is base_url= right?",
            )
        return CompletionFailure(f"the request failed ({one_line(reason, 200)})", "Try again.", broken=True)


def _causes(err: BaseException) -> list[BaseException]:
    causes = [err]
    while (cause := causes[-1].__cause__) is not None and len(causes) < 10:
        causes.append(cause)
    return causes


def _is_unreachable(err: BaseException) -> bool:
    return any(type(cause).__name__ == "ConnectError" for cause in _causes(err))


def takes_images(model: str) -> bool:
    """Whether a model takes pictures, by its name; False for an unknown one."""
    return _SEEING.search(model.lower()) is not None


def context_length(listing: Any, model: str) -> int | None:
    """The context length of a model, in tokens, from a listing of models; None where it is absent.

    Each server has its own name for it. The length with which a server was started takes precedence over the
    length with which the model was trained.
    """
    known = [entry for entry in list_of(member(listing, "data")) if isinstance(entry, dict)]
    named = [entry for entry in known if entry.get("id") == model]
    # A server of one model accepts any name of a model.
    for entry in named or (known if len(known) == 1 else []):
        for source in (entry, mapping_of(entry.get("meta"))):
            for key in CONTEXT_KEYS:
                value = source.get(key)
                if type(value) is int and LEAST_CONTEXT <= value <= MOST_CONTEXT:
                    return value
    return None


async def _drain(pieces: AsyncIterator[bytes]) -> None:
    """Reads the rest for a moment: a connection is reused only if it was read to its end."""
    with contextlib.suppress(Exception):
        async with asyncio.timeout(_DRAIN_S):
            async for _ in pieces:
                pass


def _read_key(argument: str | None) -> Token | None:
    text = argument.reveal() if isinstance(argument, Token) else argument
    text = (text or os.environ.get("OPENAI_API_KEY") or "").strip()
    return Token(text, remember=len(text) >= SECRET) if text else None


def _check_key(key: Token | None, *, needed: bool) -> Token | None:
    if key is None and needed:
        raise ConfigError(
            "a model of the default server needs a key: set OPENAI_API_KEY or give api_key=; "
            "for a server of your own give base_url=",
            key="api_key",
        )
    if key is not None and not re.fullmatch(r"[!-~]+", key.reveal()):
        raise ConfigError("api_key= has characters that no key has: was it copied whole?", key="api_key")
    return key


def _read_host(base_url: str) -> str:
    """The host and port of an address, the only parts that are ever shown."""
    try:
        return read_host(base_url).text
    except ValueError:
        raise ConfigError(
            "base_url= must be an address like http://127.0.0.1:8000/v1, without a user or password before its host: "
            "give the key as api_key=",
            key="base_url",
        ) from None


def _make_client(base_url: str | None, key: Token | None) -> Any:
    import openai

    async def sign(request: Any) -> None:
        # A redirect to another host drops the placeholder, so that host does not get the key.
        if key is not None and request.headers.get("Authorization") == f"Bearer {NO_KEY}":
            request.headers["Authorization"] = f"Bearer {key.reveal()}"

    async def look(response: Any) -> None:
        """Reads a bounded part of an error's body, where the package would read all of it."""
        if response.is_success or response.has_redirect_location:
            return
        body = b""
        with contextlib.suppress(Exception):
            async with contextlib.aclosing(response.aiter_bytes()) as pieces:
                async for piece in pieces:
                    body = (body + piece)[:_ERROR]
                    if len(body) == _ERROR:
                        break
        raise _HttpFailure(response.status_code, {k.lower(): v for k, v in response.headers.items()}, body)

    for name in {*_LOGGERS, *(name for name in logging.root.manager.loggerDict if name.startswith(_WIRE))}:
        logger = logging.getLogger(name)
        if not any(isinstance(log_filter, SecretFilter) for log_filter in logger.filters):
            logger.addFilter(SecretFilter())
    return openai.AsyncOpenAI(
        api_key=NO_KEY,
        base_url=base_url,
        timeout=None,
        max_retries=0,
        http_client=openai.DefaultAsyncHttpxClient(
            timeout=None, event_hooks={"request": [sign], "response": [look]}
        ),
    )
