"""User data of an instance on a form: secrets in it are covered, and stay as they are where their cover comes back."""

from collections.abc import Mapping
from typing import Any

from launchbay.console.wording import covered


def kept(sent: Any, before: Any) -> Any:
    """Return what was sent, with the former value wherever that is sent as it was shown."""
    if sent == covered(before):
        return before
    if isinstance(sent, Mapping) and isinstance(before, Mapping):
        # One key at a time, so that what is under a secret name is shown covered here too.
        return {name: _kept_under(name, value, before) for name, value in sent.items()}
    if isinstance(sent, list) and isinstance(before, list):
        return [kept(value, before[place]) if place < len(before) else value for place, value in enumerate(sent)]
    return sent


def _kept_under(name: str, value: Any, before: Mapping[str, Any]) -> Any:
    if name not in before:
        return value
    return before[name] if value == covered({name: before[name]})[name] else kept(value, before[name])
