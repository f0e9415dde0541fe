"""What leaves a log holds no likely secret: 200 planted ones are masked and counted, and look-alikes stay."""

from __future__ import annotations

import base64
import json
import random
import string
import sysconfig
from collections.abc import Callable
from pathlib import Path

import pytest

from mew_lab.errors import ConfigError
from mew_lab.log.log import Log, open_log
from mew_lab.protocol.likely_secrets import DETECTORS, SecretMask

from .agent_sessions import ClaudeStory

LETTERS = string.ascii_letters + string.digits
HEX = "0123456789abcdef"


def drawn(pick: random.Random, among: str, count: int) -> str:
    return "".join(pick.choices(among, k=count - 1)) + "7"


# Of the services without a detector of their own.
SERVICES: tuple[Callable[[random.Random], str], ...] = (
    lambda p: "shpat_" + drawn(p, HEX, 32),
    lambda p: "dapi" + drawn(p, HEX, 32),
    lambda p: "AGE-SECRET-KEY-1" + drawn(p, string.ascii_uppercase, 58),
    lambda p: "lin_api_" + drawn(p, LETTERS, 40),
    lambda p: "figd_" + drawn(p, LETTERS, 43),
    lambda p: "hvs." + drawn(p, LETTERS, 90),
    lambda p: "glsa_" + drawn(p, LETTERS, 41),
    lambda p: "NRAK-" + drawn(p, string.ascii_uppercase, 27),
    lambda p: "gsk_" + drawn(p, LETTERS, 52),
    lambda p: "xai-" + drawn(p, LETTERS, 80),
    lambda p: "r8_" + drawn(p, LETTERS, 37),
    lambda p: "dckr_pat_" + drawn(p, LETTERS, 27),
    lambda p: "SK" + drawn(p, HEX, 32),
    lambda p: f"{drawn(p, string.digits, 10)}:AA{drawn(p, LETTERS, 33)}",
)

# By detector: a secret of its form, as the services document it.
FORMS: dict[str, Callable[[random.Random], str]] = {
    "private key": lambda p: f"-----BEGIN RSA PRIVATE KEY-----\n{drawn(p, LETTERS, 64)}\n{drawn(p, LETTERS, 40)}=\n-----END RSA PRIVATE KEY-----",
    "AWS key": lambda p: "AKIA" + drawn(p, string.ascii_uppercase, 16),
    "GitHub token": lambda p: p.choice(["ghp_", "gho_", "ghs_"]) + drawn(p, LETTERS, 36),
    "GitLab token": lambda p: "glpat-" + drawn(p, LETTERS, 20),
    "Slack token": lambda p: "xoxb-" + drawn(p, string.digits, 12) + "-" + drawn(p, LETTERS, 24),
    "Slack address": lambda p: f"T{drawn(p, LETTERS, 8)}/B{drawn(p, LETTERS, 8)}/{drawn(p, LETTERS, 24)}",
    "key of a model": lambda p: p.choice(["sk-ant-api03-", "sk-proj-", "sk-"]) + drawn(p, LETTERS, 48),
    "Google key": lambda p: "AIza" + drawn(p, LETTERS, 35),
    "Stripe key": lambda p: "sk_live_" + drawn(p, LETTERS, 24),
    "npm token": lambda p: "npm_" + drawn(p, LETTERS, 36),
    "PyPI token": lambda p: "pypi-AgEI" + drawn(p, LETTERS, 120),
    "Hugging Face token": lambda p: "hf_" + drawn(p, LETTERS, 34),
    "SendGrid key": lambda p: f"SG.{drawn(p, LETTERS, 22)}.{drawn(p, LETTERS, 43)}",
    "DigitalOcean token": lambda p: "dop_v1_" + drawn(p, HEX, 64),
    "JSON web token": lambda p: f"eyJ{drawn(p, LETTERS, 30)}.eyJ{drawn(p, LETTERS, 60)}.{drawn(p, LETTERS, 43)}",
    "service token": lambda p: p.choice(SERVICES)(p),
    "cut key": lambda p: "ghp_" + drawn(p, LETTERS, 12) + "…",
    "credential": lambda p: drawn(p, LETTERS, 40),
    "password of an address": lambda p: drawn(p, LETTERS, 12),
    "named secret": lambda p: drawn(p, LETTERS, 14),
}  # fmt: skip
AROUND: dict[str, tuple[str, ...]] = {
    "Slack address": ("https://hooks.slack.com/services/{}",),
    "credential": ("curl -H 'Authorization: Bearer {}' http://x", "Authorization: Basic {}"),
    "password of an address": ("postgres://ann:{}@db.example/garden", "https://ann:{}@git.example/x.git"),
    "named secret": (
        "export DB_PASSWORD={}", "api_key: '{}'", '{{"client_secret": "{}"}}', "AUTH_TOKEN = \"{}\"", "--password={}",
        '{{"clientSecret":"{}"}}', "spring.datasource.password={}", "AccountKey={};EndpointSuffix=x", "MY_BOT_TOKEN={}",
        "dbPassword: {}", '"{{\\"refresh_token\\": \\"{}\\"}}"', "secret_access_key = {}", "https://x.example/?api_key={}",
    ),
}  # fmt: skip
USUAL = ("{}", "the key is {}, keep it", "export KEY={} && run", '{{"a": ["{}"]}}', "({})")


def planted() -> list[tuple[str, str, str]]:
    """200 texts, each with the secret in it and the detector that it is for."""
    pick, names = random.Random(41), list(FORMS)
    made = []
    for n in range(200):
        name = names[n % len(names)]
        secret = FORMS[name](pick)
        made.append((name, secret, pick.choice(AROUND.get(name, USUAL)).format(secret)))
    return made


LOOK_ALIKES = (
    "commit 5f3c9a7be1d24c0f8a6b7c8d9e0f1a2b3c4d5e6f",
    "sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
    "id 5b7c1d2e-0000-4000-8000-00000000c0de",
    "password = get_password(user_2)",
    "api_key=os.environ['API_KEY_2']",
    "if token == expected_token_2: return",
    "password: ${DB_PASSWORD_1}",
    "api_key: <your key 1>",
    "def secret_key(self) -> str:",
    "The password must have 12 characters and 1 digit.",
    "https://example.org:8080/a@b",
    "git@github.com:ann/garden.git",
    "sk-learn and sk-SK are no keys; neither is task-driven-development-of-things",
    "a basic understanding of bearer tokens",
    "--secret-name",
    "npm_config_prefix=/usr/local/lib",
    "hf_hub_download('x')",
    "import pypi-simple",
    "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAgAAAAICAIAAABLbSncAAAAEUlEQVR42mNQmGCAFTEMLQkA3gM4AXTAU8oAAAAA",
    base64.b64encode(bytes(range(200))).decode(),
    "progressToken: 12345678",
    "max_tokens=128000, output_tokens: 4096000000",
    "nextPageToken: 12345678abc",
    "SKU 0123456789abcdef",
    "a compass: 12345678",
    "key-value-0123456789",
    "the end of the message is cut here…",
)


def test_each_detector_has_planted_secrets() -> None:
    assert set(FORMS) == {name for name, _ in DETECTORS}


def test_200_planted_secrets_are_masked_and_counted() -> None:
    missed = []
    for name, secret, text in planted():
        mask = SecretMask()
        masked = mask.text(text)
        if secret in masked or mask.found != 1 or "[masked: " not in masked:
            missed.append((name, text, masked))
    assert missed == []


def test_a_planted_secret_is_masked_in_text_within_json_within_json() -> None:
    """As an agent's file has it: the output of a command, in a result, in a line."""
    missed = []
    for name, secret, text in planted():
        mask = SecretMask()
        line = json.dumps({"out": json.dumps({"stdout": text}, ensure_ascii=False)}, ensure_ascii=False)
        masked = json.dumps(mask.value(json.loads(line)), ensure_ascii=False)
        if secret.split("\n")[0 if "\n" not in secret else 1] in masked or not mask.found:
            missed.append((name, text, masked))
    assert missed == []


# What no detector knows, as a fact: whoever passes a log on reads it before.
KNOWN_MISSES = (
    "the password is correct horse battery staple",
    "PASSWORD=correct-horse",  # no digit
    "pw=hunter22",
    "wJalrXUtnFEMI/K7MDENG/bPxRfiCYzzzzzzzzKEY1",  # a key of a cloud, without its name
    base64.b64encode(b"api_key=abcdefgh12345678").decode(),
)


def test_what_is_not_found_is_known() -> None:
    mask = SecretMask()
    assert [text for text in KNOWN_MISSES if mask.text(text) != text] == []


MOST_FALSE = 1  # masks in each megabyte of harmless text; 0 in 6.2 MB when it was measured


def harmless() -> list[Path]:
    """Modules of Python itself: 2 MB of code and prose that have much to say of passwords, keys and tokens."""
    library = Path(sysconfig.get_path("stdlib"))
    folders = ("asyncio", "email", "http", "json", "logging", "urllib", "xml/sax", "concurrent/futures")
    single = (
        "ssl",
        "getpass",
        "smtplib",
        "imaplib",
        "ftplib",
        "netrc",
        "secrets",
        "hmac",
        "tokenize",
        "uuid",
        "argparse",
    )
    paths = [library / f"{name}.py" for name in single]
    return [path for path in paths if path.is_file()] + [
        path for folder in folders for path in sorted((library / folder).glob("*.py"))
    ]


def test_harmless_text_stays() -> None:
    mask, size = SecretMask(), 0
    for path in harmless():
        text = path.read_text(errors="replace")
        size += len(text)
        mask.text(text)
    assert size > 1_000_000
    assert mask.found <= MOST_FALSE * size / 1e6, f"{mask.found} masks in {size / 1e6:.1f} MB"


def test_look_alikes_stay() -> None:
    mask = SecretMask()
    assert [text for text in LOOK_ALIKES if mask.text(text) != text] == []
    assert (mask.found, str(mask)) == (0, "")


def session_with(folder: Path, texts: list[str]) -> Log:
    story = ClaudeStory()
    story.prompt("look")
    for n, text in enumerate(texts):
        story.call(f"t{n}", "Bash", {"command": text})
        story.result(f"t{n}", json.dumps({"out": text}, ensure_ascii=False))
    return open_log(story.write(folder / "s.jsonl"))


def test_a_report_and_markdown_hold_no_likely_secret_unless_they_are_to_be_kept(tmp_path: Path) -> None:
    texts = [(secret, text) for _, secret, text in planted()]
    log = session_with(tmp_path, [text for _, text in texts])
    said = log.report(tmp_path / "page.html")
    page = (tmp_path / "page.html").read_text()
    markdown = log.select().to_markdown(most=10_000_000)
    elsewhere = log.select().to_python() + log.select().to_mermaid()
    followed = log.follow("t0", most=1000).to_markdown(most=10_000_000)
    lines = [secret.split("\n")[1] if "\n" in secret else secret for secret, _ in texts]
    assert [line for line in lines for text in (page, markdown, followed, elsewhere) if line in text] == []
    assert "400 likely secrets masked" in said
    assert "400 likely secrets masked" in page
    assert "400 likely secrets masked" in markdown
    assert "# 400 likely secrets masked." in elsewhere
    kept = log.select("t1").to_markdown(secrets="keep")
    assert texts[1][0] in kept
    log.report(tmp_path / "kept.html", secrets="keep")
    assert texts[1][0] in (tmp_path / "kept.html").read_text()


def test_a_member_that_is_named_like_a_secret_is_masked_whole() -> None:
    mask = SecretMask()
    value = {
        "password": "hunter",
        "headers": {"Authorization": "abc"},
        "schema": {"password": {"type": "string"}},
        "n": 1,
    }
    assert mask.value(value) == {
        "password": "[masked: named secret]",
        "headers": {"Authorization": "[masked: named secret]"},
        "schema": {"password": {"type": "string"}},
        "n": 1,
    }
    assert mask.found == 2


def test_another_word_for_secrets_is_refused(tmp_path: Path) -> None:
    log = session_with(tmp_path, ["x"])
    with pytest.raises(ConfigError, match="'mask' or 'keep'"):
        log.report(tmp_path / "x.html", secrets="show")
    assert not (tmp_path / "x.html").exists()
