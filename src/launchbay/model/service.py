"""A service instance, which environments offer to the instances launched in them (reference §2)."""

from dataclasses import dataclass
from datetime import datetime


@dataclass(frozen=True, slots=True)
class Service:
    """One service instance; `parameters` is a JSON text, because key order matters."""

    id: str
    organization_id: str
    zone_id: str
    name: str
    type_id: str
    parameters: str
    status: str
    status_pending: bool
    created_at: datetime
