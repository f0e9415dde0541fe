"""Finds risky shapes of text in a proposal, such as paths, addresses, commands and disguised characters; pure.

It finds shapes and does not understand the text: a value without a warning is not therefore safe. The work is linear in
the length of the text and bounded; a last line states when the bound was reached.

A shape is looked for in three spellings: as it stands, behind escapes (URL, JSON, C, HTML, base64, also one in another),
and over neighbours that are read together, such as a program and its list of arguments in whichever order. What is
common in harmless calls gives no line: an https address of a public host, and the syntax of a shell where an argument
holds prose, code or a command by its name.

Spec: §7.1, threats 16, 17.
"""

from __future__ import annotations

import base64
import html
import json
import re
import unicodedata
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import chain, islice, pairwise
from typing import Any
from urllib.parse import unquote

from mew_lab.agent.quotes import leaves
from mew_lab.lab.decisions.sources import HINT
from mew_lab.protocol.steps import Steps, find_steps, finish
from mew_lab.protocol.text import fold
from mew_lab.protocol.tool_hints import DESTRUCTIVE, WRITES
from mew_lab.protocol.visible import middle, one_line, visible

__all__ = [
    "UNLOOKED",
    "alike",
    "find_inside",
    "kind_of",
    "rank_warnings",
    "read_alike",
    "read_risks",
    "risks",
    "risks_of_title",
    "stated_risks",
]

MAX_RISKS = 20
MAX_LOOKED_AT = 10_000  # texts, lists and objects
MAX_CHARACTERS = 120_000  # of all texts together
MAX_JOINED = 3000  # texts made of neighbours
MAX_PAIRS = 100  # of which so many are pairs
TOGETHER = 20  # texts that are read together
MAX_READINGS = 3  # of a text that is escaped more than once
MAX_DECODED = 2000  # pieces of one text that are read as base64
SHORT = 300  # characters of a text that is read together with its neighbours
UNLOOKED = "too long to be checked in full: there may be other risks"

MAX_NAMES = 10_000  # that are compared
MAX_ALIKE = 5

LONG_NAME = 64  # characters
SHOWN_TO = 3  # addressees that a title names
SHOWN = 80

# Commands whose names do not begin sentences.
_COMMANDS = (
    "rm|rmdir|sudo|su|sh|bash|zsh|dash|ksh|fish|curl|wget|nc|ncat|netcat|chmod|chown|chgrp|mkfs|dd|scp|ssh|rsync|telnet|"
    "python\\d?|perl|ruby|node|php|pwsh|powershell|cmd|eval|exec|xargs|tee|sed|awk|grep|base64|openssl|gpg|tar|unzip|"
    "crontab|reboot|shutdown|halt|poweroff|systemctl|launchctl|useradd|usermod|passwd|whoami|uname|printenv|docker|kubectl|npm|npx|pip|git|echo|cat|"
    "mv|cp|ln|ls|kill|pkill|killall|mshta|rundll32|regsvr32|certutil|bitsadmin|schtasks|wmic|iex"
)
_BEFORE = r"(?:^|[\s\"'=:,;(\[{<>|&`])"  # the characters before a path

# Each pattern has bounded repeats and begins where a run begins, so that no text takes more than its length.
_SHAPES: tuple[tuple[str, str], ...] = (
    (
        "address",
        r"(?i)(?<![a-z0-9+.-])(?:[a-z][a-z0-9+.-]{0,20}+://|"
        r"(?:https?|ftp|wss?|file|data|javascript|vbscript|mailto|tel|sms|jar|blob|magnet|view-source):)[^\s\"'<>]{1,200}",
    ),
    ("address without a scheme", r"(?:^|[\s\"'=(,])(//[\w.-]{1,80}+(?![\[(])(?:[/:][^\s\"']{0,80})?)"),
    (
        "path that leaves its folder",
        r"(?:^|[\s\"'=:,/\\])(\.\.(?![ ]\w[\w-]{0,30}::)(?:[/\\][^\s\"']{0,80}|(?=$|[\s\"',;:)])))",
    ),
    ("path in disguise", r"(?i)%(?:25){0,3}(?:2e%(?:25){0,3}2e|2f|5c|00)[^\s\"']{0,80}"),
    (
        "absolute path",
        _BEFORE
        + r"((?:/(?:etc|root|home|var|usr|proc|dev|tmp|bin|sbin|boot|opt|srv|sys|mnt|media|run|lib|data|"
        r"Users|Library|Applications|private|Volumes|System)(?![\w-])|~(?:[A-Za-z_][\w-]{0,40}+)?(?=/))(?:/[^\s\"']{0,80})?)",
    ),
    (
        "absolute path",
        r"(?<![A-Za-z0-9])[A-Za-z]:\\[^\s\"']{0,80}|(?<![A-Za-z0-9])[A-Za-z]:/(?!/)[^\s\"']{1,80}",
    ),
    ("path on another computer", _BEFORE + r"(\\\\[\w.?$-]{1,80}+\\[^\s\"']{0,80})"),
    (
        "shell variable",
        r"\$(?:env:)?[A-Z_][A-Z0-9_]{1,40}\b(?:[/\\][^\s\"']{0,60})?|\$env:\w{1,40}|\$\{[^}\n]{1,60}\}|"
        r"%[A-Za-z_][A-Za-z0-9_()]{2,40}%(?:[/\\][^\s\"']{0,60})?",
    ),
    (
        "shell command",
        r"(?i)(?:^|[\s\"'`;&|(=/\\])((?:"
        r"(?:sudo|curl|wget|chmod|chown|mkfs(?:\.\w{1,8})?|mshta|rundll32|regsvr32|certutil|bitsadmin|schtasks|crontab)(?=\s)|"
        r"rm\s{1,9}--?\w+|dd\s{1,9}if=|nc(?:at)?\s{1,9}(?:-|[\w.-]{1,60}\s{1,9}\d{2,5}(?!\w))|"
        r"(?:ba|z|da|k|c|tc|fi)?sh(?:\.exe)?\s{1,9}(?:-\w{1,9}\s{1,9}){0,3}-\w{0,8}c(?=\s|$)|"
        r"(?:python[\d.]{0,4}|perl|ruby|node|php|deno|lua|bun)(?:\.exe)?\s{1,9}(?:-\w{1,19}\s{1,9}){0,3}"
        r"(?:-\w{0,6}[cepr]|--eval|--print|eval)(?=[\s\"'(=]|$)|(?:ba|z|da|k)?sh\s{1,9}-i(?=\s|$)|"
        r"(?:powershell|pwsh)(?:\.exe)?\s{1,9}[-/]\w{1,20}|cmd(?:\.exe)?\s{1,9}/[ck](?=\s|$)|"
        r"invoke-(?:expression|webrequest|command)|start-process|reg(?:\.exe)?\s{1,9}add|net(?:\.exe)?\s{1,9}user|"
        r"base64\s{1,9}(?:-d|-D|--decode)|eval\s{1,9}[\"'$`(]|xargs\s{1,9}\S|iex\s{1,9}[(\w]|osascript\s{1,9}-|find\s[^\n]{0,60}-(?:exec|delete)|ssh\s{1,9}\S{1,60}@|scp\s{1,9}\S)[^\n]{0,60})",
    ),
    ("shell command", r"\|\s{0,9}(?:sudo\s{1,9})?(?:ba|z|da|k)?sh\s{0,9}(?:-\s{0,9})?(?:\Z|[\n;|&])"),
    (
        "shell syntax",
        r"\$\([^)\n]{0,60}\)?|`[^`\n]{1,60}`|(?<![-=])[<>]\([^)\n]{1,60}|(?:&&|\|\|)\s{0,9}\S[^\n]{0,40}|"
        r"(?<=[\s\d])>{1,2}\s{0,9}[~/$][\w./~$-]{1,60}|"
        r"[;\n|&]\s{0,9}+(?=[a-z])(?:"
        + _COMMANDS
        + r")(?:\.exe)?(?=\s{1,9}[-/~$.\w\"'|>&]|\s{0,9}(?:$|[;|&<>)]))[^\n]{0,40}|"
        r";\s{0,9}+[\w./~-]{1,40}+(?=\s{1,9}-{1,2}\w|\s{1,9}[\w.]{0,40}[/~$*]|\s{0,9}(?:$|[;|<>]))[^\n]{0,40}",
    ),
    (
        "shell script",
        r"(?:^|[\s;&|(])env\s{1,9}(?:-\S{1,20}\s{1,9}){0,3}(?:\w{1,40}+=\S{0,60}+\s{1,9}){1,5}\S[^\n]{0,40}|"
        r"[;\n|&]\s{0,9}+(?:\.|source)\s{1,9}\S{0,40}[./~$][^\n]{0,40}|\A\s{0,9}\.\s{1,9}[./~$\w]\S{0,60}|"
        r"\A\s{0,9}(?:eval|source)\s{1,9}\S{1,60}\s{0,9}\Z|"
        r"<<<|<<[-~]?(?:['\"\\][A-Za-z_]|[A-Z_]{2})[\w'\"]{0,20}|"
        r"(?<![\w.-])(?:ba|z|da|k|c|tc|fi)?sh\s{0,9}<[^\n]{0,40}|(?<!\\)\\\r?\n[^\n]{0,40}",
    ),
    (
        "address of a computer",
        r"(?<![\w.])(?<![A-Za-z]/)\d{1,3}(?:\.\d{1,3}){3}(?![\w.]\d)(?::\d{1,5}+)?(?:/[^\s\"']{0,60})?|\[[0-9a-fA-F:.]{3,40}\](?=[:/])",
    ),
    (
        "Windows command",
        r"(?i)/dev/(?:tcp|udp)/\S{1,60}|(?<![\w-])(?:"
        r"(?:format-volume|clear-disk|initialize-disk|remove-partition)(?=\s|$)|(?:remove-item|ri)\s[^\n]{0,60}-(?:r|fo)\w{0,8}|(?:iwr|irm|set-executionpolicy|[as][de][dt]-mppreference|vssadmin|bcdedit|wbadmin)\s|"
        r"invoke-restmethod|iex\s{0,9}\(|(?:del|erase|rd|rmdir)\s{1,9}/[sqf](?![\w])|format\s{1,9}[a-z]:|reg(?:\.exe)?\s{1,9}delete\s|"
        r"new-object\s{1,9}(?:system\.)?net\.)[^\n]{0,60}|\.download(?:string|file)\s{0,9}\(",
    ),
    (
        "code that runs programs or deletes",
        r"(?<![\w.])(?:os\.(?:system|popen|exec\w{1,4}|spawn\w{1,4}|remove|unlink|removedirs)\s{0,3}\(|"
        r"subprocess(?:\.\w{1,20}\s{0,3}\(|['\"])|import\s{1,9}subprocess|__im(?:port)__\s{0,3}\(|shutil\.rmtree|"
        r"exec\s{0,3}\(\s{0,3}(?:open|compile|base64|__)|eval\s{0,3}\(\s{0,3}(?:open|compile|atob|base64|__|String\.fromCharCode|unescape|decodeURI)|"
        r"document\.cookie|(?:dict|str|dumps)\(\s{0,3}(?:dict\(\s{0,3})?os\.environ|"
        r"(?:system|unlink|passthru|shell_exec|proc_open|popen|execSync|spawnSync|rmSync)\s{0,3}\(|"
        r"Deno\.(?:remove|run|Command)\w{0,9}|Runtime\.getRuntime|pty\.spawn)|child_process|\.(?:execSync|rmSync|rmdirSync|unlinkSync)\s{0,3}\(|"
        r"\bProcess\.Start\s{0,3}\(|\.deleteMany\s{0,3}\(\s{0,3}(?:\{\s{0,3}\}\s{0,3})?\)",
    ),
    (
        "SQL that destroys or leaves its database",
        r"(?i)(?<![\w-])(?:drop\s{1,9}(?:table|database|schema|user|role|view|column|owned|tablespace|keyspace)(?!\w)|truncate\s{1,9}table\s|"
        r"\Atruncate\s{1,9}\w{1,60}(?:\s{0,3},\s{0,3}\w{1,60}){0,9}\s{0,9};?\s{0,9}\Z|delete\s{1,9}from\s{1,9}[\w\"`\[\]]{1,60}(?:\.[\w\"`\[\]]{1,60}){0,2}\s{0,9}(?=;|\Z|--|/\*|where\s{1,9}(?:1\s{0,3}=\s{0,3}1|true(?!\w)))|"
        r"update\s{1,9}[\w\"`.\[\]]{1,60}\s{1,9}set\s[^;]{1,200}\swhere\s{1,9}(?:1\s{0,3}=\s{0,3}1|true(?!\w))|alter\s{1,9}(?:role|user)\s[^;\n]{1,60}\ssuperuser|prepare\s{1,9}\w{1,40}\s{1,9}from\s{1,9}@|"
        r"update\s{1,9}[\w\"`.\[\]]{1,60}\s{1,9}set\s{1,9}[\w\"`.]{1,60}\s{0,9}=(?:(?!where\s)[^;]){1,200}(?=;|\Z)|"
        r"copy\s[^;\n]{1,80}\s(?:to|from)\s{1,9}program(?!\w)|into\s{1,9}(?:out|dump)file\s|xp_cmdshell|"
        r"(?:load_file|load_extension|pg_read_file|lo_import)\s{0,9}\(|attach\s{1,9}database\s|grant\s{1,9}all\s|flushall(?!\w))[^\n;]{0,40}",
    ),
    (
        "file that holds keys or runs by itself",
        r"(?:^|[\s\"'=:,/\\(@])(\.ssh(?:[/\\]|(?=$|\s))\S{0,60}|id_(?:rsa|dsa|ecdsa|ed25519)(?!\w)|authorized_keys|"
        r"\.env(?:\.(?!example|sample|template|dist)\w{1,20})?(?![\w.-])|\.git[/\\](?:hooks|config)\S{0,60}|\.husky[/\\]\S{0,60}|\.(?:aws|kube|gnupg|azure)(?:[/\\]\S{0,60}|(?=$))|"
        r"\.(?:netrc|npmrc|pypirc|pgpass|git-credentials|bashrc|bash_profile|bash_history|bash_login|zshrc|zshenv|zprofile|profile)(?![\w.-])|"
        r"\.docker[/\\]config\S{0,20}|\.config[/\\](?:autostart|systemd|fish|gcloud)\S{0,60}|LaunchAgents\S{0,60}|cron\.(?:d|daily|hourly)(?!\w)\S{0,60}|"
        r"etc[/\\](?:shadow|passwd|sudoers)\S{0,60}|System32[/\\]config\S{0,60})",
    ),
    (
        "option that runs or writes something",
        r"(?i)(?:^|[\s\"'=])((?:--(?:upload-pack|receive-pack|checkpoint-action|to-command|use-compress-program|rsync-path|ext-diff|open-files-in-pager|post-file|upload-file|init-file)(?:[=\s]|$)|"
        r"-o\s?(?:proxy|local|permitlocal)command|-c\s{1,9}(?:core|protocol|alias)\.\w{1,40})\S{0,60})|core\.(?:sshcommand|fsmonitor|hookspath)\S{0,60}|"
        r"\A\s{0,9}--(?:output[=\s](?=\S{0,60}[/~])|(?:config|exec|rsh|pager|require|eval)(?:[=\s]|\Z))\S{0,60}",
    ),
    (
        "git command that loses work",
        r"(?:(?<![\w.-])git\s(?:[^\n]{0,40}\s)?|\A\s{0,9})(?:push\s(?:[^\n]{0,60}\s)?(?:--force[\w-]{0,20}|-[a-z]{0,3}f[a-z]{0,3}|--mirror|--delete|-d|\+\w\S{0,40}|:\w\S{0,40})(?=[\s=]|$)|"
        r"reset\s(?:[^\n]{0,40}\s)?--hard(?!\w)|clean\s{1,9}(?:-\S{1,9}\s{1,9}){0,3}(?:-\w{0,5}f|--force)|filter-(?:branch|repo)(?!\w)|branch\s(?:[^\n]{0,40}\s)?-D(?!\w)|"
        r"reflog\s{1,9}(?:expire|delete)|stash\s{1,9}(?:drop|clear)|update-ref\s{1,9}-d|remote\s{1,9}set-url\s|"
        r"(?:checkout|switch)\s(?:[^\n]{0,60}\s)?(?:--|\.|-f|--force|--discard-changes)(?=\s|$)|"
        r"(?<=\s)restore\s{1,9}(?:-\S{1,30}\s{1,9}){0,3}(?!-)\S(?<!--staged\s\S)(?<!-S\s\S)|worktree\s{1,9}remove\s{1,9}(?:-f|--force))[^\n]{0,40}",
    ),
    (
        "command that takes away much",
        r"(?<![\w.-])(?:(?:kubectl|oc|helm)\s(?:[^\n]{0,60}\s)?(?:delete|uninstall|drain)(?!\w)|docker\s(?:[^\n]{0,60}\s)?(?:--privileged|prune|-v\s{0,3}/:\S{1,20}|rm\s{1,9}-\w{0,3}f)|"
        r"terraform\s(?:[^\n]{0,40}\s)?(?:destroy(?!\w)|-auto-approve)|(?:aws|gcloud|az|gsutil|doctl)\s(?:[^\n]{0,60}\s)?(?:(?:rm|rb|delete|terminate|purge)(?![A-Za-z])|attach-\w{1,9}-policy|put-\w{1,9}-(?:acl|policy)|add-iam-policy-binding)|"
        r"(?:userdel|killall|pkill|kill\s{1,9}(?:-\w{1,9}\s{1,9})?-1|shred\s{1,9}\S{1,60}|truncate\s{1,9}(?:-s|--size)|iptables\s{1,9}-F|shutdown\s{1,9}[-/\w]|systemctl\s{1,9}(?:stop|disable|mask))(?=\s|$))[^\n]{0,40}|/var/run/docker\.sock|dropDatabase\s{0,3}\(|"
        r"\(\)\s{0,3}\{[^}|\n]{0,40}\|[^}&\n]{0,40}&\s{0,3}\}",
    ),
    (
        "absolute path",
        r"\A\s{0,9}(?:/|~|[A-Za-z]:[/\\]?)[/\\]?\*{0,2}\s{0,9}\Z|(?<=\w\s)(?:/|~|[A-Za-z]:\\)\*{0,2}\Z|(?<=\s)/:/\w{1,40}",
    ),
    (
        "secret",
        r"(?<![A-Za-z0-9])(?:AKIA[0-9A-Z]{16}|gh[pousr]_[A-Za-z0-9]{20,}|github_pat_\w{20,}|glpat-[\w-]{15,}|xox[abeoprs]-[\w-]{10,}|sk-(?:\w{2,5}-)?[\w-]{20,}|AIza[\w-]{30,}|"
        r"eyJ[\w-]{10,}\.eyJ[\w-]{10,})|-----BEGIN [A-Z ]{0,30}PRIVATE KEY|"
        r"(?i:(?:^|[?&\s;])(?:password|passwd|pwd|secret|api_?key|access_token|token)=[^\s&\"'(){}$<]{4,60})|"
        r"(?<![A-Za-z0-9_])[A-Z][A-Z0-9_]{0,40}_(?:PASSWORD|PASSWD|SECRET|TOKEN|KEY)\s{0,3}=\s{0,3}[\"']?(?=[^\s\"']{0,60}\d)[^\s\"'(){}$<]{6,80}|"
        r"(?i:(?<!\w)(?:password|passphrase|passwd)(?!\w)[^.\n=]{0,60}\s(?:is|was|lautet)\s{1,3}(?=\S{0,60}\d)[^\s(){}$<]{6,60})",
    ),
    (
        "shell variable",
        r"\$\{?(?:env:)?(?:[A-Z0-9]{1,20}_){0,4}(?:SECRET|TOKEN|PASSWORD|PASSWD|CREDENTIALS?|(?:API|ACCESS|PRIVATE)_?KEY)\w{0,20}\}?",
    ),
    ("long base64-like text", r"(?<![A-Za-z0-9+/])[A-Za-z0-9+/]{120,}+={0,2}"),
    (
        "punctuation in disguise",
        r"(?<![^\s\"'=(])[\u2010-\u2013\u2212\ufe58\ufe63\uff0d](?=[A-Za-z])|[\uff0f\uff3c\uff0e\uff5c\uff04\u2044\u2215\u2216\u29f8\u2024\u2025\ufe68]",
    ),
    ("null byte", r"\x00"),
    ("control character", r"[\x01-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]"),
    ("long white space", r"(?<!\s)\s{60,}+"),
    (
        "marks over letters",
        r"[\u0300-\u036f\u0483-\u0489\u1ab0-\u1aff\u1dc0-\u1dff\u20d0-\u20ff\ufe20-\ufe2f]{3,}|"
        r"[\u0334-\u0338\u0489\u20d2-\u20e3]",
    ),
)


def _words(text: str) -> tuple[str, ...]:
    return tuple(text.split("|"))


# The characters that a text must contain before the pattern is tried: most texts contain none.
_NEEDLES = {
    "address": (":", "//"),
    "address without a scheme": ("//",),
    "path that leaves its folder": ("..",),
    "path in disguise": ("%",),
    "absolute path": ("/", "~", ":\\"),
    "path on another computer": ("\\\\",),
    "shell variable": ("$", "%"),
    "shell script": ("env", ". ", "eval", "source", "<<", "sh", "\\"),
    "address of a computer": (".", "["),
    "shell syntax": ("$(", "`", "&", "|", ";", "\n", ">", "<("),
    "null byte": ("\0",),
    # of the text in small letters
    "code that runs programs or deletes": ("(", "process", "deno.", "document.cookie"),
    "SQL that destroys or leaves its database": _words(
        "drop|truncate|delete|update|program|file|xp_|load_|lo_import|attach|grant|flush|alter|prepare"
    ),
    "file that holds keys or runs by itself": _words(
        ".ssh|.env|.git|.husky|.aws|.kube|.gnupg|.azure|.netrc|.npmrc|.pypirc|.pgpass|.bash|.zsh|"
        ".zprofile|.profile|.docker|.config|id_rsa|id_dsa|id_ec|id_ed|authorized_|launchagents|"
        "cron.|etc/|etc\\|system32"
    ),
    "shell command": _words(
        "sudo|url|wget|ch|mkfs|mshta|l32|r32|util|admin|tasks|rontab|rm|dd|nc|sh|thon|rl|ruby|"
        "node|php|deno|lua|bun|cmd|voke|process|reg|net|base64|eval|args|iex|script|find|scp"
    ),
    "Windows command": _words(
        "/dev/|-item|ri |iwr|irm|policy|mppref|vssadmin|bcdedit|wbadmin|invoke|iex|del |erase|"
        "rd |rmdir|format|-disk|-partition|reg|new-object|download"
    ),
    "option that runs or writes something": ("--", "-o", "-c", "core."),
    "git command that loses work": _words(
        "git|push |reset |clean |filter-|branch |reflog |stash |update-ref|remote |checkout |switch |worktree "
    ),
    "command that takes away much": _words(
        "kubectl|oc |helm|docker|terraform|aws|gcloud|az |gsutil|doctl|userdel|kill|shred|truncate|iptables|"
        "shutdown|systemctl|dropdatabase|()"
    ),
    "secret": ("akia", "gh", "glpat", "xox", "sk-", "aiza", "eyj", "begin ", "=", "pass"),
}
# Each shape with the search for its needles in a short text.
_SEARCHES = tuple(
    (re.compile(pattern), word, needles, re.compile("|".join(map(re.escape, needles))).search)
    for word, pattern in _SHAPES
    for needles in (_NEEDLES.get(word, ("",)),)
)
_KEYS = "file that holds keys or runs by itself"
_COMMAND = "shell command"
# Shapes that prose, code and commands are full of, and the names of the arguments that hold these.
_COMMON = frozenset(
    {"address without a scheme", "shell syntax", "shell variable", "shell script", "long base64-like text"}
)
_HOLDS_TEXT = re.compile(
    r"(?i)(?:^|[_.\s-])(?:cmd|command|commands|script|code|function|js|javascript|expression|formula|sql|query|statement|contents?|"
    r"text|body|message|description|comment|note|notes|markdown|html|mermaid|diagram|thought|title|summary|prompt|pattern|regex|"
    r"glob|selector|xpath|locator|values?|instructions?|input|bullets?|points|rows?|cells|labels?|items|jql|cql|filter|reasoning|reasons?|goal|details|snippet|"
    r"diff|patch|base64|paragraphs?|observations?|caption|subject|source_code|[a-z]*_?string|str)\Z|"
    r"(?:Text|Code|Content|Contents|Body|Message|Description|Comment|Script|Function|Command|Html|Query|String|Pattern|Expression)\Z"
)
# Addresses that are common: encrypted ones of public hosts, and web servers under development here.
_WEB = re.compile(
    r"(?i)https://(?P<host>(?:[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?\.){1,8}[a-z]{2,24})(?::\d{1,5})?(?:[/?#]|\Z)|"
    r"https?://(?:localhost|127\.0\.0\.1):(?:3\d\d\d|4000|4200|5000|5173|800\d|808\d)(?:[/?#]|\Z)"
)
_NOT_PUBLIC = tuple(
    ".internal .local .localhost .localdomain .lan .corp .home .intranet .arpa .onion .nip.io .sslip.io".split()  # noqa: SIM905
)
# What a shell takes away: quotes within a word, a backslash near its start.
_DROPPED = r"(?<=\w)(?:''|\"\")(?=\w)|(?:(?<=\A\w)|(?<=\A\w\w)|(?<=[\s;|&(]\w)|(?<=[\s;|&(]\w\w))\\(?=\w)"
_ESCAPE = re.compile(
    r"\\u(?:[0-9a-fA-F]{4}|\{[0-9a-fA-F]{1,6}\})|\\x[0-9a-fA-F]{2}|\\[0-3][0-7]{2}|%[0-9a-fA-F]{2}|&(?:#\d{1,7}|#[xX][0-9a-fA-F]{1,6}|[a-z]{2,8});|"
    r"/\*[^*\n]{0,60}\*/|(?<=\w)[\"']\s{0,3},\s{0,3}[\"'](?=[\w/~.-])|" + _DROPPED
)
_QUOTED = re.compile(_DROPPED)
# a comment, and what stands between the texts of a list
_BETWEEN = re.compile(r"/\*[^*\n]{0,60}\*/|(?<=\w)[\"']\s{0,3},\s{0,3}[\"'](?=[\w/~.-])")
_OF_C = re.compile(r"\\u([0-9a-fA-F]{4})|\\u\{([0-9a-fA-F]{1,6})\}|\\x([0-9a-fA-F]{2})|\\([0-3][0-7]{2})")
_WRITTEN = frozenset(" \n./:-_&#;%\\\"'=$|")
_BASE64 = re.compile(r"(?<![\w+/=-])[A-Za-z0-9+/_-]{12,400}+={0,2}")
_LINE_END = re.compile(r"(?<=[\w+/-])\r?\n(?=[\w+/-])")
_BLANK = frozenset({"null byte", "control character", "long white space"})


def risks(arguments: Mapping[str, Any], *, folders: Sequence[str] = ()) -> tuple[str, ...]:
    """The risky parts of the arguments, in one piece; see `read_risks`."""
    return finish(read_risks(arguments, folders=folders))


def read_risks(arguments: Mapping[str, Any], *, folders: Sequence[str] = ()) -> Steps[tuple[str, ...]]:
    """The risky parts of the arguments, one line each, however deep or long they lie.

    The path of something in one of the `folders` is no absolute path to be remarked on. It stops after 20 lines, 10 000
    texts, lists and objects, or 120 000 characters, and a last line says so.
    """
    lines: dict[str, None] = {}
    left = MAX_CHARACTERS
    for is_name, place, text in leaves(arguments, most=MAX_LOOKED_AT, numbers=False):
        if text == "":
            yield
            continue
        if text is None or left <= 0 or len(lines) >= MAX_RISKS:
            return (*tuple(lines)[:MAX_RISKS], UNLOOKED)
        common = not is_name and _holds_text(place[: place.index("[")] if place.endswith("]") else place)
        for line in _in_text(text[:left], middle(place, 40), folders, common=common):
            if line is None:
                yield
            else:
                lines[line] = None
        left -= len(text) + 1
    told: set[tuple[str, str]] = set()
    for names, pieces, joined in islice(_joined(arguments), MAX_JOINED):
        yield
        for found in _over_several(pieces, joined):
            # What a smaller part has told is not told again of the larger one around it.
            if not any(kind == found[0] and text in found[1] for kind, text in told):
                told.add(found)
                lines[f"{found[0]} in {middle(names, 40)} read together: {one_line(found[1], SHOWN)}"] = None
    return (*tuple(lines)[:MAX_RISKS], *((UNLOOKED,) if left < -1 or len(lines) > MAX_RISKS else ()))


_NO_ARGUMENT = ("/to", "/payload")  # the names of rows that are no arguments


@lru_cache(2_000)
def _holds_text(place: str) -> bool:
    return _HOLDS_TEXT.search(place) is not None


def _over_several(pieces: Sequence[str], joined: str) -> Iterator[tuple[str, str]]:
    """The shapes in a joined text that none of its pieces has alone."""
    found = list(filter(None, _shapes_in(joined, common=True)))
    if not joined.isascii():
        found += [(line.partition(" in ")[0], joined) for line in filter(None, _disguises(joined, "it"))]
    if found:
        alone = {word for piece in pieces for word, _ in filter(None, _shapes_in(piece, common=True))}
        if any("://" in piece for piece in pieces):  # an address of its own, whatever stands before it
            alone.add("address")
        yield from ((word, shown) for word, shown in found if word not in alone)


def _joined(arguments: Mapping[str, Any]) -> Iterator[tuple[str, list[str], str]]:
    """Short texts that stand beside each other, joined as a reader of the arguments may join them."""
    waiting: list[tuple[str, Any]] = [("", arguments)]
    left, pairs = MAX_LOOKED_AT, MAX_PAIRS
    while waiting and left > 0:
        where, value = waiting.pop()
        named = value.items() if isinstance(value, Mapping) else enumerate(value)
        groups: list[tuple[str, list[str]]] = []
        for name, inner in islice(named, left):
            left -= 1
            if not where and str(name).startswith(_NO_ARGUMENT):
                continue
            place = f"{where}.{name}".lstrip(".") if isinstance(value, Mapping) else where
            if isinstance(inner, Mapping | list | tuple):
                waiting.append((middle(place, 80), inner))
            pieces = [inner] if isinstance(inner, str) else inner if isinstance(inner, list) else []
            if pieces and all(isinstance(piece, str) for piece in pieces):
                groups.append((place, [_ends_of(piece) for piece in pieces]))
        if isinstance(value, Mapping):
            for (one, before), (other, after) in _pairs(groups, pairs):
                pairs -= 1
                pieces = [*before[-TOGETHER:], *after[:TOGETHER]]
                names = f"{one} and {other}"
                yield names, pieces, " ".join(pieces)
                if len(pieces) == 2:
                    yield names, pieces, "".join(pieces)
                    yield names, pieces, "/".join(pieces)
        pieces = [piece for _, inner in groups for piece in inner]
        if len(pieces) > 1 and (len(groups) > 1 or not isinstance(value, Mapping)):
            for at in range(0, max(1, len(pieces) - TOGETHER // 2), TOGETHER // 2):
                some = pieces[at : at + TOGETHER]
                yield where or "the arguments", some, " ".join(some)
                if not isinstance(value, Mapping):
                    yield where, some, "/".join(some)


_Group = tuple[str, list[str]]


def _pairs(groups: Sequence[_Group], most: int) -> Iterator[tuple[_Group, _Group]]:
    """Neighbours, and each list after each text: the members of an object have no order."""
    yield from islice(pairwise(groups), most)
    texts = [group for group in groups[:most] if len(group[1]) == 1]
    lists = [group for group in groups[:most] if len(group[1]) > 1]
    yield from islice(((text, more) for more in lists for text in texts), max(0, most - len(groups)))


def _ends_of(text: str) -> str:
    return text if len(text) <= SHORT else f"{text[: SHORT // 2]} … {text[-SHORT // 2 :]}"


def _decoded(text: str, readings: int = MAX_READINGS) -> Iterator[tuple[str, str]]:
    """The pieces of a text that hold escapes or are base64, each with what decoders make of it, one after another."""
    lines = _LINE_END.sub("", text) if "\n" in text else text
    found = (_unescaped(text), _base64_in(text), _base64_in(lines) if lines != text else ())
    for piece, reads in chain.from_iterable(found):
        yield piece, reads
        if readings > 1:
            yield from ((piece, again) for _, again in _decoded(reads, readings - 1))


def _unescaped(text: str) -> Iterator[tuple[str, str]]:
    if any(mark in text for mark in ("\\", "%", "&", "/*", '",', "',", "''", '""')):
        end = -1
        for hit in _ESCAPE.finditer(text):
            if hit.start() < end:
                continue
            begin, end = max(end, hit.start() - 60, 0), min(hit.end() + SHORT, len(text))
            piece = text[begin:end]
            reads = _BETWEEN.sub(" ", html.unescape(unquote(_OF_C.sub(_character, piece))))
            if reads != piece:
                yield piece, reads
            if (bare := _QUOTED.sub("", piece)) != piece:
                yield piece, bare


def _base64_in(text: str) -> Iterator[tuple[str, str]]:
    """The pieces of a text that are base64 or hexadecimal digits of a text, each with that."""
    for hit in islice(_BASE64.finditer(text), MAX_DECODED) if len(text) >= 12 else ():
        piece = hit[0].rstrip("=")
        for decode in (_from_hex, _from_base64) if _HEX.fullmatch(piece) else (_from_base64,):
            try:
                reads = decode(piece).decode()
            except ValueError:
                continue
            if sum(c.isalnum() or c in _WRITTEN for c in reads) > 0.7 * len(reads):
                yield hit[0], reads


_HEX = re.compile(r"(?:[0-9a-fA-F]{2}){6,}")
_from_hex = bytes.fromhex


def _from_base64(text: str) -> bytes:
    return base64.b64decode(text.replace("-", "+").replace("_", "/") + "=" * (-len(text) % 4), validate=True)


def _character(hit: re.Match[str]) -> str:
    number = int(hit[4], 8) if hit[4] else int(hit[1] or hit[2] or hit[3], 16)
    return chr(number) if number < 0x110000 and not 0xD800 <= number < 0xE000 else hit[0]


def risks_of_title(*, tool: str, method: str, to: Sequence[str], proposer: str = "") -> tuple[str, ...]:
    """The risky parts of the names in a proposal: of its tool, its method, and the participants."""
    risky: dict[str, None] = {}
    for what, name in (
        ("the tool's name", tool),
        ("the method's name", method),
        ("the proposer's name", proposer),
    ):
        risky.update(dict.fromkeys(_in_name(name, what)))
    for name in to[:MAX_RISKS]:
        risky.update(dict.fromkeys(_in_name(name, "an addressee's name")))
    lines = tuple(risky)[:MAX_RISKS]
    if len(set(to)) > SHOWN_TO:
        lines = (
            f"many addressees: it goes to {len(set(to)):,} participants, and the title names {SHOWN_TO} of them",
            *lines,
        )
    return lines


def alike(names: Iterable[str], what: str, *, among: Iterable[str] = ()) -> tuple[str, ...]:
    """The names that look alike, in one piece; see `read_alike`."""
    return finish(read_alike(names, what, among=among))


def read_alike(names: Iterable[str], what: str, *, among: Iterable[str] = ()) -> Steps[tuple[str, ...]]:
    """One line for each of the names that looks like another of them, or like a name in `among`."""
    known: dict[str, str] = {}
    for name in among:
        known.setdefault(_read(name), name)
    lines = []
    for name in islice(dict.fromkeys(names), MAX_NAMES):
        other = known.setdefault(_read(name), name)
        yield
        if other != name:
            lines.append(f"names that read alike: {what} {_spelt(name)} beside {_spelt(other)}")
    return tuple(lines[:MAX_ALIKE])


def _read(name: str) -> str:
    """A name without the differences that a reader misses: case, accents, look-alikes, white space."""
    return "".join(fold(name[:2000]).split())


def _spelt(name: str) -> str:
    """A name as JSON in ASCII, in which different names always look different."""
    return middle(json.dumps(name), 60)


def stated_risks(hints: Collection[str]) -> tuple[str, ...]:
    """The risk that the tool's own annotations state, at any of its addressees; at most one line."""
    if DESTRUCTIVE in hints:
        return ("destroys: the tool says so itself (annotations)",)
    if WRITES in hints:
        return ("writes: the tool is not read-only (annotations)",)
    return ()


# The kinds of warnings before and behind all others, by how they begin: what does harm or deceives by itself, and what
# is no more than a remark.
_GRAVE = (
    *(
        "another proposal under",
        "the proposer is one of",
        "names that read alike",
        "characters that cannot be seen",
    ),
    *(
        "not plain letters",
        "letters in disguise",
        "mixed alphabets",
        "punctuation in disguise",
        "right-to-left",
    ),
    *(
        "shell command",
        "shell script",
        "Windows command",
        "command that",
        "code that",
        "SQL that",
        "git command",
    ),
    *("option that", "secret", "null byte"),
)
_SLIGHT = (
    "long ",
    "not listed",
    "sent beside",
    "more is sent",
    "the member jsonrpc",
    "many addressees",
    UNLOOKED,
)


def rank_warnings(warnings: Iterable[str]) -> list[str]:
    """The warnings, the gravest first; else in their order. A view shows one of them, and the others as a line."""
    ranks = ((_GRAVE, 0), (HINT, 2), (_SLIGHT, 3))
    return sorted(
        warnings, key=lambda text: next((rank for begins, rank in ranks if text.startswith(begins)), 1)
    )


def kind_of(warning: str) -> str:
    """What a warning is about, in few words: its beginning, without the place and the text that it names."""
    if warning.startswith(HINT):
        return "quotes others"
    return one_line(warning.partition(": ")[0].partition(" in ")[0], 40)


def find_inside(path: str, folders: Sequence[str]) -> str:
    """The name of the folder in which the plain path of a file or folder leads; empty where it leads in none."""
    inside = [folder for folder in folders if _is_inside(path, [folder])]
    return max(inside, key=len).rstrip("/").rpartition("/")[2] if inside else ""


def _in_name(name: str, what: str) -> Iterator[str]:
    if len(name) > LONG_NAME:
        yield f"long name: {what} has {len(name):,} characters"
        name = name[:2000]
    if not name.isascii():
        reads = unicodedata.normalize("NFKC", name)
        reads = f" (reads {one_line(reads, 40)})" if reads != name else ""
        yield f"not plain letters in {what}: {one_line(name, 60)}{reads}"
    yield from filter(None, _in_text(name, what))


def _is_inside(path: str, folders: Sequence[str]) -> bool:
    """Whether a text is the plain path of one of the folders or of something in it, which is not hidden."""
    for folder in folders:
        rest = path.removeprefix(folder)
        if folder.startswith("/") and (
            path.rstrip("/") == folder or (rest != path and _PLAIN_PATH.fullmatch(rest))
        ):
            return True
    return False


_PLAIN_PATH = re.compile(
    r"(?:/(?!\.)[\w .@+=,()#!'&-]{1,200}+){1,50}/?"
)  # no hidden name among them, so no `..` either


def _is_public(address: str) -> bool:
    """Whether it is an encrypted address of the web, or one of a web server that is being developed here."""
    hit = _WEB.match(address)
    return hit is not None and not (hit["host"] or "").lower().endswith(_NOT_PUBLIC)


def _is_common(word: str, hit: re.Match[str], shown: str) -> bool:
    """Whether the shape is one of those that harmless calls are full of."""
    if word == "address":
        return _is_public(shown)
    if word == "path that leaves its folder":
        return _REFERS.search(hit.string[max(0, hit.start() - 20) : hit.start(1)]) is not None
    if word == "address of a computer":
        return _WEB.match(f"http://{shown}") is not None
    if word == "path in disguise" and not _LEADS_OUT.search(shown):
        begin = max(hit.string.rfind(c, max(0, hit.start() - 300), hit.start()) for c in " \t\n\"'<>") + 1
        return _is_public(hit.string[max(begin, hit.start() - 300) : hit.end()])
    return False


# What stands before a path in an import or in a link of a text.
_REFERS = re.compile(r"(?:\bfrom\s|\bimport\s|\brequire\(|\bimport\(|\]\(|\b(?:src|href)=|\burl\()[\"'(]?\Z")
_LEADS_OUT = re.compile(r"(?i)2e%(?:25)*2e|%(?:25)*5c|%(?:25)*00")


def _shapes_in(text: str, *, common: bool, inside: bool = False) -> Iterator[tuple[str, str] | None]:
    """Each shape in a text with its word, and None for a pause; all hits but those that are common."""
    lower, paths, brief = text.lower(), "", len(text) < SHORT
    for pattern, word, needles, search in _SEARCHES:
        if not brief:
            yield None
        if not (search(lower) if brief else any(needle in lower for needle in needles)):
            continue
        if (inside and word in ("absolute path", "address")) or (
            common and word in _COMMON and pattern not in _NEVER_COMMON
        ):
            continue
        found: dict[str, None] = {}
        for hit in find_steps(pattern, text):
            if hit is None:
                yield None
                continue
            if word in _BLANK:
                size = f"{len(hit[0])} characters" if word == "long white space" else visible(hit[0])
                found.setdefault(size)
            else:
                shown = (hit.group(1) if hit.re.groups and hit.group(1) else hit.group(0)).strip()
                if not _is_common(word, hit, shown):
                    found.setdefault(shown)
            if len(found) >= MAX_RISKS:
                break
        if word == "absolute path":
            paths += "\n".join(found)
        yield from ((word, shown) for shown in found if word != _KEYS or shown not in paths)


_NEVER_COMMON = frozenset(
    re.compile(pattern) for word, pattern in _SHAPES if word == "shell variable" and "SECRET" in pattern
)


def _in_text(
    text: str, name: str, folders: Sequence[str] = (), *, common: bool = False
) -> Iterator[str | None]:
    """Yields a line for each risk in a text, and None for a pause."""
    path = unquote(text.removeprefix("file://")) if text.startswith("file://") else text
    inside = bool(folders) and _is_inside(path, folders)
    commands = ""
    for shape in _shapes_in(text, common=common, inside=inside):
        if shape is None:
            yield None
            continue
        word, shown = shape
        if word == _COMMAND:
            if shown in commands:  # the end of one that was told
                continue
            commands += f"{shown}\n"
        yield f"{word} in {name}: {shown if word in _BLANK else one_line(shown, SHOWN)}"
    for piece, reads in _decoded(text):
        yield None
        shapes = filter(None, _shapes_in(reads, common=True, inside=inside))
        found = dict.fromkeys(word for word, shown in shapes if shown not in text)
        if _is_public(text):
            found.pop("absolute path", None)
        if _hides(reads) and not _hides(text):
            found.setdefault("characters that cannot be seen")
        found.update(
            dict.fromkeys(line.partition(" in ")[0] for line in filter(None, _disguises(reads, "it")))
            if not reads.isascii()
            else ()
        )
        for word in found:
            yield f"{word} in {name}: {one_line(piece, SHOWN)} (reads {one_line(reads, 60)})"
    yield None
    if _hides(text):
        yield f"characters that cannot be seen in {name}"
    if not text.isascii():
        yield from _disguises(text, name)


def _hides(text: str) -> bool:
    plain = text.replace("\n", "").replace("\t", "")
    return visible(plain) != plain


# --- alphabets ---

_WORD = re.compile(r"\w+")
# Scripts that are written together, and mixed with Latin words.
_TOGETHER = frozenset(
    {"CJK", "HIRAGANA", "KATAKANA", "KATAKANA-HIRAGANA", "HANGUL", "BOPOMOFO", "IDEOGRAPHIC"}
)
# Styled letters, by the first word of their Unicode name.
_STYLED = frozenset(
    """
    FULLWIDTH HALFWIDTH MATHEMATICAL CIRCLED PARENTHESIZED SQUARED NEGATIVE DOUBLE-STRUCK SCRIPT BLACK-LETTER
    MODIFIER REGIONAL KELVIN ANGSTROM ROMAN OUTLINED
    """.split()  # noqa: SIM905 - words read better than a list
)
_UNITS = frozenset({"μs", "μm", "μg", "μl", "μL", "μF", "μA", "μV", "μW", "μSv", "kΩ", "MΩ", "mΩ"})
_ALIKE = frozenset("аеорсухіјѕԁһӏвнкмтАВЕЅІЈКМНОРСТХҮαορνικυτηΑΒΕΖΗΙΚΜΝΟΡΤΥΧօսոցհԱՏႽ")


@lru_cache(20_000)
def _script(c: str) -> str:
    """The alphabet of a letter; empty for anything else."""
    if not c.isalpha():
        return ""
    first = unicodedata.name(c, "").split(" ")[0]
    return {"MICRO": "", "FEMININE": "", "MASCULINE": "", "OHM": "GREEK"}.get(first, first)


@lru_cache(2_000)
def _digits(c: str) -> str:
    """The alphabet of a digit that is none of 0 to 9; empty for anything else."""
    if c.isascii() or unicodedata.category(c) != "Nd":
        return ""
    first = unicodedata.name(c, "").split(" ")[0]
    return {"ARABIC-INDIC": "ARABIC", "EXTENDED": "ARABIC"}.get(first, first)


def _scripts(text: Iterable[str]) -> set[str]:
    return {script for c in set(text) if (script := _script(c))}


def _disguises(text: str, name: str) -> Iterator[str | None]:
    """Describes letters and digits of one alphabet among those of another; None is a pause."""
    different = set(text)
    scripts = _scripts(different)
    east = bool(scripts & _TOGETHER)
    yield None
    styled = {c for c in different if _is_styled(c) and not (east and "\uff00" <= c <= "\uffef")}
    if styled:
        word = next((word for word in re.findall(r"\S+", text) if not styled.isdisjoint(word)), "")
        reads = unicodedata.normalize("NFKC", word[:60])
        yield f"letters in disguise in {name}: {one_line(word, 60)} (reads {one_line(reads, 60)})"
    yield None
    small = {c for c in different if _is_small(c) or (c in _DOTLESS and name.startswith("the name "))}
    if small:
        word = next((word for word in re.findall(r"\S+", text) if not small.isdisjoint(word)), "")
        yield f"letters in disguise in {name}: {one_line(word, 60)}"
    scripts -= _STYLED
    others = scripts - {"LATIN"} - _TOGETHER
    if len(scripts) > 1 and others and (mixed := _find_mixed(text, others)):
        yield f"mixed alphabets in {name}: {one_line(mixed, 60)}"
    yield None
    strange = {c for c in different if (kind := _digits(c)) and kind not in scripts and kind not in _STYLED}
    if strange:
        word = next(word for word in re.findall(r"\S+", text) if not strange.isdisjoint(word))
        yield f"digits of another alphabet in {name}: {one_line(word, 40)}"
    if "LATIN" in scripts:
        back = {c for c in different if unicodedata.bidirectional(c) in ("R", "AL", "AN")}
        letters = sum(map(text.count, back)) if back else 0
        if letters and 2 * letters < sum(c.isalpha() for c in text):
            word = next(word for word in re.findall(r"\S+", text) if not back.isdisjoint(word))
            yield f"right-to-left letters in {name}: {one_line(word, 40)}"


_DOTLESS = frozenset("\u0131\u0237\u0251\u0261\u0269")  # ı ȷ ɑ ɡ ɩ: words hold them, names of members do not


@lru_cache(20_000)
def _is_small(c: str) -> bool:
    """Whether the character is a Latin small capital."""
    return not c.isascii() and unicodedata.name(c, "").startswith("LATIN LETTER SMALL CAPITAL")


@lru_cache(20_000)
def _is_styled(c: str) -> bool:
    """Whether the character is a styled form of a Latin letter or digit."""
    kind = "" if c.isascii() else unicodedata.name(c, "").split(" ")[0]
    reads = unicodedata.normalize("NFKC", c) if kind in _STYLED else ""
    letters = any("a" <= letter <= "z" for letter in reads.lower()) or kind == "REGIONAL"
    return letters or (kind in ("FULLWIDTH", "MATHEMATICAL") and reads.isdigit())


def _find_mixed(text: str, others: set[str]) -> str:
    """The first word of two alphabets, or the first word that only looks like the alphabet of the other words."""
    alike, real, latin = "", False, False
    for word in _WORD.findall(text):
        if word.isascii():
            latin = latin or (len(word) > 1 and word.isalpha())
            continue
        scripts = _scripts(word) - _STYLED
        if len(scripts) > 1 and scripts & others and word not in _UNITS:
            return str(word)
        if scripts & others:
            if _ALIKE.issuperset(c for c in word if c.isalpha()) and len(word) > 1:
                alike = alike or word
            else:
                real = True
        latin = latin or "LATIN" in scripts
    return alike if latin and not real else ""
