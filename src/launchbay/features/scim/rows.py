"""People and groups of identity providers."""

from datetime import datetime
from typing import NamedTuple

from launchbay.store.statements import load
from launchbay.store.users import traces_in

_sql = load("features.scim")


class PersonRow(NamedTuple):
    """A person of an organization.

    `total` counts all that match. Without any, the ID is None. `document` is what the provider said, None of whom it
    never made. `address` names the account that an active person gets. `user_id` is None without an account; `email`
    and `name` are of one that belongs to the organization.
    """

    total: int
    id: str | None
    user_id: str | None
    user_name: str
    external_id: str | None
    document: str | None
    address: str
    email: str | None
    name: str | None
    is_active: bool
    created_at: datetime
    changed_at: datetime


class GroupRow(NamedTuple):
    """A group; `total` counts all that match. Without any, the ID is None."""

    total: int
    id: str | None
    name: str
    external_id: str | None
    created_at: datetime
    changed_at: datetime


class GroupOfPerson(NamedTuple):
    """A group that a person is in."""

    id: str
    group_id: str
    name: str


class MemberOfGroup(NamedTuple):
    """A person who is in a group."""

    group_id: str
    id: str


class RolesChanged(NamedTuple):
    """The roles that a member got and lost because of groups."""

    user_id: str
    gained: list[str]
    lost: list[str]


class ActivityRow(NamedTuple):
    """When requests succeeded and failed; `refusals` is a JSON list, the newest first."""

    succeeded_at: datetime | None
    failed_at: datetime | None
    refusals: str


class FailingRow(NamedTuple):
    """An organization whose provider is refused."""

    organization: str
    refusals: str


is_service_account = _sql.value("is_service_account", bool)
list_people = _sql.rows("list_people", PersonRow, is_prepared=False)
get_person = _sql.row("get_person", PersonRow)
list_groups_of_people = _sql.rows("list_groups_of_people", GroupOfPerson)
count_people = _sql.value("count_people", int)
put_person = _sql.value("put_person", str)
delete_person = _sql.change("delete_person")
list_groups = _sql.rows("list_groups", GroupRow, is_prepared=False)
list_members = _sql.rows("list_members", MemberOfGroup)
count_groups = _sql.value("count_groups", int)
insert_group = _sql.change("insert_group")
update_group = _sql.change("update_group")
delete_group = _sql.change("delete_group")
adopt = _sql.change("adopt")
list_known = _sql.column("list_known", str)
add_members = _sql.change("add_members")
remove_members = _sql.change("remove_members")
has_groups = _sql.value("has_groups", bool)
list_provisioned_in = _sql.column("list_provisioned_in", str)
apply_groups = _sql.rows("apply_groups", RolesChanged)
note_success = _sql.change("note_success")
note_refusal = _sql.change("note_refusal")
get_activity = _sql.row("get_activity", ActivityRow)
list_failing = _sql.rows("list_failing", FailingRow)
# The provider's document may have more of the person than the address, so it goes as a whole.
traces = (
    traces_in(_sql, "people of identity providers", "scim_users"),
    traces_in(_sql, "refusals to identity providers", "scim_activity"),
)
