"""An application instance as lists show it."""

import msgspec


class InstanceSummary(msgspec.Struct, frozen=True, gc=False):
    """An instance as lists show it, in exactly the fields of the reference (§2), under their names.

    There may be a hundred thousand in a list, so a row becomes this and this becomes JSON, with nothing in between.
    """

    id: str
    name: str
    environment: str
    application: str
    revision: str | None
    status: str
