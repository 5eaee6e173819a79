"""Secrets are found in every text that holds one, whatever an encoding made of it."""

import base64
import html
import json
import re
import shlex
import time
from collections.abc import Callable
from itertools import pairwise
from typing import Any
from urllib.parse import quote, quote_plus

import pytest
from hypothesis import given
from hypothesis import strategies as st

from launchbay.model.redaction import RedactionStream, Redactor, SecretEncodings
from launchbay.service_types import key_pairs

MASK = "********"
SECRET = "pa$$/wörd \"+ \\ 'it's? & <42>"
ENCODINGS: dict[str, Callable[[str], str]] = {
    "as it is": str,
    "json": json.dumps,
    "json with its own characters": lambda text: json.dumps(text, ensure_ascii=False),
    "json in json": lambda text: json.dumps(json.dumps(text)),
    "json with escaped slashes": lambda text: json.dumps(text).replace("/", "\\/"),
    "url": lambda text: quote(text, safe=""),
    "url path": quote,
    "form": quote_plus,
    "url in lower case": lambda text: re.sub("%..", lambda found: found[0].lower(), quote(text, safe="")),
    "hex": lambda text: text.encode().hex(),
    "HEX": lambda text: text.encode().hex().upper(),
    "html": html.escape,
    "shell": shlex.quote,
    "base64": lambda text: base64.b64encode(text.encode()).decode(),
    "base64 of json": lambda text: base64.b64encode(json.dumps(text)[1:-1].encode()).decode(),
}


def covered(text: str, *secrets: str) -> str:
    return SecretEncodings(secrets).replace(text, lambda _: MASK)


@pytest.mark.parametrize("encoding", ENCODINGS)
@pytest.mark.parametrize("secret", [SECRET, "hunter", "".join(map(chr, range(0x21, 0x300)))], ids=len)
def test_a_secret_is_covered_in_every_encoding(encoding: str, secret: str) -> None:
    shown = covered(f"before {ENCODINGS[encoding](secret)} after", secret)
    assert re.fullmatch(r"before [\\\"']*\*{8}[\\\"']* after", shown)


JWT = ".".join(
    base64.urlsafe_b64encode(part).decode().rstrip("=")
    for part in (
        b'{"alg":"RS256","kid":"7"}',
        json.dumps({f"claim_{number}": f"value-{number}" for number in range(25)}).encode(),
        bytes(range(7, 263 - 7)) + bytes(14),
    )
)


@pytest.mark.parametrize("encoding", ENCODINGS)
def test_a_signed_token_is_covered_whole_and_so_is_its_signature_alone(encoding: str) -> None:
    shown = covered(f"before {ENCODINGS[encoding](JWT)} after", JWT)
    assert re.fullmatch(r"before [\\\"']*\*{8}[\\\"']* after", shown)
    assert covered(f"before {JWT[JWT.rindex('.') + 1 :]} after", JWT) == f"before {MASK} after"
    assert covered(f"before {JWT[-200:-100]} after", JWT) == f"before {MASK} after"


def test_the_index_of_a_signed_token_has_pieces_of_its_signature_alone() -> None:
    assert len(SecretEncodings([JWT])._pieces) < len(SecretEncodings([JWT.replace(".", "_")])._pieces) / 2


def test_a_secret_is_discarded_and_others_with_its_pieces_stay() -> None:
    one, other = "first-" + "x1y2" * 30, "second-" + "x1y2" * 30
    known = SecretEncodings([one, other, "short-one", JWT])
    before = SecretEncodings([other])
    for secret in (one, "short-one", JWT, "never added"):
        known.discard(secret)
    assert (known._whole, known._pieces) == (before._whole, before._pieces)
    assert known.spans(f"a {one} b short-one") == before.spans(f"a {one} b short-one")


bytes_around = st.binary(max_size=7)
secrets = st.text(st.characters(exclude_categories=("Cs", "Cc")), min_size=6, max_size=200)


@given(bytes_around, secrets, bytes_around, st.booleans())
def test_base64_is_covered_at_every_alignment_and_in_both_alphabets(
    before: bytes, secret: str, after: bytes, url: bool
) -> None:
    encode = base64.urlsafe_b64encode if url else base64.b64encode
    whole = encode(before + secret.encode() + after).decode()
    shown = covered(whole, secret)
    assert MASK in shown
    # What is left of the text says nothing about the secret: it is made of the bytes around it alone.
    left, _, rest = shown.partition(MASK)
    assert len(left) <= len(before) * 8 / 6 + 1
    assert len(rest.rpartition(MASK)[2].rstrip("=")) <= len(after) * 8 / 6 + 1


@given(st.text(max_size=50), secrets, st.text(max_size=50))
def test_no_text_that_holds_a_secret_shows_it(before: str, secret: str, after: str) -> None:
    assert secret not in covered(before + secret + after, secret).replace(MASK, "\0")


@given(st.text(max_size=300), secrets)
def test_a_text_without_the_secret_stays(text: str, secret: str) -> None:
    disguises = SecretEncodings([secret])
    if not disguises.spans(text):
        assert disguises.replace(text, lambda _: MASK) == text


@pytest.mark.parametrize("width", [60, 64, 76, 100])
@pytest.mark.parametrize("before", ["", "x", "some words before it "])
def test_a_private_key_that_is_encoded_and_wrapped_leaves_no_line(width: int, before: str) -> None:
    key = key_pairs.generate("ed25519", None, "x").private
    encoded = base64.b64encode((before + key).encode()).decode()
    lines = [encoded[place : place + width] for place in range(0, len(encoded), width)]
    disguises = SecretEncodings([key])
    # As a log has them: one by one. The first and the last ones may hold little of it.
    begin = len(before) // (width * 6 // 8) + 1
    for line in lines[begin:-1]:
        assert disguises.replace(line, lambda _: MASK) == MASK


def test_each_long_line_of_a_secret_is_one_too() -> None:
    key = key_pairs.generate("rsa", 2048, "x").private
    disguises = SecretEncodings([key])
    for line in key.splitlines():
        if len(line) >= 12:
            assert disguises.replace(line, lambda _: MASK) == MASK


def test_the_part_of_a_long_secret_that_was_cut_off_is_covered() -> None:
    secret = "correct horse battery staple of a very long password"
    assert covered(f"said {secret[:40]}", secret) == f"said {MASK}"
    assert covered(f"{secret[9:]} was said", secret) == f"{MASK} was said"


@given(st.integers(0, 400), st.text("01", max_size=9))
def test_every_part_of_35_characters_of_a_long_secret_is_found(start: int, before: str) -> None:
    secret = "".join(chr(0x4E00 + place) for place in range(400))  # no two characters are the same
    part = secret[start : start + 35]
    if len(part) == 35:
        assert covered(f"{before}{part} after", secret) == f"{before}{MASK} after"


def test_what_is_too_short_is_not_looked_for() -> None:
    assert not SecretEncodings(["abc", ""])
    assert covered("abcdef", "abc") == "abcdef"


def test_two_secrets_that_overlap_are_covered_together() -> None:
    assert covered("say opensesame now", "opense", "sesame") == f"say {MASK} now"


@given(st.lists(st.text(max_size=40), max_size=6), secrets, st.lists(st.integers(0, 400), max_size=8))
def test_a_secret_that_is_split_over_chunks_is_covered_as_in_one(
    around: list[str], secret: str, cuts: list[int]
) -> None:
    text = secret.join(["", *around, ""])
    places = sorted({cut % (len(text) + 1) for cut in cuts} | {0, len(text)})
    stream = RedactionStream(SecretEncodings([secret]), MASK)
    chunks = [text[start:stop] for start, stop in pairwise(places)]
    shown = "".join([*(stream.feed(chunk) for chunk in chunks), stream.finish()])
    assert shown == covered(text, secret)


def test_a_stream_without_secrets_holds_nothing_back() -> None:
    assert RedactionStream(SecretEncodings(), MASK).feed("abc") == "abc"


def test_a_very_long_secret_is_found_in_a_long_text() -> None:
    secret = "".join(f"{number} bottles, " for number in range(5_000))
    text = "harmless words " * 10_000
    disguises = SecretEncodings([secret])
    assert not disguises.spans(text)
    encoded = base64.b64encode(secret.encode()).decode()
    assert disguises.spans(text + encoded) == [(len(text), len(text) + len(encoded))]


@given(st.lists(st.text("ab1/", min_size=4, max_size=12), min_size=1, max_size=20), st.text("ab1/", max_size=60))
def test_thousands_of_secrets_are_found_as_few_are(secrets: list[str], text: str) -> None:
    few, many = SecretEncodings(secrets), SecretEncodings([*secrets, *(f"other {number}" for number in range(200))])
    assert many.spans(text) == few.spans(text)


class _Searched(str):
    """A text that counts how often something is looked for in it."""

    searches = 0

    def find(self, *arguments: Any) -> int:
        type(self).searches += 1
        return super().find(*arguments)


def test_the_search_in_a_text_does_not_grow_with_the_number_of_secrets() -> None:
    encodings = SecretEncodings(f"s{number:05}" for number in range(5_000))
    assert encodings.spans(_Searched("s00017 and s04999")) == [(0, 6), (11, 17)]
    assert _Searched.searches == 0


def test_a_text_that_nearly_names_secrets_takes_hardly_longer_than_words() -> None:
    def taken_s(unit: str) -> float:
        text = "password= " + unit * (200_000 // len(unit))
        begun = time.process_time()
        Redactor().text(text)
        return time.process_time() - begun

    nearly_s, words_s = (min(taken_s(unit) for _ in range(3)) for unit in ("a.", "word "))
    assert nearly_s < 7 * words_s
