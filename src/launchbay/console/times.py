"""Times and time zones of forms."""

from zoneinfo import available_timezones

# Legacy names of the database of zones, which people don't choose.
_LEGACY = ("Etc/", "SystemV/", "US/", "posix", "right")


def zone_names() -> list[str]:
    """Return the time zones that forms suggest."""
    return sorted(
        name for name in available_timezones() if name == "UTC" or ("/" in name and not name.startswith(_LEGACY))
    )
