from base64 import b64encode

import pytest
from hypothesis import given
from hypothesis import strategies as st

from launchbay.auth.authentication import BasicCredentials, BearerCredentials, read_authorization
from launchbay.errors import NotAuthenticated


def basic(text: str | bytes) -> str:
    return "Basic " + b64encode(text.encode() if isinstance(text, str) else text).decode()


PRINTABLE = st.text(st.characters(exclude_categories=["Cs"], exclude_characters=[chr(c) for c in (*range(32), 127)]))


@given(PRINTABLE.filter(lambda text: text and ":" not in text), PRINTABLE)
def test_email_and_password_arrive_as_sent(email: str, password: str) -> None:
    assert read_authorization(basic(f"{email}:{password}")) == BasicCredentials(email, password)


def test_colons_belong_to_the_password() -> None:
    assert read_authorization(basic("ann@example.org:a:b:")) == BasicCredentials("ann@example.org", "a:b:")


@pytest.mark.parametrize("scheme", ["basic", "BASIC", "Basic"])
def test_the_scheme_is_case_insensitive(scheme: str) -> None:
    header = basic("ann@example.org:pw").replace("Basic", scheme)
    assert read_authorization(header) == BasicCredentials("ann@example.org", "pw")


@pytest.mark.parametrize(
    "header",
    [
        None,
        "",
        "  ",
        "Basic",
        "Basic ",
        "Basic  ,",
        "Basic !!!!",
        "Basic YTpi\x00",
        "Basic YTpi YTpi",
        "Basic YTpiYw",  # padding is missing
        "Basic YTpi====",
        "Basic YTpi=",
        "Basicx YTpi",
        "Basic\tYTpi",
        "YTpi",
        "Digest username=ann",
        "Bearer",
        "Bearer ",
        "Bearer é",
        basic("no colon"),
        basic(":only a password"),
        basic("ann@example.org:\x00"),
        basic("ann\n@example.org:pw"),
        basic("ann@example.org:pässword".encode("latin-1")),
        f"{basic('a:b')}, {basic('c:d')}",
        f"{basic('a:b')}, basic {basic('c:d')[6:]}",
        "Bearer x, Bearer y",
        f"Bearer , {basic('a:b')}",
    ],
)
def test_a_malformed_header_is_refused(header: str | None) -> None:
    with pytest.raises(NotAuthenticated):
        read_authorization(header)


@pytest.mark.parametrize("header", ["Bearer x.y.z, {}", "{}, Bearer x.y.z", "{},bearer x.y.z", "{} , Bearer  x.y.z "])
def test_the_bearer_token_wins_over_basic_wherever_it_stands(header: str) -> None:
    assert read_authorization(header.format(basic("ann@example.org:pw"))) == BearerCredentials("x.y.z")


def test_credentials_are_shown_by_no_repr() -> None:
    assert "secret" not in repr(read_authorization(basic("ann@example.org:secret")))
    assert "secret" not in repr(read_authorization("Bearer secret"))


@given(st.text(max_size=80) | st.text(alphabet="Basicerbo ,YTpi=:\t", max_size=40))
def test_any_header_is_either_read_or_refused_cleanly(header: str) -> None:
    try:
        read = read_authorization(header)
    except NotAuthenticated:
        return
    assert isinstance(read, BasicCredentials | BearerCredentials)
