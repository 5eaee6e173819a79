"""Compares the types at the two ends of a link; a difference is a warning, never an error (manifest-language §3)."""

from collections.abc import Mapping

from launchbay.model.types import PinType, Type


def difference(need: PinType, offer: PinType) -> str | None:
    """Return a phrase with the first difference between what is needed and what is offered, or None.

    Arguments and results match by name, not order; results that the needing end does not ask for make no difference.
    """
    if need.signature is None or offer.signature is None:
        return None if need.value_type == offer.value_type else f"{need.value_type} and {offer.value_type}"
    return _first("argument", need.signature.arguments, offer.signature.arguments) or _first(
        "result", need.signature.results, offer.signature.results
    )


def _first(what: str, needed: Mapping[str, Type], offered: Mapping[str, Type]) -> str | None:
    for name, needed_type in needed.items():
        offered_type = offered.get(name)
        if offered_type is None:
            return f"the {what} '{name}' exists on one side only"
        if offered_type != needed_type:
            return f"the {what} '{name}' is {needed_type} on one side and {offered_type} on the other"
    return None
