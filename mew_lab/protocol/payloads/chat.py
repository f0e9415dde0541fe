"""Payloads of chat.

Spec: §3.4.
"""

from __future__ import annotations

from typing import Literal

from mew_lab.protocol.payloads.payload import Payload

__all__ = ["Chat", "ChatAcknowledge", "ChatCancel"]


class Chat(Payload):
    """Something said. An absent `format` means plain: it must not be rendered as Markdown.

    Spec: §3.4.
    """

    text: str
    format: Literal["plain", "markdown"] = "plain"


class ChatAcknowledge(Payload):
    """A chat message was seen. `status` is `received`, `read` or what the deployment uses.

    Spec: §3.4.1.
    """

    status: str | None = None


class ChatCancel(Payload):
    """A chat message needs no attention any more; `reason` such as `handled_elsewhere`, `duplicate`,
    `timeout`.

    Spec: §3.4.2.
    """

    reason: str | None = None
