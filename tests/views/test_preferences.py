"""The settings of a user: one small file, which holds what is valid and loses nothing of others."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from mew_lab.errors import MewError
from mew_lab.views.ui.live import LiveView
from mew_lab.views.ui.preferences import SETTINGS, Preferences, preferences, preferences_path

DEFAULTS = {name: default for name, (default, _) in SETTINGS.items()}


@pytest.fixture
def kept(tmp_path: Path) -> tuple[Preferences, Path]:
    path = tmp_path / "deep" / "mew_lab.json"
    return Preferences(lambda: path), path


def test_a_setting_is_remembered_for_the_owner_alone(kept: tuple[Preferences, Path]) -> None:
    settings, path = kept
    assert settings.read() == DEFAULTS
    settings.change("density", "compact")
    assert Preferences(lambda: path).read() == DEFAULTS | {"density": "compact"}
    assert path.stat().st_mode & 0o777 == 0o600
    assert [other.name for other in path.parent.iterdir()] == [path.name]


@pytest.mark.parametrize(
    ("name", "value"),
    [("density", "huge"), ("hidePlumbing", "yes"), ("feedColumns", []), ("splitters", {"a": "x" * 5000})],
)
def test_a_wrong_value_is_refused_and_one_in_the_file_is_the_default(
    kept: tuple[Preferences, Path], name: str, value: object
) -> None:
    settings, path = kept
    with pytest.raises(MewError, match=name):
        settings.change(name, value)
    assert not path.exists()
    path.parent.mkdir()
    path.write_text(json.dumps({name: value}), "utf-8")
    assert settings.read() == DEFAULTS


def test_an_unknown_setting_is_refused_with_the_known_ones(kept: tuple[Preferences, Path]) -> None:
    with pytest.raises(MewError, match="density, time, hidePlumbing"):
        kept[0].change("colour", "red")


@pytest.mark.parametrize("text", ["", "{", "[1]", "null", "[" * 60_000, "\x00\xff"])
def test_a_broken_file_gives_the_defaults_and_can_be_replaced(
    kept: tuple[Preferences, Path], text: str
) -> None:
    settings, path = kept
    path.parent.mkdir()
    path.write_text(text, "latin-1")
    assert settings.read() == DEFAULTS
    settings.change("time", "utc")
    assert settings.read() == DEFAULTS | {"time": "utc"}


DEEP = '{"a":' * 600 + "1" + "}" * 600


@pytest.mark.parametrize("table", [DEEP, '{"\\ud800": 1}', '{"side": NaN}', '{"side": 1e999}'])
def test_a_table_that_no_page_can_be_sent_is_the_default(kept: tuple[Preferences, Path], table: str) -> None:
    settings, path = kept
    path.parent.mkdir()
    path.write_text(f'{{"time": "utc", "splitters": {table}}}', "utf-8")
    assert settings.read() == DEFAULTS | {"time": "utc"}


def test_a_file_that_is_too_long_is_not_replaced_and_a_change_holds_in_this_kernel(
    kept: tuple[Preferences, Path],
) -> None:
    settings, path = kept
    path.parent.mkdir()
    path.write_text(before := json.dumps({"later": "x" * 70_000, "time": "utc"}), "utf-8")
    with pytest.raises(MewError, match="more than 65536 bytes"):
        settings.change("density", "compact")
    assert path.read_text("utf-8") == before
    assert settings.read() == DEFAULTS | {"density": "compact"}
    path.write_text('{"time": "utc"}', "utf-8")
    settings.change("hidePlumbing", False)
    assert json.loads(path.read_text("utf-8")) == {"time": "utc", "density": "compact", "hidePlumbing": False}


def test_what_others_keep_in_the_file_stays(kept: tuple[Preferences, Path]) -> None:
    settings, path = kept
    path.parent.mkdir()
    path.write_text('{"later": [1], "time": "utc"}', "utf-8")
    settings.change("density", "compact")
    assert json.loads(path.read_text("utf-8")) == {"later": [1], "time": "utc", "density": "compact"}


def test_changes_from_many_threads_are_all_kept(kept: tuple[Preferences, Path]) -> None:
    settings, _ = kept
    changes = [("density", "compact"), ("time", "utc"), ("hidePlumbing", False), ("splitters", {"side": 300})]
    threads = [threading.Thread(target=settings.change, args=change) for change in changes]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert settings.read() == DEFAULTS | dict(changes)


def test_a_folder_that_cannot_be_made_is_a_sentence(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(MewError, match="could not be kept"):
        Preferences(lambda: tmp_path / "file" / "mew_lab.json").change("time", "utc")


def test_a_change_that_cannot_be_kept_reaches_the_views_all_the_same(
    browser: Callable[[Any], Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("")
    unwritable = Preferences(lambda: tmp_path / "file" / "mew_lab.json")
    monkeypatch.setattr("mew_lab.views.ui.live.preferences", unwritable)
    page = browser(LiveView())
    assert page.appear()["settings"] == DEFAULTS
    page.send({"t": "setting", "name": "density", "value": "compact"})
    page.until(lambda: page.of("settings"))
    assert page.of("settings")[0]["settings"] == DEFAULTS | {"density": "compact"}
    assert "could not be kept" in str(page.view.faults[-1])


def test_a_change_in_one_view_reaches_all_of_them(browser: Callable[[Any], Any]) -> None:
    first, second = browser(LiveView()), browser(LiveView())
    assert first.appear()["settings"] == DEFAULTS
    second.appear()
    try:
        first.send({"t": "setting", "name": "density", "value": "compact"})
        for page in (first, second):
            page.until(lambda page=page: page.of("settings"))
            assert page.of("settings")[0]["settings"] == DEFAULTS | {"density": "compact"}
        first.send({"t": "setting", "name": "density", "value": 7})
        assert preferences.read()["density"] == "compact" and first.view.faults
    finally:
        preferences_path().unlink(missing_ok=True)
