"""What a job has learned is covered in its texts, and sealed in what it stores."""

import hashlib
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from launchbay.auth.secret_key import SecretKey, TextSeal
from launchbay.model.redaction import REDACTED, TOKEN_PREFIX, Redactor
from launchbay.runtime.secrets import Secrets

KEY = SecretKey(b"k" * 32)


def secrets(organization: str = "o") -> Secrets:
    return Secrets(TextSeal(KEY, organization))


json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=10), inner, max_size=4),
    max_leaves=12,
)


@given(json_values, st.lists(st.text(min_size=4, max_size=20), max_size=3))
async def test_what_was_sealed_opens_as_it_was_for_another_job(document: Any, learned: list[str]) -> None:
    job, later = secrets(), secrets()
    job.register_secret(learned)
    stored = msgspec.json.encode(job.sealed([document, *learned])).decode()
    assert later.opened(msgspec.json.decode(stored)) == [document, *learned]
    assert later.opened_json(await job.sealed_json(stored)) == msgspec.json.encode([document, *learned]).decode()


def test_only_the_secret_part_of_a_text_is_sealed() -> None:
    job = secrets()
    job.register_secret({"password": "opensesame"})
    stored = job.sealed({"url": "x://u:opensesame@h", "opensesame": ["plain"]})
    assert stored["url"].startswith(f"x://u:{TOKEN_PREFIX}")
    assert stored["url"].endswith(";@h")
    assert "opensesame" not in str(stored)
    assert Redactor().value(stored) == {"url": f"x://u:{REDACTED}@h", REDACTED: ["plain"]}


def test_a_secret_number_is_a_number_again() -> None:
    job = secrets()
    job.register_secret({"pin": 123456})
    stored = job.sealed([123456, 1234567, "123456"])
    assert "123456" not in str(stored).replace("1234567", "")
    assert secrets().opened(stored) == [123456, 1234567, "123456"]


def test_who_opens_a_document_knows_its_secrets() -> None:
    job, later = secrets(), secrets()
    job.register_secret("opensesame")
    later.opened(job.sealed(["said opensesame"]))
    assert later.redact("opensesame") == REDACTED
    assert later.sealed(["opensesame"]) == job.sealed(["opensesame"])


def test_tokens_are_the_same_for_the_same_secret_and_open_for_one_organization_only() -> None:
    one, two = secrets(), secrets()
    one.register_secret("opensesame")
    two.register_secret("opensesame")
    assert one.sealed("opensesame") == two.sealed("opensesame")
    stranger = secrets("another")
    token = one.sealed("opensesame")
    assert stranger.opened(token) == token


@pytest.mark.parametrize(
    "text", [f"{TOKEN_PREFIX};", f"{TOKEN_PREFIX}abc;", f"{TOKEN_PREFIX}" + "A" * 80 + ";", f"{TOKEN_PREFIX}%;"]
)
def test_what_only_looks_like_a_token_stays(text: str) -> None:
    assert secrets().opened([text, f"x {text} y"]) == [text, f"x {text} y"]


def test_a_chunked_text_is_covered_over_the_cuts() -> None:
    job = secrets()
    job.register_secret("opensesame")
    stream = job.stream()
    shown = "".join([*(stream.feed(chunk) for chunk in ("say open", "ses", "ame now")), stream.finish()])
    assert shown == f"say {REDACTED} now"


def test_where_nothing_is_stored_documents_stay() -> None:
    job = Secrets()
    job.register_secret("opensesame")
    assert job.sealed(["opensesame"]) == ["opensesame"]
    assert job.redact("opensesame") == REDACTED


def test_the_beginning_of_a_long_text_is_masked_as_the_whole_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("launchbay.runtime.secrets.INLINE_BYTES", 100)
    job = secrets()
    job.register_secret(["opensesame", "long " * 60 + "key"])
    for before in range(0, 120, 7):
        text = "x" * before + "opensesame" + ("long " * 60 + "key, ") * 3 + "x" * 400
        for longest in (10, 90, 250):
            assert job.redact(text, longest)[:longest] == job.redact(text)[:longest]


def test_of_a_long_text_only_what_is_shown_is_searched() -> None:
    job = secrets()
    job.register_secret("opensesame")
    text = "x" * 4_000_000
    assert len(job.redact(text, 4_096)) < 200_000


def signed(name: str) -> str:
    """Return what looks like a JWT."""
    digest = hashlib.sha256(name.encode()).hexdigest()
    return f"eyJhbGciOiJFUzI1NiJ9.{digest[:20]}.{digest[20:]}"


def test_tokens_of_ended_attempts_are_forgotten_and_those_of_running_ones_and_secrets_never() -> None:
    job = secrets()
    job.register_passing({"token": signed("runs"), "password": "of-all-attempts"}, "p/runs")
    job.register_secret(signed("known-otherwise"))
    for attempt in range(50):
        token = signed(f"attempt-{attempt:02}")
        job.register_passing([token, f"password-{attempt:02}", "of-all-attempts", signed("known-otherwise")], "p/again")
        job.release_passing("p/again")
    for text in (signed("runs"), "of-all-attempts", signed("known-otherwise"), signed("attempt-49"), "password-00"):
        assert job.redact(text) == REDACTED
    assert job.without_passing([signed("attempt-49"), signed("attempt-00")]) == [REDACTED, signed("attempt-00")]
    assert job.redact(signed("attempt-00")) == signed("attempt-00")
    job.register_passing(signed("later-known"), "p/again")
    job.register_secret(signed("later-known"))
    for attempt in range(50):
        job.release_passing("p/again")
        job.register_passing(signed(f"another-of-{attempt}"), "p/again")
    assert job.redact(signed("later-known")) == REDACTED


def test_secrets_of_many_later_attempts_are_forgotten_at_last() -> None:
    job = secrets()
    for attempt in range(601):
        job.register_passing(f"password-{attempt:03}", "p/again")
        job.release_passing("p/again")
    assert job.redact("password-101") == REDACTED
    assert job.redact("password-100") == "password-100"
