"""`mew-lab replay`, `audit`, `verify`, `diagnose`, `journal` and `export`: work on the journal of a gateway."""

from __future__ import annotations

import argparse
import contextlib
import json
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from mew_lab.cli import shell
from mew_lab.errors import JournalError, MewError
from mew_lab.gateway.auth import known_tokens
from mew_lab.log.diagnose.findings import SEVERITIES
from mew_lab.log.export import export_as_peers
from mew_lab.log.integrity import verify_with
from mew_lab.log.kept_heads import keep_head_of, kept_heads
from mew_lab.log.log import open_log
from mew_lab.log.prune import Pruned, prune
from mew_lab.log.reading import JournalReader, first_record, read_journal
from mew_lab.log.replay import replay
from mew_lab.log.unpacked import is_packed
from mew_lab.log.verification import FLAW, NOT_VERIFIABLE
from mew_lab.protocol.text import count_of
from mew_lab.protocol.visible import visible_json

__all__ = ["add_options", "add_program", "opened_plain", "run"]


def run_replay(options: argparse.Namespace) -> None:
    """Replays a journal and reports whether a new space would have written the same records.

    Raises:
        ReplayMismatch: It would not; with the first difference.
        JournalError: The file is no journal of a gateway.
    """
    with _verified_after(options.file):
        shell.say(str(replay(options.file)))


def _add_audit(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "id",
        metavar="ID",
        help="the message's number, such as '#13', its id, or the first characters of a proposal's id",
    )


def run_audit(options: argparse.Namespace) -> None:
    """Reports the sender of an envelope, and the capability that permitted it or the reason of its refusal.

    Raises:
        MewError: There is no such envelope, or more than one.
    """
    with _verified_after(options.file, report=False):
        log = open_log(options.file)
        shell.say(str(log.audit(options.id)))
        for fault in log.faults:
            shell.warn(f"mew-lab audit: {fault}")


def _add_diagnose(parser: argparse.ArgumentParser) -> None:
    about = "prints only findings of at least this severity: note (default), warn, error or fatal"
    parser.add_argument("--severity", choices=SEVERITIES, default="note", help=about)
    parser.add_argument("--json", action="store_true", help="prints each finding as a line of JSON")
    parser.epilog = (
        "The exit status is 0 when nothing worse than a note was found, 1 when there is a warning, an error or worse, "
        "or when the log cannot be read."
    )


def run_diagnose(options: argparse.Namespace) -> None:
    """Prints the faults and oddities of a log, the worst first.

    Raises:
        MewError: It cannot be read.
        SystemExit: 1, when one of them is a warning or worse, whether that is printed or not.
    """
    diagnosis = open_log(options.file).diagnose()
    shown = diagnosis.at_least(options.severity)
    if options.json:
        for finding in shown:
            row = finding._asdict() | {"time": finding.time and finding.time.isoformat()}
            shell.say(visible_json(json.dumps(row, ensure_ascii=False)))
    else:
        shell.say(diagnosis.summary)
        for line in shown.lines():
            shell.say(line)
    if diagnosis.at_least("warn").counts:
        raise SystemExit(1)


def opened_plain(file: Path) -> JournalReader:
    """A reader of a log in one plain file, at its beginning.

    Raises:
        JournalError: when there is none, or it is packed.
    """
    if is_packed(file):
        raise JournalError(
            f"Cannot read {file}: it is packed. Unpack it, or open it with mew_lab.open_log.", path=str(file)
        )
    return read_journal(file)


@contextlib.contextmanager
def _verified_after(
    file: Path, heads: Path | None = None, *, report: bool = True, asked: bool = False
) -> Iterator[None]:
    """Verifies a journal after the work on it, and reports the result.

    Args:
        report: Whether an intact journal is reported too.
        asked: Whether the verification is the work.

    Raises:
        SystemExit: 1, when the journal was changed after it was written; where it is `asked` for, 2, when the journal
            is not verifiable.
    """
    flaw, intact = None, True
    try:
        yield
        if report and is_packed(file):
            shell.warn(f"{file} is packed, and its chain was not checked: mew-lab verify does that.")
    finally:
        if file.is_file() and not is_packed(file) and read_journal(file).format == "own":
            result = verify_with(file, heads)
            flaw, intact = result.flaw, result.intact
            if report or flaw is not None:
                shell.say(str(result))
    if flaw is not None:
        raise SystemExit(FLAW)
    if asked and not intact:
        raise SystemExit(NOT_VERIFIABLE)


def add_options(parser: argparse.ArgumentParser) -> None:
    """Adds the options of the command."""
    actions = parser.add_subparsers(dest="action", required=True)
    abouts = {
        "verify": "checks the chain of the journal and names the first line that was changed",
        "prune": "deletes the older files of a journal that no process writes, and keeps a snapshot to resume from",
    }
    for name, about in abouts.items():
        action = actions.add_parser(name, help=about, description=about, allow_abbrev=False)
        action.add_argument(
            "file", type=Path, metavar="FILE", help="the first file of the journal of a gateway"
        )
        about = "a file with earlier heads of the chain; default: the one beside the tokens of the space"
        action.add_argument("--heads", type=Path, metavar="FILE", help=about)
        if name == "prune":
            about = "the number of newest files to keep; default: 1; with 0 only the snapshot is left"
            action.add_argument("--keep", type=_count, default=1, metavar="N", help=about)
            action.add_argument("--yes", action="store_true", help="deletes without asking")
        else:
            action.epilog = (
                "The exit status is 1 when the journal was changed after it was written, 2 when it is missing or cannot "
                "be read, otherwise 0."
            )


def _count(word: str) -> int:
    if not word.isascii() or not word.isdecimal() or len(word) > 9:
        raise argparse.ArgumentTypeError(f"{word[:20]!r} is no number of files")
    return int(word)


def run(options: argparse.Namespace) -> None:
    """Verifies a journal, or deletes its older files after the person has agreed.

    Raises:
        MewError: No terminal is there for the question, or the file is no journal.
        SystemExit: 1, when the journal was changed after it was written; 2, when it is not verifiable.
    """
    if options.action == "verify":
        if opened_plain(options.file).format != "own":
            raise JournalError(
                f"Cannot verify {options.file}: it is a log file of the peers, whose lines carry no chain. Name the "
                "journal of a mew_lab gateway.",
                path=str(options.file),
            )
        with _verified_after(options.file, options.heads, asked=True):
            return

    def ask_to_delete(pruned: Pruned) -> bool:
        shell.say(f"To be deleted: {pruned}")
        if options.yes:
            return True
        if not sys.stdin.isatty():
            raise MewError(
                "Nothing was deleted: this needs a yes, and there is no terminal to ask on; give --yes"
            )
        return shell.ask_yes_or_no("Delete them for ever?")

    done = prune(
        options.file, keep=options.keep, agree=ask_to_delete, heads=kept_heads(options.file, options.heads)
    )
    if done is None or done.head is None:
        shell.say("Nothing was deleted")
        return
    shell.say(f"Deleted {count_of(len(done.files) - len(done.left), 'file')}")
    for path in done.left:
        shell.warn(f"mew-lab journal: {path} could not be deleted; nothing reads it, so delete it yourself")
    head_file = keep_head_of(options.file, options.heads, done.head)
    shell.say(
        f"Its head is kept in {head_file}" if head_file else f"Keep its head elsewhere: {done.head.chain}"
    )


def _add_verify(parser: argparse.ArgumentParser) -> None:
    about = "the heads that were kept elsewhere; default: those beside the tokens of the lab"
    parser.add_argument("--heads", type=Path, metavar="FILE", help=about)
    about = "accepts a log that nothing vouches for: 0 in place of 2"
    parser.add_argument("--unchained-ok", action="store_true", help=about)
    parser.epilog = (
        "A receipt is the record of one decision: who or which policy decided which proposal, when, how, and the digest "
        "of what was shown. The exit status is the first that holds: 1 when the journal was changed after it was "
        "written; 3 when a call was executed for a proposal and nobody decided that; 2 when it is not verifiable, "
        "because it has no chain, a part has none, or no head was kept of it where heads of its space were kept then, "
        "and when the file is missing or cannot be read; otherwise 0, also where a decision was made elsewhere: then it "
        "is known who decided, and not what was shown. A saved copy has no chain; heads that were kept of its journal "
        "vouch for it up to the last that agrees."
    )


def run_verify(options: argparse.Namespace) -> None:
    """Verifies a journal, and the consent receipt of each request for a proposal in it.

    Raises:
        JournalError: The file is no log; `main` ends with 2 then.
        SystemExit: the status of the verification, where it is not 0; see `Verification.status`.
    """
    result = open_log(options.file).verify(heads=options.heads)
    shell.say(str(result))
    status = result.status(unchained_ok=options.unchained_ok)
    if status == NOT_VERIFIABLE:
        shell.warn("mew-lab verify: it is not verifiable; where that is expected, add --unchained-ok")
    if status:
        raise SystemExit(status)


def _add_export(parser: argparse.ArgumentParser) -> None:
    about = "the format: peers, for envelope-history.jsonl and capability-decisions.jsonl"
    parser.add_argument("--as", dest="as_format", choices=("peers",), required=True, help=about)
    about = "the folder for the files; default: the working directory"
    parser.add_argument("--to", type=Path, metavar="FOLDER", default=Path(), help=about)
    parser.add_argument("--force", action="store_true", help="replaces existing files")
    about = "keep leaves likely secrets, such as keys and tokens, as they are; default: mask"
    parser.add_argument("--secrets", choices=("mask", "keep"), default="mask", help=about)


def run_export(options: argparse.Namespace) -> None:
    """Writes the log files of a TypeScript gateway from a journal.

    Raises:
        MewError: The journal cannot be read, or a file exists already.
    """
    record = first_record(options.file)
    above = (folder.parent for folder in options.file.absolute().parents if folder.name == ".mew")
    # A token of the space in a message is masked.
    known_tokens(next(above, Path.cwd()) / ".mew" / "tokens", record.space if record else "")

    def progress(sentence: str) -> None:
        shell.warn(f"mew-lab export: {sentence}")

    chosen = {"force": options.force, "secrets": options.secrets}
    shell.say(str(export_as_peers(options.file, options.to, **chosen, progress=progress)))


# The commands that read one journal or log: what its file is, its further options, what runs it.
_PROGRAMS: Mapping[
    str, tuple[str, Callable[[argparse.ArgumentParser], None], Callable[[argparse.Namespace], None]]
] = {
    "replay": ("the journal of a gateway", lambda parser: None, run_replay),
    "audit": ("the journal of a gateway", _add_audit, run_audit),
    "verify": ("the journal of a gateway, or another log", _add_verify, run_verify),
    "diagnose": ("a journal, or the folder of the log files of another gateway", _add_diagnose, run_diagnose),
    "export": ("the first file of the journal of a gateway", _add_export, run_export),
}


def add_program(name: str, parser: argparse.ArgumentParser) -> None:
    """Adds the options of one of the commands that read a journal, and what runs it."""
    about, add_more, run = _PROGRAMS[name]
    parser.add_argument("file", type=Path, metavar="FILE", help=about)
    add_more(parser)
    parser.set_defaults(run=run)
