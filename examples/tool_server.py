"""A program offers typed functions to a space as tools: the same functions as an MCP server would have.

Arguments are checked against the annotations before a function runs. What a notebook shows, such as a figure or a
DataFrame, may be returned as well.
"""

from typing import Literal

import mew_lab

lab = mew_lab.up("example", journal=None)
garden = lab.join("garden", can="tool")


@lab.tool(seat=garden, annotations={"readOnlyHint": True})
def moisture(bed: Literal["north", "south"]) -> float:
    """How moist a bed is, from 0 to 1."""
    return {"north": 0.21, "south": 0.64}[bed]


@lab.tool(seat=garden)
async def plant(bed: Literal["north", "south"], seeds: list[str]) -> str:
    """Plants seeds in a bed."""
    return f"{' and '.join(seeds)} planted in {bed}"


print(lab.tools("garden"))
print(lab.call("garden/moisture", {"bed": "north"}).result(timeout=30))
print(lab.call("garden/plant", {"bed": "south", "seeds": ["peas", "beans"]}).result(timeout=30))
try:
    lab.call("garden/moisture", {"bed": "roof"}).result(timeout=30)
except mew_lab.errors.MewError as fault:
    print(fault)
lab.down()
