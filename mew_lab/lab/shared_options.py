"""Declares the options that programs and `%mew` have in common, each once; Python has them as arguments.

Those of `PERSON` belong to the person of a lab: what she shares, whose yes she waits for, and who is told that something
waits. No space.yaml sets them. Those of `EXECUTOR` belong to whoever runs an MCP server in a space.

Spec: rulings R39, R43.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

from mew_lab.errors import ConfigError

if TYPE_CHECKING:
    from mew_lab.lab.notification import Notify

__all__ = [
    "EXECUTOR",
    "PERSON",
    "RESULTS",
    "WRITES",
    "SharedOption",
    "add_shared",
    "executor_arguments",
    "person_arguments",
    "usage_of",
    "writes_by_server",
    "writes_of",
]


class SharedOption(NamedTuple):
    """One option: its flag, its help, the source of its completions in a notebook, and keywords for argparse."""

    flag: str
    about: str
    names: str = ""
    settings: Mapping[str, Any] = MappingProxyType({})

    @property
    def dest(self) -> str:
        """The name of its value."""
        return self.flag.removeprefix("--").replace("-", "_")


_COUNT: Mapping[str, Any] = MappingProxyType({"type": int, "metavar": "N"})
_DECIDER = SharedOption(
    "--decider",
    "a participant whose yes counts for the quorum; may be repeated",
    "participant",
    {"action": "append", "metavar": "ID"},
)
_FILE: Mapping[str, Any] = MappingProxyType({"metavar": "FILE"})

PERSON = (
    SharedOption(
        "--share-review",
        "lets all in the space see which cards you look at, and to which you said yes",
        "",
        {"action": "store_true"},
    ),
    SharedOption(
        "--quorum",
        "how many deciders must say yes before an approval of yours is sent; with --share-review",
        "",
        _COUNT,
    ),
    _DECIDER,
    SharedOption(
        "--notify",
        "the address that is told when something waits for you; or the file, readable by you alone, that holds it",
        "path",
        {"metavar": "URL|FILE"},
    ),
    SharedOption(
        "--notify-content",
        "tells it proposer, tool and digest, too, and never arguments",
        "",
        {"action": "store_true"},
    ),
    SharedOption(
        "--notify-secret", "the file of the secret that signs what it is told; default: yours", "path", _FILE
    ),
)
EXECUTOR = (
    SharedOption(
        "--quorum",
        "how many deciders must say yes to a call before it is executed, each in a lab with --share-review",
        "",
        _COUNT,
    ),
    _DECIDER,
)
WRITES = SharedOption(
    "--writes",
    "a tool that writes a file, with the names of its arguments for path and content; may be repeated",
    "",
    {"action": "append", "metavar": "TOOL=PATH,CONTENT"},
)
RESULTS = (
    SharedOption(
        "--result-bytes",
        "the bytes of the largest result that is kept where no message can hold it; default: 64 MiB",
        "",
        _COUNT,
    ),
    SharedOption("--results-bytes", "the bytes of all such results together; default: 256 MiB", "", _COUNT),
    SharedOption(
        "--results-seconds",
        "how long such a result is kept; default: 24 hours",
        "",
        {"type": float, "metavar": "SECONDS"},
    ),
)


def add_shared(parser: argparse.ArgumentParser, options: Sequence[SharedOption]) -> None:
    """Adds options to the parser of a program."""
    for option in options:
        parser.add_argument(option.flag, help=option.about, **option.settings)


def usage_of(options: Sequence[SharedOption]) -> str:
    """The options as a line of usage names them."""
    values = [(option.flag, option.settings.get("metavar", "")) for option in options]
    return " ".join(f"[{flag} {value}]" if value else f"[{flag}]" for flag, value in values)


def person_arguments(options: argparse.Namespace) -> dict[str, Any]:
    """The arguments of `up` and `connect` that the options of a command state.

    Raises:
        ConfigError: A file cannot be read, or no address can be told.
    """
    stated = {
        "share_review": options.share_review,
        "quorum": options.quorum,
        "deciders": tuple(options.decider or ()),
        "notify": _stated_notify(options),
    }
    return {name: value for name, value in stated.items() if value not in (False, None, ())}


def _stated_notify(options: argparse.Namespace) -> Notify | None:
    """Whom to tell by these options; None where they say nothing of it."""
    how = {"content": options.notify_content, "secret_file": options.notify_secret}
    if not (options.notify or any(how.values())):
        return None
    from mew_lab.lab.notification import notify_from  # whoever shows the help does not wait for it

    where = options.notify
    told = notify_from(Path(where).expanduser() if where and "://" not in where else where)
    if told is None:
        raise ConfigError(
            "--notify-content and --notify-secret say how an address is told what waits; add --notify, or set "
            "MEW_LAB_NOTIFY",
            key="notify",
        )
    return told.with_options(**how)


def executor_arguments(options: argparse.Namespace) -> dict[str, Any]:
    """The arguments of a bridge that the options of a command state; none where no quorum is asked for.

    Raises:
        ConfigError: The quorum is no count of the deciders.
    """
    from mew_lab.sdk.quorum import Quorum

    quorum = Quorum.of(options.quorum, options.decider)
    return {} if quorum is None else {"quorum": quorum.count, "deciders": quorum.deciders}


def writes_of(stated: Sequence[str]) -> dict[str, tuple[str, str]]:
    """The tools that write a file, by words such as `save=path,content`: the arguments with path and content.

    Raises:
        ConfigError: A word is none, or names a tool twice.
    """
    tools: dict[str, tuple[str, str]] = {}
    for word in stated:
        tool, _, names = word.rpartition("=")
        path, comma, content = names.partition(",")
        if not (tool and path and comma and content) or tool in tools:
            raise ConfigError(
                f"--writes takes each tool once, with the names of its arguments that have the path and the content, "
                f"such as save=path,content; not {word[:80]!r}",
                key="writes",
            )
        tools[tool] = (path, content)
    return tools


def writes_by_server(stated: Sequence[str]) -> dict[str, dict[str, tuple[str, str]]]:
    """The same for the servers of a file, by words such as `files/save=path,content`.

    Raises:
        ConfigError: A word is none, names no server, or names a tool twice.
    """
    servers: dict[str, dict[str, tuple[str, str]]] = {}
    for named, arguments in writes_of(stated).items():
        server, slash, tool = named.partition("/")
        if not (server and slash and tool):
            raise ConfigError(
                f"--writes names the server of a tool in a file, such as files/save=path,content; not {named[:80]!r}",
                key="writes",
            )
        servers.setdefault(server, {})[tool] = arguments
    return servers
