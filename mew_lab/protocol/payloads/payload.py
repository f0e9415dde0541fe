"""The common base of all payloads: types are those of JSON, unknown fields are kept."""

from __future__ import annotations

from collections.abc import Mapping
from copy import deepcopy
from typing import Any, Final, Self

from pydantic import BaseModel, ConfigDict, ValidationError

__all__ = ["KIND_OF", "CapabilityPattern", "Payload"]

CapabilityPattern = dict[str, Any]
"""A capability as JSON; `mew_lab.protocol.permit.Capability` is the compiled one."""

KIND_OF: Final[dict[type[Payload], str]] = {}
"""The kind that each loaded model describes."""


class Payload(BaseModel):
    """A payload that follows the specification, with all further members.

    Nothing is converted: a number sent as text is a fault. `model_dump(exclude_unset=True)` returns the members as they
    were read. Names are those of the wire. A model of the payload of a whole message names its `kind`.

    Spec: §3 (payload).
    """

    model_config = ConfigDict(extra="allow", strict=True, frozen=True)

    def __init_subclass__(cls, *, kind: str = "", **options: Any) -> None:
        super().__init_subclass__(**options)
        if kind:
            KIND_OF[cls] = kind

    @classmethod
    def read(cls, members: Mapping[str, Any]) -> Self:
        """The payload as far as it follows the specification.

        A value that does not fit is omitted, and so is an object in it that lacks a required member. Where that
        removes a required member of the payload itself, this member is None and the others stay plain JSON.
        """
        try:
            return cls.model_validate(members)
        except ValidationError as fault:
            fitting = deepcopy(dict(members))
            # Later places first: taking out an element of a list moves those behind it.
            for error in reversed(fault.errors(include_url=False, include_input=False)):
                place = error["loc"][:-1] if error["type"] == "missing" else error["loc"]
                _take_out(fitting, place)
            try:
                return cls.model_validate(fitting)
            except ValidationError as rest:
                for error in rest.errors(include_url=False, include_input=False):
                    fitting.pop(str(error["loc"][0]), None) if error["loc"] else None
                required = [name for name, field in cls.model_fields.items() if field.is_required()]
                return cls.model_construct(**{**dict.fromkeys(required), **fitting})


def _take_out(members: Any, place: tuple[int | str, ...]) -> None:
    """Removes the value at `place`, if it exists."""
    for key in place[:-1]:
        try:
            members = members[key]
        except (KeyError, IndexError, TypeError):
            return
    try:
        del members[place[-1]]
    except (KeyError, IndexError, TypeError):
        pass
