"""A clock that tests turn by hand."""

from datetime import UTC, datetime, timedelta


class HandClock:
    """Both times move only when told to."""

    def __init__(self) -> None:
        self._seconds = 0.0

    def now(self) -> datetime:
        return datetime(2030, 1, 1, tzinfo=UTC) + timedelta(seconds=self._seconds)

    def monotonic_s(self) -> float:
        return 1000.0 + self._seconds

    def advance(self, seconds: float) -> None:
        self._seconds += seconds
