"""How long a refusal takes does not tell whether somebody has an account (conformance.md, "Authentication")."""

import asyncio
from base64 import b64encode

import pytest
from argon2 import PasswordHasher
from hypothesis import given
from hypothesis import strategies as st

from launchbay.auth.authentication import (
    BasicAuthentication,
    BasicCredentials,
    BearerCredentials,
    read_authorization,
)
from launchbay.auth.lookup import Lookups
from launchbay.auth.passwords import PARAMETERS, Passwords
from launchbay.auth.permissions import Actor, Method
from launchbay.auth.secret_key import SecretKey
from launchbay.auth.throttle import SignInThrottle
from launchbay.errors import NotAuthenticated, TooManyRequests, Unavailable
from launchbay.limits import PASSWORD_VERIFICATIONS, PASSWORD_VERIFICATIONS_WAITING, VERIFIED_CREDENTIALS_S
from launchbay.store import users
from launchbay.store.database import Database
from tests.support.clock import HandClock
from tests.support.service import QUICK_HASHES
from tests.support.worlds import make_organization, make_user


def basic(text: str | bytes) -> str:
    return "Basic " + b64encode(text.encode() if isinstance(text, str) else text).decode()


PRINTABLE = st.text(st.characters(exclude_categories=["Cs"], exclude_characters=[chr(c) for c in (*range(32), 127)]))


@given(PRINTABLE.filter(lambda text: text and ":" not in text), PRINTABLE)
def test_email_and_password_arrive_as_sent(email: str, password: str) -> None:
    assert read_authorization(basic(f"{email}:{password}")) == BasicCredentials(email, password)


def test_colons_belong_to_the_password() -> None:
    assert read_authorization(basic("ann@example.org:a:b:")) == BasicCredentials("ann@example.org", "a:b:")


@pytest.mark.parametrize("scheme", ["basic", "BASIC", "Basic"])
def test_the_scheme_is_case_insensitive(scheme: str) -> None:
    header = basic("ann@example.org:pw").replace("Basic", scheme)
    assert read_authorization(header) == BasicCredentials("ann@example.org", "pw")


@pytest.mark.parametrize(
    "header",
    [
        None,
        "",
        "  ",
        "Basic",
        "Basic ",
        "Basic  ,",
        "Basic !!!!",
        "Basic YTpi\x00",
        "Basic YTpi YTpi",
        "Basic YTpiYw",  # padding is missing
        "Basic YTpi====",
        "Basic YTpi=",
        "Basicx YTpi",
        "Basic\tYTpi",
        "YTpi",
        "Digest username=ann",
        "Bearer",
        "Bearer ",
        "Bearer é",
        basic("no colon"),
        basic(":only a password"),
        basic("ann@example.org:\x00"),
        basic("ann\n@example.org:pw"),
        f"{basic('a:b')}, {basic('c:d')}",
        f"{basic('a:b')}, basic {basic('c:d')[6:]}",
        "Bearer x, Bearer y",
        f"Bearer , {basic('a:b')}",
    ],
)
def test_a_malformed_header_is_refused(header: str | None) -> None:
    with pytest.raises(NotAuthenticated):
        read_authorization(header)


@pytest.mark.parametrize("encoding", ["utf-8", "latin-1"])
def test_accents_are_read_in_both_encodings_of_older_clients(encoding: str) -> None:
    found = read_authorization(basic("änn@example.org:pässwörd§".encode(encoding)))
    assert found == BasicCredentials("änn@example.org", "pässwörd§")


@pytest.mark.parametrize("header", ["Bearer x.y.z, {}", "{}, Bearer x.y.z", "{},bearer x.y.z", "{} , Bearer  x.y.z "])
def test_the_bearer_token_wins_over_basic_wherever_it_stands(header: str) -> None:
    assert read_authorization(header.format(basic("ann@example.org:pw"))) == BearerCredentials("x.y.z")


def test_credentials_are_shown_by_no_repr() -> None:
    assert "secret" not in repr(read_authorization(basic("ann@example.org:secret")))
    assert "secret" not in repr(read_authorization("Bearer secret"))


@given(st.text(max_size=80) | st.text(alphabet="Basicerbo ,YTpi=:\t", max_size=40))
def test_any_header_is_either_read_or_refused_cleanly(header: str) -> None:
    try:
        read = read_authorization(header)
    except NotAuthenticated:
        return
    assert isinstance(read, BasicCredentials | BearerCredentials)


EMAIL = "Ann@Example.org"
PASSWORD = "correct: horse ü"
HASH = QUICK_HASHES.hash(PASSWORD)
HOME = "198.51.100.7"
ATTACKER = "203.0.113.9"


class CountingPasswords(Passwords):
    """Counts the verifications that really happen."""

    def __init__(self, hasher: PasswordHasher) -> None:
        super().__init__(hasher)
        self.verified = 0

    async def verify(self, stored: str | None, password: str, *, yields: bool = False) -> bool:
        self.verified += 1
        return await super().verify(stored, password, yields=yields)


class World:
    def __init__(self, database: Database, ann: str, hasher: PasswordHasher = QUICK_HASHES) -> None:
        self.database = database
        self.ann = ann
        self.clock = HandClock()
        self.passwords = CountingPasswords(hasher)
        self.basic = BasicAuthentication(
            database, self.passwords, SignInThrottle(database, SecretKey(bytes(32))), self.clock
        )
        self.lookups = Lookups(self.basic.invalidate)

    def with_slow_hashes(self) -> "World":
        """Return another server of the same database, whose verifications take as long as those of the product."""
        return World(self.database, self.ann, PARAMETERS)

    async def sign_in(self, password: str = PASSWORD, address: str = HOME, email: str = EMAIL) -> Actor:
        return await self.basic.authenticate(BasicCredentials(email, password), address)

    async def use(self, actor: Actor) -> str:
        """Make a request as this caller."""
        async with self.database.connection() as connection:
            return (await self.lookups.bind(connection, actor).caller()).id

    async def set_password(self, password: str) -> None:
        async with self.database.connection() as connection:
            await users.set_password(connection, id=self.ann, password_hash=QUICK_HASHES.hash(password))


@pytest.fixture
async def world(database: Database) -> World:
    async with database.transaction() as connection:
        organization = await make_organization(connection)
        ann = await make_user(connection, EMAIL, HASH, organization.id)
    return World(database, ann)


async def test_the_right_password_names_the_caller(world: World) -> None:
    actor = await world.sign_in()
    assert (actor.user_id, actor.email, actor.name, actor.address) == (world.ann, EMAIL.lower(), "Ann", HOME)
    assert actor.method is Method.BASIC
    assert await world.use(actor) == world.ann


async def test_the_case_of_the_email_address_does_not_matter(world: World) -> None:
    assert (await world.sign_in(email="aNN@eXAMPLE.ORG")).user_id == world.ann


async def test_the_spelling_of_the_account_earns_no_free_attempts(world: World) -> None:
    for number in range(10):
        with pytest.raises(NotAuthenticated):
            await world.sign_in(f"wrong {number}", email=EMAIL.lower())
    with pytest.raises(TooManyRequests):
        await world.sign_in("wrong", email=EMAIL.upper())


@pytest.mark.anyio
@pytest.mark.parametrize("password", ["", "wrong", PASSWORD.upper(), PASSWORD + " ", pytest.param(HASH, id="hash")])
async def test_a_wrong_password_is_refused(world: World, password: str) -> None:
    with pytest.raises(NotAuthenticated, match="email address or the password is wrong"):
        await world.sign_in(password)


async def test_unknown_disabled_and_passwordless_accounts_are_refused_alike_after_a_verification(world: World) -> None:
    async with world.database.connection() as connection:
        await make_user(connection, "invited@example.org")
        disabled = await make_user(connection, "disabled@example.org", HASH)
        await users.set_enabled(connection, id=disabled, enabled=False)
    answers = set()
    for email in ("unknown@example.org", "invited@example.org", "disabled@example.org", EMAIL):
        with pytest.raises(NotAuthenticated) as caught:
            await world.sign_in("wrong" if email == EMAIL else PASSWORD, email=email)
        answers.add(caught.value.messages)
    assert len(answers) == 1
    assert world.passwords.verified == 4


async def test_what_was_verified_is_kept_for_minutes(world: World) -> None:
    await world.sign_in()
    await world.sign_in()
    assert world.passwords.verified == 1
    world.clock.advance(VERIFIED_CREDENTIALS_S - 1)
    await world.sign_in()
    assert world.passwords.verified == 1
    world.clock.advance(1)
    await world.sign_in()
    assert world.passwords.verified == 2


async def test_a_kept_verification_is_for_exactly_these_credentials(world: World) -> None:
    await world.sign_in()
    with pytest.raises(NotAuthenticated):
        await world.sign_in("wrong")
    with pytest.raises(NotAuthenticated):
        await world.sign_in(email="other@example.org")


async def test_nothing_kept_in_memory_shows_the_password(world: World) -> None:
    await world.sign_in()
    kept = repr(vars(world.basic))
    assert PASSWORD not in kept
    assert b64encode(PASSWORD.encode()).decode() not in kept


async def test_a_changed_password_counts_for_the_very_next_request(world: World) -> None:
    await world.use(await world.sign_in())
    await world.set_password("new")
    with pytest.raises(NotAuthenticated, match="was changed"):
        await world.use(await world.sign_in())
    with pytest.raises(NotAuthenticated, match="is wrong"):
        await world.sign_in()
    assert await world.use(await world.sign_in("new")) == world.ann


async def test_a_disabled_user_is_refused_with_the_very_next_request_and_welcome_when_enabled_again(
    world: World,
) -> None:
    await world.use(await world.sign_in())
    async with world.database.connection() as connection:
        await users.set_enabled(connection, id=world.ann, enabled=False)
    with pytest.raises(NotAuthenticated, match="disabled"):
        await world.use(await world.sign_in())
    async with world.database.connection() as connection:
        await users.set_enabled(connection, id=world.ann, enabled=True)
    assert await world.use(await world.sign_in()) == world.ann


async def test_a_hash_of_older_parameters_is_renewed_at_sign_in_and_ends_no_session(world: World) -> None:
    server = world.with_slow_hashes()
    actor = await server.sign_in()
    async with world.database.connection() as connection:
        row = await users.get_credentials(connection, email=EMAIL.lower())
    assert row is not None
    assert row.password_hash is not None
    assert row.password_hash.startswith("$argon2id$v=19$m=19456,t=2,p=1$")
    assert await server.use(actor) == world.ann
    server.clock.advance(VERIFIED_CREDENTIALS_S)
    await server.sign_in()


async def test_the_same_credentials_sent_many_times_at_once_cost_one_verification(world: World) -> None:
    server = world.with_slow_hashes()
    actors = await asyncio.gather(*(server.sign_in() for _ in range(50)))
    assert {actor.user_id for actor in actors} == {world.ann}
    assert server.passwords.verified == 1


async def test_a_client_that_goes_away_does_not_end_the_verification_of_the_others(world: World) -> None:
    server = world.with_slow_hashes()
    first = asyncio.ensure_future(server.sign_in())
    await asyncio.sleep(0)
    second = asyncio.ensure_future(server.sign_in())
    await asyncio.sleep(0)
    first.cancel()
    assert (await second).user_id == world.ann


async def test_guessing_is_blocked_and_costs_no_verification_any_more(world: World) -> None:
    guesses = await asyncio.gather(
        *(world.sign_in(f"guess {number}", ATTACKER) for number in range(30)), return_exceptions=True
    )
    assert [type(guess) for guess in guesses].count(NotAuthenticated) == 10
    assert [type(guess) for guess in guesses].count(TooManyRequests) == 20
    assert world.passwords.verified == 10
    with pytest.raises(TooManyRequests):
        await world.sign_in(PASSWORD, "192.0.2.200")


async def test_guesses_from_everywhere_are_blocked_but_not_the_owner_who_was_here_before(world: World) -> None:
    await world.sign_in()
    world.clock.advance(VERIFIED_CREDENTIALS_S)
    for number in range(10):
        with pytest.raises(NotAuthenticated):
            await world.sign_in(f"guess {number}", f"203.0.113.{number}")
    with pytest.raises(TooManyRequests) as refused:
        await world.sign_in("guess", "203.0.113.99")
    assert 50 < refused.value.retry_after_s <= 60
    assert (await world.sign_in(PASSWORD, HOME)).user_id == world.ann, "the owner is not locked out"


async def test_the_same_wrong_password_counts_once_and_others_are_not_stored(world: World) -> None:
    for _ in range(15):
        with pytest.raises(NotAuthenticated):
            await world.sign_in("yesterday's password")
    assert (await world.sign_in()).user_id == world.ann
    async with world.database.connection() as connection:
        cursor = await connection.execute("SELECT hash FROM wrong_passwords")
        [(kept,)] = await cursor.fetchall()
        levels = await (await connection.execute("SELECT max(level) FROM wrong_sign_ins")).fetchone()
    assert levels == (1.0,)
    assert "yesterday" not in kept


async def test_a_right_password_writes_nothing(world: World) -> None:
    await world.sign_in()
    async with world.database.connection() as connection:
        cursor = await connection.execute(
            "SELECT (SELECT count(*) FROM wrong_sign_ins) + (SELECT count(*) FROM wrong_passwords)"
        )
        assert await cursor.fetchone() == (0,)


@pytest.mark.slow
async def test_a_right_password_is_accepted_at_an_address_where_others_were_wrong(world: World) -> None:
    async with world.database.connection() as connection:
        await make_user(connection, "bob@example.org", HASH)
    for number in range(110):
        with pytest.raises((NotAuthenticated, TooManyRequests)):
            await world.sign_in("wrong", HOME, f"user{number}@example.org")
    with pytest.raises(TooManyRequests):
        await world.sign_in("wrong", HOME, "one-more@example.org")
    assert (await world.sign_in(PASSWORD, HOME)).user_id == world.ann
    assert (await world.sign_in(PASSWORD, HOME, "bob@example.org")).email == "bob@example.org"


@pytest.mark.slow
async def test_a_flood_of_an_address_gets_503_and_leaves_the_verifier_to_others(world: World) -> None:
    for number in range(110):
        with pytest.raises((NotAuthenticated, TooManyRequests)):
            await world.sign_in("wrong", ATTACKER, f"user{number}@example.org")
    server = world.with_slow_hashes()
    flood = [
        asyncio.create_task(server.sign_in("wrong", ATTACKER, f"another{number}@example.org")) for number in range(60)
    ]
    while server.passwords.verified < 60:
        await asyncio.sleep(0)
    assert (await server.sign_in(PASSWORD, HOME)).user_id == world.ann
    results = await asyncio.gather(*flood, return_exceptions=True)
    overloaded = [result for result in results if isinstance(result, Unavailable)]
    assert len(overloaded) >= 60 - PASSWORD_VERIFICATIONS - PASSWORD_VERIFICATIONS_WAITING // 2 - 10
    assert all(result.retry_after_s >= 1 for result in overloaded)
    assert {type(result) for result in results} == {Unavailable, TooManyRequests}


async def test_another_server_counts_the_same_attempts_and_a_restart_forgets_none(world: World) -> None:
    for number in range(5):
        with pytest.raises(NotAuthenticated):
            await world.sign_in(f"guess {number}", ATTACKER)
    other = World(world.database, world.ann)
    for number in range(5, 10):
        with pytest.raises(NotAuthenticated):
            await other.sign_in(f"guess {number}", ATTACKER)
    for server in (world, other, World(world.database, world.ann)):
        with pytest.raises(TooManyRequests):
            await server.sign_in("guess", ATTACKER)


async def test_a_bucket_leaks_and_the_count_never_passes_its_capacity(world: World) -> None:
    for number in range(10):
        with pytest.raises(NotAuthenticated):
            await world.sign_in(f"guess {number}", ATTACKER)
    for minute in range(3):
        async with world.database.connection() as connection:
            await connection.execute("UPDATE wrong_sign_ins SET at = at - interval '1 minute'")
        with pytest.raises(NotAuthenticated):
            await world.sign_in(f"another {minute}", ATTACKER)
        with pytest.raises(TooManyRequests) as refused:
            await world.sign_in(f"too early {minute}", ATTACKER)
        assert refused.value.retry_after_s <= 60


async def test_a_block_is_recorded_once_for_the_organizations_of_the_account(world: World) -> None:
    for email in (EMAIL, "unknown@example.org"):
        for number in range(12):
            with pytest.raises((NotAuthenticated, TooManyRequests)):
                await world.sign_in(f"guess {number}", ATTACKER, email)
    async with world.database.connection() as connection:
        cursor = await connection.execute("SELECT actor_id, operation, address FROM audit_entries")
        assert await cursor.fetchall() == [(world.ann, "block_sign_in", ATTACKER)]


async def test_what_was_verified_goes_on_through_a_block_of_the_same_address(world: World) -> None:
    await world.sign_in()
    for number in range(10):
        with pytest.raises(NotAuthenticated):
            await world.sign_in(f"typo {number}")
    with pytest.raises(TooManyRequests):
        await world.sign_in("typo")
    assert (await world.sign_in()).user_id == world.ann


async def test_a_database_that_is_away_counts_no_attempt_and_keeps_no_task(world: World) -> None:
    await world.database.close()
    for number in range(20):
        with pytest.raises(Unavailable):
            await world.sign_in(f"any {number}")
    assert not world.basic._in_flight
