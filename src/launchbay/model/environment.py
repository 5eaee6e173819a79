"""An environment: policies, markers, properties and services that instances launched in it get (reference §2)."""

from dataclasses import dataclass
from datetime import datetime


@dataclass(frozen=True, slots=True)
class Environment:
    """One environment. `policies`, `markers` and `properties` are JSON texts, because their order matters."""

    id: str
    organization_id: str
    name: str
    is_default: bool
    policies: str
    markers: str
    properties: str
    created_at: datetime
