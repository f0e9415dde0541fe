"""Rows of the specification that are not done, and what mew_lab adds to it: by which ruling, and what happens. Data only.

A MUST is among them only where it is done but for one thing, or where a ruling decides it the other way. Each is
pinned by a passing test that carries `@pytest.mark.divergence` with its row, or `@pytest.mark.extension` with its name;
whoever does what the row says deletes the record.
"""

from __future__ import annotations

from typing import NamedTuple


class Divergence(NamedTuple):
    """One row that is not done. `ruling` is the ruling, or the other row, that decides it, `note` what happens instead.

    `but` says that the row is done but for what the note says.
    """

    row: str
    ruling: str
    note: str
    but: bool = False


class Extension(NamedTuple):
    """What a peer that knows only the specification does not expect. `note` says what it meets, and why nothing breaks."""

    name: str
    ruling: str
    note: str


DIVERGENCES = (
    Divergence(
        "P-3.4.1-3",
        "R1",
        "acknowledgements are broadcast like everything else: all members see one stream, and a UI may fold them",
    ),
    Divergence(
        "P-3.6.5-6",
        "R15",
        "the gateway sends no mail and shows the address to nobody; `lab.invite(mail=ADDRESS)` mails the line that joins, "
        "without the token, by its user's own command, and the token goes its own way",
    ),
    Divergence(
        "P-3.9.4-6",
        "R1",
        "status is broadcast like everything else; what limits noise is the rate of each participant (R21)",
    ),
    Divergence(
        "P-5.4-2",
        "R1",
        "a violation is told to the violator alone: its text is nobody's but the sender's, and the journal keeps it",
    ),
    Divergence(
        "P-7.3-5",
        "R1",
        "violations are tracked in the journal, with text, code and the nearest capability, and not broadcast",
    ),
    Divergence(
        "P4-3.8.1-1",
        "R16",
        "the welcome always lists active_streams, empty where there are none: the newer text asks for it",
    ),
    Divergence(
        "P-3.3.2-4",
        "R17",
        "nothing rejects by itself: a proposal is addressed to whose tool it is, and others fulfil it; the proposer's "
        "own timeout ends its waiting, by a withdraw",
    ),
    Divergence(
        "S-L3-5",
        "R3",
        "ids may hold underscores, as peers in the field have them; names of tools that would then read the same are "
        "told apart by a suffix",
    ),
    Divergence(
        "P-8.1-9",
        "R22",
        "an integer outside -2^63 to 2^64-1, or a number beyond a double, is refused with invalid_number: readers of JSON "
        "take it differently",
        but=True,
    ),
    Divergence(
        "S-CH-3",
        "threat 42",
        "a participant that an agent does not obey (by default one that may not call any tool itself) is told so once, "
        "however often it addresses the agent; its words are information for the model and get no answer",
        but=True,
    ),
    Divergence(
        "P-9.4-2",
        "threat 22",
        "what learns is a program of yours, by the decisions that it observes; a lab offers the pattern of an approved call "
        "with what it would have matched, and makes no rule by itself, and no model is given a decision",
        but=True,
    ),
    Divergence(
        "P-5.1-2",
        "R8",
        "a space is always private: a token opens it, and nothing else; a restricted one is a profile of each participant "
        "or `defaults.capabilities`, and a public one is a token that its owner gives to everybody",
        but=True,
    ),
    Divergence(
        "S-L1-1",
        "S-CF-2",
        "in Python options are keywords in snake_case, and an object or another spelling is refused with the right one; "
        "files and the environment take both spellings",
        but=True,
    ),
    Divergence(
        "S-L2-4",
        "P-3.9.1-2",
        "a time is given by name and in seconds, `timeout=5.0`, as the times of the protocol are; a number at its place "
        "is refused with a sentence that says so, because milliseconds would be read as seconds",
        but=True,
    ),
    Divergence(
        "S-L1-15",
        "S-L1-19",
        "the delays grow by steps, 5, 10 and 15 s, as the same chapter writes them out, and do not double",
    ),
)

EXTENSIONS = (
    Extension(
        "invalid_number",
        "R22",
        "such a number is refused with this code; a peer reads it as any refusal for the shape",
    ),
    Extension(
        "slowed_reading",
        "R23",
        "a WebSocket above its rate is read later; a peer meets the back-pressure of its own socket, and no error",
    ),
    Extension(
        "budgets",
        "R24",
        "what costs too much to judge is refused with limit_exceeded, and so is a right that would make it so; a peer "
        "meets the code that it meets for other limits",
    ),
    Extension(
        "grant_ends",
        "R25",
        "a capability/grant may carry expires_at and max_uses; a gateway that ignores them lets the grant stand, and a "
        "peer meets the end as it meets a revoke; a right of some uses upholds (R13) only what costs these uses",
    ),
    Extension(
        "names_in_payloads",
        "R26",
        "patterns over participants in payloads are matched with the participant that an id means; only a holder of "
        "several ids can tell the difference",
    ),
    Extension(
        "answered_sinks",
        "R28",
        "a participant whose only connection is its output_log is answered there, with the token of an invitation",
    ),
    Extension(
        "decision_notes",
        "R29",
        "who or what decided a proposal stands as a note in the journal, beside the wire; no peer meets it",
    ),
    Extension(
        "journal_limits",
        "R31",
        "above its share of the journal a participant is refused with limit_exceeded, and everybody with "
        "journal_unavailable where the disk is nearly full",
    ),
    Extension(
        "one_fulfilment",
        "R32",
        "an executor executes one request of a proposal and answers the others with an error, already_fulfilled or "
        "proposal_not_seen; a peer reads it as any error of a tool, and after the answer of the executed one",
    ),
    Extension(
        "resilient_proposals",
        "R32",
        "a proposal whose proposer goes on waiting after a rejection carries x-resilient: true; others ignore it, and the "
        "proposal stands after a rejection by the specification too",
    ),
    Extension(
        "outcome_unknown",
        "R35",
        "an executor that lost a call, or would repeat a lost one by its sender's own right, answers with an error "
        "outcome_unknown; a peer reads it as any error, and may propose the call",
    ),
    Extension(
        "path_globs",
        "R33",
        "a wildcard in a pattern over paths matches no '..' and nothing else that could lead elsewhere, so such a call is "
        "refused here that other gateways allow; a pattern that spells it out permits it",
    ),
    Extension(
        "closed_capabilities",
        "R34",
        "a capability with x-closed permits no arguments beside those that it names; gateways that ignore it allow them, "
        "and mew_lab sends none to such a gateway",
    ),
    Extension(
        "welcome_extension",
        "R34",
        "each welcome has a member x-mew-lab, which says what this gateway does beyond the specification; others ignore it",
    ),
    Extension(
        "notes",
        "R42",
        "a participant may post a receipt or what became of a call to /participants/{id}/notes; no message tells of it, and "
        "an executor asks there what was reported of a call to it; others never need it",
    ),
    Extension(
        "own_messages",
        "R36",
        "everybody may withdraw its own proposal and cancel its own chat message (§4.1), with a reason of 64 characters; "
        "a peer that may not send them never does",
    ),
    Extension(
        "kept_results",
        "R43",
        "everybody may ask one participant for a mew-result:// resource (§4.1); a result that no message can hold is answered "
        "with a valid result of the same method that names it in a sentence, a link and its _meta",
    ),
    Extension(
        "permission_options",
        "R41",
        "a request that approves the permission of an agent adds the argument option, an id of the proposed list; a peer reads "
        "it as an approval with changed arguments, and may answer such a permission itself in the same way",
    ),
    Extension(
        "journal_head",
        "R20",
        "the owner's welcome carries journal_head, the last hash of the journal; others, and other gateways, ignore it",
    ),
    Extension(
        "client_status",
        "R17",
        "the status of a gate for MCP clients carries x-calls, which names its proposals whose clients have cancelled them "
        "or are gone; others ignore it, and meet the withdrawal that follows",
    ),
)
