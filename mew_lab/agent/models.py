"""Which model does a word mean?  `model_of`: "offline", the name of a model behind an API, or a model itself.

It knows the adapters by name only, and loads the one that is asked for.

Spec: SDK "Layer 3" (`model`, `apiKey`, `baseURL`).
"""

from __future__ import annotations

from collections.abc import Mapping

from mew_lab.agent.model import Model, ReplySettings
from mew_lab.errors import ConfigError
from mew_lab.protocol.token import Token

__all__ = ["OFFLINE", "model_of", "with_settings"]

OFFLINE = "offline"


def model_of(
    spec: Model | str | None,
    *,
    base_url: str | None = None,
    api_key: str | Token | None = None,
    sampling: Mapping[str, float] | None = None,
) -> Model:
    """A model to think with. Who makes one of a word gives it back with `aclose`.

    Args:
        spec: a model, which is returned as it is; "offline" or None for the built-in one, which thinks by rules
            and needs no server; any other word is the name of a model behind the chat completions API.
        base_url: where that API begins; None is the default of the `openai` package.
        api_key: its key; None where none is needed, or where OPENAI_API_KEY holds it.
        sampling: wishes for its replies, see `CompletionsModel`; the built-in model has no use for them.

    Raises:
        ConfigError: a server without the name of a model, a built-in or ready model with a server, or what
            `CompletionsModel` refuses.
    """
    if isinstance(spec, str) and spec != OFFLINE:
        from mew_lab.agent.completions import CompletionsModel

        return CompletionsModel(spec, base_url=base_url, api_key=api_key, sampling=sampling)
    if base_url is not None:
        raise ConfigError(
            "base_url= names a server, and model= must say which of its models: give the name by which it knows it",
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
    """The model with these settings; the model itself where there are none, or where it takes none."""
    adapt = getattr(model, "with_settings", None)
    if adapt is None or settings == ReplySettings():
        return model
    adapted: Model = adapt(settings)
    return adapted
