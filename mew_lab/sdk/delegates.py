"""The names that the SDK specification puts on a participant and on an agent, by one table, and its overridable hooks.

Each name is spelt as in Python: `discover_tools` for `discoverTools`. `SpecificationNames` is the table: a name that a
class does not define itself is that of the part which the table says; an agent has all of them from its participant.

An `on_…` method of a subclass that needs no argument besides `self` is a hook. The method of its base takes its place
again, the one that adds handlers, and the hook is added to each instance as a handler.

Spec: SDK "Layer 2", "Layer 3", "Lifecycle hooks".
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from types import MethodType
from typing import Any, ClassVar

from mew_lab.sdk.arguments import snake_case

__all__ = ["Delegate", "SpecificationNames"]


class Delegate:
    """A name that a part of an object has; `part` is the attribute of a participant that is this part."""

    def __init__(self, part: str = "") -> None:
        self.part = part

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    def __get__(self, instance: Any, owner: type) -> Any:
        if instance is None:
            return self
        whose = getattr(instance, "participant", None)
        return getattr(whose if whose is not None else getattr(instance, self.part), self.name)


class SpecificationNames:
    """The names of the specification that stand elsewhere than on the class itself."""

    acknowledge_chat: Any = Delegate()
    build_status_payload: Any = Delegate("telemetry")
    can_send: Any = Delegate()
    cancel_chat: Any = Delegate()
    chat: Any = Delegate()
    disable_auto_discovery: Any = Delegate("discovery")
    discover_tools: Any = Delegate("discovery")
    discovered_tools: Any = Delegate("discovery")
    enable_auto_discovery: Any = Delegate("discovery")
    get_available_tools: Any = Delegate("discovery")
    get_discovery_status: Any = Delegate("discovery")
    get_undiscovered_participants: Any = Delegate("discovery")
    has_discoveries_in_progress: Any = Delegate("discovery")
    mcp_request: Any = Delegate()
    on: Any = Delegate("client")
    on_chat: Any = Delegate()
    on_clear: Any = Delegate("controls")
    on_compact: Any = Delegate("controls")
    on_connected: Any = Delegate("client")
    on_disconnected: Any = Delegate("client")
    on_error: Any = Delegate("client")
    on_forget: Any = Delegate("controls")
    on_mcp_proposal: Any = Delegate()
    on_mcp_request: Any = Delegate()
    on_message: Any = Delegate("client")
    on_participant_join: Any = Delegate()
    on_pause: Any = Delegate("controls")
    on_ready: Any = Delegate()
    on_reconnecting: Any = Delegate("client")
    on_restart: Any = Delegate("controls")
    on_resume: Any = Delegate("controls")
    on_shutdown: Any = Delegate()
    on_stream_data: Any = Delegate("client")
    on_welcome: Any = Delegate("client")
    participant_discovery_status: Any = Delegate("discovery")
    pause_state: Any = Delegate("controls")
    record_context_usage: Any = Delegate("telemetry")
    register_resource: Any = Delegate()
    register_tool: Any = Delegate()
    report_status: Any = Delegate("telemetry")
    report: Any = Delegate("client")
    request_participant_status: Any = Delegate("telemetry")
    request_stream: Any = Delegate("streams")
    send: Any = Delegate("client")
    send_stream_data: Any = Delegate("client")
    tool_cache: Any = Delegate("discovery")
    wait_for_pending_discoveries: Any = Delegate()

    _hooks: ClassVar[Mapping[str, Callable[..., Any]]] = {}

    def __init_subclass__(cls, *, adds_handlers: bool = False, **options: Any) -> None:
        """Takes the hooks off a subclass; `adds_handlers` is whether its own `on_…` methods add handlers."""
        super().__init_subclass__(**options)
        if not adds_handlers:
            own = vars(cls)
            for one, other in (
                ("connect", "start"),
                ("disconnect", "stop"),
            ):  # the same method, whichever is replaced
                for name, alias in ((one, other), (other, one)):
                    if name in own and alias not in own:
                        setattr(cls, alias, own[name])
            base = next(each for each in cls.__mro__[1:] if issubclass(each, SpecificationNames))
            mixed_in = [each for each in cls.__mro__[1:-1] if not issubclass(each, SpecificationNames)]
            hooks: dict[str, Callable[..., Any]] = {}
            for each in (*reversed(mixed_in), cls):
                hooks |= {name: hook for name, hook in vars(each).items() if _is_hook(cls, base, name, hook)}
            for name in hooks:
                setattr(cls, name, inspect.getattr_static(base, name))
            cls._hooks = {**cls._hooks, **hooks}

    def _add_hooks(self) -> None:
        """Adds the hooks of the class as handlers, at the end of the constructor."""
        for name, hook in self._hooks.items():
            getattr(self, name)(MethodType(hook, self))


def _is_hook(cls: type, base: type, name: str, member: Any) -> bool:
    """Whether a member of a subclass of `base`, or of a class that is mixed in, is a hook.

    Raises:
        TypeError: it has the name of one, or that of the specification, and cannot be called as one.
    """
    spelt = snake_case(name)
    if not spelt.startswith("on_") or not hasattr(base, spelt):
        return False
    if name != spelt:
        raise TypeError(f"{cls.__name__}.{name} is never called; did you mean `async def {spelt}(self)`?")
    parameters = (
        list(inspect.signature(member).parameters.values())[1:] if inspect.isfunction(member) else None
    )
    if parameters is None or any(
        each.default is each.empty and each.kind not in (each.VAR_POSITIONAL, each.VAR_KEYWORD)
        for each in parameters
    ):
        raise TypeError(
            f"{cls.__name__}.{name} cannot be called as a hook, which needs no argument: write "
            f"`async def {name}(self)`, where further parameters have defaults and get what a handler gets. A handler "
            f"with other parameters is added to an instance by `{name}(handler)`"
        )
    return True
