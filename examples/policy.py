"""A policy of your own decides some proposals, and leaves the others to a person.

Each decision names the policy in the journal, with its source. A policy never decides what a participant has rejected,
nor a repeat of a call of unknown outcome.
"""

import json

import mew_lab
from mew_lab.lab.decisions.policies import Decision

LEAST, MOST = 1, 20


def judge(card):
    """Approves small amounts of water, rejects large ones, and leaves all other calls open."""
    if card.tool != "water":
        return None
    values = {name: json.loads(value) for name, value in card.arguments}
    litres = values["/payload/params/arguments/litres"]
    return Decision("approve") if LEAST <= litres <= MOST else Decision("reject", f"at most {MOST} litres")


lab = mew_lab.up("example", journal=None)
lab.decide = mew_lab.Policy("small amounts", judge)


@lab.tool(seat=lab.join("garden", can="tool"))
def water(bed: str, litres: int) -> str:
    """Waters a bed."""
    return f"{bed} got {litres} litres"


helper = lab.join("helper", can="proposer")
for litres in (10, 500):
    try:
        print(helper.call("garden/water", {"bed": "north", "litres": litres}).result(timeout=30))
    except mew_lab.errors.MewError as fault:
        print(fault)
print(lab.log.decisions()[["tool", "executed", "decided_by", "policy", "reason"]].to_string(index=False))
lab.down()
