"""The cookie of a session, and the token of its forms."""

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from launchbay import limits
from launchbay.auth.cookies import NAME, form_token, is_form_token, sent_cookie, session_cookie


def test_scripts_and_other_sites_do_not_get_the_cookie() -> None:
    cookie = session_cookie("abc", 60, secure=True)
    assert cookie == f"__Host-{NAME}=abc; Path=/; Max-Age=60; HttpOnly; SameSite=Lax; Secure"
    assert "Secure" not in session_cookie("abc", 60, secure=False)


def test_the_cookie_is_found_among_others() -> None:
    assert sent_cookie(f"a=b; {NAME}=x.y-z_1; c=d", secure=False) == "x.y-z_1"
    assert sent_cookie("a=b", secure=False) == sent_cookie("", secure=False) == ""


def test_a_cookie_that_another_host_could_plant_does_not_count() -> None:
    assert sent_cookie(f"{NAME}=planted; __Host-{NAME}=x", secure=True) == "x"
    assert sent_cookie(f"{NAME}=planted", secure=True) == ""


def test_the_last_of_several_cookies_with_the_name_counts() -> None:
    assert sent_cookie(f"{NAME}=old;{NAME} = new ; {NAME}x=other", secure=False) == "new"


def test_base64_survives() -> None:
    assert sent_cookie(f"{NAME}=aGk+/_-=.sig==", secure=False) == "aGk+/_-=.sig=="


@pytest.mark.parametrize("value", ['"quoted"', "a b", "a,b", "a\\073b", "é", "\x00", "a" * (limits.COOKIE_CHARS + 1)])
def test_a_value_that_none_of_our_cookies_has_is_no_cookie(value: str) -> None:
    assert sent_cookie(f"{NAME}={value}", secure=False) == ""


@pytest.mark.parametrize(
    "header",
    [
        f'{NAME}="' + "\\" * 31_000 + '"',
        f'{NAME}="' + "\\" * 24_000 + '"',
        f'{NAME}="' + "\\0" * 12_000 + '"',
        f"{NAME}=a;" * 2_000,
        f"{NAME} " * 2_000,
        "=" * limits.COOKIES_CHARS,
        f"{NAME}=" + " " * 20_000 + '"',
    ],
    ids=lambda header: f"{header[:24]} {len(header)}",
)
def test_the_time_to_read_a_header_is_linear(header: str) -> None:
    begun = time.process_time()

    sent_cookie(header, secure=False)

    # A parser in quadratic time needs seconds for 24,000 backslashes; a linear one less than 1 ms.
    assert time.process_time() - begun < 1


@given(st.text())
def test_no_header_breaks_the_reading(header: str) -> None:
    assert isinstance(sent_cookie(header, secure=False), str)


@given(st.text(min_size=1), st.text(min_size=1))
def test_a_form_belongs_to_one_session(one: str, other: str) -> None:
    assert is_form_token(one, form_token(one))
    assert is_form_token(one, form_token(other)) == (one == other)
    assert one not in form_token(one) or len(one) < 4


@given(st.text())
def test_nothing_else_is_a_token(sent: str) -> None:
    assert not is_form_token("a session", sent) or sent == form_token("a session")
