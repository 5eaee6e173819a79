"""Both schemes together, from the header to the caller."""

from base64 import b64encode
from pathlib import Path

import pytest

from launchbay.auth.authentication import Authenticator, BasicAuthentication
from launchbay.auth.passwords import Passwords
from launchbay.auth.permissions import Method
from launchbay.auth.secret_key import SecretKey, read_secret_key
from launchbay.auth.throttle import SignInThrottle
from launchbay.auth.tokens import AccessTokens, KeyRing, SessionTokens
from launchbay.errors import NotAuthenticated
from launchbay.ids import new_id
from launchbay.store import users
from launchbay.store.database import Database
from launchbay.store.users import RedeemedTokenRow
from tests.support.clock import HandClock
from tests.support.service import QUICK_HASHES
from tests.support.worlds import make_user

HOME = "198.51.100.7"
BASIC = "Basic " + b64encode(b"ann@example.org:pw").decode()
WRONG_BASIC = "Basic " + b64encode(b"ann@example.org:no").decode()


class World:
    def __init__(self, authenticator: Authenticator, bearer: str) -> None:
        self.authenticator = authenticator
        self.bearer = bearer


@pytest.fixture
async def world(database: Database, tmp_path: Path) -> World:
    clock = HandClock()
    keys = KeyRing(database, read_secret_key(tmp_path / "secret.key"), clock, 3600)
    sessions = SessionTokens(keys, clock, "launchbay", 3600)
    throttle = SignInThrottle(database, SecretKey(bytes(32)))
    basic = BasicAuthentication(database, Passwords(QUICK_HASHES), throttle, clock)
    async with database.connection() as connection:
        ann = await users.get(connection, id=await make_user(connection, password_hash=QUICK_HASHES.hash("pw")))
    assert ann is not None
    return World(
        Authenticator(basic, sessions, AccessTokens(database), throttle),
        "Bearer " + (await sessions.issue(RedeemedTokenRow(ann.id, ann.email, ann.name, 1, new_id()))).token,
    )


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("header", "method"),
    [
        ("{basic}", Method.BASIC),
        ("{bearer}", Method.BEARER),
        ("{basic}, {bearer}", Method.BEARER),
        ("{bearer}, {wrong}", Method.BEARER),
    ],
)
async def test_a_good_header_names_the_caller_and_the_scheme_that_counted(
    world: World, header: str, method: Method
) -> None:
    value = header.format(basic=BASIC, wrong=WRONG_BASIC, bearer=world.bearer)
    actor = await world.authenticator.authenticate({"authorization": value}, HOME)
    assert (actor.email, actor.method, actor.address) == ("ann@example.org", method, HOME)


@pytest.mark.anyio
@pytest.mark.parametrize(
    "header", ["{wrong}", "{bearer}x", "{basic}, {bearer}x", "Bearer x, {basic}", "Bearer, {basic}"]
)
async def test_a_bad_token_is_refused_even_beside_good_basic_credentials(world: World, header: str) -> None:
    value = header.format(basic=BASIC, wrong=WRONG_BASIC, bearer=world.bearer)
    with pytest.raises(NotAuthenticated):
        await world.authenticator.authenticate({"authorization": value}, HOME)


async def test_a_request_without_credentials_is_told_what_to_send(world: World) -> None:
    with pytest.raises(NotAuthenticated, match="Send an email address with a password"):
        await world.authenticator.authenticate({}, HOME)
