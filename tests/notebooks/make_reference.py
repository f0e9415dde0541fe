"""Writes the page of the reference that lists the frames of a log, from the table of their columns.

python tests/notebooks/make_reference.py
"""

from __future__ import annotations

from pathlib import Path

import nbformat

from mew_lab.log.frame_columns import FRAMES, describe_frames

PAGE = Path(__file__).resolve().parents[2] / "notebooks" / "reference" / "log.ipynb"
INTRO = """# The log

`lab.log`, or `mew_lab.open_log(path)` for a file or a folder. `log.df` has a row for each message.

| you want | you write |
|---|---|
| the messages that pass a filter | `log.filter('kind ~ "mcp/*" and latency > 2s').df` |
| the messages of a file as a table to look through | `log.view.feed` |
| the whole exchange of a message, as a tree or a diagram | `log.follow("id")`, `log.follow("id").text` |
| the state of the space at one place | `log.at(34)`; with a slider, `log.view.moments` |
| a new space that goes on from there | `mew_lab.up(resume=log.at(34))` |
| faults and oddities, each with its requirement | `log.diagnose()`, `log.diagnose("warn").df` |
| why one message was allowed or refused | `log.audit("id")` |
| whether each executed request was decided, in an unbroken journal | `log.verify()` |
| what other permissions would have allowed or denied | `log.what_if(capabilities={"bot": "tool"})`, `more=`, `grants=`; its lists are of `patterns` |
| what was decided on calls like one | `log.history_of("id")`: on equal calls, and on those of the same participant, target, tool and names of arguments |
| rules that the decisions of a person suggest | `log.learn_rules()`, `mew-lab rules`; nothing acts by them |
| what a rule would have decided | `rule.backtest(log)`, `log.what_if(rules=["When coder asks files to run read_file with path below docs/, and nothing else: approve"])`, `rules="learned"` |
| a chart | `log.charts.rate()`, `latency()`, `decisions()`, `tokens()`, `usage()`, `cost()`, `talk()`, `rules()` |
| some messages as text for elsewhere | `log.filter("…").to_markdown()`, `to_jsonl()`, `to_mermaid()`, `to_python()` |
| a page for a colleague | `log.report("x.html", filter="…", redact=["DE00 1234"], redact_where='kind == "chat"')`, `mew-lab report` |
| all of it in a file | `log.save("x.jsonl")`, `log.to_parquet("x.parquet")`, `log.export_otlp("x.otlp.json")` |
| the messages between an MCP client and its server | `mew-lab tap -- COMMAND`, then `open_log` |
| what a coding agent did | `open_log` of its session, or `mew-lab open --latest claude` (or `codex`) in its folder |
| the tool calls of a coding agent, with their seconds and failures | `log.tool_calls()` |

A *record* is a line of the log: a message with what the gateway said of it, or an event such as a join. A *receipt* says who
decided a request, when and how, and what was shown to them. A log is *seen as* a gateway, which sees all, or as a
participant, which sees what it received; one of another gateway has a past as far as its messages tell it, and `log.at` says
`unknown` elsewhere.

The session of Claude Code (with its sub-agents) and a rollout of Codex are logs that the agent itself recorded: calls go to
`tools` or to an MCP server, denials and answers that the file has are decisions, and what let any other call pass is not
known. Lines that are no messages are events; each record has the exact line in `received`.

OTLP-JSON of other programs with `gen_ai.*` spans and evaluation logs of inspect_ai (`.json`, `.eval`) are such logs, too. The
journal of a space tells the tool calls of an ACP agent in its reasoning; `log.tool_calls()` has them in the same columns.
Tokens and cost are in `log.frame("telemetry")` where they are recorded; nothing is computed from prices.

A *rule* is a sentence: who asks whom to run which tool with which arguments, and nothing else. It is suggested by what a
person decided in this log by a click or by typing, with a receipt here; what a script, a policy, a rule or an agent decided
teaches nothing (`log.decisions()["teaches"]`, `teaches_not`). Its evidence reads "12 of 12, wrong in at most 23 %": the exact
one-sided bound at 95 %. A log of files that does not verify teaches only with `unverified=True`.

A report calls everybody by name. Likely secrets are masked and counted in whatever leaves a log, but for `log.save`, which is a
whole copy; `secrets="keep"` leaves them, as MEW_LAB_SECRETS=keep does for the outputs of a notebook. A copy with masks verifies
nothing, and says so. A form that is not known is not found. A redacted value is replaced wherever it stands, in the spelling of JSON too; encoded
otherwise, as in Base64, it is not found. Read the page before you pass it on.

The frames say what became of the messages. `log.requests()` and the others are read in one pass; `print(log.frames)` lists
them, and `print(log.frames["requests"])` shows the columns of one. `log.frame(name, columns)` takes columns of your own.
`int64` and `bool` columns always have a value; `Int64`, `boolean`, numbers and times are missing where it is not known.
`object` columns hold text, `""` where there is none, or tuples. A log that was saved by a participant carries
`frame.attrs["unseen"]`: what it cannot show. A wide frame displays five of its columns; `frame.to_string()` prints all."""


def page() -> str:
    """The page as the text of its file."""
    parts = [INTRO, *describe_frames().split("\n\n**")]
    texts = [parts[0], parts[1], *(f"**{part}" for part in parts[2:])]
    book = nbformat.v4.new_notebook(cells=[nbformat.v4.new_markdown_cell(text) for text in texts])
    for n, cell in enumerate(book.cells, 1):
        cell["id"] = f"log-{n:02}"
    book.metadata = {
        "kernelspec": {"display_name": "Python 3 (ipykernel)", "language": "python", "name": "python3"},
        "language_info": {"name": "python"},
    }
    assert len(book.cells) == len(FRAMES) + 1
    return str(nbformat.writes(book)) + "\n"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
