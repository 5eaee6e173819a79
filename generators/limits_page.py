"""The table of limits, from `limits.py` and the comments in it."""

import re

from generators.words import ROOT
from launchbay import limits

_SOURCE = ROOT / "src" / "launchbay" / "limits.py"
_LIMIT = re.compile(r"^([A-Z][A-Z0-9_]*) = [^#]*(?:# ?(.*))?$")
_KIB, _MIB = limits.KIB, limits.MIB
_UNITS = {"BYTES": "bytes", "CHARS": "characters", "S": "s", "MS": "ms", "DAYS": "days", "HOURS": "h"}


def limits_table() -> str:
    """Return the limits by the headings of the source."""
    lines: list[str] = []
    has_table = False
    for line in _SOURCE.read_text("utf-8").splitlines():
        found = _LIMIT.match(line)
        if found and found[1] not in {"KIB", "MIB"}:
            if not has_table:
                lines += ["", "| limit | value | about |", "|---|---|---|"]
                has_table = True
            lines.append(f"| `{found[1]}` | {limit_value(found[1])} | {_sentence(found[2] or '')} |")
        elif line.startswith("# "):
            lines += ["", f"## {line[2:].rstrip('.').partition(' (')[0]}"]
            has_table = False
    return "\n".join(lines).lstrip("\n") + "\n"


def limit_value(name: str) -> str:
    """Return a limit as pages show it, such as `512 KiB`."""
    value = getattr(limits, name)
    unit = _UNITS.get(name.rpartition("_")[2], "")
    if unit == "bytes" and value % _MIB == 0:
        return f"{value // _MIB} MiB"
    if unit == "bytes" and value % _KIB == 0:
        return f"{value // _KIB} KiB"
    number = f"{value:,.0f}" if float(value).is_integer() else f"{value:g}"
    return f"{number} {unit}".strip()


def _sentence(comment: str) -> str:
    text = comment.strip().replace("|", "\\|")
    return text[:1].upper() + text[1:]
