"""Which values of a provider a step may have."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from launchbay.errors import ActionFailed
from launchbay.limits import KIB, PROVIDED_SECRET_BYTES, STEP_SECRETS_BYTES, STEP_SECRETS_VALUES
from launchbay.model.redaction import SHORTEST_CHARS
from launchbay.model.secret_reference import SecretReference


class NothingThere(ActionFailed):
    """A provider has no such key, or nothing at it."""

    def __init__(self, *messages: str) -> None:
        super().__init__(*messages, retryable=False)


def another_attempt(*, retryable: bool) -> str:
    """Return what the error of a read says about another attempt of its step."""
    return "Another attempt may succeed (`retryCount`)." if retryable else "Another attempt would fail too."


@dataclass
class StepValues:
    """What one attempt of a step gets, within its limits."""

    size: int = 0  # bytes
    count: int = 0

    def take(self, reference: SecretReference, values: Mapping[str, Any], whole: str | None = None) -> Any:
        """Return the value of a reference; without a key, all of it.

        `values` is all that the provider has at its path, and `whole` the string that it has there. Raises
        ActionFailed, which names provider, path and key, but no value.
        """
        found = _chosen(reference, values, whole)
        for key, text in _texts(found, reference.key):
            place = f"The secret provider {reference.provider!r} has in {reference.path!r}"
            if "\0" in text:
                raise ActionFailed(
                    f"{place} at {key!r} a value with a NUL character, which programs and headers can't take.",
                    "Write it as base64, and decode it where it is used.",
                    retryable=False,
                )
            size = len(text.encode())
            if size > PROVIDED_SECRET_BYTES:
                raise ActionFailed(
                    f"{place} at {key!r} a value of {size} bytes (limit: {PROVIDED_SECRET_BYTES}).",
                    "Keep only what is secret there, such as the key of an encrypted file.",
                    retryable=False,
                )
            self.size += size
            self.count += 1
        if self.size > STEP_SECRETS_BYTES:
            raise ActionFailed(
                f"With {str(reference)!r}, the secrets of the step exceed {STEP_SECRETS_BYTES // KIB} KiB.",
                "Name the keys that it needs, provider/path#key, or use several steps.",
                retryable=False,
            )
        if self.count > STEP_SECRETS_VALUES:
            raise ActionFailed(
                f"With {str(reference)!r}, the secrets of the step are more than {STEP_SECRETS_VALUES} values.",
                "Name the keys that it needs: provider/path#key.",
                retryable=False,
            )
        return found


def _chosen(reference: SecretReference, values: Mapping[str, Any], whole: str | None) -> Any:
    if not reference.key and whole is None:
        return dict(values)
    if not reference.key and whole:
        return whole
    if not reference.key:
        raise NothingThere(
            f"The secret provider {reference.provider!r} has an empty string in {reference.path!r}.",
            "Write a value there, or leave out the reference.",
        )
    if whole is not None and not values:
        raise NothingThere(
            f"The secret provider {reference.provider!r} has a string without keys in {reference.path!r}.",
            f"Leave out #{reference.key}, or store a JSON object with this key.",
        )
    if reference.key not in values:
        raise NothingThere(
            f"The secret provider {reference.provider!r} has no key {reference.key!r} in {reference.path!r}.",
            "Write it there, or correct the reference.",
        )
    found = values[reference.key]
    if found is None or found in ("", [], {}):
        raise NothingThere(
            f"The secret provider {reference.provider!r} has nothing at the key {reference.key!r} in"
            f" {reference.path!r}.",
            "Write a value there, or leave out the reference.",
        )
    return found


def unmasked(reference: SecretReference, value: Any) -> list[str]:
    """Return references to what is too short to be masked in a value.

    It would be found in other words. Booleans aren't secrets by themselves.
    """
    return [
        str(reference._replace(key=key)) for key, text in _texts(value, reference.key) if 0 < len(text) < SHORTEST_CHARS
    ]


def _texts(value: Any, key: str) -> Iterator[tuple[str, str]]:
    """Yield each value in a JSON value as text, with its key.

    A key is such as `tls.key` or `hosts[0]`.
    """
    if isinstance(value, Mapping):
        for name, item in value.items():
            yield from _texts(item, f"{key}.{name}" if key else name)
    elif isinstance(value, list):
        for number, item in enumerate(value):
            yield from _texts(item, f"{key}[{number}]")
    else:
        yield key, value if isinstance(value, str) else str(value)
