"""An application instance as it is read: what it is like, with its newest jobs, all of one moment."""

from datetime import datetime

import msgspec


class InstanceDetail(msgspec.Struct, frozen=True):
    """One instance; documents are JSON texts. `history` holds the newest jobs, newest first (`store/instances.py`).

    `waits` is what its work waits for (`model/waiting.py`); None where nothing runs or is due.
    A struct, unlike other records: this is the hot read, and a frozen dataclass takes a call for each field.
    """

    id: str
    organization_id: str
    application_id: str
    environment_id: str
    version: int
    name: str
    owner_id: str
    status: str
    parameters: str
    return_values: str
    components: str
    user_data: str
    environment_view: str
    error_message: str | None
    destroy_at: datetime | None
    created_at: datetime
    history: str
    waits: str | None
