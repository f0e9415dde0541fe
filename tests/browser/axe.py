"""axe-core, the checker of accessibility rules, from npm: fetched once, held against its published digest."""

from __future__ import annotations

import base64
import hashlib
import io
import os
import shutil
import subprocess
import tarfile
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Locator

VERSION = "4.14.1"
SHA512 = "FHfa+lmNjQZfJz1q8wKqIDwC6DExcHt/pkjNQb09a3NPjCKg2rhu5qb2S4r76ASyFNNtuFooJpZe37OgudVGtQ=="
LEVELS = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa"]
ALL = {"type": "tag", "values": LEVELS}
# A theme changes colours alone: these are the rules of those levels that look at them.
OF_COLOURS = {"type": "rule", "values": ["color-contrast", "link-in-text-block"]}
TRIES = 3  # of npm


@cache
def axe_source(folder: Path) -> str:
    """The script; `folder` is where npm may write. Without npm the test is skipped, in CI a failure to fetch it fails."""
    npm = shutil.which("npm")
    if npm is None:
        pytest.skip("no npm on PATH: axe-core is not fetched")
    for _ in range(TRIES):  # the network may fail once
        run = subprocess.run(
            [npm, "pack", f"axe-core@{VERSION}", "--silent"],
            cwd=folder,
            capture_output=True,
            text=True,
            timeout=60,
        )
        if run.returncode == 0:
            break
    else:
        fail = pytest.fail if os.environ.get("CI") else pytest.skip
        fail(f"npm does not give axe-core: {run.stderr.strip()[-200:]}")
    data = (folder / f"axe-core-{VERSION}.tgz").read_bytes()
    assert base64.b64encode(hashlib.sha512(data).digest()).decode() == SHA512, "axe-core is not the known one"
    with tarfile.open(fileobj=io.BytesIO(data)) as archive:
        member = archive.extractfile("package/axe.min.js")
        assert member is not None
        return member.read().decode("utf-8")


def axe_violations(root: Locator, source: str, rules: dict[str, Any] = ALL) -> list[str]:
    """What breaks a rule of level A or AA within an element, one line each: the rule, its help, the first elements.

    Colours are those that stay: what fades or moves is brought to its end first.
    """
    root.page.evaluate("source => { if (!window.axe) (0, eval)(source); }", source)
    found: list[dict[str, Any]] = root.evaluate(
        """async (node, rules) => {
          // axe-core takes what lies in JupyterLab's scrollers, and in its body without a height, for hidden. Meanwhile the
          // element stands above a page that has one.
          const mark = document.createComment(''), frame = document.createElement('main');
          frame.style = 'position: fixed; inset: 0; overflow: auto; z-index: 100000; background: var(--jp-layout-color1)';
          node.before(mark);
          frame.append(node);
          document.body.append(frame);
          document.body.style.height = '100vh';
          for (const one of document.getAnimations()) if (one.effect.getComputedTiming().endTime !== Infinity) one.finish();
          const result = await window.axe.run(node, { runOnly: rules });
          mark.replaceWith(node);
          frame.remove();
          document.body.style.height = '';
          const contrast = result.passes.find(rule => rule.id === 'color-contrast');
          const seen = (contrast?.nodes ?? []).filter(n => n.any[0]?.data?.contrastRatio).length;
          // A line of a tree holds the lines below it, which are no part of its name.
          const own = v => ({ ...v, nodes: v.nodes.filter(n => !(v.id === 'label-content-name-mismatch' && /role="treeitem"/.test(n.html))) });
          const found = result.violations.map(own).filter(v => v.nodes.length).map(v => ({ id: v.id, help: v.help, nodes: v.nodes.slice(0, 3).map(n => n.html.slice(0, 160) + ' ' + (n.failureSummary || '').split('\\n')[1]) }));
          return seen || found.length ? found : [{ id: 'nothing', help: 'no text was examined', nodes: [] }];
        }""",
        rules,
    )
    return [f"{one['id']}: {one['help']}: {' | '.join(one['nodes'])}" for one in found]
