"""How many members a Scaler has, as an instance's state keeps it (manifest-language §4). Pure."""

from collections.abc import Mapping

import msgspec


class Scale(msgspec.Struct, frozen=True):
    """`quantity` members, and the configured number that this came from or was set over."""

    configured: int
    quantity: int


def settled(scale: Scale | None, configured: int) -> Scale:
    """Return the scale under a configured number: a quantity that was set stays until another one is configured."""
    return scale if scale is not None and scale.configured == configured else Scale(configured, configured)


def scales_in(state: str) -> Mapping[str, Scale]:
    """Return the scales by the path of the Scaler from the stored form of an instance's state."""
    return {path: part.scale for path, part in _decoder.decode(state).items() if part.scale is not None}


class _Part(msgspec.Struct):
    scale: Scale | None = None


_decoder = msgspec.json.Decoder(dict[str, _Part])
