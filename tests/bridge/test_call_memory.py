"""What a gate remembers over a crash: small private files that may be damaged, and never fail it."""

from __future__ import annotations

import json
import os
import re
import shutil
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mew_lab.bridge import call_memory
from mew_lab.bridge.call_memory import CallMemory, RememberedCall

from ..waiting import eventually

KEYS = ["a" * 64, "b" * 64, "c" * 64]
WAITS = RememberedCall(KEYS[0], "p1", "calc/add", True)
DONE = RememberedCall(KEYS[1], "p2", "calc/add", True, {"content": []})
REFUSED = RememberedCall(KEYS[2], "p3", "calc/add", True, None, "no")
KB = 1024


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "a" / "calls.json"


def loaded(path: Path, max_age: float = 60.0) -> list[RememberedCall]:
    memory = CallMemory(path)
    calls = [call._replace(at=0.0) for call in memory.load(max_age=max_age)]
    memory.close()
    return calls


def put(path: Path, *calls: RememberedCall) -> None:
    """Remembers calls as a gate does: first that each waits, then its outcome. Then the gate is gone."""
    memory = CallMemory(path)
    for call in calls:
        memory.put(call._replace(result=None, refusal=""))
        if not call.waits:
            memory.put(call)
    memory.close()


def await_outcome(path: Path, id: str) -> None:
    """Waits until one of the indexes has it that a call has ended."""
    line = re.compile(f'"id":"{id}".*"state":"ended"')
    eventually(lambda: any(line.search(file.read_text()) for file in path.parent.glob("calls*.json")))


def test_what_was_put_is_there_after_a_crash_for_its_owner_alone(path: Path) -> None:
    assert loaded(path) == []
    put(path, WAITS, DONE, REFUSED)
    assert sorted(loaded(path)) == [WAITS, DONE, REFUSED]
    files = [file for file in path.parent.rglob("*") if file.is_file()]
    folders = [path.parent, *(file for file in path.parent.rglob("*") if file.is_dir())]
    assert {file.stat().st_mode & 0o777 for file in files} == {0o600} and len(files) == 3
    assert {folder.stat().st_mode & 0o777 for folder in folders} == {0o700}
    memory = CallMemory(path)
    memory.load(max_age=60.0)
    memory.drop("p2")
    memory.close()
    assert sorted(loaded(path)) == [WAITS, REFUSED]
    assert len([file for file in path.parent.rglob("*") if file.is_file()]) == 2


def test_a_closed_memory_writes_nothing_and_leaves_its_place_to_others(path: Path) -> None:
    memory = CallMemory(path)
    memory.load(max_age=60.0)
    for call in (WAITS, DONE):
        memory.put(call._replace(result=None, refusal=""))
    memory.put(DONE)
    memory.close()
    before = {file: file.read_bytes() for file in path.parent.rglob("*") if file.is_file()}
    memory.drop(DONE.id)
    memory.settle(WAITS.id)
    memory.put(REFUSED._replace(refusal=""))
    memory.put(REFUSED)
    memory.note_unknown(WAITS.id)
    memory.drop(WAITS.id)
    memory.close()
    assert {file: file.read_bytes() for file in path.parent.rglob("*") if file.is_file()} == before
    other = CallMemory(path)
    assert other.find_holder() == "" and sorted(loaded(path)) == [WAITS, DONE]


def test_a_memory_of_many_unknown_calls_holds_no_more_than_the_newest(path: Path) -> None:
    memory = CallMemory(path)
    memory.load(max_age=60.0)
    for n in range(2 * call_memory.MAX_CALLS):
        call = RememberedCall(f"{n:064x}", f"call-{n}", "calc/add", True)
        memory.put(call)
        memory.note_unknown(call.id)
        memory.drop(call.id)
    sizes = {name: len(held) for name, held in vars(memory).items() if hasattr(held, "__len__")}
    assert max(sizes.values()) <= call_memory.MAX_CALLS, sizes
    assert memory.find_unknown(call.key) is not None
    memory.close()


def test_a_call_that_was_settled_is_no_unknown_one_and_its_outcome_can_be_kept(path: Path) -> None:
    memory = CallMemory(path)
    memory.load(max_age=60.0)
    for call in (WAITS, DONE):
        memory.put(call._replace(result=None, refusal=""))
        memory.note_unknown(call.id)
    memory.drop(WAITS.id)  # its client was told
    for call in (WAITS, DONE):
        assert memory.find_unknown(call.key) is not None
        memory.settle(call.id)
        assert memory.find_unknown(call.key) is None
    memory.put(DONE)
    memory.close()
    assert loaded(path) == [DONE]


def test_old_outcomes_are_forgotten_and_what_waited_is_not(path: Path) -> None:
    put(path, WAITS, DONE, REFUSED)
    assert loaded(path, max_age=0.0) == [WAITS]


@pytest.mark.parametrize(
    "result, why",
    [
        ({"content": [{"text": "x" * call_memory.MAX_OUTCOME}]}, "too large to be kept"),
        ({"content": [float("nan")]}, "could not be kept"),
        ({"content": ["\ud800"]}, "could not be kept"),
    ],
)
def test_a_result_that_cannot_be_kept_is_told(path: Path, result: Any, why: str) -> None:
    put(path, DONE._replace(result=result))
    [call] = loaded(path)
    assert call.result is None and why in call.refusal


TEXTS = st.text(st.characters(), max_size=40) | st.just("\ud800" * 300) | st.just('é"\\' * 300)
CALLS = st.builds(
    RememberedCall,
    key=st.sampled_from(KEYS),
    id=st.text(st.characters(), min_size=1, max_size=256),
    what=TEXTS,
    is_tool=st.booleans(),
    result=st.none()
    | st.recursive(
        st.booleans() | st.integers() | st.floats() | TEXTS,
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
        max_leaves=8,
    ).map(lambda value: {"content": [value]})
    | st.sampled_from([100 * KB, 250 * KB, 900 * KB]).map(lambda size: {"content": ["x" * size]}),
    refusal=TEXTS,
)


@pytest.mark.threat(27)
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.lists(
        st.tuples(CALLS, st.sampled_from(["waits", "ended", "dropped"])),
        max_size=12,
        unique_by=lambda drawn: drawn[0].id,
    )
)
def test_what_is_written_can_be_read_always(
    tmp_path_factory: pytest.TempPathFactory, calls: list[tuple[RememberedCall, str]]
) -> None:
    path = tmp_path_factory.mktemp("memory") / "a" / "calls.json"
    memory, states = CallMemory(path), {}
    for call, state in calls:
        memory.put(call._replace(result=None, refusal=""))
        states[call.id] = "waits"
        if state != "waits" and not call.waits:
            memory.put(call)
            states[call.id] = "ended"
        if state == "dropped":
            memory.drop(call.id)
            del states[call.id]
    memory.close()
    again = {call.id: "waits" if call.waits else "ended" for call in loaded(path)}
    assert again == states


@pytest.mark.threat(27)
def test_outcomes_of_any_number_and_size_leave_the_waiting_calls_readable(path: Path) -> None:
    large = {"content": ["x" * 250_000]}
    ended = [DONE._replace(id=f"e{n}", what="é" * 400, result=large) for n in range(120)]
    waiting = [WAITS._replace(id=f"w{n}", what="\u202e" * 400) for n in range(200)]
    put(path, *ended, *waiting)
    assert path.stat().st_size <= call_memory.MAX_FILE
    outcomes = sum(file.stat().st_size for file in path.parent.rglob("*/*.json"))
    assert 0 < outcomes <= call_memory.MAX_OUTCOMES
    calls = {call.id: call for call in loaded(path)}
    assert all(calls[call.id].waits for call in waiting)
    assert all(not calls[call.id].waits for call in ended)
    kept = [call for call in calls.values() if call.result is not None]
    assert kept and {call.id for call in kept} == {f"e{n}" for n in range(120 - len(kept), 120)}


def test_a_small_call_costs_the_loop_the_same_beside_many_large_outcomes(tmp_path: Path) -> None:
    def cost(memory: CallMemory) -> float:
        times = []
        for n in range(15):
            begin = time.thread_time()
            memory.put(WAITS._replace(id=f"s{n}"))
            times.append(time.thread_time() - begin)
        return sorted(times)[7]

    alone = CallMemory(tmp_path / "a" / "calls.json")
    beside = CallMemory(tmp_path / "b" / "calls.json")
    for n in range(60):
        call = DONE._replace(id=f"e{n}", result={"content": ["x" * 250_000]})
        alone.put(call._replace(result=None))
        beside.put(call._replace(result=None))
        beside.put(call)
    beside.close()
    assert cost(beside) < 3 * cost(alone) + 0.001
    alone.close()


def test_an_outcome_is_written_by_another_thread_than_that_of_the_loop(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    threads = {}
    replace = call_memory.replace_small

    def note(root: Path, name: str, data: bytes) -> None:
        threads[len(data) > 100_000] = threading.current_thread()
        replace(root, name, data)

    monkeypatch.setattr(call_memory, "replace_small", note)
    put(tmp_path / "a" / "calls.json", DONE._replace(result={"content": ["x" * 200_000]}))
    assert threads[True] is not threading.current_thread()


@pytest.mark.ruling("R35")
def test_what_an_earlier_process_left_waiting_stays_unknown_after_its_client_was_told(path: Path) -> None:
    put(path, WAITS)
    for _ in range(2):  # its client was told by the first process, and asks a later one
        memory = CallMemory(path)
        memory.load(max_age=60.0)
        memory.put(WAITS._replace(refusal="it is not known"))
        found = memory.find_unknown(KEYS[0])
        assert found is not None and found.id == "p1" and memory.find_unknown(KEYS[1]) is None
        memory.drop("p1")
        assert memory.find_unknown(KEYS[0]) is not None
        memory.close()
        assert loaded(path) == []


def test_a_damaged_index_is_told_with_the_calls_that_it_held(
    path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    put(path, WAITS, WAITS._replace(id="p4", key=KEYS[1]), WAITS._replace(id="p5", key=KEYS[2]))
    first, second, third = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(first[:-20] + second + b"\0\xff{garbage\n" + third)
    calls = loaded(path)
    assert {call.id for call in calls} == {"p1", "p4", "p5"} and all(call.waits for call in calls)
    [line] = [record.getMessage() for record in caplog.records]
    assert (
        "it is damaged. It held calc/add (p1), calc/add (p4): whether these were executed is not known"
        in line
    )


@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.binary(max_size=200)
    | st.recursive(
        st.none() | st.booleans() | st.floats() | st.text(max_size=5),
        lambda inner: (
            st.lists(inner, max_size=4)
            | st.dictionaries(
                st.sampled_from(["key", "id", "what", "is_tool", "at", "state", "x"]), inner, max_size=8
            )
        ),
        max_leaves=20,
    ).map(lambda value: json.dumps(value).encode())
)
def test_a_file_of_any_content_is_read_without_a_fault_and_replaced(path: Path, content: bytes) -> None:
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(content)
    memory = CallMemory(path)
    assert all(isinstance(call.what, str) for call in memory.load(max_age=60.0))
    memory.put(DONE)
    memory.close()
    assert DONE in loaded(path)


@settings(max_examples=50, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.binary(max_size=200) | st.sampled_from([b'{"result":{"a":"\\ud800"},"refusal":""}', b"[" * 5000]))
def test_an_outcome_of_any_content_costs_that_outcome_alone(path: Path, content: bytes) -> None:
    put(path, DONE, REFUSED)
    [place] = [file for file in path.parent.rglob("*/*.json") if b"content" in file.read_bytes()]
    place.write_bytes(content)
    calls = {call.id: call for call in loaded(path)}
    assert calls["p3"] == REFUSED
    assert calls["p2"].result is None and "its outcome was not kept" in calls["p2"].refusal


def test_an_index_of_the_longest_calls_is_read_whole_and_of_a_longer_one_its_end(
    path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    memory = CallMemory(path)
    for n in range(call_memory.MAX_CALLS):
        memory.put(
            WAITS._replace(key="\U0001f600" * 256, id=f"{n:03}" + "\x9b" * 253, what="\U0001f600" * 400)
        )
    assert path.stat().st_size <= call_memory.MAX_FILE
    memory.close()
    assert len(loaded(path)) == call_memory.MAX_CALLS and caplog.text == ""
    path.write_bytes(b"x" * 4 * call_memory.MAX_FILE + b"\n" + path.read_bytes())
    assert len(loaded(path)) == call_memory.MAX_CALLS and "it has more than" in caplog.text


@pytest.mark.threat(27)
@pytest.mark.ruling("R35")
@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.lists(
        st.tuples(
            st.integers(0, 1),
            st.sampled_from(["puts", "ends", "drops", "loads", "is killed", "ends well"]),
            st.integers(0, 3),
        ),
        min_size=10,
        max_size=30,
    )
)
@pytest.mark.slow
def test_gates_of_one_name_lose_no_call_of_each_other(
    tmp_path_factory: pytest.TempPathFactory, steps: list[tuple[int, str, int]]
) -> None:
    """One has its seat at a time, the one that loaded last; the others go on with what they began."""
    path = tmp_path_factory.mktemp("m") / ".mew" / "calls.json"
    gates: dict[int, CallMemory] = {}
    seated, states, begun = -1, dict[str, str](), list[str]()

    def end(nth: int, *, well: bool) -> None:
        gate = gates.pop(nth, None)
        if gate is not None and well:
            gate.close()

    for nth, step, n in steps:
        id = f"p{n}"
        if step == "loads":
            end(nth, well=False)
            gates[nth], seated = CallMemory(path), nth
            found = {call.id: "waits" if call.waits else "ended" for call in gates[nth].load(max_age=600.0)}
            assert found == states
            for id in [id for id, state in states.items() if state == "waits"]:
                gates[nth].put(WAITS._replace(id=id, refusal="it is not known"))
                gates[nth].drop(id)  # its client was told
            states = {id: state for id, state in states.items() if state == "ended"}
        elif step in ("is killed", "ends well"):
            end(nth, well=step == "ends well")
            seated = -1 if seated == nth else seated
        elif nth in gates and nth != seated:  # it was stopped, and wakes: nothing of it counts any more
            for id in begun[n % 2 :: 2]:
                gates[nth].drop(id)
        elif nth in gates:
            id = f"{id}-{len(begun)}" if step == "puts" else next(iter(states), "none")
            call = WAITS._replace(id=id, key=KEYS[n % 3])
            if step == "puts" and id not in states:
                gates[nth].put(call)
                states[id] = "waits"
                begun.append(id)
            elif step == "ends" and states.get(id) == "waits":
                gates[nth].put(call._replace(result={"content": []}))
                await_outcome(path, id)
                states[id] = "ended"
            elif step == "drops" and id in states:
                gates[nth].drop(id)
                del states[id]
    for nth in list(gates):
        end(nth, well=False)


def test_a_gate_beside_one_that_has_not_ended_says_so_and_takes_over_what_it_kept(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / ".mew" / "calls.json"
    first, second = CallMemory(path), CallMemory(path)
    for call in (WAITS, DONE._replace(result=None), DONE):
        first.put(call)
    await_outcome(path, "p2")
    assert second.find_holder() == f"process {os.getpid()}"
    assert sorted(call._replace(at=0.0) for call in second.load(max_age=60.0)) == [WAITS, DONE]
    [line] = [record.getMessage() for record in caplog.records]
    assert f"process {os.getpid()} keeps the calls of this gate in {path} and has not ended" in line
    second.put(WAITS._replace(id="p9"))
    second.drop("p2")  # its client has it
    first.drop("p1")  # the first one is told that the space has ended for it
    first.close()
    assert "a later gate of this name has taken over" in caplog.text
    del second
    assert sorted(loaded(path)) == [WAITS, WAITS._replace(id="p9")]
    assert [file.name for file in path.parent.iterdir() if file.is_file()] == ["calls.json"]


def test_more_gates_of_a_name_than_there_are_places_say_that_they_keep_nothing(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    gates = [CallMemory(tmp_path / ".mew" / "calls.json") for _ in range(call_memory.MAX_PLACES + 1)]
    for n, gate in enumerate(gates):
        gate.put(WAITS._replace(id=f"p{n}"))
    [line] = [record.getMessage() for record in caplog.records]
    assert "8 other gates of this name have not ended, so waiting calls do not outlive this process" in line
    assert {call.id for call in gates[-1].load(max_age=60.0)} >= {f"p{n}" for n in range(8)}


def _link(place: Path) -> None:
    place.symlink_to("nowhere")


def _text(place: Path) -> None:
    place.write_bytes(b"\x1b[2J" * 1000)


@pytest.mark.threat(27)
@pytest.mark.parametrize("make", [_link, os.mkfifo, Path.mkdir, _text])
@pytest.mark.parametrize(
    "name", ["calls.json.lock", "calls.2.json", "calls.2.json.lock", "calls.2.json.outcomes"]
)
def test_whatever_lies_in_a_place_two_gates_keep_their_calls_apart(
    tmp_path: Path, make: Callable[[Path], None], name: str, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / ".mew" / "calls.json"
    put(path, WAITS)
    make(path.with_name(name))
    first, second = CallMemory(path), CallMemory(path)
    for nth, memory in enumerate([first, second]):
        memory.load(max_age=60.0)
        memory.put(WAITS._replace(id=f"n{nth}"))
    first.put(WAITS._replace(id="n2"))
    del memory, first, second
    assert {call.id for call in loaded(path)} >= {"p1", "n0", "n1", "n2"}
    if name == "calls.2.json":
        assert "calls.2.json cannot be read as the memory of a gate" in caplog.text
    assert "\x1b" not in caplog.text


def test_a_gate_whose_calls_were_taken_over_overwrites_nothing_that_was_not_read_yet(tmp_path: Path) -> None:
    path = tmp_path / ".mew" / "calls.json"
    first = CallMemory(path)
    first.put(WAITS)
    path.with_name("calls.json.lock").write_text("taken by 9")  # which was killed then
    first.put(WAITS._replace(id="p4"))
    del first
    assert sorted(loaded(path)) == [WAITS, WAITS._replace(id="p4")]


def test_a_memory_whose_files_are_removed_goes_on_with_what_it_has(tmp_path: Path) -> None:
    path = tmp_path / ".mew" / "calls.json"
    memory = CallMemory(path)
    memory.put(WAITS)
    shutil.rmtree(tmp_path / ".mew")
    memory.put(WAITS._replace(id="p4"))
    memory.close()
    assert sorted(loaded(path)) == [WAITS, WAITS._replace(id="p4")]


def test_a_folder_that_cannot_be_written_is_told_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "file").write_text("")
    put(tmp_path / "file" / "calls.json", WAITS, DONE)
    lines: list[Any] = [record for record in caplog.records if "cannot be written" in record.getMessage()]
    assert len(lines) == 1


@pytest.mark.threat(27)
@pytest.mark.parametrize("link", [".mew", ".mew/mcp", ".mew/mcp/calls", ".mew/mcp/calls/x.json.outcomes"])
def test_no_folder_that_is_a_link_is_written_or_read(
    tmp_path: Path, link: str, caplog: pytest.LogCaptureFixture
) -> None:
    elsewhere, work = tmp_path / "elsewhere", tmp_path / "work"
    elsewhere.mkdir()
    (work / link).parent.mkdir(parents=True)
    (work / link).symlink_to(elsewhere)
    path = work / ".mew" / "mcp" / "calls" / "x.json"
    put(path, WAITS, DONE)
    assert list(elsewhere.iterdir()) == []
    assert [record for record in caplog.records if re.search("cannot be written", record.getMessage())]
    loaded(path)
    assert list(elsewhere.iterdir()) == []


@pytest.mark.threat(27)
@pytest.mark.parametrize(
    "at", ["1" + "0" * 400, "-1" + "0" * 400, "NaN", "Infinity", "-1", "1e300", "9" * 14]
)
@pytest.mark.parametrize("state", ["waits", "unknown"])
def test_a_call_with_any_time_is_known_for_a_day_from_now(path: Path, at: str, state: str) -> None:
    put(path, WAITS)
    line = path.read_text(encoding="utf-8")
    line = re.sub('"at":[^,]+', f'"at":{at}', line).replace('"state":"waits"', f'"state":"{state}"')
    path.write_text(line, encoding="utf-8")
    memory = CallMemory(path)
    memory.load(max_age=60.0)
    found = memory.find_unknown(WAITS.key)
    assert found is not None and 0 <= found.at <= time.time()
    memory.close()


@pytest.mark.threat(27)
def test_what_is_told_of_a_damaged_index_has_no_control_characters(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "calls.json"
    path.write_text(f'{{"key":"{"0" * 64}","id":"p\x9b2J","what":"a\x9b2J\u202eb"\n', encoding="utf-8")
    CallMemory(path).load(max_age=60.0)
    assert not set("\x9b\u202e") & set(caplog.text)
