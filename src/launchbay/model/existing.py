"""What a step would make, and somebody has made without Launchbay."""

from typing import Any

import msgspec


class Existing(msgspec.Struct, frozen=True, kw_only=True):
    """What runs already.

    `document` is what the step would have stored, under `name`. `identity` names what runs in all of the organization.
    `resources` are the first addresses of it, and `about` is what people see, without secrets.
    """

    name: str
    identity: str
    document: bytes
    resources: list[str]
    resource_count: int
    about: dict[str, Any]

    def encoded(self) -> bytes:
        return msgspec.msgpack.encode(self)


read_existing = msgspec.msgpack.Decoder(Existing).decode
