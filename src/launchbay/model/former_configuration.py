"""What a reconfiguration comes from, stored with the instance until a job has carried it out."""

from typing import Any

import msgspec


class FormerConfiguration(msgspec.Struct, frozen=True):
    """The manifest version, the given parameters, and where components led: `{component: [instance id, kind]}`."""

    version: int
    parameters: dict[str, Any]
    links: dict[str, tuple[str, str]] = {}

    def to_text(self) -> str:
        """Return the stored form."""
        return msgspec.json.encode(self).decode()


def read_former_configuration(text: str) -> FormerConfiguration:
    """Return it from its stored form."""
    return _decoder.decode(text)


_decoder = msgspec.json.Decoder(FormerConfiguration)
