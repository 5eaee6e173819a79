"""Secrets are covered by the names they go under, by what they look like, and wherever a known one turns up."""

import json
from collections.abc import Callable
from itertools import chain
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from launchbay.limits import KIB
from launchbay.model.redaction import (
    _SECRET_PAIRS,
    _SECRET_WORDS,
    REDACTED,
    SHORTEST_CHARS,
    Redactor,
    is_secret_name,
)

SECRET = "s3cr3t-v4lue"
PLAIN_NAMES = st.sampled_from(["host", "size", "tokenId", "keyboard", "passwordLength", "author", "secretary"])
SECRET_NAMES = st.sampled_from(
    [
        "password",
        "db.password",
        "dbPassword",
        "DB_PASSWORD",
        "api-key",
        "apiKey",
        "access_token",
        "credentials",
        "x.secret",
    ]
)
JSON_VALUES: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(PLAIN_NAMES, inner, max_size=3),
    max_leaves=8,
)


@given(SECRET_NAMES)
def test_names_of_secrets_are_known_in_every_spelling(name: str) -> None:
    assert is_secret_name(name)


WORDS = st.sampled_from([*sorted(_SECRET_WORDS), *chain(*sorted(_SECRET_PAIRS)), "db", "x2"])


@given(st.lists(WORDS, min_size=1, max_size=3), st.data())
def test_each_name_of_a_secret_masks_its_value_in_a_text(words: list[str], data: st.DataObject) -> None:
    """Texts are searched for parts of such names first."""
    spelled = [data.draw(st.sampled_from([word, word.upper(), word.title()])) for word in words]
    name = data.draw(st.sampled_from(["", ".", "_", "-"])).join(spelled)
    masked = Redactor().text(f"{name}={SECRET} and more") == f"{name}={REDACTED} and more"
    assert masked is is_secret_name(name)


@given(
    st.lists(
        st.text("abc :/=-")
        | st.sampled_from(
            [
                f"password={SECRET}",
                f"https://jo:{SECRET}@example.org",
                f"Bearer {SECRET}",
                "-----BEGIN PRIVATE KEY-----",
                "launchbay:sealed:abc;",
                "Basic instinct",
                "a key",
            ]
        )
    )
)
def test_texts_that_are_left_alone_together_are_left_alone_one_by_one(texts: list[str]) -> None:
    if Redactor().leaves(texts):
        assert [Redactor().text(text) for text in texts] == texts


def test_most_texts_are_left_alone_and_those_with_secrets_are_not() -> None:
    assert Redactor().leaves(["a line", "another line of a log: 17 of 20"])
    for text in (
        f"password={SECRET}",
        f"x https://jo:{SECRET}@example.org",
        f"Bearer {SECRET}",
        "launchbay:sealed:abc;",
    ):
        assert not Redactor().leaves(["a line", text])
    assert not Redactor([{"password": SECRET}]).leaves(["a line"])


@given(PLAIN_NAMES)
def test_names_about_secrets_and_other_names_are_not_covered(name: str) -> None:
    assert not is_secret_name(name)


@given(SECRET_NAMES, PLAIN_NAMES, JSON_VALUES)
def test_a_secret_is_covered_however_deep_it_lies_and_the_rest_stays(secret: str, plain: str, value: Any) -> None:
    document = {plain: [{"deep": {secret: SECRET, plain: value}}]}
    assert Redactor().value(document) == {plain: [{"deep": {secret: REDACTED, plain: value}}]}


@pytest.mark.parametrize("value", [None, True, False, "", [], {}])
def test_what_holds_no_secret_is_shown_even_under_such_a_name(value: Any) -> None:
    assert Redactor().value({"password": value}) == {"password": value}


def test_a_whole_document_under_a_secret_name_is_covered() -> None:
    assert Redactor().value({"credentials": {"user": "jo", "key": 17}}) == {"credentials": REDACTED}


@given(st.text("xyz-\\[ä", min_size=SHORTEST_CHARS), st.text("01 "), st.text("01 "))
def test_a_known_secret_is_covered_wherever_it_turns_up(secret: str, before: str, after: str) -> None:
    masking = Redactor([{"login": {"password": secret}}])
    assert masking.text(before + secret + after) == before + REDACTED + after
    assert masking.value([{"said": secret, secret: 1}]) == [{"said": REDACTED, REDACTED: 1}]


def test_a_secret_that_holds_another_one_is_covered_whole() -> None:
    assert Redactor([{"token": "abcd"}, {"password": "abcdefgh"}]).text("say abcdefgh") == f"say {REDACTED}"


def test_every_long_line_of_a_secret_of_several_lines_is_covered() -> None:
    masking = Redactor([{"secret": "first long line\nend\nsecond long line"}])
    assert masking.text("read: second long line") == f"read: {REDACTED}"
    assert masking.text("the end") == "the end"


def test_numbers_under_secret_names_are_covered_in_texts() -> None:
    assert Redactor([{"password": 123456}]).text("dial 123456") == f"dial {REDACTED}"


def test_short_secrets_do_not_cover_letters_of_words() -> None:
    assert Redactor([{"password": "a"}]).text("a cat") == "a cat"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("https://jo:pa55@host/x", f"https://jo:{REDACTED}@host/x"),
        ("https://host:8080/x@y", "https://host:8080/x@y"),
        ("Authorization: Bearer eyJhbGciOi.J9.x-y", f"Authorization: Bearer {REDACTED}"),
        ("curl -H 'Basic dXNlcjpwYXNz'", f"curl -H 'Basic {REDACTED}'"),
        ("GET /x?apiKey=abc&page=2", f"GET /x?apiKey={REDACTED}&page=2"),
        ("run --password=abc --size=3", f"run --password={REDACTED} --size=3"),
        ('{"token": "a\\"b", "size": "3"}', f'{{"token": "{REDACTED}", "size": "3"}}'),
        ("The token: it was refused.", "The token: it was refused."),
        ("-----BEGIN RSA PRIVATE KEY-----\nMIIE\n-----END RSA PRIVATE KEY-----\nok", f"{REDACTED}\nok"),
        ("-----BEGIN PRIVATE KEY-----\nMIIE", REDACTED),
        ("-----BEGIN CERTIFICATE-----\nMIIE", "-----BEGIN CERTIFICATE-----\nMIIE"),
    ],
)
def test_texts_that_look_like_secrets_are_covered(text: str, shown: str) -> None:
    assert Redactor().text(text) == shown


@given(JSON_VALUES)
def test_json_inside_a_text_is_covered_like_json(value: Any) -> None:
    text = json.dumps({"plain": value, "db.password": SECRET})
    assert SECRET not in Redactor().text(text)


TEXTS = st.text(st.characters(codec=None), max_size=60) | st.integers(1, 3_000).map("ä".__mul__)
NESTED: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**80), 2**80) | st.floats(allow_nan=False) | TEXTS,
    lambda inner: st.lists(inner, max_size=40) | st.dictionaries(TEXTS, inner, max_size=40),
    max_leaves=60,
)


@given(st.dictionaries(TEXTS, NESTED, max_size=90), st.integers(256, 4_096))
def test_values_for_display_are_json_within_the_bound_and_say_where_they_are_cut(
    values: dict[str, Any], most: int
) -> None:
    shown = Redactor().bounded(values, most)
    text = msgspec.json.encode(shown)
    assert len(text) <= most + 128
    assert ("…" in text.decode()) >= shown.is_cut
    if not shown.is_cut and not any("\ud800" <= each <= "\udfff" for key in values for each in key):
        assert list(shown.values) == list(values)


@pytest.mark.parametrize("form", [str, lambda text: json.dumps([text])], ids=["as it is", "in JSON"])
def test_a_cut_leaves_no_part_of_a_secret_and_no_part_of_a_mask(form: Callable[[str], str]) -> None:
    secret = "correct-horse-battery-staple"
    known = Redactor([{"password": secret}])
    for before in range(200, 320):  # the cut is before, in and after the mask
        kept = known.bounded({"text": "x" * before + form(secret) + "y" * 2_000}, 300).values["text"]
        assert not any(secret[start : start + 4] in kept for start in range(len(secret) - 3))
        assert (kept.count("*") in {0, len(REDACTED)}, kept[-1]) == (True, "…")


@pytest.mark.parametrize("begin", ["", "correct-horse-battery-staple " * 250], ids=["few masks", "many masks"])
@pytest.mark.parametrize("most", [4 * KIB, 16 * KIB])
def test_a_secret_across_the_end_of_what_is_masked_is_not_shown_in_part(most: int, begin: str) -> None:
    secret = "correct-horse-battery-staple"
    known = Redactor([{"password": secret}])
    for at in (8_170, 8_180, 8_188):  # of a long text, the first 8,192 characters are masked
        text = begin + "x" * (at - len(begin)) + secret + "y" * 30_000
        kept = known.bounded({"text": text}, most).values["text"]
        assert kept.endswith("…")
        assert not any(secret[start : start + 4] in kept for start in range(len(secret) - 3))


def test_small_values_stay_whole_beside_long_ones() -> None:
    values = {"script": "a" * 100_000, "host": "db-1", "list": list(range(10_000)), "more": {"port": 5432}}
    shown = Redactor().bounded(values, 4_096)
    assert (shown.is_cut, list(shown.values), shown.values["host"], shown.values["more"]) == (
        *(True, list(values), "db-1"),
        {"port": 5432},
    )
    assert shown.values["list"][-1] == f"… ({len(shown.values['list']) - 1} of 10000)"
    assert Redactor().bounded({str(number): number for number in range(5_000)}, 4_096).values["…"] == "64 of 5000"


@pytest.mark.parametrize("value", [8675309, 8675309.0, {"x": [8675309]}, ["tel:8675309"]])
def test_a_number_that_is_a_secret_is_covered_too(value: Any) -> None:
    known = Redactor([{"pin": {"password": 8675309}}])
    assert "8675309" not in json.dumps(known.bounded({"value": value, "8675309": 1}, 4_096).values)
