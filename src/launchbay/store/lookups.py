"""One statement per kind of object: the object, with what the caller's credentials and grants depend on.

Features have such statements too. Only `auth/lookup.py` uses them, so code that has an object has passed the gate.
"""

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Generic, NamedTuple, TypeVar

from launchbay.store.applications import Application, Revision
from launchbay.store.database import Connection
from launchbay.store.environments import Environment
from launchbay.store.instances import InstanceDetail, InstanceRecord
from launchbay.store.organizations import Organization
from launchbay.store.services import Service
from launchbay.store.statements import Query, Value, columns, first_row, load
from launchbay.store.users import Role, User

_sql = load("lookups")


T = TypeVar("T")
_BEFORE_OBJECT = ("caller_stamp", "caller_enabled", "organization_stamp")


class LookupRow(NamedTuple, Generic[T]):
    """What a statement found in one snapshot; `found` is None if the object doesn't exist."""

    caller_stamp: int
    caller_enabled: bool
    organization_stamp: int
    found: T | None


class LookupQuery(Generic[T]):
    """A statement that finds an object for a caller (`lookups.sql`), bound to its class."""

    __slots__ = ("_compared", "_kind", "_statement", "noun")

    def __init__(self, statement: Query, kind: type[T], noun: str = "") -> None:
        self.noun = noun or statement.name
        self._kind = kind
        self._statement = statement
        self._compared = False

    async def find(self, connection: Connection, /, **parameters: Any) -> LookupRow[T] | None:
        """Return the row, or None if the caller was deleted.

        It doesn't begin the connection's transaction.
        """
        result = await self._statement(connection, **parameters)
        if not self._compared:
            fields: tuple[str, ...] = self._kind.__match_args__  # type: ignore[attr-defined] # a dataclass has them
            found = columns(result)
            assert found == _BEFORE_OBJECT + fields, f"{self.noun}: {found} are not the fields {fields}"
            self._compared = True
        values = first_row(connection, result)
        if values is None:
            return None
        kind = self._kind
        return LookupRow(values[0], values[1], values[2], None if values[3] is None else kind(*values[3:]))


class LaunchSettings(NamedTuple):
    """Which settings the organization has that launches must read."""

    may_be_limited: bool
    has_lifetime_rules: bool
    may_be_ruled: bool


class LaunchTarget(NamedTuple):
    """An application and an environment of its organization."""

    id: str
    organization_id: str
    name: str
    latest_version: int
    source_url: str | None
    created_at: datetime
    environment_id: str | None
    environment_name: str
    is_default: bool
    policies: str
    markers: str
    properties: str
    environment_created_at: datetime
    may_be_limited: bool  # settings of the organization limit how many jobs run at a time
    has_lifetime_rules: bool
    may_be_ruled: bool  # rules about changes

    def settings(self) -> LaunchSettings:
        return LaunchSettings(self.may_be_limited, self.has_lifetime_rules, self.may_be_ruled)

    def application(self) -> Application:
        return Application(*self[:6])

    def environment(self) -> Environment | None:
        if self.environment_id is None:
            return None
        return Environment(self.environment_id, self.organization_id, *self[7:13])


caller = LookupQuery(_sql.query("caller"), User)
organization = LookupQuery(_sql.query("organization"), Organization)
application = LookupQuery(_sql.query("application"), Application)
launch_target = LookupQuery(_sql.query("launch_target"), LaunchTarget, noun="application")
revision = LookupQuery(_sql.query("revision"), Revision)
environment = LookupQuery(_sql.query("environment"), Environment)
default_environment = LookupQuery(_sql.query("default_environment"), Environment, noun="default environment")
service = LookupQuery(_sql.query("service"), Service)
role = LookupQuery(_sql.query("role"), Role)
member = LookupQuery(_sql.query("member"), User)
instance = LookupQuery(_sql.query("instance"), InstanceRecord)
instance_detail = LookupQuery(_sql.query("instance_detail"), InstanceDetail, noun="instance")

# By the first segment of a resource path. Users can belong to several organizations.
organization_of = {
    "applications": _sql.value("organization_of_application", str),
    "environments": _sql.value("organization_of_environment", str),
    "services": _sql.value("organization_of_service", str),
    "roles": _sql.value("organization_of_role", str),
}
instance_environment = _sql.value("instance_environment", str)
shared_organizations = _sql.value("shared_organizations", list)
# By the first segment of an API path. Features add theirs.
lock_of: Mapping[str, Value[str]] = {
    "organizations": _sql.value("lock_organization", str),
    "users": _sql.value("lock_user", str),
    "applications": _sql.value("lock_application", str),
    "revisions": _sql.value("lock_revision", str),
    "environments": _sql.value("lock_environment", str),
    "services": _sql.value("lock_service", str),
    "roles": _sql.value("lock_role", str),
    "instances": _sql.value("lock_instance", str),
    "approvals": _sql.value("lock_approval", str),
}
