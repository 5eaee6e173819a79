import pytest

from launchbay.errors import BadRequest
from launchbay.model.email_address import canonical_email


@pytest.mark.parametrize(
    ("typed", "canonical"),
    [
        (" Ann.Lee+x@Example.ORG ", "ann.lee+x@example.org"),
        ("ADMIN@I.example", "admin@i.example"),
        ("x" * 250 + "@a.b", "x" * 250 + "@a.b"),
    ],
)
def test_an_address_is_the_same_in_capitals_and_between_blanks(typed: str, canonical: str) -> None:
    assert canonical_email(typed) == canonical
    assert canonical_email(canonical) == canonical


@pytest.mark.parametrize(
    "typed",
    [
        "adm\u0130n@a.b",  # the capital I with a dot, which lower() makes two characters
        "\u212aim@a.b",  # the Kelvin sign, which lower() makes a k
        "\u0131@a.b",
        "ann@ex\u00e4mple.org",
        "ann\u200b@a.b",
        "ann\u202e@a.b",
        "ann\u00a0@a.b",
        "ann@a.b\n",
        "ann\x00@a.b",
        "ann\x7f@a.b",
        "ann @a.b",
        "a@b@c",
        "a:b@c",
        "ann",
        "@a.b",
        "ann@",
        "",
        "x" * 251 + "@a.b",
    ],
)
def test_what_can_name_no_account_is_refused_with_what_to_use(typed: str) -> None:
    with pytest.raises(BadRequest, match="only printable ASCII") as refused:
        canonical_email(typed)
    assert refused.value.code == "InvalidEmail"
    assert str(refused.value).isascii()
