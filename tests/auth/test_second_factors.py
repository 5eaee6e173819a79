"""Codes of authenticator applications, recovery codes, and what passkeys call this server."""

import re

import pytest

from launchbay.auth.second_factors import (
    RelyingParty,
    new_recovery_codes,
    qr_code,
    recovery_code_hash,
    relying_party,
    totp_code,
    totp_step,
    totp_uri,
    verify_creation,
)
from launchbay.errors import NotAuthenticated

SECRET = b"12345678901234567890"


@pytest.mark.parametrize(
    ("at_s", "code"),
    [
        (59, "94287082"),
        (1_111_111_109, "07081804"),
        (1_111_111_111, "14050471"),
        (1_234_567_890, "89005924"),
        (2_000_000_000, "69279037"),
        (20_000_000_000, "65353130"),
    ],
)
def test_codes_are_those_of_the_standard(at_s: int, code: str) -> None:
    """RFC 6238, appendix B."""
    assert totp_code(SECRET, at_s // 30, digits=8) == code
    assert totp_code(SECRET, at_s // 30) == code[2:]


def test_a_code_counts_for_the_step_before_and_after_and_no_longer() -> None:
    code = totp_code(SECRET, 100)
    assert [totp_step(SECRET, code, step * 30 + 29) for step in range(97, 104)] == [
        None,
        None,
        100,
        100,
        100,
        None,
        None,
    ]
    assert totp_step(SECRET, f" {code[:3]} {code[3:]} ", 3000) == 100


@pytest.mark.parametrize(
    "code", ["", "12345", "1234567", "abcdef", "\u0661\u0662\u0663\u0664\u0665\u0666", "x" * 100_000]
)
def test_what_is_no_code_matches_nothing(code: str) -> None:
    assert totp_step(SECRET, code, 3000) is None


def test_recovery_codes_are_typed_in_any_case_with_or_without_dashes() -> None:
    codes = new_recovery_codes()
    assert len(set(codes)) == 10
    for code in codes:
        assert re.fullmatch(r"([a-z2-7]{4}-){5}[a-z2-7]{4}", code)
        assert recovery_code_hash(f" {code.upper().replace('-', ' ')} ") == recovery_code_hash(code)
    assert recovery_code_hash("123456") is None
    assert recovery_code_hash("\u0130" * 24) is None


def test_the_qr_code_of_an_account_has_no_style_that_the_policy_of_the_pages_refuses() -> None:
    uri = totp_uri(SECRET, "ann+b@example.org")
    assert uri.startswith("otpauth://totp/Launchbay%3Aann%2Bb%40example.org?secret=GEZDGNBVGY3TQOJQGEZDGNBVGY3TQOJQ&")
    assert "style=" not in qr_code(uri)


@pytest.mark.parametrize(
    ("address", "party"),
    [
        ("https://bay.example.org", RelyingParty("bay.example.org", "https://bay.example.org")),
        ("https://bay.example.org:8443/", RelyingParty("bay.example.org", "https://bay.example.org:8443")),
        ("http://localhost:8080", RelyingParty("localhost", "http://localhost:8080")),
        ("http://127.0.0.1:8080", None),
        ("http://[::1]:8080", None),
        ("", None),
    ],
)
def test_passkeys_know_this_server_by_its_name(address: str, party: RelyingParty | None) -> None:
    assert relying_party(address) == party


@pytest.mark.anyio
@pytest.mark.parametrize("response", ["", "{}", "[]", "[" * 10_000, '{"rawId": "AA", "id": "AA"}', "x" * 100_000])
async def test_what_is_no_passkey_is_refused(response: str) -> None:
    with pytest.raises(NotAuthenticated):
        await verify_creation(RelyingParty("localhost", "http://localhost"), "token", response)
