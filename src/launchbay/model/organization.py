"""An organization: what users, roles and everything else belong to (reference §2)."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Organization:
    """One organization."""

    id: str
    name: str
