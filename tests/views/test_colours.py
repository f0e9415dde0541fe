"""The colours of participants are told apart by the eye, in both themes and with the common colour-vision deficiencies."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import combinations, product
from math import atan2, cos, degrees, exp, hypot, radians, sin, sqrt

import pytest

from mew_lab.views.ui.front_end import VIEWS

Colour = tuple[float, float, float]

STYLE = (VIEWS / "roster/view.css").read_text("utf-8")
DARK = 'body[data-jp-theme-light="false"] .mew-roster {'
# What an avatar stands on: --jp-layout-color1 and 2 of JupyterLab's themes, and those of the page.
GROUNDS = {"light": ["#ffffff", "#eeeeee"], "dark": ["#212121", "#424242", "#111111", "#16181b", "#26292e"]}
# Machado, Oliveira and Fernandes (2009), severity 1.0; they act on linear RGB.
DEFICIENCIES: dict[str, Sequence[Colour]] = {
    "protanopia": [(0.152286, 1.052583, -0.204868), (0.114503, 0.786281, 0.099216), (-0.003882, -0.048116, 1.051998)],
    "deuteranopia": [(0.367322, 0.860646, -0.227968), (0.280085, 0.672501, 0.047413), (-0.011820, 0.042940, 0.968881)],
    "tritanopia": [(1.255528, -0.076749, -0.178779), (-0.078411, 0.930809, 0.147602), (0.004733, 0.691367, 0.303900)],
}  # fmt: skip
TO_XYZ = [(0.4124564, 0.3575761, 0.1804375), (0.2126729, 0.7151522, 0.0721750), (0.0193339, 0.1191920, 0.9503041)]  # fmt: skip
WHITE = (0.95047, 1.0, 1.08883)  # D65


def of_theme(theme: str) -> dict[str, str]:
    """The colours that the sheet gives to a roster."""
    start = STYLE.index(DARK) if theme == "dark" else STYLE.index(".mew-roster {")
    block = STYLE[start : STYLE.index("}", start)]
    found = {name: value.lower() for name, value in re.findall(r"--mew-([\w-]+): (#[0-9a-fA-F]+);", block)}
    return {
        name: f"#{''.join(c * 2 for c in value[1:])}" if len(value) == 4 else value
        for name, value in found.items()
    }


def times(matrix: Sequence[Colour], colour: Colour) -> Colour:
    a, b, c = (sum(x * y for x, y in zip(row, colour, strict=True)) for row in matrix)
    return a, b, c


def linear(colour: str) -> Colour:
    def channel(at: int) -> float:
        value = int(colour[at : at + 2], 16) / 255
        return value / 12.92 if value <= 0.04045 else ((value + 0.055) / 1.055) ** 2.4

    return channel(1), channel(3), channel(5)


def contrast(one: str, other: str) -> float:
    """WCAG 2: contrast ratio."""
    low, high = sorted(times(TO_XYZ, linear(colour))[1] for colour in (one, other))
    return (high + 0.05) / (low + 0.05)


def lab(colour: Colour) -> Colour:
    """CIE L*a*b* of a colour in linear RGB."""

    def root(value: float) -> float:
        return value ** (1 / 3) if value > 216 / 24389 else (24389 / 27 * value + 16) / 116

    clipped = (min(max(colour[0], 0.0), 1.0), min(max(colour[1], 0.0), 1.0), min(max(colour[2], 0.0), 1.0))
    x, y, z = (root(v / w) for v, w in zip(times(TO_XYZ, clipped), WHITE, strict=True))
    return 116 * y - 16, 500 * (x - y), 200 * (y - z)


def ciede2000(one: Colour, other: Colour) -> float:
    """The distance of two colours in L*a*b* (Sharma, Wu and Dalal 2005)."""
    mean = (hypot(*one[1:]) + hypot(*other[1:])) / 2
    stretch = 1.5 - 0.5 * sqrt(mean**7 / (mean**7 + 25**7))
    (l1, a1, b1), (l2, a2, b2) = one, other
    c1, c2 = hypot(stretch * a1, b1), hypot(stretch * a2, b2)
    h1, h2 = degrees(atan2(b1, stretch * a1)) % 360, degrees(atan2(b2, stretch * a2)) % 360
    turn = 0.0 if c1 * c2 == 0 else (h2 - h1 + 180) % 360 - 180
    lightness, chroma = (l1 + l2) / 2, (c1 + c2) / 2
    hue = h1 + h2 if c1 * c2 == 0 else (h1 + turn / 2) % 360
    t = (
        1
        - 0.17 * cos(radians(hue - 30))
        + 0.24 * cos(radians(2 * hue))
        + 0.32 * cos(radians(3 * hue + 6))
        - 0.20 * cos(radians(4 * hue - 63))
    )
    dl = (l2 - l1) / (1 + 0.015 * (lightness - 50) ** 2 / sqrt(20 + (lightness - 50) ** 2))
    dc = (c2 - c1) / (1 + 0.045 * chroma)
    dh = 2 * sqrt(c1 * c2) * sin(radians(turn / 2)) / (1 + 0.015 * chroma * t)
    angle = radians(60 * exp(-(((hue - 275) / 25) ** 2)))
    rotation = -2 * sqrt(chroma**7 / (chroma**7 + 25**7)) * sin(angle)
    return sqrt(dl**2 + dc**2 + dh**2 + rotation * dc * dh)


@pytest.mark.parametrize(
    ("one", "other", "distance"),
    [  # Pairs 1, 5, 10, 17, 20 and 25 of the test data of Sharma, Wu and Dalal
        ((50.0, 2.6772, -79.7751), (50.0, 0.0, -82.7485), 2.0425),
        ((50.0, -1.1848, -84.8006), (50.0, 0.0, -82.7485), 1.0000),
        ((50.0, 2.4900, -0.0010), (50.0, -2.4900, 0.0009), 7.1792),
        ((50.0, 2.5, 0.0), (73.0, 25.0, -18.0), 27.1492),
        ((50.0, 2.5, 0.0), (58.0, 24.0, 15.0), 19.4535),
        ((60.2574, -34.0099, 36.2677), (60.4626, -34.1751, 39.4387), 1.2644),
    ],
)  # fmt: skip
def test_the_distance_is_that_of_the_published_data(one: Colour, other: Colour, distance: float) -> None:
    assert ciede2000(one, other) == pytest.approx(distance, abs=5e-5)


@pytest.mark.parametrize("theme", GROUNDS)
def test_each_two_colours_of_participants_are_told_apart(theme: str) -> None:
    named = of_theme(theme)
    hues = [named[f"hue-{n}"] for n in range(8)]
    kinds = [named[f"kind-{kind}"] for kind in ("you", "tools", "other")]

    def least(pairs: Sequence[tuple[str, str]], seen: Sequence[Colour]) -> tuple[float, str, str]:
        return min((ciede2000(*(lab(times(seen, linear(c))) for c in pair)), *pair) for pair in pairs)

    plain = [(1.0, 0.0, 0.0), (0.0, 1.0, 0.0), (0.0, 0.0, 1.0)]
    assert least([*combinations(hues, 2)], plain) >= (20,)
    assert least([*product(hues, kinds)], plain) >= (15,)
    for name, matrix in DEFICIENCIES.items():
        assert least([*combinations(hues, 2)], matrix) >= (12,), name


@pytest.mark.parametrize("theme", GROUNDS)
def test_an_avatar_is_seen_on_its_ground_and_its_letters_are_read(theme: str) -> None:
    named = of_theme(theme)
    letters = named.pop("letters")
    assert len(named) == 11
    for name, colour in named.items():
        assert contrast(colour, letters) >= 4.5, name
        assert min(contrast(colour, ground) for ground in GROUNDS[theme]) >= 3, name
