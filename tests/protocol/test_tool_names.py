"""Names of tools as an API takes them, and back: one to one, readable where they can be."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mew_lab.protocol.text import MAX_CLIENT_NAME, ToolNames, client_names

TAKEN = re.compile(r"^[a-zA-Z0-9_-]{1,64}$")

ids = st.from_regex(r"\A[A-Za-z0-9][A-Za-z0-9._-]{0,20}\Z")
tools = st.text(min_size=1, max_size=128) | st.from_regex(r"\A[a-z_./-]{1,12}\Z")
some_names = st.lists(
    st.builds("{}/{}".format, ids, tools) | st.text(alphabet="ab_/-", max_size=6) | st.text(max_size=130),
    max_size=12,
)


@given(some_names)
def test_every_name_comes_back_whatever_it_is(names: list[str]) -> None:
    both = ToolNames(names)
    assert set(both.wire) == set(names)
    assert {both.name[form] for form in both.wire.values()} == set(names)
    assert len(set(both.wire.values())) == len(set(names))
    assert all(TAKEN.match(form) and not form.endswith("\n") for form in both.wire.values())


@given(some_names, st.randoms())
def test_the_order_of_the_names_does_not_matter(names: list[str], random: object) -> None:
    mixed = list(names)
    random.shuffle(mixed)  # type: ignore[attr-defined]
    assert ToolNames(mixed).wire == ToolNames(names).wire


@given(some_names, st.text(max_size=20))
def test_a_name_without_underscores_in_its_participant_keeps_its_form_whatever_is_added(
    names: list[str], other: str
) -> None:
    name = "weather-service/get_weather"
    assert (
        ToolNames([*names, name, other]).wire[name]
        == ToolNames([name]).wire[name]
        == "weather-service_get_weather"
    )


@pytest.mark.parametrize(
    ("name", "form"),
    [
        (
            "weather-service/get_weather",
            "weather-service_get_weather",
        ),  # SDK "Tool Preparation and Namespacing"
        ("weather_service/get_weather", "weather_service_get_weather"),  # SDK "Native Format"
        ("calculator/add", "calculator_add"),
    ],
)
def test_a_slash_becomes_an_underscore_as_the_specification_shows_it(name: str, form: str) -> None:
    assert ToolNames([name]).wire == {name: form}


@pytest.mark.divergence("S-L3-5")
def test_names_that_would_read_the_same_are_told_apart() -> None:
    wire = ToolNames(["a_b/c", "a/b_c", "a_b_c"]).wire
    assert wire["a/b_c"] == "a_b_c"
    assert len(set(wire.values())) == 3
    assert all(form.startswith("a_b_c") for form in wire.values())


@pytest.mark.req("S-L3-4")
def test_the_same_tool_of_two_participants_has_two_names() -> None:
    assert ToolNames(["calculator/add", "math-service/add"]).wire == {
        "calculator/add": "calculator_add",
        "math-service/add": "math-service_add",
    }


@pytest.mark.parametrize(
    "name", ["a/" + "x" * 126, "files.local/read", "wetter/lies_Grad_°C", "a/b/c.d", "a/ ", ""]
)
def test_what_an_api_does_not_take_gets_a_short_hash_and_stays_readable(name: str) -> None:
    form = ToolNames([name]).wire[name]
    assert TAKEN.match(form)
    assert re.search(r"-[0-9a-f]{8}$", form)
    assert form.startswith(re.sub(r"[^a-zA-Z0-9_-]", "_", name)[:50])


@pytest.mark.parametrize("place", [5, 11])  # where the squatter has its slash
def test_nobody_can_choose_a_name_that_takes_the_one_of_another(place: int) -> None:
    hashed = ToolNames(["files.local/read"]).wire["files.local/read"]
    assert hashed[place] == "_"
    squatter = f"{hashed[:place]}/{hashed[place + 1 :]}"
    both = ToolNames(["files.local/read", squatter])
    assert both.name[both.wire["files.local/read"]] == "files.local/read"
    assert both.name[both.wire[squatter]] == squatter


@given(st.text(max_size=60), st.text(max_size=60), st.booleans())
def test_a_name_for_a_client_is_short_and_plain_and_says_the_participant_unless_it_is_bare(
    participant: str, tool: str, bare: bool
) -> None:
    names = client_names(participant, tool, bare=bare)
    for name in names:
        assert len(name) <= MAX_CLIENT_NAME and re.fullmatch(r"[A-Za-z0-9_.-]*", name)
    assert re.search(r"-[0-9a-f]{8}$", names[-1])


def test_a_short_name_is_as_it_is_read_and_a_long_one_has_both_parts_cut() -> None:
    assert client_names("git", "git_log")[0] == "git_git_log"
    assert client_names("git", "git_log", bare=True)[0] == "git_log"
    (long,) = client_names("participant", "t" * 60)
    assert re.fullmatch(r"particip_t{26}-[0-9a-f]{8}", long)
