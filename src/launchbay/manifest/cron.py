"""Checks the form of Quartz cron texts (manifest-language §5, `configuration.schedule`)."""

import re

_FIELDS = (
    ("second", 0, 59, ()),
    ("minute", 0, 59, ()),
    ("hour", 0, 23, ()),
    ("day of month", 1, 31, ()),
    ("month", 1, 12, ("JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC")),
    ("day of week", 1, 7, ("SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT")),
    ("year", 1970, 2199, ()),
)
_LONGEST = 200
_SPECIAL = {
    "day of month": re.compile(r"\?|L(-\d{1,2})?W?|\d{1,2}W"),
    "day of week": re.compile(r"\?|L|[1-7]L|[1-7]#[1-5]|(SUN|MON|TUE|WED|THU|FRI|SAT)(L|#[1-5])"),
}
_RANGE = re.compile(r"(\*|\w+)(?:-(\w+))?(?:/(\d{1,4}))?")


def check_cron(text: str) -> str | None:
    """Return None for a text with the form of a Quartz cron expression, or else a sentence that says what is wrong."""
    fields = text.upper().split()
    if len(text) > _LONGEST or len(fields) not in {6, 7}:
        return (
            f"it has {len(fields)} fields, but a schedule has 6 or 7: second minute hour day month weekday [year],"
            " such as '0 30 4 * * ?'"
        )
    for value, (name, low, high, names) in zip(fields, _FIELDS, strict=False):
        for part in value.split(","):
            if not _is_part(part, name, low, high, names):
                forms = "'*', '5', '1-4', '*/2'"
                return f"the {name} '{part}' is not understood; it goes from {low} to {high}, as in {forms}"
    return None


def _is_part(part: str, name: str, low: int, high: int, names: tuple[str, ...]) -> bool:
    special = _SPECIAL.get(name)
    if special is not None and special.fullmatch(part):
        return True
    match = _RANGE.fullmatch(part)
    if match is None:
        return False
    first, last, step = match.groups()
    if first == "*" and last is not None:
        return False
    if step is not None and int(step) == 0:
        return False
    return first == "*" or all(_is_value(end, low, high, names) for end in (first, last) if end is not None)


def _is_value(text: str, low: int, high: int, names: tuple[str, ...]) -> bool:
    if text in names:
        return True
    return text.isascii() and text.isdigit() and len(text) <= 4 and low <= int(text) <= high
