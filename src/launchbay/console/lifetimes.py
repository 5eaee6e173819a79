"""When an instance is to be destroyed, as choices on a form."""

from launchbay.errors import BadRequest
from launchbay.usecases.instances import NEVER

_MINUTE_MS = 60_000
_HOUR_MS = 60 * _MINUTE_MS
OTHER = "other"
CHOICES: tuple[tuple[str, str], ...] = (
    (str(_HOUR_MS), "in 1 hour"),
    (str(8 * _HOUR_MS), "in 8 hours"),
    (str(24 * _HOUR_MS), "in 1 day"),
    (str(7 * 24 * _HOUR_MS), "in 1 week"),
    (str(NEVER), "never"),
    (OTHER, "after so many minutes:"),
)


def interval_ms(chosen: str, minutes: str) -> int:
    """Return the chosen time in ms, NEVER for none. Raises BadRequest for minutes that are none."""
    if chosen == OTHER:
        return minutes_ms(minutes)
    if chosen not in {value for value, _ in CHOICES}:
        raise BadRequest("Choose when the instance is destroyed.", code="InvalidDestroyInterval")
    return int(chosen)


def minutes_ms(text: str) -> int:
    """Return so many minutes in ms. Raises BadRequest."""
    text = text.strip()
    try:
        minutes = float(text) if len(text) <= 12 and text.isascii() else 0.0
    except ValueError:
        minutes = 0.0
    if not 0 < minutes < 1e9:
        raise BadRequest("Give minutes as a number above 0, such as 90 or 0.5.", code="InvalidInterval")
    return round(minutes * _MINUTE_MS)
