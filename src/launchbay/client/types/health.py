"""Types of the API: health. Times are milliseconds since the Unix epoch.

Made from the endpoint table by `python -m generators`; a test holds that it is up to date.
"""

import msgspec


class Health(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The state of this process."""

    status: str
