"""An application instance as it is stored."""

from dataclasses import dataclass
from datetime import datetime

from launchbay.model.instance import InstanceStatus


@dataclass(frozen=True, slots=True)
class InstanceRecord:
    """One instance; the documents are JSON texts, because their key order matters. The columns say what each is for."""

    id: str
    organization_id: str
    application_id: str
    environment_id: str
    revision_id: str | None
    version: int
    name: str
    owner_id: str
    status: InstanceStatus
    parent_id: str | None  # the instance that launched this one as its submodule
    job_id: str | None
    parameters: str
    return_values: str
    components: str
    user_data: str
    environment_view: str
    state: str
    error_message: str | None
    destroy_at: datetime | None
    created_at: datetime

    def __post_init__(self) -> None:
        object.__setattr__(self, "status", InstanceStatus(self.status))  # rows bring the plain text
