"""`mew-lab report`: writes a recorded session as one HTML page, without what is not to be passed on."""

from __future__ import annotations

import argparse

from mew_lab.cli import shell
from mew_lab.lab.html_report import report_log
from mew_lab.log.log import open_log
from mew_lab.settings.documents import read_file

__all__ = ["add_options", "run"]


def add_options(parser: argparse.ArgumentParser) -> None:
    """Adds the options of the command."""
    parser.add_argument("source", metavar="FILE", help="a log: a file, or a folder of files")
    parser.add_argument(
        "--output", "-o", metavar="FILE", help="the page; default: the name of the log, with .html"
    )
    parser.add_argument("--overwrite", action="store_true", help="replaces an existing page")
    parser.add_argument(
        "--filter",
        default="",
        metavar="TEXT",
        help="the page holds only the messages that pass a filter, such as 'kind ~ \"mcp/*\"'",
    )
    parser.add_argument(
        "--redact",
        action="append",
        default=[],
        metavar="VALUE",
        help="a text that is replaced by [redacted] wherever it stands; may be given several times. Others can read "
        "the arguments of a running command: use --redact-from for a secret",
    )
    parser.add_argument("--redact-from", metavar="FILE", help="a file with such texts, one a line")
    parser.add_argument(
        "--redact-where",
        default="",
        metavar="TEXT",
        help="of the messages that pass this filter only kind, sender, addressees, method and tool stay",
    )
    parser.add_argument(
        "--secrets",
        choices=("mask", "keep"),
        default="mask",
        help="keep leaves likely secrets, such as keys and tokens, as they are; default: mask",
    )


def run(options: argparse.Namespace) -> None:
    """Runs the command with these options.

    Raises:
        MewError: There is no log there, no filter or text file was given, or the page exists or cannot be
            written.
    """
    log = open_log(options.source)
    values = [*options.redact]
    if options.redact_from is not None:
        lines = read_file(options.redact_from, what="file of texts to redact").splitlines()
        values += filter(None, map(str.strip, lines))
    target = options.output or f"{options.source.rstrip('/').removesuffix('.jsonl')}.html"
    said = report_log(
        log,
        target,
        filter=options.filter,
        redact=values,
        redact_where=options.redact_where,
        secrets=options.secrets,
        overwrite=options.overwrite,
        again="--overwrite",
    )
    shell.say(said)
    for fault in log.faults:
        shell.warn(f"mew-lab report: {fault}")
