"""Types of the API: workflows. Times are milliseconds since the Unix epoch.

Made from the endpoint table by `python -m generators`; a test holds that it is up to date.
"""

import msgspec


class Scheduled(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The id of a schedule, unless there is none any longer."""

    id: str | None = None


class ScheduleEntry(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A pending schedule; `timestamp` is milliseconds since the Unix epoch."""

    id: str
    name: str
    timestamp: int


class Schedules(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The pending schedules of an instance."""

    schedules: list[ScheduleEntry]
