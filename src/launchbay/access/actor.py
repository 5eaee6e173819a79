"""Who calls: the outcome of authentication, carried through a request."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Actor:
    """An authenticated caller. It says nothing of permissions: the gate looks those up anew for each request."""

    user_id: str
    email: str
    name: str
    address: str  # where the call came from, for the throttle and the audit log
    method: str  # how the caller proved who it is: "basic" or "bearer"
