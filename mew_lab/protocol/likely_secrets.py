"""Finds likely secrets in texts: keys and tokens of known forms, credentials in addresses, values named like a secret.

`mask` of `token` knows the secrets of this process. What stands here are guesses about those of others, for texts that
leave a log: a form that nobody gave a name is not found, and a look-alike may be masked.

A detector is one more row of `DETECTORS`: its name, and an expression whose last group is the secret.
"""

from __future__ import annotations

import re
from typing import Any, Final

__all__ = ["DETECTORS", "SecretMask", "is_secret_name"]

_NAMED: Final = (
    r"(?:pass(?:word|wd|phrase)|secret(?:[_-]?key)?|api[_-]?key|account[_-]?key|"
    r"(?:access|auth|private|secret)[_-]?(?:key|token)|(?:api|bot|deploy|id|refresh|session)[_-]?token|"
    r"(?-i:[A-Z][A-Z0-9_]{1,40}_TOKEN))"
)
# What may stand before such a name: `DB_`, `spring.datasource.`, the `client` of `clientSecret`.
_BEFORE: Final = r"(?:[\w.-]{0,40}[_.-]|(?-i:[a-z][a-z0-9]{0,30}(?=[A-Z])))?"
_KEY: Final = re.compile(rf"(?i){_BEFORE}{_NAMED}|authorization|(?:set-)?cookie|x-api-key")

DETECTORS: Final = tuple(
    (name, re.compile(expression))
    for name, expression in (
        (
            "private key",
            r"(-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY-----(?:[A-Za-z0-9+/=\s:,-]|\\[nr]){0,16000})",
        ),
        ("AWS key", r"\b((?:AKIA|ASIA)[0-9A-Z]{16})\b"),
        ("GitHub token", r"\b(gh[pousr]_[A-Za-z0-9]{36,255}|github_pat_[A-Za-z0-9_]{22,255})"),
        ("GitLab token", r"\b(gl(?:pat|rt|dt|ptt)-[\w-]{20,100})"),
        ("Slack token", r"\b(xox[abeoprs]-[\w-]{10,250}|xapp-[\w-]{20,250})"),
        ("Slack address", r"hooks\.slack\.com/services/(T\w{6,}/B\w{6,}/\w{16,})"),
        ("key of a model", r"\b(sk-(?:ant-|proj-|svcacct-|or-)?(?=[\w-]{0,80}\d)[A-Za-z0-9][\w-]{18,250})"),
        ("Google key", r"\b(AIza[\w-]{35}|ya29\.[\w-]{20,500}|GOCSPX-[\w-]{20,60})"),
        ("Stripe key", r"\b((?:[rs]k_(?:live|test)|whsec)_[A-Za-z0-9]{16,250})"),
        ("npm token", r"\b(npm_[A-Za-z0-9]{36})\b"),
        ("PyPI token", r"\b(pypi-[\w-]{40,400})"),
        ("Hugging Face token", r"\b(hf_[A-Za-z0-9]{30,100})\b"),
        (
            "service token",
            r"\b(shp(?:at|ca|pa|ss)_[0-9a-fA-F]{32}|dapi[0-9a-f]{32}|AGE-SECRET-KEY-1[0-9A-Z]{58}|ATATT3[\w=-]{40,300}|"
            r"lin_api_\w{32,64}|ntn_[A-Za-z0-9]{40,60}|secret_[A-Za-z0-9]{43}|figd_[\w-]{38,60}|hv[sbr]\.[\w-]{24,300}|"
            r"gl(?:sa|c)_[\w=+/-]{32,300}|NRAK-[A-Z0-9]{27}|sntr(?:ys|yu)_[\w=+/-]{40,400}|PMAK-[0-9a-f]{24}-[0-9a-f]{34}|"
            r"gsk_[A-Za-z0-9]{40,80}|xai-[A-Za-z0-9]{60,100}|r8_[A-Za-z0-9]{37}|pplx-[A-Za-z0-9]{40,64}|"
            r"sq0(?:atp|csp|idp)-[\w-]{22,43}|dckr_pat_[\w-]{27}|sbp_[0-9a-f]{40}|key-[0-9a-f]{32}|SK[0-9a-f]{32}|"
            r"[0-9]{8,10}:AA[\w-]{33}|[A-Za-z0-9]{14}\.atlasv1\.[\w-]{60,80}|EAA[A-Za-z0-9]{80,300}|tskey-[a-z]+-[\w-]{20,80})",
        ),
        ("SendGrid key", r"\b(SG\.[\w-]{16,40}\.[\w-]{16,80})"),
        ("DigitalOcean token", r"\b(do[opr]_v1_[0-9a-f]{64})\b"),
        ("JSON web token", r"\b(eyJ[\w-]{8,2000}\.eyJ[\w-]{8,8000}\.[\w-]{8,2000})"),
        ("credential", r"(?i)\b(?:bearer|basic)\s+((?=[\w.~+/=-]{0,200}\d)[\w.~+/=-]{16,4000})"),
        (
            "password of an address",
            r"\b[a-zA-Z][\w+.-]{1,20}://[^\s/:@\"'<>]{0,64}:([^\s/@\"'<>${}]{3,128})@",
        ),
        (
            "named secret",
            rf"(?i)\b{_BEFORE}{_NAMED}\\{{0,15}}[\"']?\s{{0,3}}[:=]{{1,2}}>?\s{{0,3}}\\{{0,15}}[\"']?"
            r"(?=[^\s\"'\\,;&()<>${}\[\]]{0,120}\d)([^\s\"'\\,;&()<>${}\[\]]{8,250})",
        ),
        (
            "cut key",
            r"\b((?:AKIA|gh[pousr]_|github_pat_|glpat-|xox[abeoprs]-|sk-(?:ant|proj|svcacct|or)-|AIza|[rs]k_live_|npm_|pypi-|hf_|SG\.|"
            r"do[opr]_v1_|eyJ)[\w.-]{4,250}…[\w.-]{0,250})",
        ),
    )
)
"""Names and expressions of likely secrets; the last group is the secret."""

# What each secret has somewhere: it takes a tenth of the time of all detectors.
_MAY_HOLD = re.compile(
    r"PRIVATE KEY|AKIA|ASIA|gh[pousr]_|github_pat_|gl(?:pat|rt|dt|ptt)-|xox|xapp-|hooks\.slack|sk-|AIza|ya29\.|GOCSPX-|"
    r"k_live_|k_test_|whsec_|npm_|pypi-|hf_|SG\.|_v1_|eyJ|shp|dapi|ATATT3|lin_api_|ntn_|figd_|hv[sbr]\.|glsa_|glc_|NRAK-|"
    r"sntry|PMAK-|gsk_|xai-|r8_|pplx-|sq0|dckr_|sbp_|SK[0-9a-f]|:AA|atlasv1|EAA|(?i:bearer|basic\s|://|pass(?:word|wd|phrase)|secret|key|token|"
    r"authorization|cookie)"
)


def is_secret_name(name: str) -> bool:
    """Whether a member of this name likely has a secret as its value."""
    return _KEY.fullmatch(name) is not None


class SecretMask:
    """Masks likely secrets, and counts them in `found`."""

    def __init__(self) -> None:
        self.found = 0

    def text(self, text: str) -> str:
        """The text with each likely secret replaced by what it looks like."""
        if not _MAY_HOLD.search(text):
            return text
        for name, detector in DETECTORS:
            text = detector.sub(lambda match, name=name: self._masked(match, name), text)  # type: ignore[misc]
        return text

    def value(self, value: Any, key: str = "") -> Any:
        """A value of JSON with its texts masked, those of members that are named like a secret whole."""
        if isinstance(value, str):
            if value and " " not in value and is_secret_name(key) and not value.startswith("[masked: "):
                self.found += 1
                return "[masked: named secret]"
            return self.text(value)
        if isinstance(value, dict):
            return {self.text(name): self.value(one, name) for name, one in value.items()}
        return [self.value(one, key) for one in value] if isinstance(value, list) else value

    def may_hold(self, text: str) -> bool:
        """Whether a text may have one: False is sure."""
        return _MAY_HOLD.search(text) is not None

    def __str__(self) -> str:
        """Such as `2 likely secrets masked`; empty where there are none."""
        count = f"{self.found} likely secret{'s' if self.found > 1 else ''}"
        return f"{count} masked" if self.found else ""

    def _masked(self, match: re.Match[str], name: str) -> str:
        start, end = match.span(match.re.groups)
        if "[masked: " in match[0]:
            return match[0]
        self.found += 1
        begin = match.start()
        return f"{match[0][: start - begin]}[masked: {name}]{match[0][end - begin :]}"
