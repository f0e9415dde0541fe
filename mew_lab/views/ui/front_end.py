"""Joins the ES modules and the style sheets of a view into two texts, which a notebook or a page of its own loads.

A view is `<part>/view.js`, which imports modules from its own folder and from `ui/`. `front_end` joins them: each
module once, after the modules that it imports, without its `import` lines and `export` keywords. The style sheet beside
a module, such as `form.css` beside `form.js`, is included with it. The same sources give the same text; comments and
indentation are left out of it, for each view of a page carries all that it imports. One module is not a file:
`ui/family_table.js` and the accents of the families are generated from the table in `protocol/families.py`.

A view talks to Python through an adapter (`ui/adapter.js`) alone. The text for a notebook makes one of what anywidget
gives it (`ui/comm_adapter.js`).

Joining is simple because the modules keep to few forms; any other form raises a `ValueError`:

- `import { name, other } from "./module.js";`, on one line or several, without another name for what is imported;
- `export` before a declaration, and `export default { render };` as the last line of a view;
- a `const` or `let` at the top binds one name, or a pattern on its first line;
- names at the top of modules that are joined differ, for they share one scope.
"""

from __future__ import annotations

import json
import posixpath
import re
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import NamedTuple

from mew_lab.protocol.families import FAMILIES, STARTS

__all__ = [
    "VIEWS",
    "Module",
    "caller_module",
    "family_css",
    "family_table",
    "front_end",
    "join_modules",
    "notebook_module",
    "read_module",
]

VIEWS = Path(__file__).parents[1]
FAMILY_TABLE = "ui/family_table.js"
STORED_PICTURE = "ui/stored_picture.css"  # in every view: it hides the stored picture of the cell

_IMPORT = re.compile(
    r'^import \{\s+([\w$]+(?:,\s+[\w$]+)*),?\s+\} from "(\.\.?/[\w./]+\.js)";\n', re.MULTILINE
)
_DECLARATION = re.compile(r"(export )?(?:(?:async )?function|class|const|let) ")
_DEFAULT = "export default { render };"
COMM_ADAPTER = "ui/comm_adapter.js"
_FOR_ANYWIDGET = (
    "export default { render: ({ model, el, host, signal }) => "
    "render({ adapter: commAdapter(model, host), el, signal }) };"
)


class Module(NamedTuple):
    """One ES module: its imports by path, the names at its top level, its exports, and its text without both."""

    path: str
    imports: Mapping[str, tuple[str, ...]]
    names: tuple[str, ...]
    exports: tuple[str, ...]
    text: str
    is_view: bool


def read_module(path: str, source: str) -> Module:
    """Parses one module.

    Args:
        path: Below `views/`, such as `feed/view.js`; imports are relative to it.

    Raises:
        ValueError: for a form of `import` or `export` that is not joined.
    """
    imports: dict[str, tuple[str, ...]] = {}
    names, exports, lines = list[str](), list[str](), list[str]()
    is_view = source.endswith(f"\n{_DEFAULT}\n")
    for found in _IMPORT.finditer(source):
        target = posixpath.normpath(posixpath.join(posixpath.dirname(path), found[2]))
        imports[target] = (*imports.get(target, ()), *re.findall(r"[\w$]+", found[1]))
    for line in _IMPORT.sub("", source).removesuffix(f"{_DEFAULT}\n" if is_view else "").splitlines():
        if match := _DECLARATION.match(line):
            if line.endswith(","):
                raise ValueError(f"{path}: {line!r} binds more names, which are not read")
            declared = _read_declared_names(line.removeprefix("export "))
            names += declared
            if match[1]:
                exports += declared
                line = line.removeprefix("export ")
        if re.match(r"(import|export)\b", line):
            raise ValueError(f"{path}: {line!r} is a form of import or export that is not joined")
        lines.append(line)
    text = re.sub(r"\n{3,}", "\n\n", "\n".join(lines)).strip("\n")
    return Module(path, imports, tuple(names), tuple(exports), text, is_view)


def _read_declared_names(line: str) -> list[str]:
    """The names that the first line of a declaration binds: `const A = 1, [B, C] = …` binds three."""
    word, rest = line.removeprefix("async ").split(" ", 1)
    if word in ("function", "class"):
        return re.findall(r"^[\w$]+", rest)
    names, opened, pattern = list[str](), 0, True
    for token in re.findall(r"\"(?:\\.|[^\"\\])*\"|`[^`]*`|/(?![/*])[^/]+/|=>|[\w$.]+|\S", rest):
        if opened == 0 and token == "=":
            pattern = False
        elif opened == 0 and token == ",":
            pattern = True
        elif pattern and re.fullmatch(r"[A-Za-z_$][\w$]*", token):
            names.append(token)
        opened += (token in "([{") - (token in ")]}")
    return names


def join_modules(
    entry: str, sources: Mapping[str, str], *, notebook: bool = False
) -> tuple[str, tuple[str, ...]]:
    """Joins the module `entry` with all that it imports; the text, and the paths in their order.

    Args:
        sources: The texts of the modules by path.
        notebook: Whether the text is for anywidget, else for a page that gives it an adapter.

    Raises:
        ValueError: where a module or a name is missing, two modules import each other, or two names clash.
    """
    ordered: dict[str, Module] = {}
    opened: list[str] = []

    def visit(path: str) -> Module:
        if path in ordered:
            return ordered[path]
        if path in opened:
            raise ValueError(f"modules import each other: {' → '.join([*opened, path])}")
        if path not in sources:
            raise ValueError(f"{opened[-1] if opened else 'a view'} imports {path}, which does not exist")
        opened.append(path)
        module = read_module(path, sources[path])
        for target, names in module.imports.items():
            if missing := set(names) - {*visit(target).exports}:
                raise ValueError(
                    f"{path} imports {', '.join(sorted(missing))}, which {target} does not export"
                )
        opened.pop()
        ordered[path] = module
        return module

    if notebook:
        visit(COMM_ADAPTER)
    if not visit(entry).is_view:
        raise ValueError(f"{entry} does not end with {_DEFAULT}")
    owners: dict[str, str] = {}
    for module in ordered.values():
        for name in module.names:
            if owners.setdefault(name, module.path) != module.path:
                raise ValueError(
                    f"{name} stands at the top of {owners[name]} and of {module.path}, which are joined"
                )
    text = "\n\n".join(f"// --- {module.path}\n{module.text}" for module in ordered.values())
    return f"{text}\n\n{_FOR_ANYWIDGET if notebook else _DEFAULT}\n", tuple(ordered)


def _leave_out_comments(text: str) -> str:
    """The text without blank lines, indentation, and comments that have lines of their own.

    What a line says is not read, so a comment after code stays, and no string of a module may run over two lines.
    """
    comments = re.compile(r"^[ ]*(?:/\*(?:(?!\*/).)*\*/[ ]*|//[^\n]*)$", re.MULTILINE | re.DOTALL)
    return "\n".join(line.lstrip(" ") for line in comments.sub("", text).splitlines() if line.strip()) + "\n"


def family_table() -> str:
    """The families of kinds as the ES module `ui/family_table.js`."""
    families = [{"name": family.name, "label": family.label} for family in FAMILIES]
    rows = ",\n  ".join(json.dumps(row) for row in families)
    starts = ",\n  ".join(json.dumps(row) for row in STARTS)
    return (
        "// The families of kinds, and how a kind of each begins: the first row that fits counts.\n\n"
        f"export const FAMILIES = [\n  {rows},\n];\n"
        f"export const KIND_STARTS = [\n  {starts},\n];\n"
    )


def family_css() -> str:
    """The accents of the families, for light and dark grounds, as a style sheet; `.mew-is-<family>` selects one."""
    light = " ".join(f"--mew-{family.name}: {family.light};" for family in FAMILIES)
    dark = " ".join(
        f"--mew-{family.name}: {family.dark};" for family in FAMILIES if family.dark != family.light
    )
    uses = "\n".join(
        f".mew-is-{family.name} {{ --mew-family: var(--mew-{family.name}); }}" for family in FAMILIES
    )
    return f'.mew {{ {light} }}\nbody[data-jp-theme-light="false"] .mew {{ {dark} }}\n{uses}\n'


@cache
def _sources() -> Mapping[str, str]:
    files = {path.relative_to(VIEWS).as_posix(): path.read_text("utf-8") for path in VIEWS.glob("*/*.js")}
    return {FAMILY_TABLE: family_table(), **files}


@cache
def front_end(part: str) -> tuple[str, str]:
    """The ES module of a view, such as `feed`, without comments and indentation, and its style sheet, for a page.

    Raises:
        ValueError: where its modules cannot be joined; the sentence names the module.
    """
    return _join(part, notebook=False)


@cache
def notebook_module(part: str) -> tuple[str, str]:
    """The same for anywidget. The empty name stands for a view without a front end."""
    return _join(part, notebook=True) if part else ("export default { render() {} };\n", "")


@cache
def caller_module() -> tuple[str, str]:
    """The module and the style sheet of `caller/`, which anywidget runs without a display."""
    text, css = notebook_module("caller")
    begin = "initialize: ({ model }) => callFrom(model, commAdapter(model))"
    return text.replace(_FOR_ANYWIDGET, f"export default {{ {begin}, render }};"), css


def _join(part: str, *, notebook: bool) -> tuple[str, str]:
    text, paths = join_modules(f"{part}/view.js", _sources(), notebook=notebook)
    sheets = [VIEWS / STORED_PICTURE, *((VIEWS / path).with_suffix(".css") for path in paths)]
    styles = [sheet.read_text("utf-8") for sheet in sheets if sheet.is_file()]
    return _leave_out_comments(text), "\n".join([family_css(), *styles])
