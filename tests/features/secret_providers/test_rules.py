"""Which values of a provider a step may have."""

from typing import Any

import pytest

from launchbay.errors import ActionFailed
from launchbay.features.secret_providers.rules import StepValues, unmasked
from launchbay.limits import PROVIDED_SECRET_BYTES, STEP_SECRETS_BYTES, STEP_SECRETS_VALUES
from launchbay.model.secret_reference import SecretReference

KEY = SecretReference("vault", "secret/shop", "key")
ALL = KEY._replace(key="")


@pytest.mark.parametrize(
    "value",
    ["text", " ", "ä\n", "x" * PROVIDED_SECRET_BYTES, 5, 1.5, 0, True, False, [1, "two"], {"a": {"b": ["c"]}}],
)
def test_a_value_is_given_as_it_is(value: Any) -> None:
    assert StepValues().take(KEY, {"key": value, "other": "\0"}) == value


def test_without_a_key_all_are_given_also_empty_ones() -> None:
    values = {"a": "", "b": None, "c": "text"}
    assert StepValues().take(ALL, values) == values


@pytest.mark.parametrize(
    ("reference", "values", "said"),
    [
        (KEY, {}, "has no key 'key' in 'secret/shop'. Write it there"),
        (KEY, {"key": ""}, "has nothing at the key 'key' in 'secret/shop'"),
        (KEY, {"key": None}, "has nothing at the key 'key'"),
        (KEY, {"key": []}, "has nothing at the key 'key'"),
        (KEY, {"key": {}}, "has nothing at the key 'key'"),
        (KEY, {"key": "hidden\0"}, "at 'key' a value with a NUL character"),
        (ALL, {"tls": {"pem": ["hidden", "hidden\0"]}}, "at 'tls.pem[1]' a value with a NUL character"),
        (KEY, {"key": "ü" * 40_000}, f"at 'key' a value of 80000 bytes (limit: {PROVIDED_SECRET_BYTES})"),
    ],
)
def test_what_a_step_cannot_use_is_named_without_its_value(
    reference: SecretReference, values: dict[str, Any], said: str
) -> None:
    with pytest.raises(ActionFailed) as caught:
        StepValues().take(reference, values)
    assert said in str(caught.value)
    assert "'vault'" in str(caught.value)
    assert "hidden" not in str(caught.value)
    assert not caught.value.retryable


def test_the_values_of_a_step_have_a_limit_together() -> None:
    taken = StepValues()
    for _ in range(STEP_SECRETS_BYTES // PROVIDED_SECRET_BYTES):
        taken.take(KEY, {"key": "x" * PROVIDED_SECRET_BYTES})
    with pytest.raises(ActionFailed, match=r"With 'vault/secret/shop#key', the secrets of the step exceed 256 KiB"):
        taken.take(KEY, {"key": "y"})


def test_many_small_values_have_a_limit() -> None:
    with pytest.raises(ActionFailed, match="more than 500 values"):
        StepValues().take(ALL, {str(number): "x" for number in range(STEP_SECRETS_VALUES + 1)})


@pytest.mark.parametrize(
    ("reference", "value", "short"),
    [
        (KEY, "abc", ["vault/secret/shop#key"]),
        (KEY, "abcd", []),
        (KEY, 22, ["vault/secret/shop#key"]),
        (KEY, 5432, []),
        (KEY, True, []),
        (ALL, {"a": "xyz", "b": "wxyz", "c": {"d": [7]}, "e": "", "f": False}, ["a", "c.d[0]"]),
    ],
)
def test_a_short_text_or_number_cannot_be_masked(reference: SecretReference, value: Any, short: list[str]) -> None:
    names = [name if reference.key else f"vault/secret/shop#{name}" for name in short]
    assert unmasked(reference, value) == names
