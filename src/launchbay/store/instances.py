"""Instances with their history, links, expiry and step documents."""

from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple

import msgspec

from launchbay.model.instance import InstanceStatus
from launchbay.store.events import LogRow
from launchbay.store.statements import load

_sql = load("instances")


class InstanceDetail(msgspec.Struct, frozen=True):
    """One instance. Documents are JSON strings; `history` has the newest jobs, newest first (`read_history`).

    `waits` is what it waits for (`model/waits.py`): the facts as they are read, then the sentences; None for nothing.
    The last one of them is `destruction`, if a destroy can be taken back.
    This is a struct because it is the hot read, and creating a frozen dataclass takes a call for each field.
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
    parameter_origins: str
    return_values: str
    components: str
    user_data: str
    environment_view: str
    error_message: str | None
    last_failure: str | None
    destroy_at: datetime | None
    created_at: datetime
    labels: str
    history: str
    waits: str | None
    destruction: str | None

    @property
    def failure(self) -> "FailureRow | None":
        """The job behind `error_message`; None if an older server wrote it."""
        if self.last_failure is None:
            return None
        found = read_failure(self.last_failure)
        return found if found.message == self.error_message else None


class FailureRow(msgspec.Struct, frozen=True, rename="camel"):
    """The last failure; `time` is in milliseconds since the epoch.

    `cause` is the one that made the instance Failed, if that was an earlier one: of a launch, a reconfiguration, or a
    workflow of `propagateStatus`.
    """

    job_id: str
    workflow: str
    time: int
    message: str
    cause: "FailureRow | None" = None


read_failure = msgspec.json.Decoder(FailureRow).decode


@dataclass(frozen=True, slots=True)
class InstanceRecord:
    """One instance.

    Documents are JSON strings, because key order matters; the columns' comments explain each.
    """

    id: str
    organization_id: str
    application_id: str
    environment_id: str
    revision_id: str | None
    version: int
    name: str
    owner_id: str
    status: InstanceStatus
    parent_id: str | None  # launched this one as its submodule
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
    is_observed: bool = False  # adopted, and not taken over yet

    def __post_init__(self) -> None:
        object.__setattr__(self, "status", InstanceStatus(self.status))  # rows have the plain string


class InstanceSummary(msgspec.Struct, frozen=True, gc=False):
    """An instance in a list, with exactly the fields of the reference (§2), under their names.

    A list may have a hundred thousand, so a row becomes this and this becomes JSON, with nothing in between.
    """

    id: str
    name: str
    environment: str
    application: str
    revision: str  # without a name if the launch named none
    status: str


class JobRow(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A job of the history; times are ms since the Unix epoch.

    `steps` are `(path, name, status, percent)`.

    `live_steps` are `(path, status, percent)`, newer, and only set for the running job. `could_not_begin` is only known
    of the newest job of an instance, if it failed.
    """

    id: str
    name: str
    status: str
    owner_id: str
    steps: list[tuple[str, str, str, int]]
    error_message: str | None
    started_at_ms: int | None
    finished_at_ms: int | None
    live_steps: list[tuple[str, str, int]] | None
    number: int
    could_not_begin: bool = False


read_history = msgspec.json.Decoder(list[JobRow]).decode  # of `InstanceDetail.history` and `jobs.get_page`


class Surroundings(NamedTuple):
    """The names of an instance's application and environment, and the application's newest version.

    `freezes` are those of both, as `model/freezes.py` reads them.
    """

    application: str
    latest_version: int
    environment: str
    freezes: str | None


class LockRow(NamedTuple):
    """What decides whether an instance can be deleted. `plan` belongs to the running job."""

    status: str
    job_id: str | None
    plan: str | None
    may_hold_something: bool


class FamilyLinkRow(NamedTuple):
    """A link of an instance, in the columns of LinkedRow after the first."""

    instance_id: str
    component: str
    target_id: str
    kind: str
    application_id: str | None
    version: int | None
    revision_id: str | None
    parameters: str | None
    name: str | None
    status: str | None
    binding: str | None


class LinkedRow(NamedTuple):
    """The instance behind a component.

    All fields but the link are None if it was deleted.
    """

    component: str
    target_id: str
    kind: str
    application_id: str | None
    version: int | None
    revision_id: str | None
    parameters: str | None
    name: str | None
    status: str | None
    binding: str | None


class UserRow(NamedTuple):
    """An instance that uses another one."""

    id: str
    name: str
    application_id: str
    environment_id: str


class StatusRow(NamedTuple):
    """The state of an instance. `state`, `before` and `parameters` are JSON."""

    state: str
    before: str | None
    status: str
    application_id: str
    version: int
    parameters: str


class NamedInstance(NamedTuple):
    """A living instance that was found by its name.

    `job_id` is what runs on it, or empty.
    """

    id: str
    status: str
    job_id: str


class NewestRow(NamedTuple):
    """The newest instance, and the transactions that may bring older ones."""

    newest: str
    making: list[str]


class MakingRow(NamedTuple):
    """A transaction that makes instances. `began_at` is None if another database user began it."""

    id: str
    began_at: datetime | None


announce_new = _sql.query("announce_new")
lock_name = _sql.value("lock_name", bool)
find_by_name = _sql.row("find_by_name", NamedInstance)
get_newest = _sql.row("get_newest", NewestRow)
list_making = _sql.rows("list_making", MakingRow)
list_by_application = _sql.rows("list_by_application", InstanceSummary, is_prepared=False)
list_by_environment = _sql.rows("list_by_environment", InstanceSummary, is_prepared=False)
list_by_revision = _sql.rows("list_by_revision", InstanceSummary, is_prepared=False)
set_user_data = _sql.change("set_user_data")
lock_at_once = _sql.value("lock_at_once", str)
let_person_first = _sql.value("let_person_first", str)
lock = _sql.row("lock", LockRow)
lock_status = _sql.value("lock_status", str)
delete = _sql.change("delete")
insert_children = _sql.change("insert_children")
insert_links = _sql.change("insert_links")
replace_link = _sql.change("replace_link")
copy_submodule = _sql.value("copy_submodule", str)
show_components = _sql.change("show_components")
list_shared_catalogs = _sql.column("list_shared_catalogs", str)
list_linked = _sql.rows("list_linked", LinkedRow)
list_linked_family = _sql.rows("list_linked_family", FamilyLinkRow)
list_users = _sql.rows("list_users", UserRow)
get_record = _sql.row("get_record", InstanceRecord)  # for the engine, which needs no permission
get_surroundings = _sql.row("get_surroundings", Surroundings)
get_status = _sql.row("get_status", StatusRow)
read_record = _sql.row("read_record", InstanceRecord)  # without a lock
change_configuration = _sql.change("change_configuration")


class RelativeRow(NamedTuple):
    """An instance and its submodules. The first one has no parent here."""

    id: str
    parent_id: str | None
    name: str
    status: str
    application_id: str
    application: str
    environment_id: str
    job_outcome: str | None
    is_asking: bool
    is_asleep: bool
    is_ending: bool
    is_incomplete: bool
    is_observed: bool
    is_drifted: bool


list_family = _sql.rows("list_family", RelativeRow)


class ComponentFactsRow(NamedTuple):
    """What decides what the components of an instance do, with its newest job.

    `launched` are paths, `scales` quantities by Scaler; `planned`, `recorded` and `submodules` are lists of lists, all
    JSON. `asking` are the paths of steps that wait for an approval.
    """

    id: str
    status: str
    application_id: str
    version: int
    parameters: str
    launched: str
    scales: str
    job_name: str | None
    job_status: str | None
    is_started: bool
    planned: str | None
    recorded: str
    asking: str
    submodules: str
    is_asleep: bool


list_component_facts = _sql.rows("list_component_facts", ComponentFactsRow)
list_log_tail = _sql.rows("list_log_tail", LogRow)


class ExpiryRow(NamedTuple):
    """A locked instance. `is_offered`: an environment offers it as a service."""

    status: str
    destroy_at: datetime | None
    is_offered: bool


lock_expiry = _sql.row("lock_expiry", ExpiryRow)
set_expiry = _sql.change("set_expiry")
clear_expiry = _sql.change("clear_expiry")


class DocumentRow(NamedTuple):
    """An encrypted step document."""

    id: str
    version: int
    sealed: bytes


class DocumentKeyRow(NamedTuple):
    """Identifies a step document within its instance."""

    component: str
    action: str
    name: str


list_documents_by_instance = _sql.rows("list_documents_by_instance", DocumentKeyRow)
get_document = _sql.row("get_document", DocumentRow)
stop_observing = _sql.change("stop_observing")
write_document = _sql.value("write_document", int)
delete_document = _sql.change("delete_document")
has_documents = _sql.value("has_documents", bool)


def document_purpose(document_id: str) -> str:
    return f"kept document {document_id}"


class ImpactRow(NamedTuple):
    """A live instance and what decides how a change reaches it.

    `links` is a JSON text.
    """

    id: str
    name: str
    application_id: str
    version: int
    parameters: str
    parameter_origins: str
    state: str
    environment_id: str
    environment_view: str
    is_submodule: bool
    links: str


class FoundationRow(NamedTuple):
    """An offered instance, and something that it stands on, such as itself."""

    offered_id: str
    id: str


list_for_impact = _sql.rows("list_for_impact", ImpactRow)
list_for_impact_of_environment = _sql.rows("list_for_impact_of_environment", ImpactRow)
list_for_impact_of_revision = _sql.rows("list_for_impact_of_revision", ImpactRow)
list_for_impact_of_service = _sql.rows("list_for_impact_of_service", ImpactRow)
list_foundations = _sql.rows("list_foundations", FoundationRow)
