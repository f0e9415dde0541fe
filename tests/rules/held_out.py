"""Histories of calls for judging the learner, made without knowledge of how it works: eight kinds of human policy.

Six kinds depend on one argument each: folders, suffixes, domains, numbers, one of few, and whatever only reads. Two depend
on what stands in no single argument: two arguments together, and the hour or the call before. A history mixes tools and
proposers; its project grows; values come again as often as they were used; optional arguments come and go for a while;
near misses stand close to each border; a call in three hundred starts a flood; in a history of five the person's mind
changes once. Each kind is drawn from scratch for each history.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from hashlib import sha256
from random import Random
from typing import Any, NamedTuple

from mew_lab.protocol.tool_hints import READ_ONLY, WRITES
from mew_lab.rules.decided_calls import AskedCall

from .policies import Changing, Generator, Proposed

Arguments = dict[str, Any]
DAY, HOUR = 86_400.0, 3_600.0
START = 1_790_000_000 // DAY * DAY  # a midnight

NAMES = (
    "app api core lib web ui admin auth billing search store cache jobs events models views forms utils common shared "
    "config data docs guides recipes tests fixtures scripts tools infra deploy charts migrations legal secrets keys "
    "vendor assets images themes i18n plugins adapters clients server worker queue metrics reports invoices"
).split()
STEMS = (
    "index main readme setup user account order invoice payment session token login parser reader writer helper "
    "client router handler schema types errors change notes todo plan summary budget report draft intro guide faq"
).split()
SUFFIXES = (".py", ".ts", ".tsx", ".md", ".rst", ".json", ".yaml", ".sql", ".css", ".html", ".txt", ".sh")
HOSTS = (
    "docs.python.org packages.example numpy.org developer.mozilla.org api.github.com github.com stackoverflow.com example.com "
    "modules.example go.dev kubernetes.io libraries.example arxiv.org paste.example.net files.example.org intranet.example"
).split()
SUBDOMAINS = ("readthedocs.io", "github.io", "example-cdn.net")
SENTENCE = (
    "fix the failing test because of a wrong import and clean up after the last change so that the build is green again "
    "look for where this name is used before it is renamed in all files of the module"
).split()


class Pool:
    """Values that come again in proportion to how often they came, beside ever fewer new ones (Pitman and Yor)."""

    def __init__(self, dice: Random, new: Callable[[], Any]) -> None:
        self.dice, self.new = dice, new
        self.drawn: list[Any] = []
        self.kinds = 0
        self.fresh, self.tail = dice.uniform(4, 25), dice.uniform(0.1, 0.6)

    def draw(self) -> Any:
        chance = (self.fresh + self.tail * self.kinds) / (self.fresh + len(self.drawn))
        if self.dice.random() < chance:
            value, self.kinds = self.new(), self.kinds + 1
        else:
            value = self.dice.choice(self.drawn)
        self.drawn.append(value)
        return value


class Project:
    """A tree of files that grows."""

    def __init__(self, dice: Random) -> None:
        self.dice = dice
        self.root = dice.choice(("", "", "src/", "/srv/repo/", "/home/ada/project/"))
        self.top = dice.sample(NAMES, 12)
        self.folders = Pool(dice, self._new_folder)
        self.known = list(self.top[:5])
        self.stems = Pool(dice, self._new_stem)

    def _new_folder(self) -> str:
        dice = self.dice
        if dice.random() < 0.35 or not self.known:
            folder = dice.choice(self.top)
        else:
            folder = f"{dice.choice(self.known)}/{dice.choice(NAMES)}"
        if folder not in self.known and folder.count("/") < 4:
            self.known.append(folder)
        return folder

    def _new_stem(self) -> str:
        dice = self.dice
        form = dice.choice(("{a}", "{a}", "{a}_{b}", "{a}-{b}", "{a}{n}", "test_{a}", "{a} {b}", ".{a}"))
        return form.format(a=dice.choice(STEMS), b=dice.choice(STEMS), n=dice.randrange(100))

    def file(self, folder: str | None = None, suffix: str | None = None) -> str:
        folder = self.folders.draw() if folder is None else folder
        weighted = self.dice.choices(SUFFIXES, [1 / n for n in range(1, len(SUFFIXES) + 1)])[0]
        return f"{self.root}{folder}/{self.stems.draw()}{weighted if suffix is None else suffix}"


@dataclass
class Work:
    """What one kind of policy asks for with one tool, and what the person thinks of it.

    `wants` is told the arguments, the time, and the tool of the call before. `change` plants another policy.
    """

    tool: str
    make: Callable[[], Arguments]
    wants: Callable[[Arguments, float, str], bool]
    change: Callable[[], None] = lambda: None
    hints: tuple[str, ...] = ()
    beside: tuple[Work, ...] = ()  # tools whose calls this policy needs


def prose(dice: Random) -> str:
    first = dice.randrange(len(SENTENCE) - 12)
    return " ".join(SENTENCE[first : first + dice.randrange(3, 12)])


def lengthy(dice: Random) -> str:
    """The content of a file: new each time, some lines to some hundred."""
    lines = int(dice.lognormvariate(2.5, 1.0)) + 1
    return "\n".join(f"{prose(dice)} {dice.randrange(10**6)}" for _ in range(lines))


# --- six kinds that depend on one argument ---


def folders(dice: Random, count: int = 0) -> Work:
    """Below some folders, in places but for one folder below them, which may appear late."""
    project = Project(dice)
    good = set(dice.sample(project.top[:5], count or dice.choice((1, 1, 2, 3))))
    hole = f"{dice.choice(sorted(good))}/{dice.choice(('secrets', 'legal', 'migrations'))}"
    has_hole, since, often = dice.random() < 0.35, dice.choice((0, 0, 300)), dice.uniform(0.4, 0.8)
    content, made = dice.random() < 0.5, [0]

    def make() -> Arguments:
        made[0] += 1
        chance = dice.random()
        if has_hole and made[0] > since and chance < 0.06:
            path = project.file(hole)
        elif chance < 0.06 + often:
            top = dice.choice(sorted(good))
            below = [one for one in project.known if one == top or one.startswith(top + "/")]
            folder = dice.choice(below or [top])
            if dice.random() < 0.04:
                folder += "/" + dice.choice(NAMES)
            path = project.file(folder)
        elif chance < 0.12 + often:
            top = dice.choice(sorted(good))
            near = (f"{top}_old", f"{top}2", f"{top[:-1]}", f"old/{top}", f"{top.upper()}", f"{top}-internal")
            path = project.file(dice.choice(near))
        else:
            path = project.file()
        return {"path": path} | ({"content": lengthy(dice)} if content else {})

    def wants(arguments: Arguments, t: float, before: str) -> bool:
        below = arguments["path"].removeprefix(project.root)
        return below.split("/")[0] in good and not (has_hole and below.startswith(hole + "/"))

    def change() -> None:
        if len(good) > 1 and (count or dice.random() < 0.6):
            good.discard(dice.choice(sorted(good)))
        else:
            good.add(dice.choice(project.top))

    return Work(dice.choice(("write_file", "edit_file", "create_file")), make, wants, change, hints=(WRITES,))


def suffixes(dice: Random) -> Work:
    """Files of some kinds, wherever they stand."""
    project = Project(dice)
    good = set(
        dice.choice(([".md"], [".md", ".rst"], [".test.ts"], ["_test.py"], [".css", ".html"], [".py"]))
    )
    often = dice.uniform(0.4, 0.8)

    def make() -> Arguments:
        chance = dice.random()
        if chance < often:
            return {"path": project.file(suffix=dice.choice(sorted(good)))}
        if chance < often + 0.06:
            end = dice.choice(sorted(good))
            near = (
                f"{end}.bak",
                f"{end}x",
                end[:-1],
                end.upper(),
                f"{end} ",
                end.replace(".", "_"),
                f"{end}.sh",
            )
            return {"path": project.file(suffix=dice.choice(near))}
        return {"path": project.file()}

    def change() -> None:
        if len(good) > 1:
            good.discard(dice.choice(sorted(good)))
        else:
            good.add(dice.choice(SUFFIXES))

    return Work(
        dice.choice(("write_file", "format_file")),
        make,
        lambda a, t, b: a["path"].endswith(tuple(good)),
        change,
    )


def domains(dice: Random) -> Work:
    """Pages of some hosts, or of all hosts below a domain; or mail to some domains."""
    mail = dice.random() < 0.3
    order = dice.sample(HOSTS, len(HOSTS))
    good, wide = set(order[: dice.choice((1, 2, 3))]), dice.choice((*SUBDOMAINS, "", ""))
    often = dice.uniform(0.4, 0.8)
    pages = Pool(dice, lambda: "/".join(dice.sample(NAMES, dice.randrange(1, 4))))
    people = Pool(dice, lambda: f"{dice.choice(STEMS)}.{dice.choice(NAMES)}")

    def host() -> str:
        chance = dice.random()
        if chance < often:
            if wide and dice.random() < 0.3:
                return f"{dice.choice(NAMES)}.{wide}"
            return dice.choice(sorted(good))
        if chance < often + 0.06:
            one = dice.choice(sorted(good))
            return dice.choice(
                (f"{one}.evil.test", f"x-{one}", f"{one[:-1]}", f"www.{one}", one.replace(".", "-"))
            )
        return dice.choice(order)

    def make() -> Arguments:
        if mail:
            return {"to": f"{people.draw()}@{host()}", "subject": prose(dice)}
        page = pages.draw() + (f"?q={dice.choice(STEMS)}" if dice.random() < 0.2 else "")
        return {"url": f"{'http' if dice.random() < 0.02 else 'https'}://{host()}/{page}"}

    def wants(arguments: Arguments, t: float, before: str) -> bool:
        if mail:
            of = arguments["to"].rsplit("@", 1)[-1]
        else:
            if arguments["url"].startswith("http:"):
                return False
            of = arguments["url"].split("/")[2]
        return of in good or (bool(wide) and of.endswith("." + wide))

    def change() -> None:
        if len(good) > 1:
            good.discard(dice.choice(sorted(good)))
        else:
            good.add(order[-1])

    return Work("send_mail" if mail else "fetch", make, wants, change)


def numbers(dice: Random) -> Work:
    """A number up to a limit, in a part of the histories for one currency alone."""
    limit = [dice.choice((1, 2, 5)) * 10 ** dice.choice((1, 2, 3))]
    spread, whole, money = dice.uniform(0.6, 1.3), dice.random() < 0.5, dice.random() < 0.4
    middle = math.log(limit[0]) - dice.uniform(0.1, 1.0) * spread
    accounts = Pool(dice, lambda: f"{dice.choice(STEMS)}-{dice.randrange(10_000)}")
    name = dice.choice(("amount", "count", "seconds", "rows"))

    def make() -> Arguments:
        chance = dice.random()
        value = dice.lognormvariate(middle, spread)
        if chance < 0.05:
            value = limit[0] * dice.uniform(1.0, 1.1) + (1 if whole else 0.01)
        elif chance < 0.1:
            value = limit[0]
        elif chance < 0.11:
            value = -value
        elif chance < 0.3:
            value = float(f"{value:.1g}")
        value = round(value) if whole else round(value, 2)
        told: Arguments = {name: value}
        if money:
            told["currency"] = dice.choices(("EUR", "USD", "XBT"), (8, 2, 1))[0]
            told["account"] = accounts.draw()
        return told

    def wants(arguments: Arguments, t: float, before: str) -> bool:
        return 0 <= arguments[name] <= limit[0] and arguments.get("currency", "EUR") == "EUR"

    def change() -> None:
        limit[0] = limit[0] / 2 if dice.random() < 0.6 else limit[0] * 2

    return Work("pay" if money else dice.choice(("query", "resize", "wait_for")), make, wants, change)


def one_of_few(dice: Random) -> Work:
    """Some of the few values of an argument that stands at the top or deeper."""
    names = [
        "test",
        "lint",
        "build",
        "docs",
        "bench",
        "clean",
        "deploy",
        "publish",
        "reset",
        "seed",
        "migrate",
    ]
    dice.shuffle(names)
    good = set(names[: dice.randrange(1, 5)])
    weights = [1 / n for n in range(1, len(names) + 1)]
    nested, targets = dice.random() < 0.4, Pool(dice, lambda: f"{dice.choice(NAMES)}:{dice.choice(STEMS)}")
    has_target = dice.random() < 0.3

    def make() -> Arguments:
        chosen = dice.choices(names, weights)[0]
        if dice.random() < 0.03:
            chosen = dice.choice((f"{chosen}:all", chosen.upper(), f"{chosen} ", f"pre{chosen}"))
        told: Arguments = {"script": chosen}
        if has_target:
            told["workspace"] = targets.draw()
        return {"options": told} if nested else told

    def wants(arguments: Arguments, t: float, before: str) -> bool:
        return arguments.get("options", arguments)["script"] in good

    def change() -> None:
        if len(good) > 1:
            good.discard(dice.choice(sorted(good)))
        else:
            good.add(dice.choice(names))

    return Work("run_script", make, wants, change, hints=(WRITES,))


def only_reads(dice: Random) -> Work:
    """Whatever a tool that only reads is asked for; a tool beside it writes and is looked at each time."""
    project, form = Project(dice), dice.choice(("read", "search", "query"))

    def make() -> Arguments:
        if form == "read":
            return {"path": project.file()}
        if form == "search":
            return {
                "pattern": prose(dice),
                "folder": project.folders.draw(),
                "max_results": dice.choice((10, 20, 50)),
            }
        return {
            "sql": f"select {dice.choice(STEMS)} from {dice.choice(NAMES)} where id = {dice.randrange(10**5)}"
        }

    tool = {"read": "read_file", "search": "search_files", "query": "select_rows"}[form]
    writes = Work(
        "apply_patch",
        lambda: {"patch": lengthy(dice)},
        lambda a, t, b: len(a["patch"]) % 3 == 0,
        hints=(WRITES,),
    )
    return Work(tool, make, lambda a, t, b: True, hints=(READ_ONLY,), beside=(writes,))


# --- two kinds that no condition on one argument says ---


def together(dice: Random) -> Work:
    """Two arguments together: within one folder, to the cloud only as a trial, or amounts by account."""
    form, rare = dice.choice(("move", "trial", "account")), dice.uniform(0.05, 0.5)
    if form == "move":
        project = Project(dice)

        def make() -> Arguments:
            folder = project.folders.draw()
            other = project.folders.draw() if dice.random() < rare else folder
            return {"source": project.file(folder), "destination": project.file(other)}

        def wants(arguments: Arguments, t: float, before: str) -> bool:
            source, destination = (
                arguments[name].removeprefix(project.root) for name in ("source", "destination")
            )
            return source.split("/")[0] == destination.split("/")[0]

        return Work("move_file", make, wants)
    if form == "trial":
        return Work(
            "deploy",
            lambda: {
                "environment": dice.choice(("staging", "staging", "production")),
                "dry_run": dice.random() > rare,
            },
            lambda a, t, b: a["environment"] == "staging" or a["dry_run"],
        )
    limits = {f"account-{n}": dice.choice((10, 100, 1000)) for n in range(1, 7)}
    return Work(
        "pay",
        lambda: {
            "account": dice.choice(sorted(limits)),
            "amount": round(dice.lognormvariate(math.log(40), 1.2), 2),
        },
        lambda a, t, b: a["amount"] <= limits[a["account"]],
    )


def context(dice: Random) -> Work:
    """By the hour of the day, or only right after the tests have run."""
    services = Pool(dice, lambda: f"{dice.choice(NAMES)}-{dice.choice(('api', 'web', 'worker'))}")
    if dice.random() < 0.5:
        first, last = dice.choice((7, 8, 9)), dice.choice((12, 16, 18, 20, 21))
        return Work(
            "restart", lambda: {"service": services.draw()}, lambda a, t, b: first <= t % DAY / HOUR < last
        )
    tests = Work(
        "run_tests",
        lambda: {"suite": dice.choice(("unit", "unit", "all"))},
        lambda a, t, b: True,
        hints=(READ_ONLY,),
    )
    return Work(
        "push",
        lambda: {"branch": dice.choice(("main", "dev", f"fix-{dice.randrange(99)}"))},
        lambda a, t, b: b == "run_tests",
        beside=(tests,) * dice.choice((1, 2)),
    )


EXPRESSIBLE = ("folders", "suffixes", "domains", "numbers", "one of few", "only reads")
KINDS: dict[str, Callable[[Random], Work]] = {
    "folders": folders,
    "suffixes": suffixes,
    "domains": domains,
    "numbers": numbers,
    "one of few": one_of_few,
    "only reads": only_reads,
    "together": together,
    "context": context,
}


# --- a history ---


class Source(NamedTuple):
    """One tool as one participant asks for it."""

    proposer: str
    target: str
    work: Work
    share: float


@dataclass
class Optional:
    """Arguments that come and go: each is there for a while, then is not. One of them is a danger in some histories."""

    dice: Random
    there: dict[str, bool] = field(default_factory=dict)
    danger: str = ""

    def __post_init__(self) -> None:
        names = self.dice.sample(
            ("encoding", "timeout", "verbose", "force", "note"), self.dice.choice((0, 0, 1, 2))
        )
        self.there = {name: self.dice.random() < 0.3 for name in names}
        if "force" in names and self.dice.random() < 0.5:
            self.danger = "force"

    def add(self, arguments: Arguments) -> Arguments:
        dice = self.dice
        for name, there in self.there.items():
            if dice.random() < 0.02:
                self.there[name] = not there
            if self.there[name] is not (dice.random() < 0.03):
                arguments = arguments | {
                    name: {
                        "encoding": "utf-8",
                        "timeout": dice.choice((10, 30, 60)),
                        "verbose": dice.random() < 0.5,
                        "force": True,
                        "note": prose(dice),
                    }[name]
                }
        return arguments


def _sources(main: Work, dice: Random) -> list[Source]:
    proposer = dice.choice(("coder", "helper", "bot"))
    told = [Source(proposer, "files", main, 1.0)]
    told += [Source(proposer, "files", work, 0.3) for work in main.beside]
    if dice.random() < 0.3:
        told.append(Source("reviewer", "files", main, 0.25))
    if dice.random() < 0.3:
        project = Project(dice)
        work = Work("delete_file", lambda: {"path": project.file()}, lambda a, t, b: False, hints=(WRITES,))
        told.append(Source(proposer, "files", work, 0.1))
    if dice.random() < 0.3:
        project = Project(dice)
        work = Work("stat", lambda: {"path": project.file()}, lambda a, t, b: True, hints=(READ_ONLY,))
        told.append(Source(proposer, "index", work, 0.2))
    return told


def _times(dice: Random) -> Iterator[float]:
    """Sessions of some hours on most days, with about twenty calls an hour, some close together."""
    day = START
    while True:
        t = day + dice.uniform(7, 15) * HOUR
        end = t + dice.uniform(1, 8) * HOUR
        while t < end:
            yield t
            t += dice.lognormvariate(math.log(110), 1.0)
        day += DAY * dice.choices((1, 2, 3), (8, 1, 1))[0]


def tool_hash(tool: str) -> str:
    return sha256(tool.encode()).hexdigest()


def proposals(main: Work, dice: Random, *, changes: bool) -> Iterator[Proposed]:
    """A history of one kind of policy without an end."""
    sources, optional, times = _sources(main, dice), Optional(dice), _times(dice)
    changes_at = dice.randrange(300, 1000) if changes and dice.random() < 0.2 else -1
    t, before, number, flood = 0.0, "", 0, 0
    source, arguments = sources[0], dict[str, Any]()
    while True:
        if flood:
            flood, t = flood - 1, t + dice.uniform(0.5, 4.0)
            if dice.random() < 0.5:
                arguments = source.work.make()
        else:
            # A flood takes time; what was to come meanwhile comes behind it.
            t = max(t + 1.0, next(times))
            source = dice.choices(sources, [one.share for one in sources])[0]
            arguments = source.work.make()
            if dice.random() < 1 / 300:
                flood = dice.randrange(20, 60)
        if number == changes_at:
            main.change()
        asked = optional.add(arguments) if source.work is main else arguments
        deserves = source.work.wants(arguments, t, before) and not (
            optional.danger and optional.danger in asked
        )
        call = AskedCall(
            proposer=source.proposer,
            target=source.target,
            tool=source.work.tool,
            arguments=asked,
            tool_hash=tool_hash(source.work.tool),
            hints=source.work.hints,
        )
        yield Proposed(t, call, deserves)
        before, number = source.work.tool, number + 1


def history(kind: str, seed: int) -> Iterator[Proposed]:
    dice = Random(seed)
    return proposals(KINDS[kind](dice), dice, changes=True)


def changing(seed: int, affected: int) -> Changing:
    """Files below some folders deserve a yes, of a project that grows; a change forbids so many of these folders."""
    dice = Random(seed)
    work = folders(dice, 1 + affected)

    def change() -> None:
        for _ in range(affected):
            work.change()

    return Changing(
        proposals(work, dice, changes=False),
        change,
        lambda call: call.tool != work.tool or work.wants(dict(call.arguments), 0.0, ""),
    )


HELD_OUT = Generator(tuple(KINDS), EXPRESSIBLE, history, changing)
