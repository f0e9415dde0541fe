"""Payloads of chat.

Spec: §3.4.
"""

from __future__ import annotations

from typing import Literal

from mew_lab.protocol.payloads.payload import Payload

__all__ = ["Chat", "ChatAcknowledge", "ChatCancel"]


class Chat(Payload, kind="chat"):
    """A chat message. An absent `format` means plain: it must not be rendered as Markdown.

    Spec: §3.4.
    """

    text: str
    format: Literal["plain", "markdown"] = "plain"


class ChatAcknowledge(Payload, kind="chat/acknowledge"):
    """Acknowledges a chat message. `status` is `received`, `read` or a code of the deployment.

    Spec: §3.4.1.
    """

    status: str | None = None


class ChatCancel(Payload, kind="chat/cancel"):
    """Cancels a chat message, which needs no attention; `reason` such as `handled_elsewhere`, `duplicate`,
    `timeout`.

    Spec: §3.4.2.
    """

    reason: str | None = None
