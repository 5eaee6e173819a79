"""People who call the API: accounts made through it, with passwords that tests know."""

import itertools
from typing import Any

from tests.api.running import Api, Caller, accepted, basic

PASSWORD = "a password of one's own"
_numbers = itertools.count(1)


class Person(Caller):
    """A user with an account of their own."""

    def __init__(self, api: Api, user_id: str, email: str, password: str) -> None:
        super().__init__(api.caller(basic(email, password)).client)
        self.id = user_id
        self.email = email
        self.password = password

    def at(self, api: Api) -> "Person":
        """Return the same person, calling another server of the same database."""
        return Person(api, self.id, self.email, self.password)


def fresh_email() -> str:
    """Return an e-mail address that nobody has."""
    return f"person{next(_numbers)}@example.org"


async def person(api: Api, *roles: str, organization: str = "", by: Caller | None = None) -> Person:
    """Add a user with these roles to an organization, and return them."""
    email = fresh_email()
    body = {"email": email, "name": "Person", "password": PASSWORD, "roles": list(roles)}
    created = accepted(await (by or api).post(f"organizations/{organization or api.organization}/users", body))
    assert set(created) == {"id"}
    return Person(api, created["id"], email, PASSWORD)


async def user_named(api: Api, user_id: str, organization: str = "") -> Any:
    """Return the list item of a user."""
    rows = accepted(await api.get(f"organizations/{organization or api.organization}/users"))
    return next(row for row in rows if row["id"] == user_id)
