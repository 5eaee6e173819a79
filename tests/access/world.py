"""A small world for access tests: two organizations, and objects of every kind in each."""

from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

from launchbay.auth.gate import ADMINISTRATOR_TEXT
from launchbay.auth.permissions import Actor, Method
from launchbay.ids import new_id
from launchbay.store import users
from launchbay.store.database import Connection, Database


@dataclass(frozen=True)
class Organization:
    """An organization with one object of every kind."""

    id: str
    administrator_role: str
    application: str
    revision: str
    environment: str
    service: str
    instance: str


async def make_organization(connection: Connection, name: str = "Acme") -> Organization:
    made = Organization(*(new_id() for _ in range(7)))
    values = made.__dict__ | {"name": name}
    statements = """
        INSERT INTO organizations (id, name) VALUES (%(id)s, %(name)s);
        INSERT INTO applications (id, organization_id, name, latest_version)
            VALUES (%(application)s, %(id)s, 'shop', 1);
        INSERT INTO manifests (application_id, version, content, author_id) VALUES (%(application)s, 1, 'x', 'nobody');
        INSERT INTO revisions (id, application_id, name, version) VALUES (%(revision)s, %(application)s, 'stable', 1);
        INSERT INTO environments (id, organization_id, name) VALUES (%(environment)s, %(id)s, 'dev');
        INSERT INTO services (id, organization_id, zone_id, name, type_id)
            VALUES (%(service)s, %(id)s, 'zone', 'vault', 'vault');
        INSERT INTO instances (id, organization_id, application_id, environment_id, version, name, owner_id, status)
            VALUES (%(instance)s, %(id)s, %(application)s, %(environment)s, 1, 'shop 1', 'nobody', 'Running')
    """
    for statement in statements.split(";"):
        await connection.execute(statement.encode(), values)
    await users.insert_role(
        connection,
        id=made.administrator_role,
        organization_id=made.id,
        name="Administrator",
        permissions=ADMINISTRATOR_TEXT,
        kind="administrator",
    )
    return made


async def make_user(
    connection: Connection, email: str = "ann@example.org", password_hash: str | None = None, organization: str = ""
) -> str:
    user_id = new_id()
    await users.insert(connection, id=user_id, email=email, name=email.partition("@")[0], password_hash=password_hash)
    if organization:
        await users.join_organization(connection, organization_id=organization, user_id=user_id)
    return user_id


async def give_role(connection: Connection, organization_id: str, user_id: str, text: str, name: str = "role") -> str:
    role_id = new_id()
    await users.insert_role(
        connection, id=role_id, organization_id=organization_id, name=name, permissions=text, kind="custom"
    )
    await users.assign_role(connection, role_ids=[role_id], user_id=user_id)
    return role_id


def actor_for(user_id: str, stamp: int | None = None) -> Actor:
    method = Method.BEARER if stamp is None else Method.BASIC
    return Actor(user_id, "ann@example.org", "ann", "198.51.100.7", method, stamp)


class _Counting:
    """A connection that counts the statements sent through it."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self.counts: Counter[str] = Counter()

    async def execute(self, *arguments: Any, **options: Any) -> Any:
        self.counts["statements"] += 1
        return await self._connection.execute(*arguments, **options)


@asynccontextmanager
async def counting(database: Database) -> AsyncIterator[Any]:
    """Lend a connection that counts: `connection.counts["statements"]`."""
    async with database.connection() as connection:
        yield _Counting(connection)
