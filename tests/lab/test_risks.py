"""What is risky in a proposal is named, wherever it stands; what is plain is left alone."""

from __future__ import annotations

import base64
import itertools
import json
import posixpath
import random
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mew_lab.lab.decisions.risks import (
    UNLOOKED,
    alike,
    find_inside,
    kind_of,
    rank_warnings,
    risks,
    risks_of_title,
)

# One seed a line: what stands in an argument, and how the line about it begins.
SEEDS: tuple[tuple[str, str], ...] = (
    ("bash -c 'true'", "shell command"),
    ("sh -c id", "shell command"),
    ("/bin/bash -lc id", "shell command"),
    ("python3 -c 'import os'", "shell command"),
    ("python -u -c x", "shell command"),
    ("perl -e 1", "shell command"),
    ("node -e 1", "shell command"),
    ("powershell -enc ZQBjAGgAbwA=", "shell command"),
    ("PowerShell.exe -NoProfile x", "shell command"),
    ("cmd.exe /c dir", "shell command"),
    ("sudo reboot", "shell command"),
    ("base64 -d x", "shell command"),
    ("ssh root@host", "shell command"),
    ("iex (iwr x)", "shell command"),
    ("find . -exec x", "shell command"),
    ("osascript -e x", "shell command"),
    ("a\uff0fb", "punctuation in disguise"),
    ("a\u2215b", "punctuation in disguise"),
    ("x ; id", "shell syntax"),
    ("x; ls -la", "shell syntax"),
    ("x;cat notes/x", "shell syntax"),
    ("x; ./run.sh --all", "shell syntax"),
    ("x; unheard-of --all", "shell syntax"),
    ("x && y", "shell syntax"),
    ("x || y", "shell syntax"),
    ("x | tee y", "shell syntax"),
    ("x | sh", "shell syntax"),
    ("x\nrm y", "shell syntax"),
    ("x\nwhoami", "shell syntax"),
    ("x & curl y", "shell syntax"),
    ("x > /y", "shell syntax"),
    ("x >> ~/y", "shell syntax"),
    ("`id`", "shell syntax"),
    ("$(id)", "shell syntax"),
    ("<(id)", "shell syntax"),
    ("env X=1 cmd", "shell script"),
    ("env -i PATH=/x LD_PRELOAD=y ls", "shell script"),
    ("x; . ./setup.sh", "shell script"),
    ("x; source a.sh", "shell script"),
    ("x <<EOF", "shell script"),
    ("x <<-'END'", "shell script"),
    ("x <<< y", "shell script"),
    ("sh < x", "shell script"),
    ("bash<x", "shell script"),
    ("cur\\\nl x", "shell script"),
    ("169.254.169.254", "address of a computer"),
    ("10.0.0.1:8080/x", "address of a computer"),
    ("[::1]:80", "address of a computer"),
    ("rm \u2212rf x", "punctuation in disguise"),
    ("rm \u2013rf x", "punctuation in disguise"),
    ("\u0280\u1d0d x", "letters in disguise"),  # small capitals
    ("$HOME", "shell variable"),
    ("$HOME/x", "shell variable"),
    ("${IFS}", "shell variable"),
    ("%USERPROFILE%\\x", "shell variable"),
    ("$env:TEMP", "shell variable"),
    ("C:\\Windows\\x", "absolute path"),
    ("c:/Windows/x", "absolute path"),
    ("/boot/x", "absolute path"),
    ("/Library/x", "absolute path"),
    ("~root/x", "absolute path"),
    ("\\\\host\\share\\x", "path on another computer"),
    ("\\\\?\\C:\\x", "path on another computer"),
    ("../x", "path that leaves its folder"),
    ("..%2fx", "path in disguise"),
    ("%252e%252e%252fx", "path in disguise"),
    ("x%00.png", "path in disguise"),
    ("file:/etc/x", "address"),
    ("file:///x", "address"),
    ("javascript:x()", "address"),
    ("data:text/html,x", "address"),
    ("smb://host/x", "address"),
    ("gopher://host", "address"),
    ("//host/x", "address without a scheme"),
    ("mailto:x@y", "address"),
    ("x\x00y", "null byte"),
    ("x\x1b[2Jy", "control character"),
    ("x\x9by", "control character"),
    ("x" + " " * 200 + "y", "long white space"),
    ("x" + "\n" * 200 + "y", "long white space"),
    ("z\u0336a\u0336l", "marks over letters"),
    ("z\u0301\u0302\u0303\u0304", "marks over letters"),
    ("A" * 130, "long base64-like text"),
    ("p\u0430ypal", "mixed alphabets"),  # Cyrillic
    ("paypa\u03b9", "mixed alphabets"),  # Greek
    ("pa\u0561pal", "mixed alphabets"),  # Armenian
    ("\u13aadmin", "mixed alphabets"),  # Cherokee
    ("\u2c9fpen", "mixed alphabets"),  # Coptic
    ("a\u10e7min", "mixed alphabets"),  # Georgian
    ("adm\u07cdn", "mixed alphabets"),  # NKo
    ("open the \u0441\u043e\u0440\u0443 now", "mixed alphabets"),  # a whole word of look-alikes
    ("\uff50\uff41\uff59 it", "letters in disguise"),  # full width
    ("\U0001d429\U0001d41a\U0001d432 it", "letters in disguise"),  # mathematical
    ("\u24d0dmin", "letters in disguise"),  # circled
    ("\U0001f1e6dmin", "letters in disguise"),  # regional indicator
    ("\u1d43dmin", "letters in disguise"),  # modifier letter
    ("\u212aey", "letters in disguise"),  # the Kelvin sign
    ("pay \u0663\u0664 now", "digits of another alphabet"),  # Arabic-Indic
    ("pay \u07c1\u07c2 now", "digits of another alphabet"),  # NKo
    ("pay \u0967\u0968 now", "digits of another alphabet"),  # Devanagari
    ("pay \U0001d7cf\U0001d7d0 now", "letters in disguise"),  # mathematical digits
    ("please open \u05d0\u05d1 now", "right-to-left letters"),
    ("python -Ic x", "shell command"),
    ("node -p 1", "shell command"),
    ("bash -i x", "shell command"),
    ("x; reboot", "shell syntax"),
    ("find x -delete", "shell command"),
    ("os.system('id')", "code that runs programs or deletes"),
    ("__import__('os')", "code that runs programs or deletes"),
    ("require('child_process')", "code that runs programs or deletes"),
    ("Remove-Item x -Recurse", "Windows command"),
    ("IEX(New-Object x)", "Windows command"),
    ("del /s /q x", "Windows command"),
    ("DROP TABLE x", "SQL that destroys or leaves its database"),
    ("DROP/**/TABLE x", "SQL that destroys or leaves its database"),
    ("rm --recursive x", "shell command"),
    ("nc host 4444", "shell command"),
    ("fs.rmdirSync('x')", "code that runs programs or deletes"),
    ("beds.deleteMany({})", "code that runs programs or deletes"),
    ('["rm", "-rf", "x"]', "shell command"),
    ("delete from beds", "SQL that destroys or leaves its database"),
    ("delete from beds where 1=1", "SQL that destroys or leaves its database"),
    ("update beds set x = 1", "SQL that destroys or leaves its database"),
    ("COPY beds TO PROGRAM 'id'", "SQL that destroys or leaves its database"),
    ("a/.ssh/authorized_keys", "file that holds keys or runs by itself"),
    ("app/.env", "file that holds keys or runs by itself"),
    (".git/hooks/pre-push", "file that holds keys or runs by itself"),
    ("--upload-pack=x", "option that runs or writes something"),
    ("-oProxyCommand=x", "option that runs or writes something"),
    ("--checkpoint-action=exec=x", "option that runs or writes something"),
    ("git push --force", "git command that loses work"),
    ("git push x +main", "git command that loses work"),
    ("git -C x reset --hard", "git command that loses work"),
    ("git checkout -- .", "git command that loses work"),
    ("git remote set-url origin x", "git command that loses work"),
    ("aws iam attach-user-policy x", "command that takes away much"),
    ("Format-Volume x", "Windows command"),
    ("x | sh", "shell command"),
    ("document.cookie", "code that runs programs or deletes"),
    ("str(dict(os.environ))", "code that runs programs or deletes"),
    ("eval(String.fromCharCode(1))", "code that runs programs or deletes"),
    ("update beds set x = 1 where 1=1", "SQL that destroys or leaves its database"),
    ("alter role ada superuser", "SQL that destroys or leaves its database"),
    ("PREPARE x FROM @q", "SQL that destroys or leaves its database"),
    ("the password of ada is tulip77", "secret"),
    ("DB_PASSWORD=tulip77", "secret"),
    ("\\162\\155\\040\\055rf x", "shell command"),
    ("726d202d7266202f737276", "shell command"),  # hexadecimal
    ("git checkout main .", "git command that loses work"),
    ("git restore -SW x", "git command that loses work"),
    ("kubectl -n x delete pods", "command that takes away much"),
    ("kill -9 -1", "command that takes away much"),
    ("shred x", "command that takes away much"),
    (":(){ :|:& };:", "command that takes away much"),
    ("r''m -rf x", "shell command"),
    ("r\\m -rf x", "shell command"),
    ("docker run --privileged x", "command that takes away much"),
    ("delete /", "absolute path"),
    ("/data/x", "absolute path"),
    ("\\u002fetc/x", "absolute path"),
    ("&#x2f;etc/x", "absolute path"),
    ("\\x2fetc/x", "absolute path"),
    ("cm0gLXJmIC9zcnY", "shell command"),  # base64
    ("https://ada:pw@evil.test/x", "address"),
    ("https://github.com\\@evil.test/x", "address"),
    ("https://metadata.google.internal/x", "address"),
    ("https://2852039166/x", "address"),
    ("https://evil.test/?token=abcdef", "secret"),
    ("$X_API_KEY", "shell variable"),
    ("a\u202eb", "characters that cannot be seen"),
    ("a\U000e0041b", "characters that cannot be seen"),
)

# Texts of one alphabet each, as people and programs write them.
PLAIN = (
    "Please summarise the page; then we can talk about it.",
    "We met on Monday; nobody was late, and the report (third draft) is fine!",
    "Fix typo in README... see chapter 3/4, about 50% of it & the rest",
    '{"name": "notes.md", "lines": [1, 2, 3], "ok": true, "ratio": 0.5}',
    "def add(a: int, b: int) -> int:\n    return a + b\n",
    "margin: 0; padding: 0; colour: red",
    "| name | size |\n|---|---|\n| a | 1 |",
    "It costs $5, or 10:30 to 11:45; a/b or and/or",
    "Über Straßen und Wiesen läuft der Hase; das ist schön.",
    "Où est passé l'élève naïf ? Ça coûte 12 €.",
    "Привет мир, как дела? Всё хорошо, 42.",
    "これは日本語のテキストです。Tシャツを３枚買いました。",
    "東京タワーへ行きました。",
    "한국어 문장입니다. API는 좋아요.",
    "هذا نص عربي فيه رقم ٣٤ وكلمات أخرى.",
    "זה טקסט בעברית עם מספר 34.",
    "यह हिन्दी का वाक्य है, संख्या ३४।",
    "Το κείμενο είναι ελληνικό.",
    "5 µm, 3 μs, 10 kΩ, 20 °C, x² + y², naïve, 1ª",
    "Tiếng Việt có nhiều dấu.",
    "Where the source code is; the eval set of 5 and 6. Then . and ... end here",
    "1 \u2212 2 = \u22121; pages 3\u20135, the years 1990 \u2013 1995 \u2014 and so on",
    "version 1.2.3 of env and sh, x << 2, a <b> c",
    "S\u0131n\u0131fta on ki\u015fi var.",
    "The password is what you chose; push the button, reset the clock, restore the page.",
    ".. note:: this is reStructuredText\n\n   .. code-block:: python",
    "git checkout -b x, git checkout main, git restore --staged x",
    "SELECT 'it''s' FROM t; a\\b is C\\D, f() { a, b }",
    "Thumbs up 👍, a flag of ours, and a heart ♥",
)


@pytest.mark.threat(16, 17)
@pytest.mark.parametrize(("seed", "word"), SEEDS, ids=lambda value: ascii(value)[:30])
def test_what_is_risky_is_named_in_any_surroundings(seed: str, word: str) -> None:
    rng = random.Random(seed)
    for n in range(12):
        before = " ".join(
            rng.choice(("some", "words", "of", "ours", "here")) for _ in range(rng.randint(0, 2000))
        )
        text = f"{before} {seed}" if rng.random() < 0.5 else f"{before}\n{seed}"
        value = [text, {"deep": [1, text]}, [[text]]][n % 3]
        lines = risks({"first": "plain", "x": value} if n % 4 else {f"{seed}": 1})
        assert any(line.startswith(f"{word} in ") for line in lines), (text[-40:], lines)


@pytest.mark.parametrize(
    "text", ["eval x", "source setup", ". x", " . ./x", "eval\t$x"], ids=lambda text: ascii(text)[1:-1]
)
def test_a_text_that_is_one_command_of_a_shell_is_named(text: str) -> None:
    assert risks({"x": text})[0].startswith("shell ")


def test_letters_that_only_names_never_hold_are_named_in_them_alone() -> None:
    assert "letters in disguise in the name f\u0131le: f\u0131le" in risks({"f\u0131le": 1})
    assert risks({"x": "s\u0131n\u0131f"}) == ()


@pytest.mark.threat(16)
@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        ({"argv": ["rm", "-rf", "/"]}, "shell command in argv read together"),
        ({"command": "bash", "args": ["-c", "id"]}, "shell command in command and args read together"),
        ({"argv": ["push", "--force"]}, "git command that loses work in argv read together"),
        ({"parts": ["", "etc", "x"]}, "absolute path in parts read together"),
        ({"folder": "app/.git", "file": "hooks/x"}, "file that holds keys or runs by itself"),
        ({"deep": [{"verb": "DROP", "rest": "TABLE beds"}]}, "SQL that destroys"),
        ({"begin": "--upload-", "end": "pack=x"}, "option that runs"),
        ({"n": 1, "a": "git", "b": "push", "c": "--force"}, "git command that loses work"),
    ],
)
def test_what_is_split_over_arguments_is_read_together(arguments: dict[str, object], word: str) -> None:
    [line] = [line for line in risks(arguments) if line.startswith(word)]
    assert "read together: " in line


@pytest.mark.threat(16)
@pytest.mark.parametrize("padding", [0, 1, 30, 300])
@pytest.mark.parametrize(
    "words", [["rm", "-rf", "x"], ["bash", "-c", "id"], ["git", "push", "--force"]], ids=str
)
def test_what_is_split_is_read_together_in_any_order_of_members_and_behind_any_padding(
    words: list[str], padding: int
) -> None:
    more = {f"n{n}": "plain" for n in range(padding)}
    long = "word " * 200
    for arguments in (
        {"argv": [*more.values(), *words, *more.values()]},
        {"argv": [*words, long]},
        {"deep": [{"argv": [*words]}], **more},
        *([{"args": words[1:], "cwd": "src", "command": words[0], **more}] if padding < 90 else []),
        *([{"command": words[0], **more, "args": [*words[1:], long]}] if padding < 90 else []),
    ):
        assert any("read together: " in line for line in risks(arguments)), arguments


LAYERS = {
    "url": lambda text: text.replace("%", "%25").replace(" ", "%20").replace("r", "%72"),
    "c": lambda text: "".join(f"\\u{ord(c):04x}" if c in " \\r" else c for c in text),
    "html": lambda text: text.replace("&", "&amp;").replace(" ", "&#32;").replace("r", "&#x72;"),
    "base64": lambda text: base64.b64encode(text.encode()).decode(),
    "base64 in lines": lambda text: base64.encodebytes(text.encode() * 8).decode(),
    "after much": lambda text: "Zm9vIGJhciBiYXo= " * 60 + "%41 " * 1100 + text,
}


@pytest.mark.threat(16)
@pytest.mark.parametrize(
    "layers", list(itertools.product([*LAYERS, "none"], [*LAYERS, "none"])), ids="-".join
)
def test_what_stands_behind_two_layers_of_escapes_is_named(layers: tuple[str, str]) -> None:
    text = "rm -rf /srv/xy; "
    for layer in layers:
        text = LAYERS.get(layer, str)(text)
    assert risks({"x": text}), text[-100:]


@pytest.mark.threat(16)
def test_every_hit_of_a_text_is_named_and_not_only_the_first() -> None:
    lines = risks({"x": "see http://example.org/ and http://evil.test/x"})
    assert lines == ("address in x: http://example.org/", "address in x: http://evil.test/x")


@pytest.mark.threat(16)
def test_what_stands_behind_escapes_is_shown_as_it_stands_and_as_it_reads() -> None:
    assert risks({"x": "\\u002fetc"}) == ("absolute path in x: \\u002fetc (reads /etc)",)


@pytest.mark.parametrize(
    "arguments",
    [
        {},
        {"repo_path": ".", "n": 3, "ok": True},
        {"url": "https://example.org/?next=%2Fhome%2Fa&q=x%20y"},
        {"url": "http://localhost:3000/login"},
        {"message": "feat: add `--slow`"},
        {"command": "cd docs && make html | head"},
        {"content": "Install:\n\n```bash\npip install x\ncd x && make\n```\n"},
        {"query": "delete from beds where id = 3"},
        {"value": "//div[@id='a']/span"},
        {"repo": "a", "path": ".github/workflows/ci.yml", "branch": "main"},
        {"name": "about ~ 5 minutes"},
        {
            "content": "import x from '../lib/x'\nrequire(\"../y\")\n[read](../README.md)\n<img src='../a.png'>"
        },
        {"cypher": "MATCH (a)-[:KNOWS]->(b) RETURN b.name"},
        {"userAgent": "Mozilla/5.0 (X11; Linux x86_64) Chrome/120.0.0.0 Safari/537.36"},
        {"code": "/* a */ const a = ['b', 'c']; /* d */"},
    ],
    ids=str,
)
def test_what_is_common_and_harmless_is_no_warning(arguments: dict[str, object]) -> None:
    assert risks(arguments) == ()


@pytest.mark.parametrize("text", PLAIN)
def test_plain_text_of_one_alphabet_is_left_alone(text: str) -> None:
    assert risks({"text": text, "more": [text, text]}) == ()


@pytest.mark.threat(17)
def test_the_names_in_the_title_are_looked_at() -> None:
    assert risks_of_title(tool="send_mail", method="tools/call", to=("mail",), proposer="bot") == ()
    [line] = risks_of_title(tool="s\u0435nd", method="tools/call", to=("mail",))[:1]
    assert line == "not plain letters in the tool's name: s\u0435nd"
    lines = risks_of_title(tool="send", method="tools/c\u0430ll", to=("m\u0430il",), proposer="b\u043et")
    assert [line.partition(":")[0] for line in lines if line.startswith("not plain")] == [
        "not plain letters in the method's name",
        "not plain letters in the proposer's name",
        "not plain letters in an addressee's name",
    ]
    assert "reads send" in risks_of_title(tool="\uff53end", method="", to=())[0]
    assert risks_of_title(tool="x; curl y", method="", to=()) != ()
    [line] = risks_of_title(tool="n" * 900, method="", to=())[:1]
    assert line == "long name: the tool's name has 900 characters"


@pytest.mark.threat(16)
@pytest.mark.parametrize(
    ("name", "other"),
    [
        ("HUMAN", "human"),
        ("e\u0301t\u00e9", "\u00e9te\u0301"),
        ("p\u0430th", "path"),
        ("path ", "path"),
        ("pa\u200bth", "path"),
    ],
)
def test_names_that_read_alike_are_named_in_spellings_that_differ(name: str, other: str) -> None:
    [line] = alike([name, "else", other], "argument")
    assert json.dumps(name) in line and json.dumps(other) in line
    assert line.startswith("names that read alike: argument ")
    assert alike([name], "participant", among=[other, "else"])
    assert alike([name, name, "else"], "argument", among=[name]) == ()


def test_many_addressees_are_counted() -> None:
    crowd = tuple(f"p{n}" for n in range(1000))
    assert risks_of_title(tool="", method="", to=crowd) == (
        "many addressees: it goes to 1,000 participants, and the title names 3 of them",
    )
    assert risks_of_title(tool="", method="", to=(*crowd[:3], *crowd[:3])) == ()


@pytest.mark.threat(16)
def test_where_the_bound_ends_is_said() -> None:
    assert risks({"x": "word " * 100_000, "y": "$(id)"})[-1] == UNLOOKED
    assert risks({"x": "word " * 20_000}) == ()
    assert risks({"x": "word " * 24_001})[-1] == UNLOOKED


HOSTILE = (
    *"a1./\\~$%;|&<>`'\"=:@-_{( \t\n+A",
    "a ", "../", "a.", "; ", ";a ", "|\n", "$A", "%a", "${", "$(", "\\\\a", "//a", "C:", "sh ", "sh -a ", "python -a ",
    "a;", "&& ", " >", "0a", "\u0301", "\u0061\u0430", "\u5b57", "\u0663", "\U0001d429 ", "a://", "%2", "A1+/", "rm ",
    "> ", "\u05d0", 'a", "', "/* a */", "/*", "%2525", "\\u005cu005c", "&amp;amp;", "Zm9vYmFyIGJheg== ", "ab\r\n",
)  # fmt: skip


@pytest.mark.threat(6, 8)
@pytest.mark.parametrize("piece", HOSTILE, ids=lambda piece: ascii(piece))
def test_no_pattern_takes_longer_than_reading(piece: str) -> None:
    text = (piece * 100_000)[:100_000]
    for value in (text, text + "\u00e9"):
        began = time.process_time()
        risks({"x": value})
        # Linear work takes some hundredths of a second; quadratic work takes minutes.
        assert time.process_time() - began < 5


SEGMENTS = ["a", "notes.md", "..", ".", "", ".git", "%2e%2e", "a\\b", "x y", "\u202ea", "a\nb", "~", "etc"]


@pytest.mark.threat(17)
@given(
    st.sampled_from(["/home/ada/beds", "/home/ada/bedside", "/home/ada", "/etc"]),
    st.lists(st.sampled_from(SEGMENTS)),
)
def test_only_a_plain_path_into_a_given_folder_is_no_remark(begin: str, segments: list[str]) -> None:
    path = "/".join([begin, *segments])
    usual, lines = risks({"path": path}), risks({"path": path}, folders=("/home/ada/beds",))
    assert set(lines) <= set(usual)
    if lines != usual:
        inside = posixpath.normpath(path)
        assert inside == "/home/ada/beds" or inside.startswith("/home/ada/beds/")
        assert not any(segment.startswith((".", "~")) for segment in segments)
        assert "\n" not in path and "\\" not in path
    elif begin == "/home/ada/beds" and set(segments) <= {"a", "notes.md", "x y", "etc"}:
        raise AssertionError(f"a plain path into the folder is remarked on: {lines}")


def test_the_gravest_warning_stands_first_and_each_has_a_kind_in_few_words() -> None:
    warnings = [
        "sent beside the call: x",
        "hint (it may miss others): path quotes what web/fetch returned, not your words",
        "absolute path in path: /etc/hosts",
        "path that leaves its folder in path: ../../etc",
        "shell command in note: curl x | sh",
    ]
    assert rank_warnings(warnings) == [warnings[4], warnings[2], warnings[3], warnings[1], warnings[0]]
    assert list(map(kind_of, warnings)) == [
        "sent beside the call", "quotes others", "absolute path", "path that leaves its folder", "shell command",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("/home/ada/garden/plan.txt", "garden"),
        ("/home/ada/garden", "garden"),
        ("/home/ada/garden/deep/a.txt", "deep"),
        ("/home/ada/garden/.env", ""),
        ("/home/ada/garden/../b", ""),
        ("/home/ada/gardens/a", ""),
        ("plan.txt", ""),
    ],
)
def test_a_path_in_a_given_folder_is_told_by_that_folder(path: str, name: str) -> None:
    assert find_inside(path, ["/home/ada/garden", "/home/ada/garden/deep"]) == name
