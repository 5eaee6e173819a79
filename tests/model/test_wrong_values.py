"""Messages about values of a wrong type say which field and what it must be, in plain words."""

from typing import Annotated, Any, Literal

import msgspec
import pytest

from launchbay.errors import BadRequest
from launchbay.model.labels import read_labels
from launchbay.model.wrong_values import converted


class Part(msgspec.Struct, forbid_unknown_fields=True, rename="camel"):
    """A part with all that can be wrong."""

    whole_number: int | None = None
    real: float = 0
    is_on: bool = False
    data: bytes = b""
    choice: Literal["allow", "fail"] = "allow"
    labels: dict[str, str] = {}
    nested: dict[str, dict[str, int]] = {}
    parts: "list[Part]" = []
    bounded: Annotated[int, msgspec.Meta(ge=1)] = 1
    short: Annotated[str, msgspec.Meta(max_length=3)] = ""


@pytest.mark.parametrize(
    ("document", "told"),
    [
        ({"wholeNumber": "1"}, "wholeNumber: expected a whole number or null, got a string."),
        ({"real": []}, "real: expected a number, got a list."),
        ({"isOn": 1}, "isOn: expected true or false, got a whole number."),
        ({"data": "?"}, "data: invalid base64 encoded string."),
        ({"choice": "maybe"}, "choice: invalid value 'maybe'; expected allow or fail."),
        ({"labels": {"m": "x", "n": None, "o": None}}, "labels.n: expected a string, got null."),
        ({"parts": [{}, {"labels": {"a.b": 1}}]}, "parts[1].labels.a.b: expected a string, got a whole number."),
        ({"nested": {"a": {"b": 1}, "c": {"d": 1, "e": "x"}}}, "nested.c[…]: expected a whole number, got a string."),
        ({"bounded": 0}, "bounded: expected a whole number >= 1."),
        ({"short": "long text"}, "short: expected a string with a length <= 3."),
        ({"other": 1}, "other: unknown field; remove it."),
        ({"whole_number": 1}, "whole_number: unknown field; use 'wholeNumber', or remove it."),
        ({"Labels": {}}, "Labels: unknown field; use 'labels', or remove it."),
        ({"parts": [{"boundd": 1}]}, "parts[0].boundd: unknown field; use 'bounded', or remove it."),
        ([], "expected an object, got a list."),
    ],
)
def test_a_wrong_value_is_told_by_field_and_in_plain_words(document: Any, told: str) -> None:
    with pytest.raises(ValueError) as caught:  # noqa: PT011 - the message follows
        converted(document, Part)
    assert str(caught.value) == told


def test_the_key_is_found_in_a_large_map() -> None:
    labels: dict[str, Any] = {f"label{number}": "x" for number in range(9_000)}
    labels["label7777"] = 1
    with pytest.raises(ValueError, match=r"^labels\.label7777: expected a string"):
        converted({"labels": labels}, Part)


def test_labels_inside_of_labels_are_told_as_such() -> None:
    with pytest.raises(BadRequest) as caught:
        read_labels({"labels": {"a": 1.10}})
    assert caught.value.messages == (
        "The value of the label labels must be a string, not an object.",
        'Send the labels themselves, such as {"team": "web"}.',
    )
