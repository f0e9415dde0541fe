"""An agent answers a question with the tools of the space; what it may not do, it proposes.

The model is the built-in one, which follows rules and needs no network. `model="gpt-…"` with OPENAI_API_KEY, or
`base_url=` of any server of the chat completions API, takes its place.
"""

from typing import Literal

import mew_lab

lab = mew_lab.up("example", journal=None)


@lab.tool(seat=lab.join("garden", can="tool"))
def moisture(bed: Literal["north", "south"]) -> str:
    """How moist a bed of the garden is."""
    return f"the {bed} bed is dry"


lab.agent("helper")
question = lab.ask("helper", "how moist is the north bed?")
lab.decide = mew_lab.Policy.approve()  # stands for you; in a notebook the call of the agent is a card
print(question.result(timeout=60))
print(lab.log.requests()[["from", "to", "tool", "proposals"]].dropna().tail(1).to_string(index=False))
lab.down()
