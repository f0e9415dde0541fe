"""The text that a view gives to anywidget is what its modules say, and modules that cannot be joined are refused."""

from __future__ import annotations

import re

import pytest

from mew_lab.protocol.families import FAMILIES, STARTS
from mew_lab.views.ui.front_end import (
    VIEWS,
    family_css,
    family_table,
    front_end,
    join_modules,
    notebook_module,
    read_module,
)
from mew_lab.views.views import LOG_PARTS, PARTS

FILES = sorted(VIEWS.glob("*/*.js"))
SOURCES = {path.relative_to(VIEWS).as_posix(): path.read_text("utf-8") for path in FILES} | {
    "ui/family_table.js": family_table()
}
PAGES = [*PARTS, *LOG_PARTS, "page", "caller"]  # a page of its own holds the panel; a caller draws nothing
END = "export default { render };\n"
VIEW = "export function render() {}\n\n" + END


def code_of(source: str) -> str:
    """The source without strings, comments, regular expressions and the fixed text of templates."""
    lexical = r"//[^\n]*|/\*[\s\S]*?\*/|\"(?:\\.|[^\"\\\n])*\"|(?<=[(,=:\[!&|?{};\n ])/(?![/*])(?:\\.|\[(?:\\.|[^\]\\\n])*\]|[^/\\\n\[])+/[a-z]*"
    text = re.sub(lexical, '""', source)
    while (
        inner := re.sub(r"`[^`]*`", lambda t: " ".join(re.findall(r"\$\{([^{}`]*)\}", t[0])), text)
    ) != text:
        text = inner
    return text


NOTEBOOK_END = """\
export default { render: ({ model, el, host, signal }) => render({ adapter: commAdapter(model, host), el, signal }) };
"""


@pytest.mark.parametrize("part", PAGES)
def test_a_notebook_gets_the_same_modules_and_the_adapter_of_its_comm(part: str) -> None:
    page, order = join_modules(f"{part}/view.js", SOURCES)
    notebook, more = join_modules(f"{part}/view.js", SOURCES, notebook=True)
    assert {*more} - {*order} == {"ui/comm_adapter.js"} and "commAdapter" not in page
    assert notebook.endswith(f"\n{NOTEBOOK_END}") and notebook.count("export ") == 1
    assert len(notebook_module(part)[0]) > len(front_end(part)[0])
    assert notebook_module(part)[1] == front_end(part)[1]


@pytest.mark.parametrize("part", PAGES)
def test_the_joined_text_is_what_the_modules_say(part: str) -> None:
    text, order = join_modules(f"{part}/view.js", SOURCES)
    paths = re.findall(r"^// --- (\S+)$", text, re.MULTILINE)
    assert paths == [*order] and paths[-1] == f"{part}/view.js" and len(paths) == len(set(paths)) > 2
    places = [text.index(f"// --- {path}\n") for path in paths]
    for path, start, end in zip(paths, places, [*places[1:], None], strict=True):
        without = re.sub(r"^import [^;]*;\n", "", SOURCES[path], flags=re.MULTILINE).removesuffix(END)
        said = [line.removeprefix("export ") for line in without.splitlines()]
        body = text[start:end].removesuffix(END).splitlines()[1:]
        assert [line for line in said if line] == [line for line in body if line]
        # What a module imports stands before it.
        for target in re.findall(r'^import [^;]* from "(.*)";$', SOURCES[path], re.MULTILINE):
            known = (VIEWS / path).parent.joinpath(target).resolve().relative_to(VIEWS.resolve()).as_posix()
            assert known in paths[: paths.index(path)]
    assert text.endswith(f"\n{END}") and text.count("export ") == 1


def test_every_module_and_every_style_sheet_belongs_to_a_view() -> None:
    joined = {path for part in PAGES for path in join_modules(f"{part}/view.js", SOURCES, notebook=True)[1]}
    assert joined == {*SOURCES}
    styles = [front_end(part)[1] for part in PAGES]
    for sheet in VIEWS.glob("*/*.css"):
        assert any(sheet.read_text("utf-8") in style for style in styles), sheet.name


@pytest.mark.parametrize("part", PAGES)
def test_a_module_imports_every_name_of_another_that_it_uses_and_no_more(part: str) -> None:
    """In the joined text a forgotten import would go unnoticed."""
    _, paths = join_modules(f"{part}/view.js", SOURCES, notebook=True)
    modules = {path: read_module(path, SOURCES[path]) for path in paths}
    exports = {name for module in modules.values() for name in module.exports}
    for path, module in modules.items():
        code = code_of(module.text)
        used = {*re.findall(r"(?:(?<=\.\.\.)|(?<![.\w$]))[A-Za-z_$][\w$]*(?!\s*:[^:])", code)}
        # Declared inside: by a word, in a pattern, as a parameter.
        bound = r"(?:const|let|function|class)\s+([\w$]+)|(?:const|let)\s*([\[{][^=]*)(?:=|of)|\(([^()]*)\)\s*(?:=>|\{)|, ([\w$]+) ="
        local = {*re.findall(r"[\w$]+", " ".join(" ".join(found) for found in re.findall(bound, code)))}
        imported = {name for names in module.imports.values() for name in names}
        assert (used & exports) - imported - {*module.names} - local == set(), path
        assert imported - used == set(), path


def test_the_order_of_the_files_changes_nothing() -> None:
    backwards = dict(reversed(SOURCES.items()))
    assert join_modules("feed/view.js", backwards) == join_modules("feed/view.js", SOURCES)


@pytest.mark.parametrize(
    ("source", "names"),
    [
        ("export const A = 1, [B, C] = list;", ["A", "B", "C"]),
        ('const A = "x, y = 1", B = (c, d) => [c, d = 1];', ["A", "B"]),
        ("const A = /[,=]/, B = { c: 1, d: 2 };", ["A", "B"]),
        ("let { A, B } = table;", ["A", "B"]),
        ("export async function run(a, b = 2) {", ["run"]),
        ("class Tally {", ["Tally"]),
    ],
)
def test_a_declaration_binds_its_names(source: str, names: list[str]) -> None:
    module = read_module("ui/a.js", f"{source}\n")
    assert list(module.names) == names
    assert list(module.exports) == (names if source.startswith("export") else [])


@pytest.mark.parametrize(
    ("sources", "fault"),
    [
        ({"a/view.js": f'import * as all from "./b.js";\n{VIEW}'}, "form of import or export"),
        ({"a/view.js": f'import "./b.js";\n{VIEW}'}, "form of import or export"),
        ({"a/view.js": f"const A = 1,\n  B = 2;\n{VIEW}"}, "binds more names"),
        ({"a/view.js": f'import {{\n  b as c,\n  d,\n}} from "./b.js";\n{VIEW}'}, "form of import or export"),
        ({"a/view.js": f'import {{ b as c }} from "./b.js";\n{VIEW}'}, "form of import or export"),
        ({"a/view.js": f'import {{ b }} from "https://example.net/b.js";\n{VIEW}'}, "form of import or export"),
        ({"a/view.js": f"export {{ render }};\n{VIEW}"}, "form of import or export"),
        ({"a/view.js": f'import {{ b }} from "./b.js";\n{VIEW}'}, "a/view.js imports a/b.js, which does not exist"),
        ({"a/view.js": f'import {{ b }} from "../../b.js";\n{VIEW}'}, "a/view.js imports ../b.js, which does not exist"),
        (
            {"a/view.js": f'import {{ b, c }} from "./b.js";\n{VIEW}', "a/b.js": "export const c = 1;\nconst b = 2;\n"},
            "a/view.js imports b, which a/b.js does not export",
        ),
        (
            {"a/view.js": f'import {{ b }} from "./b.js";\nconst twice = 1;\n{VIEW}', "a/b.js": "export const b = 1;\nlet twice = 2;\n"},
            "twice stands at the top of a/b.js and of a/view.js, which are joined",
        ),
        (
            {"a/view.js": f'import {{ b }} from "./b.js";\n{VIEW}', "a/b.js": 'import { render } from "./view.js";\nexport const b = 1;\n'},
            "modules import each other: a/view.js → a/b.js → a/view.js",
        ),
        ({"a/view.js": "export function render() {}\n"}, "a/view.js does not end with"),
    ],
)  # fmt: skip
def test_modules_that_cannot_be_joined_are_refused(sources: dict[str, str], fault: str) -> None:
    with pytest.raises(ValueError) as refused:
        join_modules("a/view.js", sources)
    assert fault in str(refused.value)


def test_the_page_has_the_table_of_the_families() -> None:
    rows = re.findall(r'^  \["(.*)", "(.*)"\],$', family_table(), re.MULTILINE)
    assert tuple(rows) == STARTS
    families = re.findall(r'^  \{"name": "(.*)", "label": "(.*)"\},$', family_table(), re.MULTILINE)
    assert families == [(family.name, family.label) for family in FAMILIES]
    assert not (VIEWS / "ui/family_table.js").exists(), "a file would take the place of the table"


def test_the_style_sheet_has_the_accents_of_the_families() -> None:
    light, dark = family_css().split('body[data-jp-theme-light="false"] .mew', 1)
    for family in FAMILIES:
        assert f"--mew-{family.name}: {family.light};" in light
        assert family.light == family.dark or f"--mew-{family.name}: {family.dark};" in dark
        assert f".mew-is-{family.name} {{ --mew-family: var(--mew-{family.name}); }}" in dark
    # No other place says which colour a family has.
    written = "\n".join(path.read_text("utf-8") for path in [*FILES, *VIEWS.glob("*/*.css")])
    assert [family.name for family in FAMILIES if f"--mew-{family.name}:" in written] == []


def test_a_view_without_modules_is_told() -> None:
    with pytest.raises(ValueError, match=r"a view imports nowhere/view\.js, which does not exist"):
        front_end("nowhere")


@pytest.mark.parametrize("path", [path for path in SOURCES if not path.startswith("ui/")])
def test_no_element_of_a_part_has_the_class_of_another_part(path: str) -> None:
    """The rules of a part begin with its class, so they would hold for what stands in such an element."""
    classes = re.findall(r'class: ["`]([^"`]*)', SOURCES[path]) + re.findall(
        r'classList\.\w+\("([^"]*)', SOURCES[path]
    )
    given = {name for text in classes if not text.startswith("mew mew-") for name in text.split()}
    assert not given & {f"mew-{part}" for part in PAGES}
