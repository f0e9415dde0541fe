"""Values that are written or searched in many steps: long texts of what cards warn of, and many members or items."""

from __future__ import annotations

from hypothesis import strategies as some

PIECES = [
    *(
        "; ./a ",
        "/etc/passwd ",
        "../.. ",
        "$HOME ",
        "https://evil.test/x ",
        "rm -rf / ",
        "раураl ",
        "漢字仮名",
    ),
    *(
        "\\u0041%41&amp; ",
        "QUJDREVG",
        "0.5 ",
        "word ",
        " " * 61,
        "mail@evil.test ",
        "\n",
        "\u202e",
        "\x00",
        "a",
    ),
]
TEXTS = some.lists(
    some.tuples(some.sampled_from(PIECES), some.integers(1, 3000)), min_size=1, max_size=6
).map(lambda parts: "".join(piece * times for piece, times in parts)[:30_000])
LARGE = some.one_of(
    TEXTS,
    some.integers(1, 3000).map(lambda n: [k + 1000.5 for k in range(n)]),
    some.integers(1, 2000).map(lambda n: [f"раура{k} admin" for k in range(n)]),
    some.integers(1, 900).map(lambda n: {f"nаme{k}": [[k]] for k in range(n)}),
)
