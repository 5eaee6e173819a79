"""A member without a role sees nothing of what others have and do: no names, addresses, comments or IDs."""

import re

import pytest

from launchbay.app.features import PAGES
from tests.support.matrix import NEED_A_PROVIDER, NEED_A_TOKEN_OF_THEIR_OWN, ROWS, columns_of
from tests.support.service import PERSON_PASSWORD, Person, accepted, person, refused
from tests.support.worlds import ADMINISTRATOR, World

_ID = re.compile(r"(?<![0-9a-f])[0-9a-f]{24}(?![0-9a-f])")
_EMAIL = re.compile(r"[\w.+-]+@[\w-]+(?:\.[\w-]+)+")
_COMMENT = "a comment of somebody else"
_OTHERS = {
    *NEED_A_PROVIDER,
    *NEED_A_TOKEN_OF_THEIR_OWN,
    *("openapi", "browse_api"),  # examples have IDs
    "invitation_page",  # for who has the link
    "read_issuer_keys",  # public keys have IDs
    "list_zones",  # the organization's own, which nobody made
}
READS = [name for name, row in ROWS.items() if row.method == "GET" and name not in _OTHERS]


def foreign(text: str, known: str) -> set[str]:
    """Return the IDs, addresses and comments in a text that its reader didn't bring along."""
    found = {*_ID.findall(text), *_EMAIL.findall(text), *([_COMMENT] if _COMMENT in text else [])}
    return {each for each in found if each not in known}


@pytest.fixture(scope="module")
async def nobody(world: World) -> Person:
    """Make a member without a role, and fill the lists with what others began, with comments."""
    api, home = world.home.api, world.home
    instance, within = await home.settled(), home.organization
    destroy = {"act": "destroy", "ids": [instance], "comment": _COMMENT}
    files = {"act": "apply", "files": {"roles/Seen by nobody.yaml": "- Read: [/*]\n"}, "comment": _COMMENT}
    run = {"name": _COMMENT, "cron": "0 0 1 1 *", "bulk": {"act": "run", "workflow": "greet", "ids": [instance]}}
    for kind, body in (
        ("change-sets", destroy),
        ("change-sets", files),
        ("rollouts", {**await home.rollout_body(), "comment": _COMMENT}),
        ("recurring-schedules", run),
    ):
        accepted(await api.post(f"{within}/{kind}", body))
    await home.bulk()
    return await person(api)


@pytest.mark.slow
@pytest.mark.parametrize("name", READS)
async def test_no_answer_shows_a_member_without_a_role_what_is_of_others(
    world: World, nobody: Person, name: str
) -> None:
    administrator = next(actor for actor in world.actors if actor.name == ADMINISTRATOR)
    sent = await next(iter(columns_of(ROWS[name], world).values())).build(administrator)
    answer = await nobody.client.request(sent.method, f"http://launchbay{sent.path}")
    if answer.status_code == 200:  # the matrix looks at refusals
        known = f"{sent.path} {world.home.api.organization} {nobody.id} {nobody.email} {answer.headers['x-request-id']}"
        assert foreign(answer.text, known) == set()


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["change-sets", "rollouts", "bulk", "recurring-schedules"])
async def test_lists_of_what_others_began_are_empty_and_the_administrator_sees_them(
    world: World, nobody: Person, kind: str
) -> None:
    path = f"{world.home.organization}/{kind}"
    assert accepted(await nobody.get(path)) == []
    rows = accepted(await world.home.api.get(path))
    assert rows
    for row in rows:
        refused(await nobody.get(f"{kind}/{row['id']}"), 403, "NotAllowed")


@pytest.mark.slow  # each page of an organization
async def test_no_page_of_the_organization_shows_a_member_without_a_role_what_is_of_others(
    world: World, nobody: Person
) -> None:
    api, who = world.home.api, nobody
    told: dict[str, set[str]] = {}
    shown = 0
    async with world.client(world.actors[0]) as client:
        form = {"email": who.email, "password": PERSON_PASSWORD}
        await client.post("/console/signIn", data=form, headers={"Sec-Fetch-Site": "same-origin"})
        for page in PAGES:
            path = page.path.replace("{id}", api.organization)
            if page.method != "GET" or "/organizations/{id}" not in page.path or "{" in path or "events" in path:
                continue
            answer = await client.get(path)
            if answer.status_code != 200:
                continue  # the sentence of a refusal may name an ID that nothing has
            shown += 1
            known = f"{api.organization} {who.id} {who.email} {answer.headers['x-request-id']}"
            if found := foreign(answer.text, known):
                told[page.path] = found
    assert told == {}
    assert shown > 10
