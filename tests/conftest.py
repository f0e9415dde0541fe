"""Options and markers that all tests share, and how many examples each tier draws.

A test by `hypothesis.given`, and one with the mark `drawn`, draws a quarter of its examples in the first tier;
`pytest -m slow` runs it again with all of them. A number of examples that a test sets itself goes through `examples`;
where each example is a test, `seeds` leaves a quarter of them in the first tier. A test with the mark `sampled` has
many cases of one kind, each of which takes long: every fourth (or the number that the mark says) runs in the first tier,
the others in the second.

`pytest -m fast` runs what the first tier has of the pure rooms: a minute, for each change of a line.
"""

from __future__ import annotations

import gc
import os
import shutil
import signal
import tempfile
import threading
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, is_hypothesis_test, settings

from mew_lab.protocol import token

HERE = Path(__file__).parent
LONG = ("tests/notebooks/", "tests/browser/", "tests/test_")
PURE = ("protocol", "space", "ledger", "settings")  # rooms whose tests start nothing
# The settings of the one who runs the tests are neither read nor changed.
SETTINGS = tempfile.mkdtemp(prefix="mew-lab-settings-")
for variable in ("JUPYTER_CONFIG_DIR", "XDG_STATE_HOME", "XDG_CACHE_HOME"):
    os.environ[variable] = tempfile.mkdtemp(dir=SETTINGS)

# Whether all that the tests need is there: `.ci/run` has installed it, beside the specifications and captures.
COMPLETE = bool(os.environ.get("MEW_LAB_PINNED") and os.environ.get("MEW_LAB_SHARED"))
TEARDOWN = 30.0  # seconds for the teardown of a test that failed
REPEATED = 5.0  # seconds between two alarms of a test that has taken too long
FEW, ALL = 25, 100  # examples of a test that sets no number
CASES: pytest.StashKey[Counter[str]] = pytest.StashKey()  # the cases seen of each sampled test
BASE = settings(
    settings.get_profile(settings.get_current_profile_name()),
    # A busy machine draws and runs an example slowly, which tells nothing of the code.
    suppress_health_check=[HealthCheck.too_slow],
    deadline=None,
)
settings.register_profile("few", BASE, max_examples=FEW)
settings.register_profile("all", BASE, max_examples=ALL)


def examples(count: int, *, at_length: int = 0) -> int:
    """The number of examples to draw in this run, ten at least: `count`, or `at_length`, is that of the second tier."""
    few = min(count, max(10, count * settings().max_examples // ALL))
    return at_length if at_length and settings().max_examples == ALL else few


def seeds(count: int) -> list[Any]:
    """The seeds of a test that draws by each of them: a quarter in the first tier, one at least, the rest in the second."""
    few = max(1, count * FEW // ALL)
    return [pytest.param(seed, marks=() if seed < few else pytest.mark.slow) for seed in range(count)]


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--rewrite", action="store_true", help="write the effects of tests/conversations anew")


@pytest.fixture(scope="session")
def shared() -> Path:
    """The folder of specifications and captures, where MEW_LAB_SHARED names one; `.ci/run` does when there is one."""
    place = os.environ.get("MEW_LAB_SHARED")
    if not place:
        pytest.skip("MEW_LAB_SHARED names no folder of specifications and captures")
    if not (Path(place) / "captures").is_dir():
        pytest.fail(f"MEW_LAB_SHARED is {place}, which has no captures", pytrace=False)
    return Path(place)


@pytest.fixture(scope="session")
def current_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The current folder of all tests of a worker that take no other."""
    return tmp_path_factory.mktemp("current")


@pytest.fixture(autouse=True)
def _stand_outside(current_folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A lab keeps tokens and heads in the current folder: neither the checkout nor the next test has those of another."""
    monkeypatch.chdir(current_folder)
    yield
    shutil.rmtree(current_folder / ".mew", ignore_errors=True)


@pytest.fixture(autouse=True)
def _own_secrets() -> Iterator[None]:
    """What a test masks is no secret of the next, whose long texts would be masked in its middle."""
    before = set(token.known)
    yield
    for secret in set(token.known) - before:
        token.forget(token.Token(secret, remember=False))


def pytest_xdist_auto_num_workers(config: pytest.Config) -> int:
    """A worker a core and two more, at most four: many tests wait for a browser, a kernel or another process.

    None where modules or tests are named, which are a few, or output is wanted.
    """
    named = any(".py" in argument for argument in config.args)
    return 0 if named or config.option.capture == "no" else min(4, len(os.sched_getaffinity(0)) + 2)


@pytest.hookimpl(wrapper=True)
def pytest_timeout_set_timer(item: pytest.Item, settings: Any) -> Iterator[Any]:
    """Repeats the alarm of a test: an event loop only logs what is raised within a callback, and would wait for ever."""
    result = yield
    if signal.getitimer(signal.ITIMER_REAL)[0]:
        signal.setitimer(signal.ITIMER_REAL, settings.timeout, REPEATED)
    return result


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Iterator[pytest.TestReport]:
    """Stops the alarm of a test that has failed: it would end pytest itself, which writes the report now.

    Where `.ci/run` runs the tests, and the specifications are there, a skipped test has failed, but for one that misses
    a program on PATH.
    """
    if call.excinfo is not None and threading.current_thread() is threading.main_thread():
        signal.setitimer(signal.ITIMER_REAL, 0)
    report = yield
    if report.skipped and COMPLETE and not hasattr(report, "wasxfail"):
        reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
        if "on PATH" not in reason:
            report.outcome, report.longrepr = "failed", f"{reason}: nothing is skipped here"
    return report


@pytest.hookimpl(trylast=True)
def pytest_exception_interact(node: pytest.Item | pytest.Collector) -> None:
    """Sets the alarm again for the teardown of a test that failed: pytest-timeout ends at the first failure."""
    if isinstance(node, pytest.Item) and threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGALRM, lambda *_: pytest.fail("The teardown took too long", pytrace=False))
        signal.setitimer(signal.ITIMER_REAL, TEARDOWN, REPEATED)


def in_second_tier(config: pytest.Config) -> bool:
    return bool(config.option.markexpr == "slow")


def pytest_configure(config: pytest.Config) -> None:
    if not config.getoption("--hypothesis-profile"):
        settings.load_profile("all" if in_second_tier(config) else "few")


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Reads no other room for `pytest -m fast`: that would take as long as to run the tests of the pure ones."""
    room = collection_path.relative_to(HERE).parts if collection_path.is_relative_to(HERE) else ()
    return True if config.option.markexpr == "fast" and room and room[0] not in PURE else None


@pytest.hookimpl(tryfirst=True)
def pytest_itemcollected(item: pytest.Item) -> None:
    drawn = item.get_closest_marker("drawn") or is_hypothesis_test(getattr(item, "obj", None))
    if drawn and in_second_tier(item.config):
        item.add_marker("slow")
    if sampled := item.get_closest_marker("sampled"):
        (each,) = sampled.args or (ALL // FEW,)
        cases = item.config.stash.setdefault(CASES, Counter())
        test = item.nodeid.partition("[")[0]
        if cases[test] % each:
            item.add_marker("slow")
        cases[test] += 1
    room = item.path.relative_to(HERE).parts[0] if item.path.is_relative_to(HERE) else ""
    if room in PURE and not item.get_closest_marker("slow"):
        item.add_marker("fast")


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(collector: pytest.Collector) -> Iterator[Any]:
    """Each worker begins to read the tests at another room, and finds the others' modules compiled when it comes to them.

    In a fresh clone each would else compile every module, at the same time as all others: half a minute of a core.
    """
    report = yield
    worker = getattr(collector.config, "workerinput", None)
    if worker and collector.path == HERE:
        first = len(report.result) * int(worker["workerid"].removeprefix("gw")) // worker["workercount"]
        report.result = [*report.result[first:], *report.result[:first]]
    return report


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Workers begin with the files that take longest, and have one order, wherever they began to read."""
    if hasattr(config, "workerinput"):
        items.sort(
            key=lambda item: ([not item.nodeid.startswith(folder) for folder in LONG], item.path.parts)
        )


def pytest_collection_finish() -> None:
    """Spares the garbage collector what stays until the end: all modules and tests, hundreds of thousands of objects."""
    gc.collect()
    gc.freeze()


def pytest_unconfigure() -> None:
    gc.unfreeze()
    shutil.rmtree(SETTINGS, ignore_errors=True)  # a worker ends without what atexit would do
