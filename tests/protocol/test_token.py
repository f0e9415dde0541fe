"""A secret that nobody sees by accident."""

from __future__ import annotations

import copy
import importlib.util
import io
import json
import logging
import pickle
import subprocess
import sys
import threading
import traceback

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mew_lab.protocol import token
from mew_lab.protocol.token import SecretFilter, Token, forget, mask, remember

SECRET = "canary-6f1c2b7d9e0a4f53-LAST"
SHOWN = "tok_…LAST"


@pytest.mark.threat(1)
@pytest.mark.parametrize(
    "show",
    [
        repr,
        str,
        lambda token: f"{token}",
        lambda token: f"{token!s:>20}",
        lambda token: "%s" % token,  # noqa: UP031
        lambda token: "{0!r} {0}".format(token),  # noqa: UP032
        lambda token: "Bearer " + token,
        lambda token: "".join([token, "!"]),
        lambda token: json.dumps({"token": token}, ensure_ascii=False),
        lambda token: orjson.dumps({"token": token}).decode(),
        lambda token: repr(pickle.loads(pickle.dumps(token))),  # noqa: S301
        lambda token: repr({"nested": [token]}),
        lambda token: repr(vars(type(token)).get("__dict__", "")) + str(token),
    ],
)
def test_no_way_of_showing_a_token_shows_its_secret(show: object) -> None:
    shown = show(Token(SECRET))  # type: ignore[operator]
    assert SECRET not in shown
    assert SHOWN in shown


def test_only_reveal_tells_the_secret() -> None:
    assert Token(SECRET).reveal() == SECRET


@pytest.mark.threat(1)
def test_a_pickle_holds_the_mask_and_not_the_secret() -> None:
    dumped = pickle.dumps({"token": Token(SECRET)})
    assert SECRET.encode() not in dumped
    assert pickle.loads(dumped) == {"token": SHOWN}  # noqa: S301


def test_a_copy_is_still_the_token() -> None:
    token = Token(SECRET)
    assert copy.copy(token).reveal() == SECRET
    assert copy.deepcopy({"token": token})["token"].reveal() == SECRET


def test_a_short_secret_shows_nothing_of_itself() -> None:
    assert str(Token("abc12345")) == "tok_…"


def test_tokens_are_equal_when_their_secrets_are_and_never_equal_to_text() -> None:
    assert Token(SECRET) == Token(SECRET)
    assert hash(Token(SECRET)) == hash(Token(SECRET))
    assert Token("canary-another-secret-LAST") != Token(SECRET)  # the same mask
    assert Token(SECRET) != SECRET
    assert Token(SECRET) != SHOWN


def test_a_token_of_a_token_is_the_token() -> None:
    token = Token(SECRET)
    assert Token(token) is token


def test_a_token_cannot_be_changed() -> None:
    token = Token(SECRET)
    for name in (*Token.__slots__, "more"):
        with pytest.raises(AttributeError):
            setattr(token, name, "other")
    assert token.reveal() == SECRET


def test_mask_blots_out_every_secret_that_became_a_token() -> None:
    longer = Token(SECRET + "-and-more")
    Token(SECRET)
    text = f"Authorization: Bearer {longer.reveal()}; again {SECRET}; ?t={SECRET}&x"
    masked = mask(text)
    assert SECRET not in masked
    assert masked == f"Authorization: Bearer tok_…more; again {SHOWN}; ?t={SHOWN}&x"


def test_what_a_stranger_calls_a_token_is_not_blotted_out() -> None:
    Token("proposal-of-a-stranger", remember=False)
    assert mask("see proposal-of-a-stranger") == "see proposal-of-a-stranger"


@pytest.fixture
def log() -> tuple[logging.Logger, io.StringIO]:
    """A logger with the filter, and what a plain handler of somebody else writes of it."""
    logger = logging.Logger("of-this-test", logging.DEBUG)
    out = io.StringIO()
    logger.addHandler(logging.StreamHandler(out))
    logger.addFilter(SecretFilter())
    return logger, out


@pytest.mark.threat(1)
def test_the_filter_cleans_message_and_arguments(log: tuple[logging.Logger, io.StringIO]) -> None:
    logger, out = log
    Token(SECRET)
    logger.info("sent %s with %r", {"Authorization": f"Bearer {SECRET}"}, SECRET)
    assert out.getvalue() == "sent {'Authorization': 'Bearer tok_…LAST'} with 'tok_…LAST'\n"


@pytest.mark.threat(1)
def test_the_filter_cleans_a_traceback_and_the_stack(log: tuple[logging.Logger, io.StringIO]) -> None:
    logger, out = log
    Token(SECRET)
    try:
        raise ValueError(f"could not use {SECRET}")
    except ValueError:
        logger.error("failed", exc_info=True, stack_info=True)
    assert SECRET not in out.getvalue()
    assert f"ValueError: could not use {SHOWN}" in out.getvalue()


@pytest.mark.threat(1)
def test_a_record_that_does_not_fit_its_arguments_shows_none_of_them(
    log: tuple[logging.Logger, io.StringIO], capsys: pytest.CaptureFixture[str]
) -> None:
    logger, out = log
    logger.info("%d tokens", SECRET)
    assert SECRET not in out.getvalue() + capsys.readouterr().err
    assert "does not fit its arguments" in out.getvalue()


@pytest.mark.threat(1)
def test_a_traceback_with_a_token_among_its_locals_does_not_tell_it() -> None:
    def fail(token: Token) -> None:
        raise RuntimeError(f"cannot connect with {token}")

    try:
        fail(Token(SECRET))
    except RuntimeError as fault:
        shown = "".join(traceback.TracebackException.from_exception(fault, capture_locals=True).format())
    assert SHOWN in shown
    assert f'"{SECRET}"' not in shown.replace("'", '"')


@pytest.mark.threat(1)
def test_a_record_of_this_package_is_clean_before_any_other_handler_sees_it(
    capsys: pytest.CaptureFixture[str],
) -> None:
    seen: list[str] = []
    theirs = logging.Handler()
    theirs.emit = lambda record: seen.append(record.getMessage())  # type: ignore[method-assign]
    logging.getLogger().addHandler(theirs)
    try:
        token = Token("a-canary-of-twenty-letters")
        logging.getLogger("mew_lab.anything").error("cannot join with %s", token.reveal())
    finally:
        logging.getLogger().removeHandler(theirs)
    assert seen == [f"cannot join with {token}"]


def test_a_record_that_nobody_asked_for_is_printed_nowhere(capfd: pytest.CaptureFixture[str]) -> None:
    root = logging.getLogger()
    kept, root.handlers = root.handlers, []
    try:
        logging.getLogger("mew_lab.anything").error("canary")
    finally:
        root.handlers = kept
    assert "canary" not in "".join(capfd.readouterr())


def test_what_a_library_logs_is_printed_as_before_where_no_handler_is_set_and_cleaned(
    capfd: pytest.CaptureFixture[str],
) -> None:
    token = Token("another-canary-of-letters")
    root = logging.getLogger()
    kept, root.handlers = root.handlers, []
    asked = logging.NullHandler()
    try:
        logging.getLogger("websockets.client").warning("first canary with %s", token.reveal())
        logging.getLogger("websockets.client").info("second canary")
        logging.getLogger("websockets").addHandler(asked)
        logging.getLogger("websockets.client").warning("third canary")
    finally:
        logging.getLogger("websockets").removeHandler(asked)
        root.handlers = kept
    assert capfd.readouterr().err == f"first canary with {token}\n"


# --- the mask, held against a plain loop -------------------------------------------------------------------------

ALPHABET = 'ab\\"{}.*é\n\ud800😀'
secrets_ = st.lists(st.text(ALPHABET, min_size=4, max_size=20), min_size=1, max_size=8, unique=True)


def masked_by_a_loop(text: str, shown: dict[str, str]) -> str:
    """What `mask` has to give: every secret that stands in the text, longest first, is replaced by its mask."""
    for secret in sorted((one for one in shown if one in text), key=len, reverse=True):
        text = text.replace(secret, shown[secret])
    return text


def shown(tokens: list[Token]) -> dict[str, str]:
    """The masks of secrets, as they are and as JSON writes them."""
    plain = {one.reveal(): str(one) for one in tokens}
    quoted = {key: json.dumps(value, ensure_ascii=False)[1:-1] for key, value in plain.items()}
    return {json.dumps(key, ensure_ascii=False)[1:-1]: value for key, value in quoted.items()} | plain


def test_a_secret_is_masked_as_json_writes_it_and_the_json_stays_json() -> None:
    token = Token('a\\secret"with\\quo"es')
    text = json.dumps({"a": [token.reveal()], token.reveal(): 1}, ensure_ascii=False)
    assert json.loads(mask(text)) == {"a": [str(token)], str(token): 1}
    forget(token)
    assert mask(text) == text


@pytest.mark.threat(1)
@pytest.mark.parametrize("first", [0, 1])
def test_of_two_secrets_one_of_which_is_what_json_makes_of_the_other_each_is_forgotten_alone(
    first: int,
) -> None:
    tokens = [Token("\\" * 4), Token("\\" * 8)]
    gone, left = tokens[first], tokens[1 - first]
    forget(gone)
    assert mask(f"<{left.reveal()}>") == masked_by_a_loop(f"<{left.reveal()}>", shown([left]))
    forget(left)
    forget(left)  # twice is harmless
    assert mask("\\" * 16) == "\\" * 16


@pytest.mark.threat(1)
@settings(deadline=None)  # an expression is compiled for each example
@given(secrets_, st.data())
def test_the_mask_gives_what_a_loop_over_all_secrets_gives(secrets: list[str], data: st.DataObject) -> None:
    known = [Token(one) for one in secrets]
    gone, left = known[: len(known) // 2], known[len(known) // 2 :]
    pieces = st.one_of(st.text(ALPHABET, max_size=10), st.sampled_from(secrets))
    texts = data.draw(st.lists(st.lists(pieces, max_size=6).map("".join), min_size=1, max_size=4))
    try:
        for text in texts:
            assert mask(text) == masked_by_a_loop(text, shown(known))
        for one in gone:
            forget(one)
        for text in texts:
            assert mask(text) == masked_by_a_loop(text, shown(left))
        for one in gone:
            remember(one)
        for text in texts:
            assert mask(text) == masked_by_a_loop(text, shown(known))
    finally:
        for one in known:
            forget(one)


@pytest.mark.threat(1)
@pytest.mark.parametrize("engine", ["re2", "none"])
def test_ten_thousand_secrets_are_masked_with_and_without_the_engine(
    engine: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if engine == "none":
        monkeypatch.setattr(token, "re2", None)
    known = [Token(f"secret-number-{n:05}-of-many") for n in range(10_000)]
    try:
        text = "before secret-number-00000-of-many, secret-number-04096-of-many, secret-number-09999-of-many after"
        assert mask(text) == "before tok_…many, tok_…many, tok_…many after"
        assert mask("secret-number-10000-of-many") == "secret-number-10000-of-many"
    finally:
        for one in known:
            forget(one)
    assert mask(text) == text


def add_in_threads() -> None:
    missed: list[str] = []

    def add(name: int) -> None:
        for n in range(200):
            secret = f"secret-{name}-of-a-thread-{n}"
            token = Token(secret)
            if mask(f"x {secret} y") != f"x {token} y":
                missed.append(secret)
            forget(token)

    threads = [threading.Thread(target=add, args=(name,)) for name in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    print(missed)


def test_a_secret_that_another_thread_adds_is_never_missed() -> None:
    # In a process of its own: each addition takes the longer, the more secrets other tests have left behind.
    program = f"import runpy; runpy.run_path({__file__!r})['add_in_threads']()"
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=50)
    assert (ran.stdout, ran.stderr) == ("[]\n", "")


@pytest.mark.threat(1)
def test_secrets_too_long_for_one_expression_are_masked_too() -> None:
    tokens = [Token(f"long-{n}-" + "a1" * 30_000) for n in range(30)]
    try:
        for one in (tokens[0], tokens[-1]):
            assert mask(f"<{one.reveal()}>") == f"<{one}>"
    finally:
        for one in tokens:
            forget(one)


@pytest.mark.threat(1)
def test_where_the_engine_is_missing_as_in_a_browser_secrets_are_masked_all_the_same(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "re2", None)
    found = importlib.util.spec_from_file_location("token_without_engine", token.__file__)
    assert found is not None
    assert found.loader is not None
    module = importlib.util.module_from_spec(found)
    monkeypatch.setitem(sys.modules, found.name, module)
    found.loader.exec_module(module)
    assert module.re2 is None
    secret = module.Token(SECRET)
    assert module.mask(f"<{SECRET}> <canary>") == f"<{SHOWN}> <canary>"
    module.forget(secret)
    assert module.mask(SECRET) == SECRET
