"""The cookie of a session, and the token of its forms."""

from hypothesis import given
from hypothesis import strategies as st

from launchbay.auth.cookies import NAME, form_token, is_form_token, sent_cookie, session_cookie


def test_scripts_and_other_sites_do_not_get_the_cookie() -> None:
    cookie = session_cookie("abc", 60, secure=True)
    assert cookie == f"{NAME}=abc; Path=/; Max-Age=60; HttpOnly; SameSite=Lax; Secure"
    assert "Secure" not in session_cookie("abc", 60, secure=False)


def test_the_cookie_is_found_among_others() -> None:
    assert sent_cookie(f"a=b; {NAME}=x.y-z_1; c=d") == "x.y-z_1"
    assert sent_cookie("a=b") == sent_cookie("") == ""


@given(st.text())
def test_no_header_breaks_the_reading(header: str) -> None:
    assert isinstance(sent_cookie(header), str)


@given(st.text(min_size=1), st.text(min_size=1))
def test_a_form_belongs_to_one_session(one: str, other: str) -> None:
    assert is_form_token(one, form_token(one))
    assert is_form_token(one, form_token(other)) == (one == other)
    assert one not in form_token(one) or len(one) < 4


@given(st.text())
def test_nothing_else_is_a_token(sent: str) -> None:
    assert not is_form_token("a session", sent) or sent == form_token("a session")
