"""The workshop view: a person builds the tools of an agent file, writes their prompts, tests them and saves the file.

The browser sends named changes; the draft is here, and each change can be undone. What a person reads beside a
tool (its faults, the remarks about its prompt, the preview, the plan of the test form) is computed here, by the
functions that serve the agent. A test runs the draft as the file would be served; a second button runs it in the space
of the lab, where a person decides on each call that needs a permission.

`model` has the draft, `runner` the agent that runs for tests. The form of a test is ui/form.js.

Spec: tools-agent.md "UX/UI Requirements", TA-55 to TA-67.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Coroutine, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any, Protocol

from mew_lab.errors import MewError, ProtocolError
from mew_lab.lab.local_participants import LocalParticipants
from mew_lab.lab.session import Session
from mew_lab.protocol.content import pictures_of
from mew_lab.protocol.envelope import read_strict
from mew_lab.protocol.json_schema import Validator
from mew_lab.protocol.text import count_of
from mew_lab.protocol.visible import one_line, visible
from mew_lab.settings.documents import has_comments
from mew_lab.settings.faults import Fault, place
from mew_lab.tools_agent.agent_file import parse_agent, read_agent_document, save_agent_file, write_first_file
from mew_lab.tools_agent.definition import ToolDefinition
from mew_lab.tools_agent.executor import Execution
from mew_lab.tools_agent.schema import wire_schema
from mew_lab.views.tools.schema_form import FormField, plan
from mew_lab.views.ui.acts import ANEW, Act, ActingView, ActResult, Submit
from mew_lab.views.ui.pictures import picture
from mew_lab.views.workshop.model import (
    AgentDraft,
    definition_of,
    parameter_rows,
    preview,
    prompt_remarks,
    prompt_tokens,
    sample_arguments,
)
from mew_lab.views.workshop.runner import InteractiveRunner, ToolRunner

__all__ = ["WorkshopView", "view_of"]

MAX_SAMPLE = 200  # characters of a sample in an empty field
MAX_CELL = 4000  # characters of a result in the history
COMMENTS = "The comments of the file are not kept when it is saved here."
NOTHING_OPEN = "No agent file is open. Open one, or write a new one."


class WorkshopSession(Session, Protocol):
    """A session with the participants of this process, for tests in its space."""

    @property
    def local(self) -> LocalParticipants: ...


def view_of(session: WorkshopSession) -> WorkshopView:
    """Makes the view; `open_file` opens an agent file in it."""
    return WorkshopView(submit=session.loop.submit, local=session.local)


class WorkshopView(ActingView):
    """A workshop for one agent file at a time. Show it as often as you like: all views show the same draft."""

    part = "workshop"
    title = "workshop"
    interval = 0.1

    def __init__(self, *, submit: Submit, local: LocalParticipants, **settings: Any) -> None:
        self.file: Path | None = None
        self.draft = AgentDraft({})
        self._submit = submit
        self._local = local
        self._runner: ToolRunner | None = None
        self._interactive: InteractiveRunner | None = None
        self._how: Mapping[str, Any] = {}
        self._text = b""  # of the file when it was read or saved last
        self._has_comments = False  # in the file
        self._version = 0
        self._sent = -1  # the version that the views have; only the writer uses it
        super().__init__(submit=submit, **settings)
        self.on_close(self._close_runner)

    def open_file(self, file: str | Path, **how: Any) -> str:
        """Opens an agent file; returns a sentence. A file with faults is opened, too.

        Args:
            how: for tests: `model`, a Model or the name of one, `base_url` and `api_key`.

        Raises:
            ConfigError: there is no such file, or it is neither YAML nor JSON.
        """
        path = Path(file).expanduser().absolute()
        document, text = read_agent_document(path), path.read_bytes()
        self._close_runner()
        self.file, self.draft, self._how, self._text = path, AgentDraft(document), how, text
        self._has_comments = path.suffix.lower() != ".json" and has_comments(text.decode())
        self._note_change()
        loss = f" {COMMENTS}" if self._has_comments else ""
        return f"Opened {path.name} with {count_of(len(self.draft.tools), 'tool')}.{loss}"

    def save(self) -> str:
        """Writes the draft to its file; returns a sentence.

        Raises:
            MewError: nothing is open, or the file has changed meanwhile.
            ConfigError: the draft has faults; the file stays as it was.
        """
        path = self._require_file()
        if path.exists() and path.read_bytes() != self._text:
            raise MewError(
                f"{path.name} has changed since it was opened, so it was not saved; open it again, or save a copy"
            )
        try:
            save_agent_file(self.draft.document, path)
        except OSError as fault:
            raise MewError(f"{path.name} was not saved: {fault.strerror or fault}") from None
        self._text = path.read_bytes()
        self._has_comments = False
        self.draft.saved = self.draft.document
        self._note_change()
        return f"Saved {path.name}."

    def _require_file(self) -> Path:
        if self.file is None:
            raise MewError(NOTHING_OPEN)
        return self.file

    def _note_change(self) -> None:
        self._version += 1
        self.wake()

    def _close_runner(self) -> None:
        runner, self._runner, self._interactive = self._runner, None, None
        if runner is not None:
            try:
                self._submit(runner.close())
            except Exception as fault:  # without the loop nothing is left to close
                self.fault(fault)

    def badge(self) -> str:
        return "unsaved" if self.draft.changed else ""

    # Messages to the views.

    def _snapshot(self, start: int) -> dict[str, Any]:
        return self._pack()

    def _news(self) -> list[dict[str, Any]]:
        if self._version == self._sent:
            return []
        self._sent = self._version
        return [{"t": "draft"} | self._pack()]

    def _pack(self) -> dict[str, Any]:
        draft = self.draft
        faults = draft.faults() if self.file is not None else []
        return {
            "version": self._version,
            "file": one_line(str(self.file), 400) if self.file is not None else "",
            "name": one_line(self.file.name, 120) if self.file is not None else "",
            "changed": draft.changed,
            "notes": [COMMENTS] if self._has_comments else [],
            "undo": draft.undoable,
            "redo": draft.redoable,
            "faults": _pack_faults(faults),
            "tools": [row._asdict() for row in draft.rows(faults)],
        }

    # Requests of the views.

    def _acts(self) -> Mapping[str, Act]:
        return {
            "open": self._open,
            "new": self._new,
            "save": self.save,
            "undo": lambda: self._edited(self.draft.undo()),
            "redo": lambda: self._edited(self.draft.redo()),
            "tool": self._show_tool,
            "edit": self._edit,
            "preview": self._preview,
            "run": self._run,
            "stop": self._stop,
        }

    def _open(self, file: str) -> str:
        return self.open_file(file)

    def _show_tool(self, tool: int) -> ActResult:
        return ActResult("the tool", self._detail(tool))

    def _new(self, file: str) -> str:
        path = Path(file).expanduser()
        if not path.name:
            raise MewError("Name the new file, such as words.yaml.")
        try:
            write_first_file(path)
        except OSError as fault:
            raise MewError(f"{path.name} was not written: {fault.strerror or fault}") from None
        return self.open_file(path)

    def _edited(self, sentence: str) -> str:
        self._note_change()
        return sentence

    def _edit(
        self,
        op: str,
        tool: int,
        name: str = "",
        text: str = "",
        key: str = "",
        by: int = 0,
        on: bool = False,
        references: bool = False,
    ) -> ActResult:
        self._require_file()
        draft = self.draft
        edits: Mapping[str, Callable[[], str]] = {
            "add-tool": draft.add_tool,
            "copy-tool": lambda: draft.copy_tool(tool),
            "remove-tool": lambda: draft.remove_tool(tool),
            "text": lambda: draft.set_text(tool, key, text),
            "schema": lambda: draft.set_schema(tool, text, key=key),
            "add": lambda: draft.add_parameter(tool),
            "remove": lambda: draft.remove_parameter(tool, name),
            "move": lambda: draft.move_parameter(tool, name, by),
            "rename": lambda: draft.rename_parameter(tool, name, text, references=references),
            "type": lambda: draft.set_type(tool, name, text),
            "required": lambda: draft.set_required(tool, name, on),
            "keyword": lambda: draft.set_keyword(tool, name, key, text),
        }
        edit = edits.get(op)
        if edit is None:
            raise MewError(f"The view requested a change that this kernel does not know. {ANEW}")
        return ActResult(self._edited(edit()))

    def _detail(self, number: int) -> dict[str, Any]:
        """What the pane of one tool shows."""
        entry = self.draft.tool(number)
        tool = definition_of(entry)
        at = place("metadata.tools", number)
        faults = [fault for fault in self.draft.faults() if fault.key.startswith((f"{at}.", f"{at}["))]
        samples = sample_arguments(tool.parameters, made=False)
        return {
            "version": self._version,
            "number": number,
            "name": tool.name,
            "description": tool.description,
            "prompt": tool.prompt,
            "schema": json.dumps(entry.get("parameters", {}), ensure_ascii=False, indent=2),
            "output": ""
            if entry.get("outputSchema") is None
            else json.dumps(entry["outputSchema"], ensure_ascii=False, indent=2),
            "parameters": [row._asdict() for row in parameter_rows(tool.parameters)],
            "tokens": [list(token) for token in prompt_tokens(tool)],
            "remarks": [visible(remark) for remark in prompt_remarks(tool)],
            "faults": _pack_faults(faults, below=at),
            "plan": _plan_test(tool),
            "samples": json.dumps(samples, ensure_ascii=False),
            "preview": _lines(preview(tool, samples)),
        }

    def _preview(self, tool: int, text: str) -> ActResult:
        definition, arguments = definition_of(self.draft.tool(tool)), _arguments(text)
        violations = (
            Validator({"additionalProperties": False, **wire_schema(definition.parameters)})
            .validate(arguments)
            .violations
        )
        faults = [
            {
                "path": list(violation.path),
                "shown": [visible(str(part)) for part in violation.path],
                "said": visible(violation.message),
            }
            for violation in violations
        ]
        return ActResult("checked", {"preview": _lines(preview(definition, arguments)), "faults": faults})

    def _run(self, tool: int, text: str, interactive: bool = False) -> Coroutine[Any, Any, ActResult]:
        path = self._require_file()
        name = str(self.draft.tool(tool).get("name"))
        arguments = _arguments(text)
        model = self._how.get("model")
        agent = parse_agent(self.draft.document, source=path.name).with_model(
            model if isinstance(model, str) else None
        )
        runner, began = self._runner_of(path, interactive=interactive), self.clock()

        async def run() -> ActResult:
            execution = await runner.run(agent, name, arguments)
            return ActResult(
                "The test failed." if execution.is_error else "The test is done.", _pack_run(execution, began)
            )

        return run()

    def _runner_of(self, path: Path, *, interactive: bool) -> ToolRunner | InteractiveRunner:
        model = self._how.get("model")
        how = {**self._how, "model": None if isinstance(model, str) else model}
        if interactive:
            self._interactive = self._interactive or InteractiveRunner(self._local, path, **how)
            return self._interactive
        self._runner = self._runner or ToolRunner(path.parent, **how)
        return self._runner

    async def _stop(self) -> str:
        runners = [runner for runner in (self._runner, self._interactive) if runner is not None]
        for runner in runners:
            await runner.stop()
        return "Stopped." if runners else "Nothing runs."

    # Saved pictures.

    def _static_text(self) -> str:
        if self.file is None:
            return "Workshop: no agent file is open"
        state = ", unsaved changes" if self.draft.changed else ""
        return f"Workshop: {one_line(self.file.name, 120)}, {count_of(len(self.draft.tools), 'tool')}{state}"

    def _static_html(self) -> str:
        faults = self.draft.faults() if self.file is not None else []
        rows = [
            (
                row.name,
                "\n".join(
                    f"{name}: {kind}{' (required)' if needed else ''}"
                    for name, kind, needed in row.parameters
                )
                or "none",
                row.description,
                row.prompt,
            )
            for row in self.draft.rows(faults)
        ]
        notes = [str(fault) for fault in faults] or ([] if self.file else [NOTHING_OPEN])
        columns = ("tool", "parameters", "description", "prompt")
        return picture(self._static_text(), columns, rows, notes=notes, code=("tool", "parameters"))


def _pack_run(execution: Execution, began: datetime) -> dict[str, Any]:
    usage = execution.usage
    stats = [
        f"{1000 * execution.seconds:.0f} ms",
        count_of(len(execution.turns), "text"),
        "" if usage is None else f"{count_of(usage.input_tokens, 'token')} in, {usage.output_tokens} out",
        one_line(execution.model, 120),
    ]
    return {
        "id": f"test-{execution.tool}-{began:%Y%m%dT%H%M%S}",
        "error": execution.is_error,
        "text": _lines(execution.text),
        "prompt": _lines(execution.prompt),
        "turns": [_lines(turn) for turn in execution.turns],
        "stats": [part for part in stats if part],
        "context": one_line(execution.context, 80),
        "calls": [
            {
                "tool": one_line(record.call.name, 120),
                "arguments": one_line(json.dumps(dict(record.call.arguments), ensure_ascii=False), MAX_CELL),
                "ms": round(1000 * record.seconds),
                "answer": _lines(record.observation[:MAX_CELL]),
                "id": one_line(record.id, 80),
                "pictures": [block._asdict() for block in pictures],
            }
            for record, pictures in zip(execution.calls, pictures_of(execution.results), strict=True)
        ],
    }


def _plan_test(tool: ToolDefinition) -> FormField:
    """The form of a test. A field without a value shows a sample, which is not sent."""
    form = plan(wire_schema(tool.parameters))
    samples = sample_arguments(tool.parameters)
    for field in form.get("members", ()):
        sample = samples.get(field["key"])
        if isinstance(sample, str | int | float):
            text = sample if isinstance(sample, str) else json.dumps(sample)
            field["sample"] = f"such as {one_line(text, MAX_SAMPLE)}"
    return form


def _pack_faults(faults: list[Fault], *, below: str = "") -> list[list[str]]:
    shown = [(fault.key.removeprefix(below).lstrip("."), fault.problem) for fault in faults]
    return [[one_line(key, 200), one_line(problem, 400)] for key, problem in shown]


def _lines(text: str) -> str:
    return "\n".join(map(visible, text[:20_000].split("\n")))


def _arguments(text: str) -> dict[str, Any]:
    try:
        return dict(read_strict(text or "{}"))
    except ProtocolError as fault:
        raise MewError(f"The arguments cannot be read: {fault}") from None
