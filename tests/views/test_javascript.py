"""The pure parts of the front ends, run by Node: each `js/*.test.mjs` imports the modules as they stand in the tree."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from npm_tools import PRETTIER, TYPESCRIPT, npm_package, type_faults
from pages import Page, bustle, settle

from mew_lab.lab.lab import Lab
from mew_lab.views.ui.acts import ActingView
from mew_lab.views.ui.front_end import FAMILY_TABLE, VIEWS, family_table, front_end, join_modules
from mew_lab.views.ui.messages import members_of
from mew_lab.views.views import PARTS

HERE = Path(__file__).parent
ROOT = HERE.parents[1]

TAG = re.compile(r'"t": "(\w+)"')  # of an item that a view sends


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A copy of the modules and their tests in which Node finds ES modules; nothing is written beside the sources."""
    for path in [*VIEWS.glob("*/*.js"), *HERE.glob("js/*"), *HERE.glob("*.json")]:
        copy = tmp_path / path.relative_to(ROOT)
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, copy)
    (tmp_path / VIEWS.relative_to(ROOT) / FAMILY_TABLE).write_text(family_table(), "utf-8")
    (tmp_path / "package.json").write_text('{"type": "module"}', "utf-8")
    return tmp_path


def test_the_pure_parts_do_what_their_tests_say(node: str, tree: Path) -> None:
    tests = sorted(str(path) for path in tree.rglob("*.test.mjs"))
    run = subprocess.run([node, "--test", *tests], cwd=tree, capture_output=True, text=True, timeout=50)
    failed = [part for part in run.stdout.split("# Subtest:") if "\nnot ok" in part]
    assert run.returncode == 0, "".join(failed)[:6000] + run.stderr
    assert "# fail 0\n" in run.stdout and len(tests) > 5


def test_each_module_can_be_loaded_by_itself(node: str, tree: Path) -> None:
    """Nothing at the top of a module needs a page, and all that it imports is there."""
    modules = sorted(path.as_uri() for path in (tree / VIEWS.relative_to(ROOT)).rglob("*.js"))
    script = "for (const module of process.argv.slice(1)) await import(module);"
    run = subprocess.run(
        [node, "--input-type=module", "-e", script, *modules], capture_output=True, text=True, timeout=50
    )
    assert run.returncode == 0, run.stderr


@pytest.fixture(scope="session")
def tsc(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return npm_package(tmp_path_factory.getbasetemp(), *TYPESCRIPT) / "lib/tsc.js"


def test_the_modules_stand_as_prettier_writes_them(
    node: str, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    script = npm_package(tmp_path_factory.getbasetemp(), *PRETTIER) / "bin/prettier.cjs"
    wrong = tmp_path / "wrong.js"
    wrong.write_text("const one=1;\n", "utf-8")
    parts = ["mew_lab/**/*.js", "tests/**/*.mjs", str(wrong)]
    run = subprocess.run(
        [node, str(script), "--config", ".prettierrc.json", "--list-different", *parts],
        cwd=ROOT, capture_output=True, text=True, timeout=100,
    )  # fmt: skip
    assert run.stderr == "" and run.stdout.split() == [os.path.relpath(wrong, ROOT)]


def test_the_types_of_the_modules_fit(node: str, tsc: Path, tree: Path) -> None:
    """The checker of TypeScript reads the modules as they are, with the types that their JSDoc gives."""
    assert type_faults(node, tsc, tree) == []
    # A mistake is noticed.
    wrong = tree / VIEWS.relative_to(ROOT) / "ui/wrong.js"
    wrong.write_text('import { amount } from "./text.js";\nexport const length = amount(1).size;\n', "utf-8")
    assert any("ui/wrong.js" in line and "size" in line for line in type_faults(node, tsc, tree))


SHARED = ("ui", "page")  # folders of no view alone

# Finds what the modules send and read: acts and messages with the members that stand in their object, and items with the
# members that their function in `items` reads, by itself or by what it hands the item to.
FIND_MESSAGES = """
  const ts = require(process.argv[1]), fs = require("fs"), found = [];
  for (const name of process.argv.slice(2)) {
    const file = ts.createSourceFile(name, fs.readFileSync(name, "utf8"), ts.ScriptTarget.Latest, true);
    const members = (node) => {
      const named = node.properties.filter((one) => one.name).map((one) => one.name.text);
      return [named, named.length < node.properties.length];
    };
    const named = {}, all = [file], each = (node, see) => ts.forEachChild(node, (one) => { see(one); each(one, see); });
    each(file, (node) => { all.push(node); if (ts.isFunctionDeclaration(node)) named[node.name.text] = node; });
    const keysOf = (pattern) => pattern.elements.filter((one) => !one.dotDotDotToken).map((one) => (one.propertyName ?? one.name).text);
    const readsOf = (run, at = 0) => {
      const item = run?.parameters?.[at]?.name, read = [];
      if (item && ts.isObjectBindingPattern(item)) return keysOf(item);
      const isItem = (node) => item && ts.isIdentifier(node) && node.text === item.text;
      const lookFor = (name, scope) => each(scope, (node) => {
        if (ts.isPropertyAccessExpression(node) && node.expression.text === name) read.push(node.name.text);
      });
      if (item) { lookFor(item.text, run); each(run, (node) => {
        if (ts.isCallExpression(node)) node.arguments.forEach((one, n) => { if (isItem(one)) read.push(...readsOf(named[node.expression.text], n)); });
        if (!ts.isBinaryExpression(node) || !isItem(node.right)) return;
        if (ts.isObjectLiteralExpression(node.left)) read.push(...members(node.left)[0]);
        else lookFor(node.left.text, file);
      }); }
      return read;
    };
    const visit = (node) => {
      if (ts.isPropertyAssignment(node) && node.name.text === "items" && ts.isObjectLiteralExpression(node.initializer))
        for (const one of node.initializer.properties) {
          const run = ts.isMethodDeclaration(one) ? one : named[(one.initializer ?? one.name).text] ?? one.initializer;
          found.push([name, "item", one.name.text, readsOf(run), false]);
        }
      if (ts.isCallExpression(node) && ["act", "perform"].includes((node.expression.name ?? node.expression).text)) {
        const at = node.arguments.findIndex(ts.isStringLiteral), given = node.arguments[at + 1];
        if (at >= 0 && (!given || ts.isObjectLiteralExpression(given)))
          found.push([name, "act", node.arguments[at].text, ...(given ? members(given) : [[], false])]);
      }
      if (ts.isObjectLiteralExpression(node)) {
        const tag = node.properties.find((one) => one.name?.text === "t");
        if (tag?.initializer && ts.isStringLiteral(tag.initializer))
          found.push([name, "message", tag.initializer.text, ...members(node)]);
      }
      ts.forEachChild(node, visit);
    };
    visit(file);
  }
  console.log(JSON.stringify(found));
"""


def test_front_ends_send_what_their_views_declare_and_read_what_these_send(
    node: str, tsc: Path, lab: Lab, browser: Callable[[Any], Page]
) -> None:
    command = [node, "-e", FIND_MESSAGES, str(tsc.with_name("typescript.js"))]
    modules = sorted(path.relative_to(VIEWS).as_posix() for path in VIEWS.glob("*/*.js"))
    run = subprocess.run([*command, *modules], cwd=VIEWS, capture_output=True, text=True, timeout=50)
    assert run.stderr == ""
    found = json.loads(run.stdout)
    views = {part: getattr(lab.view, part) for part in PARTS} | {"moments": lab.log.view.moments}
    acts = {part: dict(view.acts) if isinstance(view, ActingView) else {} for part, view in views.items()}
    messages = {part: view.messages for part, view in views.items()}
    wrong = []
    for module, kind, name, members, spread in found:
        part = module.split("/")[0]
        for each in views if part in SHARED else [part]:
            take = (acts if kind == "act" else messages)[each].get(name) if kind != "item" else None
            if take is not None:
                declared = members_of(take)
                lacking = {one for one, member in declared.items() if not member.optional} - set(members)
                unknown = set(members) - {"t"} - declared.keys()
                wrong += [(module, name, unknown, lacking)] if unknown or (lacking and not spread) else []
            elif kind != "item" and part not in SHARED:
                wrong.append((module, name, "not declared"))
    assert wrong == []
    common = {tag for path in VIEWS.glob("ui/*.py") for tag in TAG.findall(path.read_text("utf-8"))}
    pages = {part: browser(view) for part, view in views.items()}
    for page in pages.values():
        page.appear()
    bustle(lab, "hello")
    for part, page in pages.items():
        settle(page)
        texts = "".join(
            path.read_text("utf-8") for path in [*VIEWS.glob(f"{part}/*.js"), *VIEWS.glob("ui/*.js")]
        )
        unused = [name for name in acts[part] if not re.search(rf"""[ "'(]{re.escape(name)}["',: ]""", texts)]
        assert unused == [], part
        sent = {tag for path in VIEWS.glob(f"{part}/*.py") for tag in TAG.findall(path.read_text("utf-8"))}
        read = {
            name: {*members}
            for module, kind, name, members, _ in found
            if kind == "item" and module.startswith(f"{part}/")
        }
        assert sent <= read.keys() | common
        assert read.keys() <= sent | common | messages[part].keys() | {"head"}, part
        for item in page.items:
            unread = [name for name in item if not re.search(rf"[.{{, ]{name}\b", texts)]
            unsent = read.get(item["t"], set()) - item.keys()
            wrong += [(part, item["t"], unread, unsent)] if unread or unsent else []
    assert wrong == []


def test_a_page_gets_the_joined_text_without_its_comments(node: str, tsc: Path, tmp_path: Path) -> None:
    """The parser of TypeScript finds the same nodes and the same words in both."""
    files = {path.relative_to(VIEWS).as_posix(): path.read_text("utf-8") for path in VIEWS.glob("*/*.js")}
    sources = {FAMILY_TABLE: family_table(), **files}
    for part in PARTS:
        sent, (joined, _) = front_end(part)[0], join_modules(f"{part}/view.js", sources)
        assert len(sent) < 0.9 * len(joined)
        (tmp_path / f"{part}.sent.js").write_text(sent, "utf-8")
        (tmp_path / f"{part}.joined.js").write_text(joined, "utf-8")
    script = """
      const ts = require(process.argv[1]), fs = require("fs");
      const read = name => {
        const file = ts.createSourceFile(name, fs.readFileSync(name, "utf8"), ts.ScriptTarget.Latest, true);
        const found = [];
        const visit = node => {
          if (ts.isJSDoc(node)) return;
          const parts = node.getChildren(file);
          found.push(parts.length ? node.kind : node.kind + node.getText(file));
          parts.forEach(visit);
        };
        visit(file);
        return found;
      };
      const unlike = process.argv.slice(2).map(part => {
        const [sent, joined] = [read(part + ".sent.js"), read(part + ".joined.js")];
        if (sent.length === joined.length && sent.every((one, n) => one === joined[n]) && sent.length > 5000) return 0;
        return [part, sent.length, joined[sent.findIndex((one, n) => one !== joined[n])]];
      });
      console.log(JSON.stringify(unlike.filter(Boolean)));
    """
    run = subprocess.run(
        [node, "-e", script, str(tsc.with_name("typescript.js")), *PARTS],
        cwd=tmp_path, capture_output=True, text=True, timeout=50,
    )  # fmt: skip
    assert (run.stderr, run.stdout) == ("", "[]\n")
