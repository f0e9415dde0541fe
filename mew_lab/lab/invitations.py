"""Invites a participant to a space, as the human of a lab, and keeps its token in a file; mails an invitation.

A mail goes out by the command that the environment variable MEW_LAB_MAIL names, a JSON list of words such as
`["sendmail", "-t", "-i"]`: it is the user's own, and neither a space.yaml nor a peer can set it. It runs without a shell
and gets the whole mail on its standard input. The token is not in the mail.

The gateway answers the inviter alone. The token of an invitation is a `Token` at once, so that no output shows it by
accident; a caller that hands it on has to call `reveal()`.

Spec: §3.6.5, §3.6.6, rulings R12, R15.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterable, Mapping
from email.errors import MessageError
from email.headerregistry import Address
from email.message import EmailMessage
from pathlib import Path
from typing import Any, NamedTuple

from mew_lab.errors import ConfigError, MewError, Refused
from mew_lab.gateway.auth import write_token_file
from mew_lab.lab.host import join_line
from mew_lab.lab.session import Session
from mew_lab.lab.standing import find_kept
from mew_lab.protocol.coerce import json_of
from mew_lab.protocol.describe import reword_refusal
from mew_lab.protocol.payloads.space_management import SpaceInviteAck
from mew_lab.protocol.permit import read_capabilities
from mew_lab.protocol.profiles import refer_to_patterns
from mew_lab.protocol.token import Token, mask
from mew_lab.protocol.visible import one_line
from mew_lab.sdk.group import run_aside
from mew_lab.sdk.participant import MEWParticipant
from mew_lab.transport.folder import hide

__all__ = [
    "MAILED_WITHIN",
    "Invitation",
    "InvitationMail",
    "check_invitation",
    "invite",
    "invite_to_file",
    "read_mail",
]

ANSWERED_WITHIN = 10.0  # seconds
MAILED_WITHIN = 30.0  # seconds that the command of a mail may take
MAIL = "MEW_LAB_MAIL"


class Invitation(NamedTuple):
    """An invitation: the invited participant, its token, and the URL to join at, empty when the gateway sends none."""

    id: str
    participant: str
    token: Token
    url: str


class InvitationMail(NamedTuple):
    """The address that gets a mail, and the words of the command that sends it."""

    to: Address
    command: tuple[str, ...]


async def invite(
    inviter: MEWParticipant,
    name: str,
    capabilities: Iterable[Mapping[str, Any]] | None = None,
    *,
    reason: str | None = None,
    timeout: float = ANSWERED_WITHIN,
) -> Invitation:
    """Invites the participant `name`; returns once the gateway has created its token.

    Args:
        capabilities: the patterns of its capabilities; None gives the restricted starter profile.
        timeout: how long to wait for the answer, in seconds.

    Raises:
        Refused: the gateway refused it, because the name is known already or the inviter may not grant these
            capabilities.
        CapabilityViolation: the inviter may not invite.
        NoReply: no answer was received in time.
        LocalProtocolError, ConnectionLost: as `MessageSender.say`.

    Spec: §3.6.5, §3.6.6.
    """
    payload: dict[str, Any] = {"participant_id": name}
    if capabilities is not None:
        capabilities = tuple(capabilities)
        inviter.rights.check_extensions(capabilities)
        payload["initial_capabilities"] = [dict(pattern) for pattern in capabilities]
    if reason:
        payload["reason"] = reason
    envelope = inviter.sender.complete("space/invite", payload)
    # The gateway answers a refused name with an ack and no echo, and any other refusal with an error and no ack.
    settle = inviter.sender.correlations.send_settled
    answer = await settle(envelope, answer=SpaceInviteAck, timeout=timeout, read=lambda ack: ack)
    return _invitation(envelope.id, name, answer)


def _invitation(id: str, name: str, answer: SpaceInviteAck) -> Invitation:
    if answer.status != "created" or not answer.token:
        why = one_line(str((answer.model_extra or {}).get("message") or "it gave no reason"), 300)
        status = answer.status or "error"  # None where it is no status of the specification
        sentence = f"The gateway did not invite {one_line(name, 64)!r}: {why} ({status})"
        raise Refused(sentence, code=status, envelope=None)
    url = answer.connection_url
    return Invitation(id, name, Token(answer.token), one_line(url, 300) if url else "")


def check_invitation(session: Session, patterns: Iterable[Mapping[str, Any]] | None) -> None:
    """Refuses an invitation that would pass on what the owner of the space keeps, or with a pattern that is none.

    Raises:
        MewError: It would, or a pattern cannot be read.
    """
    held = session.me.participant.client.capabilities
    asked, faults = read_capabilities(list(patterns or []))
    for fault in faults[:1]:
        why = one_line(reword_refusal(str(fault)), 300)
        raise MewError(refer_to_patterns(f"{one_line(fault.key, 80) or 'patterns'}: {why}"))
    for wanted in asked.capabilities:
        if kept := find_kept(held, wanted):
            raise MewError(kept)


def read_mail(address: str, environ: Mapping[str, str] = os.environ) -> InvitationMail:
    """The mail to an address, by the command of the user's settings.

    Raises:
        ConfigError: No command is set, or it is no list of words; or the address is none.
    """
    words = json_of(environ.get(MAIL, "").encode("utf-8", "surrogatepass"))
    if not isinstance(words, list) or not words or not all(isinstance(one, str) and one for one in words):
        state = "is no JSON list of words" if environ.get(MAIL) else "is not set"
        raise ConfigError(
            f"Cannot mail an invitation: the variable {MAIL} {state}; it names the command that gets the mail on its "
            'standard input, such as ["sendmail", "-t", "-i"]',
            key=MAIL,
        )
    try:
        to = Address(addr_spec=address)
    except (MessageError, ValueError, IndexError):
        to = Address()
    if not to.domain or not address.isascii() or not address.isprintable():
        raise ConfigError(
            f"Cannot mail an invitation: {one_line(address, 80)!r} is no address such as ann@example.org",
            key="mail",
        )
    return InvitationMail(to, tuple(words))


async def _send(
    mail: InvitationMail, *, inviter: str, participant: str, space: str, url: str, reason: str
) -> str:
    """Sends the mail; returns one sentence about what was seen of it."""
    message = EmailMessage()
    message["To"] = mail.to
    message["Subject"] = f"Invitation to the space {space}"
    line = join_line(url, space=space, token_file="FILE")
    why = f"“{one_line(reason, 300)}”\n\n" if reason else ""
    message.set_content(
        f"{inviter} invites you to the space {space}, as {participant}.\n\n{why}    {line}\n\n"
        f"FILE holds your token. It is not in this mail: {inviter} gives it to you in another way. Keep it readable "
        "by you alone.\n"
    )
    program = one_line(mail.command[0], 80)

    def run() -> subprocess.CompletedProcess[bytes]:
        given = message.as_bytes()
        return subprocess.run(
            mail.command, input=given, capture_output=True, timeout=MAILED_WITHIN, check=False
        )

    try:
        done = await run_aside(run, name="mew-lab-mail")
    except (OSError, ValueError) as fault:
        why = getattr(fault, "strerror", None) or "it cannot be started"
    except subprocess.TimeoutExpired:
        why = f"it did not end within {MAILED_WITHIN:g} s, and was ended"
    else:
        if done.returncode == 0:
            return f"{program} took the mail to {mail.to.addr_spec}; the token is not in it"
        said = mask(done.stderr.decode(errors="replace").strip())
        why = f"it ended with {done.returncode}" + (f": {one_line(said, 200)}" if said else "")
    return f"The invitation stands, and {program} has not taken the mail to {mail.to.addr_spec}: {why}"


async def invite_to_file(
    session: Session,
    name: str,
    patterns: Iterable[Mapping[str, Any]] | None,
    *,
    reason: str,
    timeout: float,
    mail: InvitationMail | None = None,
) -> str:
    """Invites `name`, writes its token to a file that this user alone can read; returns the shell line that joins.

    Args:
        mail: Where to send that line, without the token; a second line then says what was seen of it.

    Raises:
        MewError: As `invite`; or the invitation stands, and its file cannot be written.
    """
    given = None if patterns is None else [dict(pattern) for pattern in patterns]
    check_invitation(session, given)
    invitation = await invite(session.me.participant, name, given, reason=reason or None, timeout=timeout)
    if session.host is not None:
        file = session.host.token_file(invitation.participant)  # its gateway has written it
    else:
        folder = Path.cwd() / ".mew"
        place = folder / "tokens"
        file = write_token_file(place, session.space, invitation.participant, invitation.token)
        hide(folder)
    url = session.url or invitation.url or "URL"
    line = join_line(url, space=session.space, token_file=str(file))
    if mail is None:
        return line
    told = await _send(
        mail,
        inviter=session.me.name,
        participant=invitation.participant,
        space=session.space,
        url=url,
        reason=reason,
    )
    return f"{line}\n{told}"
