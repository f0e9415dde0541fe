"""What a gate remembers over a crash: a small private file that may be damaged, and never fails it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mew_lab.bridge import call_memory
from mew_lab.bridge.call_memory import CallMemory, RememberedCall

WAITS = RememberedCall("k1", "p1", "calc/add", True)
DONE = RememberedCall("k2", "p2", "calc/add", True, {"content": []})
REFUSED = RememberedCall("k3", "p3", "calc/add", True, None, "no")


def loaded(path: Path, max_age: float = 60.0) -> list[RememberedCall]:
    return [call._replace(at=0.0) for call in CallMemory(path).load(max_age=max_age)]


def test_what_was_put_is_there_after_a_crash_for_its_owner_alone(tmp_path: Path) -> None:
    path = tmp_path / "a" / "calls.json"
    assert loaded(path) == []
    memory = CallMemory(path)
    for call in (WAITS, DONE, REFUSED):
        memory.put(call)
    assert loaded(path) == [WAITS, DONE, REFUSED]
    assert (path.stat().st_mode & 0o777, path.parent.stat().st_mode & 0o777) == (0o600, 0o700)
    memory.drop("p2")
    memory.put(WAITS._replace(refusal="rejected"))
    assert loaded(path) == [WAITS._replace(refusal="rejected"), REFUSED]


def test_old_outcomes_are_forgotten_and_what_waited_is_not(tmp_path: Path) -> None:
    path = tmp_path / "calls.json"
    memory = CallMemory(path)
    for call in (WAITS, DONE, REFUSED):
        memory.put(call)
    assert loaded(path, max_age=0.0) == [WAITS]


def test_a_large_result_is_not_kept_but_told(tmp_path: Path) -> None:
    path = tmp_path / "calls.json"
    CallMemory(path).put(DONE._replace(result={"content": [{"text": "x" * call_memory.MAX_OUTCOME}]}))
    [call] = loaded(path)
    assert call.result is None and "too large to be kept" in call.refusal


@settings(max_examples=200, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.binary(max_size=200)
    | st.recursive(
        st.none() | st.booleans() | st.floats() | st.text(max_size=5),
        lambda inner: (
            st.lists(inner, max_size=4)
            | st.dictionaries(st.sampled_from([*RememberedCall._fields, "x"]), inner, max_size=8)
        ),
        max_leaves=20,
    ).map(lambda value: json.dumps(value).encode())
)
def test_a_file_of_any_content_is_read_without_a_fault_and_replaced(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "calls.json"
    path.write_bytes(content)
    memory = CallMemory(path)
    assert all(isinstance(call.what, str) for call in memory.load(max_age=60.0))
    memory.put(DONE)
    assert DONE in loaded(path)


def test_a_folder_that_cannot_be_written_is_told_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "file").write_text("")
    memory = CallMemory(tmp_path / "file" / "calls.json")
    memory.put(WAITS)
    memory.put(DONE)
    lines: list[Any] = [record for record in caplog.records if "cannot be written" in record.getMessage()]
    assert len(lines) == 1
