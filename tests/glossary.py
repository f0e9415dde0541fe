"""The words of mew_lab: one word for one thing, wherever a person reads it, and the rivals that are not used for it.

A newcomer can read this page first: eight words name all that a space is made of, and three more its log. `test_glossary.py` reads every
sentence of the rooms in `PARTS`, and the prose of `DOCUMENTS`, and fails on a rival. The specification and the code may say it in other words: a
`capability` is the JSON of a permission, a `fulfilment` the request by which an approval is sent, and an `envelope` the
JSON of a message. Only the sentences on a screen are held to this page. What the gateway
writes on the wire and in the journal keeps the specification's word; `mew_lab.protocol.describe.reword_refusal` says it
in the words of this page wherever a view, the lab or an error shows it (`ON_THE_WIRE` lists these sentences).
"""

from __future__ import annotations

from typing import NamedTuple


class Term(NamedTuple):
    """A word, what it means, and a pattern of its rivals; the pattern ignores case and takes whole words."""

    word: str
    meaning: str
    rivals: str = ""


TERMS = (
    Term(
        "space", "A place where participants exchange messages; one gateway runs it.", "chat ?room|workspace"
    ),
    Term("participant", "A person, an agent or a program in a space.", "members?|attendees?"),
    Term("message", "What a participant sends to others, or to all.", "envelopes?"),
    Term("request", "A message that calls a tool, or asks for something else that a participant offers."),
    Term("proposal", "A request that its sender may not send itself: somebody has to approve it first."),
    Term(
        "approve",
        "To send a proposed request as yourself.",
        "fulfil(?:s|led|ling|ment|ments|lment)?|fulfill(?:s|ed)?",
    ),
    Term("reject", "To refuse a proposal, with a reason.", "decline[sd]?|turn(?:s|ed)? down"),
    Term(
        "permission",
        "A pattern of the messages that a participant may send. It is allowed, and it is revoked.",
        "capabilit(?:y|ies)(?!/)|privileges?|entitlements?|(?:a|an|the|this|your|last|no) grants?",
    ),
    Term(
        "record", "A line of the log: a message with what the gateway said of it, or an event such as a join."
    ),
    Term("receipt", "What says who decided a request, when and how, and what was shown to them."),
    Term("seen as", "Who wrote a log: a gateway sees all, a participant what it received.", "vantages?"),
)

# The rooms whose sentences a person reads on a screen.
PARTS = (
    "lab",
    "notebook",
    "cli",
    "views/approvals",
    "views/chat",
    "views/feed",
    "views/grants",
    "views/panel",
    "views/reasoning",
    "views/roster",
    "views/rules",
    "views/streams",
    "views/timeline",
    "views/tools",
    "views/ui",
)

# Sentences of the gateway in the specification's word, and as a person reads them.
ON_THE_WIRE = {
    "Participant bot lacks capability for mcp/request": "Participant bot has no permission for mcp/request",
    "no capability is held": "no permission is held",
    'no capability for kind "chat"; held are "mcp/*"': 'no permission for kind "chat"; held are "mcp/*"',
    "a capability needs a kind, such as 'chat' or 'mcp/*'": "a permission needs a kind, such as 'chat' or 'mcp/*'",
    "a capability is an object with a kind, not a list": "a permission is an object with a kind, not a list",
    "the payload of a capability is an object of patterns": "the payload of a permission is an object of patterns",
    "capability/grant: a capability has no key 'x'": "capability/grant: a permission has no key 'x'",
    "2 held capabilities allow some of it": "2 held permissions allow some of it",
    "the capabilities of all participants would have 9 bytes": "the permissions of all participants would have 9 bytes",
    "a capability of 9 bytes; every welcome repeats it": "a permission of 9 bytes; every welcome repeats it",
}

# What a person reads beside the screen. Code in it, within backticks or a fence, is left out.
DOCUMENTS = ("README.md", ".github/CONTRIBUTING.md", ".github/SECURITY.md", "notebooks/**/*.ipynb")

# Sentences that have to say a rival: a part of the text, and the reason.
EXCEPTIONS: dict[str, str] = {
    "capability-decisions.jsonl": "the name of a file of the TypeScript gateway",
    "the member jsonrpc is": "a member of a JSON object",
    "Add a member": "a member of a JSON object, in the form of a tool",
    "Name of another member": "a member of a JSON object, in the form of a tool",
    "Remove a member": "a member of a JSON object, in the form of a tool",
    "{} members": "members of a JSON object, as its schema limits them",
    "more members are not shown": "members of a JSON object, in the form of a tool",
    "object, variants or json": "a description for developers",
    "the name of a member": "a member of a JSON object that is typed in",
    "between two members of an object": "members of a JSON object that is typed in",
    "no envelope with a kind": "the JSON of a message is meant",
    "envelope %d was left out": "a line of the log for developers, not on a screen",
}
