"""Does the tree keep the plan of the house?  Floors, places of third parties, sizes, tests, exports, forbidden calls.

Reads source text only; the checks that need a tool run it as a subprocess.
"""

from __future__ import annotations

import ast
import functools
import gc
import re
import subprocess
import sys
from collections.abc import Iterator
from fnmatch import fnmatch
from importlib import metadata
from pathlib import Path

import ipywidgets
import pytest

import mew_lab
from mew_lab.views.ui.notebook_host import NotebookWidget

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "mew_lab"

# An import points to a lower floor, or stays in its room.
FLOORS = {
    "errors": 1, "version": 1,
    "protocol": 2, "transport": 2, "settings": 2,
    "space": 3, "ledger": 3, "rules": 3,
    "sdk": 4, "gateway": 4, "log": 4,
    "agent": 5, "bridge": 5,
    "conformance": 6, "tools_agent": 6,
    "lab": 7,
    "views": 8,
    "notebook": 9, "cli": 9,
}  # fmt: skip
TOP = 9

# Each third party and the only modules that may import it. The reasons stand in pyproject.toml.
PLACES: dict[str, tuple[str, ...]] = {
    "pydantic": (
        "protocol.payloads.*", "gateway.config", "settings.faults", "gateway.space_file",
        "sdk.tools", "sdk.signature", "tools_agent.schema", "bridge.acp_connection", "bridge.acp_server",
    ),
    "re2": ("protocol.strings", "protocol.token", "log.filter.patterns"),
    "lark": ("log.filter.grammar",),
    "jsonpath_rfc9535": ("protocol.jsonpath",),
    "orjson": ("sdk.client", "log.json_text", "log.filter.indexed"),
    "websockets": ("transport.websocket", "gateway.protocol"),
    "uvicorn": ("gateway.http_server", "gateway.protocol"),
    "starlette": ("gateway.routes",),
    "uvloop": ("cli.shell",),
    "yaml": ("settings.documents",),
    "openai": ("agent.completions",),
    "mcp": ("bridge.*",),
    "acp": ("bridge.acp_connection", "bridge.acp_server"),
    "httpx2": ("bridge.http_client", "bridge.mcp_relay", "bridge.session", "lab.notification"),  # mcp brings it
    "standardwebhooks": ("lab.notification",),
    "pydantic_ai": ("bridge.frameworks.pydantic_ai",),
    "agents": ("bridge.frameworks.openai_agents",),
    "langgraph": ("bridge.frameworks.langgraph",),
    "pandas": ("log.log", "log.answers", "log.table", "log.payloads", "log.frames", "log.charts", "log.decided_calls", "log.moment", "log.filter.filtered", "log.line_frame", "log.shown_frame", "log.tool_calls", "log.what_if", "log.diagnose.diagnosis", "log.follow", "conformance.table"),
    # pandas brings it; the payload column is an extension array, and DuckDB takes and gives arrays
    "numpy": ("log.payloads", "log.parquet", "log.table", "log.facts", "log.index", "log.build", "log.line_frame", "log.links", "log.filter.indexed"),
    "duckdb": ("log.fact_process", "log.facts", "log.index", "log.build", "log.parquet"),
    "pyarrow": ("log.payloads",),
    "zstandard": ("log.unpacked",),
    "prompt_toolkit": ("cli.prompt",),
    "wcwidth": ("cli.prompt",),
    "IPython": ("notebook.*", "views.ui.notebook_host"),
    "ipykernel": ("views.ui.notebook_host",),
    "anywidget": ("views.ui.notebook_host",),
    "segno": ("views.page.link",),
    "jupyter_core": ("views.ui.preferences",),
    "traitlets": ("notebook.*", "views.ui.notebook_host"),
    "markdown_it": ("views.ui.markdown",),
    "nh3": ("views.ui.markdown",),
}  # fmt: skip


# Every name of api.md; those of rooms that do not exist yet are absent until they do.
PUBLIC = set(
    "up connect open_log labs Lab Seat Pending Policy MEWClient MEWParticipant MEWAgent ToolBox ToolResult Stream Model "
    "OfflineModel Gateway SpaceConfig Space Envelope Capability permit covers PROFILES Proposal Log errors".split()
)

MODULES = sorted(PACKAGE.rglob("*.py"))


def name_of(path: Path, package: Path = PACKAGE) -> str:
    """`mew_lab/space/core.py` -> `space.core`; a package's `__init__` is the package; the root is ''."""
    parts = path.relative_to(package).with_suffix("").parts
    return ".".join(part for part in parts if part != "__init__")


@functools.cache
def tree_of(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


@pytest.fixture(scope="module", autouse=True)
def trees() -> Iterator[None]:
    """The trees, a million objects, are there for this module alone."""
    gc.disable()
    yield
    tree_of.cache_clear()
    nodes_of.cache_clear()
    gc.enable()


@functools.cache
def nodes_of(tree: ast.Module) -> tuple[ast.AST, ...]:
    """Every node of a tree."""
    return tuple(ast.walk(tree))


@functools.cache
def imports_of(path: Path) -> tuple[str, ...]:
    """Every module imported anywhere in a file, deferred and type-only imports included, by its full name."""
    return tuple(find_imports(path))


def find_imports(path: Path) -> Iterator[str]:
    for node in nodes_of(tree_of(path)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: write `from mew_lab.…`, not a relative import"
            module = node.module or ""
            if module == "mew_lab":
                yield from (f"mew_lab.{alias.name}" for alias in node.names)
            else:
                yield module


def misplaced(importer: str, imported: str) -> str:
    """Why this import breaks the plan of the house, or ''."""
    first, *rest = imported.split(".")
    if first == "mew_lab":
        target = rest[0] if rest else ""
        room = importer.split(".")[0]
        if room not in FLOORS:
            return f"{importer} stands on no floor"
        if target not in FLOORS:
            # The top floor may use what a user touches; anybody may ask the package's one table for what stands above.
            if FLOORS[room] == TOP or target in ("__version__", "find_above"):
                return ""
            return f"{importer} imports the public name {imported}; import it from its module"
        if room == target or FLOORS[target] < FLOORS[room]:
            return ""
        way = "up to" if FLOORS[target] > FLOORS[room] else "sideways to"
        return f"{importer} imports {way} {target}"
    if first in sys.stdlib_module_names:
        return ""
    if first not in PLACES:
        return f"{importer} imports {first}, which has no place in the house"
    if not any(fnmatch(importer, place) for place in PLACES[first]):
        return f"{importer} imports {first}, whose places are {', '.join(PLACES[first])}"
    return ""


def exempt(path: Path) -> set[str]:
    """Imports that do not count: those under TYPE_CHECKING in errors.py, and the lazy names of the package itself."""
    if path == PACKAGE / "errors.py":
        guarded = [node for node in nodes_of(tree_of(path)) if isinstance(node, ast.If)]
        return {
            inner.module or ""
            for node in guarded
            if isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"
            for inner in ast.walk(node)
            if isinstance(inner, ast.ImportFrom)
        }
    return set()


def test_imports_point_down_and_third_parties_stay_in_their_places() -> None:
    faults = [
        fault
        for path in MODULES
        if path != PACKAGE / "__init__.py"
        for imported in imports_of(path)
        if imported not in exempt(path) and (fault := misplaced(name_of(path), imported))
    ]
    assert faults == [], "\n".join(["", *faults])


def circles(graph: dict[str, set[str]]) -> list[list[str]]:
    """The modules that reach themselves, each circle once; a module that is in several is told once."""

    def reached(start: str) -> set[str]:
        found, waiting = set[str](), [start]
        while waiting:
            for target in graph.get(waiting.pop(), ()):
                if target not in found:
                    found.add(target)
                    waiting.append(target)
        return found

    reach = {name: reached(name) for name in graph}
    told: set[str] = set()
    found = []
    for name in graph:
        if name in reach[name] and name not in told:
            circle = [other for other in graph if other in reach[name] and name in reach[other]]
            told |= {*circle}
            found.append(circle)
    return found


def test_no_module_imports_itself_through_others() -> None:
    """Inside a room neither; deferred and type-only imports count. The package's own lazy names aside."""
    names = {f"mew_lab.{name_of(path)}": path for path in MODULES if path != PACKAGE / "__init__.py"}
    graph: dict[str, set[str]] = {}
    for name, path in names.items():
        graph[name] = set()
        for node in nodes_of(tree_of(path)):
            if isinstance(node, ast.Import):
                graph[name] |= {alias.name for alias in node.names}
            elif (
                isinstance(node, ast.ImportFrom) and node.module
            ):  # a module of a package, or a name of a module
                several = {f"{node.module}.{alias.name}" for alias in node.names}
                graph[name] |= {one if one in names else node.module for one in several}
        graph[name] = (graph[name] & names.keys()) - exempt(path) - {name}
    assert circles(graph) == []


def test_a_circle_is_found_however_long_it_is() -> None:
    assert circles({"a": {"b"}, "b": {"c"}, "c": {"a"}, "d": {"a"}}) == [["a", "b", "c"]]
    assert circles({"a": {"b"}, "b": set()}) == []


@pytest.mark.parametrize(
    ("importer", "imported", "fault"),
    [
        ("space.core", "mew_lab.protocol.envelope", ""),
        ("space.core", "mew_lab.space.state", ""),
        ("space.core", "mew_lab.gateway.gateway", "up to"),
        ("space.core", "mew_lab.ledger.calls", "sideways to"),
        ("cli", "mew_lab.notebook.magics", "sideways to"),
        ("transport.link", "mew_lab.protocol.envelope", "sideways to"),
        ("space.core", "mew_lab.up", "public name"),
        ("notebook.magics", "mew_lab", ""),
        ("attic.box", "mew_lab.errors", "no floor"),
        ("space.core", "json", ""),
        ("space.core", "pandas.api", "places are"),
        ("log.table", "pandas.api", ""),
        ("log.table", "requests", "no place"),
    ],
)
def test_the_plan_tells_good_imports_from_bad(importer: str, imported: str, fault: str) -> None:
    said = misplaced(importer, imported)
    assert (fault in said) if fault else said == ""


def test_every_place_of_a_third_party_is_used() -> None:
    """A place that nobody uses any more would let somebody in unseen."""
    used = {(name_of(path), imported.split(".")[0]) for path in MODULES for imported in imports_of(path)}
    rooms = {name_of(path).split(".")[0] for path in MODULES}
    idle = [
        f"{party} in {place}"
        for party, places in PLACES.items()
        for place in places
        if "*" not in place and place.split(".")[0] in rooms
        and any(name == place for name in map(name_of, MODULES))
        and (place, party) not in used
    ]  # fmt: skip
    assert idle == [], "\n".join(["", *idle])


def test_the_libraries_that_were_ordered_are_the_ones_that_are_used() -> None:
    """ipywidgets is used through anywidget, whose widgets are its widgets."""
    required = {re.split(r"[^\w-]", one)[0] for one in metadata.requires("mew_lab") or ()}
    assert {"websockets", "pydantic", "ipykernel", "ipywidgets", "openai", "pandas"} <= required
    assert {"websockets", "pydantic", "ipykernel", "anywidget", "openai", "pandas"} <= PLACES.keys()
    assert issubclass(NotebookWidget, ipywidgets.DOMWidget)


def test_the_package_itself_imports_nothing_at_module_level_but_types() -> None:
    body = tree_of(PACKAGE / "__init__.py").body
    loaded = [
        node.module if isinstance(node, ast.ImportFrom) else [alias.name for alias in node.names]
        for node in body
        if isinstance(node, (ast.Import, ast.ImportFrom))
    ]
    assert set(map(str, loaded)) <= {"__future__", "['sys']", "typing"}


def test_only_the_package_itself_imports_by_a_computed_name() -> None:
    found = [
        name_of(path)
        for path in MODULES
        if path != PACKAGE / "__init__.py"
        and re.search(r"\bimport_module\b|\b__import__\b", path.read_text())
    ]
    assert found == []


# A whole lab is taken by the list of labs and by the magics alone; everything else takes a `Session`, or parts of one.
WHOLE_LAB = {"", "lab.labs", "notebook.magics"}


def test_nothing_but_the_facade_and_the_magics_takes_a_whole_lab() -> None:
    """Type-only imports count."""
    takers = {name_of(path) for path in MODULES if "mew_lab.lab.lab" in imports_of(path)}
    assert takers == WHOLE_LAB


CLIENT_LAYER = {
    "sdk.arguments", "sdk.client", "sdk.connection", "sdk.options", "sdk.settings", "sdk.signal",
}  # fmt: skip


NO_LINK = {f"mew_lab.transport.{name}" for name in ("files", "line_judge", "scratch")}  # they move no message


@pytest.mark.req("S-G-2", "S-G-3", "S-G-4")
def test_the_client_knows_no_participant_and_the_participant_no_transport() -> None:
    """Layers of the SDK by what they import: a participant has a client, a client has a link."""
    sdk = {name_of(path): set(imports_of(path)) for path in MODULES if name_of(path).startswith("sdk.")}
    assert set(sdk) >= CLIENT_LAYER
    for name, imported in sdk.items():
        if name in CLIENT_LAYER:
            upper = {one for one in imported if one.startswith("mew_lab.sdk.")}
            assert upper <= {f"mew_lab.{one}" for one in CLIENT_LAYER}, name
        else:
            moving = {one for one in imported if one.startswith("mew_lab.transport")} - NO_LINK
            assert not moving, name
    participant, client = mew_lab.MEWParticipant, mew_lab.MEWClient
    assert not issubclass(participant, client) and not issubclass(client, participant)


PURE = ("protocol", "space")
CLOCKS_AND_DICE = {"time", "random", "secrets", "uuid", "os", "threading", "asyncio", "socket", "subprocess"}


def test_the_pure_rooms_have_no_clock_no_dice_and_no_input_or_output() -> None:
    faults = []
    for path in MODULES:
        if name_of(path).split(".")[0] not in PURE:
            continue
        faults += [f"{name_of(path)} imports {name}" for name in imports_of(path) if name in CLOCKS_AND_DICE]
        faults += [
            f"{name_of(path)}:{node.lineno} calls {ast.unparse(node.func)}"
            for node in nodes_of(tree_of(path))
            if isinstance(node, ast.Call)
            and last_name(node) in {"now", "utcnow", "today", "open", "print", "input"}
        ]
    assert faults == [], "\n".join(["", *faults])


# --- words -----------------------------------------------------------------------------------------------------


def test_every_module_says_what_it_is_for() -> None:
    silent = [name_of(path) or "mew_lab" for path in MODULES if not ast.get_docstring(tree_of(path))]
    assert silent == []


def test_no_module_is_called_by_a_word_that_means_anything() -> None:
    vague = {"utils", "util", "helpers", "helper", "common", "base", "manager", "misc"}
    assert [name for name in map(name_of, MODULES) if vague & set(name.split("."))] == []


def exported(tree: ast.Module) -> list[str] | None:
    for node in tree.body:
        target = node.targets[0] if isinstance(node, ast.Assign) else getattr(node, "target", None)
        if isinstance(target, ast.Name) and target.id == "__all__":
            assert isinstance(node, (ast.Assign, ast.AnnAssign)) and node.value is not None
            return [str(name) for name in ast.literal_eval(node.value)]
    return None


def defined(tree: ast.Module) -> set[str]:
    """The names that a module binds at its top level."""
    names: set[str] = set()
    for node in nodes_of(tree):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            names.add(node.name)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            names.add(node.id)
        elif isinstance(node, (ast.Import, ast.ImportFrom)):
            names |= {alias.asname or alias.name for alias in node.names}
    return names


def test_every_module_lists_its_exports_and_has_them() -> None:
    faults = []
    for path in MODULES:
        tree = tree_of(path)
        names = exported(tree)
        if names is None:
            if len(tree.body) > 1:
                faults.append(f"{name_of(path)} has no __all__")
        else:
            faults += [
                f"{name_of(path)} exports {name}, which it has not" for name in set(names) - defined(tree)
            ]
    assert faults == [], "\n".join(["", *faults])


def test_the_public_names_are_those_of_the_api_and_each_can_be_had() -> None:
    names = mew_lab.__all__
    assert set(names) <= PUBLIC
    assert len(names) == len(set(names)) <= 30
    assert all(getattr(mew_lab, name) is not None for name in names)
    assert set(names) <= set(dir(mew_lab))
    assert mew_lab.__version__ == metadata.version("mew_lab")


def test_importing_the_package_loads_no_room_and_no_heavy_library() -> None:
    script = "import sys, mew_lab; print(*sorted(sys.modules))"
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, check=True
    )
    loaded = done.stdout.split()
    assert "mew_lab" in loaded
    heavy = {"pandas", "openai", "mcp", "IPython", "pydantic", "asyncio", "websockets", "uvicorn"}
    assert [name for name in loaded if name.split(".")[0] in heavy or name.startswith("mew_lab.")] == []


def test_the_types_are_shipped() -> None:
    assert (PACKAGE / "py.typed").is_file()


def test_what_is_installed_is_all_that_the_package_has() -> None:
    try:
        files = metadata.distribution("mew_lab").files or []
    except metadata.PackageNotFoundError:
        pytest.skip("mew_lab runs from the checkout here; `.ci/run` installs it")
    installed = {str(file) for file in files if str(file).startswith("mew_lab/")}
    if not installed:
        pytest.skip("mew_lab is installed in editable form here; `.ci/run` installs it whole")
    source = {str(path.relative_to(ROOT)) for path in PACKAGE.rglob("*") if path.is_file()}
    assert {name for name in source if "__pycache__" not in name} <= installed


# --- calls and words that are never needed -----------------------------------------------------------------------

CALLS = {"eval", "exec", "compile", "yaml.load", "yaml.unsafe_load", "yaml.full_load"}
LAST_NAMES = {name.rpartition(".")[2] for name in CALLS}
MODULES_NEVER = {"pickle", "marshal", "shelve", "dill", "cloudpickle"}
IN_THE_PAGE = re.compile(
    r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|createContextualFragment|srcdoc"
    r"|\beval\s*\(|new\s+Function\b|DOMParser|javascript:|pickle"
)
# The name of the SVG namespace looks like an address; nobody ever asks it for anything.
ELSEWHERE = re.compile(
    r"(?:https?:|wss?:)?//(?!127\.0\.0\.1|localhost|\{|\[::1\]|www\.w3\.org/2000/svg\")[a-z0-9-]+\.[a-z0-9.-]+",
    re.IGNORECASE,
)


def strings_of(tree: ast.Module) -> Iterator[ast.Constant]:
    """String constants that are no docstrings: what could become part of a page."""
    documents = {
        id(node.body[0].value)
        for node in nodes_of(tree)
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef))
        and node.body and isinstance(node.body[0], ast.Expr)
    }  # fmt: skip
    for node in nodes_of(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in documents:
            yield node


def last_name(call: ast.Call) -> str:
    """`load` of `yaml.load(…)`; empty where something else than a name is called."""
    return str(getattr(call.func, "attr", getattr(call.func, "id", "")))


def dangers_in(tree: ast.Module) -> list[str]:
    calls = [
        f"line {node.lineno} calls {ast.unparse(node.func)}"
        for node in nodes_of(tree)
        if isinstance(node, ast.Call) and last_name(node) in LAST_NAMES and ast.unparse(node.func) in CALLS
    ]
    names = [
        f"line {node.lineno} imports {name}"
        for node in nodes_of(tree)
        if isinstance(node, (ast.Import, ast.ImportFrom))
        for name in (
            [node.module] if isinstance(node, ast.ImportFrom) else [alias.name for alias in node.names]
        )
        if (name or "").split(".")[0] in MODULES_NEVER
    ]
    texts = [
        f"line {node.lineno} holds {found.group()}"
        for node in strings_of(tree)
        if (found := IN_THE_PAGE.search(str(node.value)))
    ]
    return calls + names + texts


@pytest.mark.threat(3, 32)
def test_nothing_evaluates_unpickles_or_writes_markup_into_a_page() -> None:
    faults = [f"{name_of(path)}: {one}" for path in MODULES for one in dangers_in(tree_of(path))]
    for path in [*PACKAGE.rglob("*.js"), *PACKAGE.rglob("*.css"), *PACKAGE.rglob("*.html")]:
        text = path.read_text(encoding="utf-8")
        faults += [f"{path.name}: {found.group()}" for found in IN_THE_PAGE.finditer(text)]
    assert faults == [], "\n".join(["", *faults])


@pytest.mark.parametrize(
    "source",
    [
        "eval('1')",
        "exec('')",
        "import pickle",
        "from pickle import loads",
        "yaml.load(text)",
        "x = 'a.innerHTML = b'",
    ],
)
def test_the_search_for_dangers_finds_them(source: str) -> None:
    assert len(dangers_in(ast.parse(source))) == 1


def test_the_front_end_loads_nothing_from_elsewhere() -> None:
    faults = [
        f"{path.name}: {found.group()}"
        for path in [*PACKAGE.rglob("*.js"), *PACKAGE.rglob("*.css"), *PACKAGE.rglob("*.html")]
        for found in ELSEWHERE.finditer(path.read_text(encoding="utf-8"))
    ]
    assert faults == [], "\n".join(["", *faults])
    assert ELSEWHERE.search('import "https://cdn.example.net/x.js"')


def test_the_pure_rooms_hide_no_line_from_coverage() -> None:
    hidden = [
        f"{name_of(path)}:{number}"
        for path in MODULES
        if name_of(path).split(".")[0] in PURE
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
        if "pragma:" in line
    ]
    assert hidden == []
    settings = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    assert "omit" not in settings and "exclude_lines" not in settings and "exclude_also" not in settings


# --- names and prose ---------------------------------------------------------------------------------------------

# Past participles that do not end in -ed, and those that are imperatives as well.
PARTICIPLES = {
    "said", "told", "heard", "given", "found", "made", "gone", "held", "kept", "taken", "shown", "known", "begun", "done",
}  # fmt: skip
VERBS = {"embed", "exceed", "feed", "need", "proceed", "seed", "shed", "speed"}


def classes(tree: ast.Module) -> Iterator[str]:
    yield from (node.name for node in nodes_of(tree) if isinstance(node, ast.ClassDef))


def test_each_class_name_stands_once_in_the_package() -> None:
    places: dict[str, list[str]] = {}
    for path in MODULES:
        for name in classes(tree_of(path)):
            places.setdefault(name, []).append(name_of(path))
    assert {name: where for name, where in places.items() if len(where) > 1} == {}


def acting_participles(tree: ast.Module) -> list[str]:
    """Functions that return nothing, so that they act, and whose name is a participle: `executed`, `_tools_changed`.

    The callbacks that asyncio names are exempt, and so is a name that begins with a verb: `_note_refused`.
    """
    names = []
    for node in nodes_of(tree):
        if not isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) or node.name.startswith("__"):
            continue
        acts = isinstance(node.returns, ast.Constant) and node.returns.value is None
        words = node.name.strip("_").split("_")
        participle = words[-1] in PARTICIPLES or (words[-1].endswith("ed") and words[-1] not in VERBS)
        if acts and participle and len(words) <= 2 and words[0] not in STARTERS:
            names.append(node.name)
    return names


STARTERS = {
    "on", "note", "record", "mark", "say", "tell", "take", "refuse", "close", "when", "wait", "write", "is", "put", "add", "set", "count", "fill", "confirm",
    "data",
}  # fmt: skip


def test_functions_that_act_are_verbs() -> None:
    found = {name_of(path): names for path in MODULES if (names := acting_participles(tree_of(path)))}
    assert found == {}
    assert acting_participles(ast.parse("def executed(x) -> None: ...\ndef note_refused() -> None: ...")) == [
        "executed"
    ]


def asking(tree: ast.Module) -> list[str]:
    """Docstrings whose first paragraph asks; a question mark within backticks or quotes is no question."""
    nodes = [
        node
        for node in nodes_of(tree)
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef))
    ]
    texts = [(ast.get_docstring(node) or "").split("\n\n")[0] for node in nodes]
    return [text for text in texts if "?" in re.sub(r"`[^`]*`|\"[^\"]*\"", "", text)]


def test_no_docstring_asks_a_question() -> None:
    assert {name_of(path): texts for path in MODULES if (texts := asking(tree_of(path)))} == {}
    assert len(asking(ast.parse('"""What is this?  A thing."""'))) == 1


# --- private names -----------------------------------------------------------------------------------------------

TESTS = ROOT / "tests"

# The tests that may use private names of the package, and why.
PRYING = {
    "removals.py": "takes a piece of the gateway out, as a mutant does",
    "benchmarks/holds.py": "measures one turn of a gateway from within",
    "views/test_live.py": "watches the private name of ipykernel that the views replace",
}


def is_private(name: str) -> bool:
    """Whether the name is private: `_repr_html_` and its like are names of a protocol, which others call."""
    return name.startswith("_") and not name.endswith("_")


def private_names(tree: ast.Module) -> set[str]:
    """The private names of functions, classes, variables and attributes that a module defines."""
    names = {
        *(node.name for node in nodes_of(tree) if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef))),
        *(node.id for node in nodes_of(tree) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)),
        *(node.attr for node in nodes_of(tree) if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store)),
        *(text for node in nodes_of(tree) if isinstance(node, ast.ClassDef) for text in slots_of(node)),
    }  # fmt: skip
    return set(filter(is_private, names))


@functools.cache
def private_names_of_package() -> set[str]:
    return set().union(*(private_names(tree_of(path)) for path in MODULES))


def slots_of(node: ast.ClassDef) -> Iterator[str]:
    """The names in the `__slots__` of a class."""
    for statement in node.body:
        target = statement.targets[0] if isinstance(statement, ast.Assign) else None
        if isinstance(target, ast.Name) and target.id == "__slots__":
            constants = (inner for inner in ast.walk(statement.value) if isinstance(inner, ast.Constant))
            yield from (str(constant.value) for constant in constants)


def own_private_names(tree: ast.Module) -> set[str]:
    """The private names that a test module itself defines: functions, classes, variables, attributes of `self`."""
    foreign = {
        node.attr
        for node in nodes_of(tree)
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store) and not is_self(node.value)
    }
    return private_names(tree) - foreign


def is_self(node: ast.expr) -> bool:
    return isinstance(node, ast.Name) and node.id in ("self", "cls")


def find_prying(tree: ast.Module, package: set[str]) -> Iterator[str]:
    """Each use of a private name of the package: an import, an attribute, `setattr` and its like, a dotted string."""
    foreign = package - own_private_names(tree)
    for node in nodes_of(tree):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("mew_lab"):
            names = [*(node.module or "").split("."), *(alias.name for alias in node.names)]
            yield from (f"line {node.lineno} imports {name}" for name in names if is_private(name))
        elif isinstance(node, ast.Attribute) and node.attr in foreign and not is_self(node.value):
            yield f"line {node.lineno} uses {ast.unparse(node)}"
        elif isinstance(node, ast.Call) and last_name(node) in ("setattr", "delattr", "getattr", "hasattr"):
            texts = [one.value for one in node.args[1:2] if isinstance(one, ast.Constant)]
            yield from (f"line {node.lineno} patches {text}" for text in texts if text in package)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            first, *names = node.value.split(".")
            if (
                first == "mew_lab"
                and node.value.replace(".", "").isidentifier()
                and any(map(is_private, names))
            ):
                yield f"line {node.lineno} names {node.value}"


@pytest.mark.timeout(300)
def test_no_test_uses_a_private_name_of_the_package() -> None:
    """A test shows what is observed; what moves within a room breaks none."""
    package = private_names_of_package()
    found = {
        name: faults
        for path in tracked()
        if path.suffix == ".py"
        and path.is_relative_to(TESTS)
        and (name := path.relative_to(TESTS).as_posix()) not in PRYING
        and (faults := list(find_prying(tree_of(path), package)))
    }
    assert found == {}


def test_every_exception_to_that_is_needed() -> None:
    package = private_names_of_package()
    assert [name for name in PRYING if not list(find_prying(tree_of(TESTS / name), package))] == []


@pytest.mark.parametrize(
    ("source", "count"),
    [
        ("from mew_lab.lab.training import _pick", 1),
        ("from mew_lab._hidden import pick", 1),
        ("view._nonce", 1),
        ("human.view._cards['p']._nonce", 2),
        ("view._nonce = 'other'", 1),
        ("monkeypatch.setattr(view, '_nonce', '')", 1),
        ("hasattr(view, '_nonce')", 1),
        ("monkeypatch.setattr('mew_lab.views.ui.live._nonce', '')", 1),
        ("class Page:\n    def send(self):\n        return self._nonce", 0),
        ("class Page:\n    def __init__(self):\n        self._nonce = 1\nPage()._nonce", 0),
        ("view._repr_html_()", 0),
        ("record._replace(seq=2)", 0),
        ("'mew_lab has no _nonce'", 0),
    ],
)
def test_the_search_for_private_names_finds_them(source: str, count: int) -> None:
    assert len(list(find_prying(ast.parse(source), {"_nonce", "_cards"}))) == count


# --- tracked text ------------------------------------------------------------------------------------------------

# What tells of one machine, or of a place from which packages come other than by their names.
OF_ONE_MACHINE = re.compile(
    r"/" r"work/|/" r"root/|/" r"Users/[a-z]|[A-Z]:\\\\?Users|/" r"opt/|bash_jobs"
    r"|index-url|find-links|trusted-host|artifactory|https?://(?:pypi|files\.pythonhosted|registry|cdn|unpkg|esm)\b[^\s]*"
)  # fmt: skip


def tracked() -> list[Path]:
    listed = subprocess.run(
        ["git", "-c", "safe.directory=*", "ls-files", "-z"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    return [path for name in listed.split("\0") if name and (path := ROOT / name).is_file()]


def test_the_top_level_has_a_place_for_each_thing_and_nothing_else() -> None:
    """Names that begin with a dot serve the tools."""
    shown = {path.relative_to(ROOT).parts[0] for path in tracked()}
    assert {name for name in shown if not name.startswith(".")} == {
        *("README.md", "CHANGELOG.md", "LICENSE", "pyproject.toml"),
        *("mew_lab", "tests", "notebooks", "examples", "binder"),
    }


def text_of(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        return ""


def test_tracked_files_tell_nothing_of_one_machine() -> None:
    if not (ROOT / ".git").exists():
        pytest.skip("not a git checkout: what is tracked is not known")
    faults = [
        f"{path.relative_to(ROOT)}: {found.group()}"
        for path in tracked()
        if path != Path(__file__).resolve()
        for found in OF_ONE_MACHINE.finditer(text_of(path))
    ]
    assert faults == [], "\n".join(["", *faults])


def test_text_files_end_their_lines_with_a_line_feed_alone() -> None:
    if not (ROOT / ".git").exists():
        pytest.skip("not a git checkout: what is tracked is not known")
    texts = [path for path in tracked() if path.suffix != ".png"]
    assert [str(path) for path in texts if "\r\n" in path.read_bytes().decode("latin-1")] == []


# --- tools -------------------------------------------------------------------------------------------------------


@pytest.mark.timeout(300)
@pytest.mark.parametrize(
    "command",
    [["ruff", "check", "."], ["ruff", "format", "--check", "."], ["mypy"]],
    ids=["ruff check", "ruff format", "mypy strict"],
)
def test_the_tools_find_nothing(command: list[str]) -> None:
    done = subprocess.run([sys.executable, "-m", *command], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
