"""Basic credentials as clients send them (reference §5; api-decisions "Authentication")."""

import base64

import pytest

from launchbay.ids import new_id
from launchbay.store import users
from tests.api.running import EMAIL, PASSWORD, Api, Caller, accepted, basic, refused


async def account(api: Api, password: str, email: str | None = None) -> tuple[str, str, Caller]:
    """Make a member and return id, e-mail address and caller."""
    user_id, email = new_id(), email or f"{new_id()}@example.org"
    async with api.database.transaction() as connection:
        hashed = await api.passwords.hash(password)
        await users.insert(connection, id=user_id, email=email, name="Somebody", password_hash=hashed)
        await users.join_organization(connection, organization_id=api.organization, user_id=user_id)
    return user_id, email, api.caller(basic(email, password))


def encoded(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


@pytest.mark.parametrize(
    "authorization",
    [
        None,
        "",
        " ",
        "Basic",
        "Basic ",
        "Basic !!!",
        "Basic " + encoded("no colon"),
        "Basic " + encoded(":no email"),
        "Basic " + encoded(f"{EMAIL}:{PASSWORD}") + "=",
        "Basic " + encoded(f"{EMAIL}:{PASSWORD}").rstrip("=") + "x",
        "Basic " + base64.b64encode(b"\xff\xfe:\xff").decode(),
        "Basic " + encoded(f"{EMAIL}:{PASSWORD}\n"),
        "Basic " + encoded(f"{EMAIL}:"),
        "Basic " + encoded("nobody@example.org:x"),
        "Digest username=admin",
        "Bearer",
        "Bearer nonsense",
        "Bearer a.b.c",
        encoded(f"{EMAIL}:{PASSWORD}"),
        f"{EMAIL}:{PASSWORD}",
    ],
    ids=repr,
)
async def test_anything_but_good_credentials_is_401(api: Api, authorization: str | None) -> None:
    answer = await api.caller(authorization).get("organizations")
    text = refused(answer, 401, "NotAuthenticated")
    assert answer.headers["www-authenticate"] == 'Basic realm="Launchbay"'
    assert PASSWORD not in text


@pytest.mark.parametrize("scheme", ["Basic", "basic", "BASIC"])
async def test_the_scheme_is_written_as_one_likes(api: Api, scheme: str) -> None:
    accepted(await api.caller(f"{scheme} {encoded(f'{EMAIL}:{PASSWORD}')}").get("organizations"))


@pytest.mark.parametrize("password", ["with:colons::", "Ünï 🚀", " spaces ", "x" * 1000, '"quoted"'])
async def test_a_password_may_hold_what_it_likes(api: Api, password: str) -> None:
    _, _, caller = await account(api, password)
    accepted(await caller.get("organizations"))


async def test_the_email_address_is_compared_without_case(api: Api) -> None:
    _, email, _ = await account(api, "secret", f"Some.Body{new_id()}@Example.org")
    for spelling in (email, email.lower(), email.upper()):
        accepted(await api.caller(basic(spelling, "secret")).get("organizations"))


async def test_an_unknown_account_and_a_wrong_password_sound_the_same(api: Api) -> None:
    _, email, _ = await account(api, "secret")
    wrong = refused(await api.caller(basic(email, "wrong")).get("organizations"), 401, "NotAuthenticated")
    unknown = refused(await api.caller(basic(f"{new_id()}@example.org", "wrong")).get("organizations"), 401)
    assert wrong == unknown


async def test_a_disabled_account_is_401_at_the_next_request(api: Api) -> None:
    user_id, _, caller = await account(api, "secret")
    accepted(await caller.get("organizations"))
    async with api.database.transaction() as connection:
        await users.set_enabled(connection, id=user_id, enabled=False)
    refused(await caller.get("organizations"), 401, "NotAuthenticated")


async def test_a_changed_password_counts_for_the_next_request(api: Api) -> None:
    user_id, email, caller = await account(api, "old")
    accepted(await caller.get("organizations"))
    async with api.database.transaction() as connection:
        await users.set_password(connection, id=user_id, password_hash=await api.passwords.hash("new"))
    refused(await caller.get("organizations"), 401, "NotAuthenticated")
    accepted(await api.caller(basic(email, "new")).get("organizations"))


async def test_an_account_without_a_password_lets_nobody_in(api: Api) -> None:
    user_id, email = new_id(), f"{new_id()}@example.org"
    async with api.database.transaction() as connection:
        await users.insert(connection, id=user_id, email=email, name="Invited", password_hash=None)
    for password in ("", "None", "null"):
        refused(await api.caller(basic(email, password)).get("organizations"), 401, "NotAuthenticated")


async def test_many_wrong_attempts_are_slowed_down_without_harm_to_others(api: Api) -> None:
    _, email, _ = await account(api, "secret")
    guess = api.caller(basic(email, "guess"))
    statuses = [(await guess.get("organizations")).status_code for _ in range(8)]
    assert statuses[:3] == [401] * 3
    assert statuses[-1] == 429
    answer = await guess.get("organizations")
    refused(answer, 429, "TooManyRequests")
    assert int(answer.headers["retry-after"]) >= 1
    accepted(await api.get("organizations"))


async def test_a_bad_bearer_token_is_401_even_beside_good_basic_credentials(api: Api) -> None:
    both = f"{basic(EMAIL, PASSWORD)}, Bearer nonsense"
    refused(await api.caller(both).get("organizations"), 401, "NotAuthenticated")
