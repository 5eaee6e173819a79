"""A user account; nothing in it is secret (the password's hash stays between `store` and `access`)."""

from dataclasses import dataclass
from datetime import datetime


@dataclass(frozen=True, slots=True)
class User:
    """One user account."""

    id: str
    email: str
    name: str
    enabled: bool
    created_at: datetime
