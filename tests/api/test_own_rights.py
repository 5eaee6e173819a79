"""ManageRoles is bounded by its holder's own rights, whatever the door (docs/reference/permissions.md)."""

import random
from collections.abc import Awaitable, Callable, Sequence

import httpx
import pytest

from launchbay.auth import gate, permissions
from launchbay.auth.gate import Grants, RoleEntry, RoleGrants, read_role_text
from launchbay.auth.permissions import Permission
from launchbay.ids import new_id
from tests.support.pages import browser
from tests.support.service import (
    PERSON_PASSWORD,
    Api,
    Caller,
    Person,
    accepted,
    fresh_email,
    fresh_name,
    person,
    refused,
)

# What it takes to reach every door; nothing of it is part of the generated rights.
DOORS_NEED = ("Read: [/*]", "ManageRoles: [/*]", "ManageUsers: [/*]", "EditEnvironment: [/*]")
_CHANCE = random.Random(32)
_ONE, _OTHER, _NEW = (new_id() for _ in range(3))
_PATTERNS = [
    "/*",
    "/applications/*",
    f"/applications/{_ONE}",
    f"/applications/{_ONE}/instances/*",
    "/environments/*",
    f"/environments/{_ONE}",
    "/services/*",
]
_PERMISSIONS = [Permission.CREATE_INSTANCE, Permission.EDIT_INSTANCE, Permission.EDIT_SERVICE]


def some_rights() -> tuple[str, ...]:
    chosen = _CHANCE.sample(_PERMISSIONS, _CHANCE.choice([1, 1, 2]))
    return tuple(f"{each}: [{', '.join(_CHANCE.sample(_PATTERNS, _CHANCE.choice([1, 1, 2])))}]" for each in chosen)


PAIRS = [(some_rights(), some_rights()) for _ in range(8)]


def text_of(entries: Sequence[str]) -> str:
    return "".join(f"- {entry}\n" for entry in entries)


def allowed_by(entries: tuple[RoleEntry, ...]) -> set[tuple[str, ...]]:
    """Return all that the entries allow, of a small world that has each kind of object named and unnamed."""
    grants = Grants((RoleGrants("role", entries),))
    ids = (_ONE, _OTHER, _NEW)
    firsts = [
        *(permissions.application(each) for each in ids),
        *(permissions.instance(each, other) for each in ids for other in ids),
        *(permissions.environment(each) for each in ids),
        *(permissions.service(each) for each in ids),
    ]
    seconds = [(), *((permissions.environment(each),) for each in ids)]
    return {
        (permission, str(first), *map(str, second))
        for permission in _PERMISSIONS
        for first in firsts
        for second in seconds
        if first.kind != "environments" or not second
        if gate.decide(grants, permission, (first, *second)).allowed
    }


def is_part(wanted: Sequence[str], own: Sequence[str]) -> bool:
    """Whether the set of what is wanted is a part of the set of what is held."""
    return allowed_by(read_role_text(text_of(wanted))) <= allowed_by(read_role_text(text_of(own)))


def test_nothing_passes_that_the_holder_lacks_and_what_one_kind_of_object_has_always_passes() -> None:
    passed = 0
    for _ in range(600):
        own, wanted = some_rights(), some_rights()
        grants = Grants((RoleGrants("role", read_role_text(text_of(own))),))
        is_free = not gate.beyond(grants, read_role_text(text_of(wanted)))
        passed += is_free
        if is_free:
            assert is_part(wanted, own), (own, wanted)
        kinds = [{pattern.split("/")[1] for pattern in entry.split("[")[1].split(", ")} for entry in (*own, *wanted)]
        if all(len(each) == 1 for each in kinds):  # an entry of several kinds is compared as a whole
            assert is_free is is_part(wanted, own), (own, wanted)
    assert 30 < passed < 570


def test_a_scope_bounds_what_a_token_may_give() -> None:
    role = RoleGrants("role", read_role_text("- Read: [/*]\n- EditService: [/*]\n"))
    grants = Grants((role,), scope=RoleGrants("token", read_role_text("- Read: [/applications/*]\n")))
    for text, lacking in (
        ("- Read: [/applications/*]\n", []),
        ("- Read: [/services/*]\n", ["Read: [/services/*]"]),
        ("- EditService: [/*]\n", ["EditService: [/*]"]),
        ("- EditApplication: [/*]\n", ["EditApplication: [/*]"]),
    ):
        assert [str(each) for each in gate.beyond(grants, read_role_text(text))] == lacking


Door = Callable[[Api, Person, str, str], Awaitable[httpx.Response]]
DOORS: dict[str, Door] = {}


def door(function: Door) -> Door:
    """Note a way to hand out rights: called with the holder, the text wanted, and a role that has it."""
    DOORS[function.__name__] = function
    return function


def within(api: Api) -> str:
    return f"organizations/{api.organization}"


async def new_role(api: Api, text: str) -> str:
    name = fresh_name("role")
    accepted(await api.post(f"{within(api)}/roles", {"name": name, "permissions": text}))
    return name


async def role_id(api: Api, name: str) -> str:
    rows = accepted(await api.get(f"{within(api)}/roles"))
    return next(str(row["id"]) for row in rows if row["name"] == name)


async def service_account(api: Api, *roles: str) -> str:
    body = {"name": fresh_name("account"), "description": "", "roles": list(roles)}
    return str(accepted(await api.post(f"{within(api)}/serviceAccounts", body))["id"])


@door
async def create_role(api: Api, who: Person, text: str, role: str) -> httpx.Response:
    return await who.post(f"{within(api)}/roles", {"name": fresh_name("role"), "permissions": text})


@door
async def update_role(api: Api, who: Person, text: str, role: str) -> httpx.Response:
    name = await new_role(api, "")
    return await who.put(f"roles/{await role_id(api, name)}", {"name": name, "permissions": text})


@door
async def assign_to_themselves(api: Api, who: Person, text: str, role: str) -> httpx.Response:
    return await who.put(f"{within(api)}/users/{who.id}/roles", [role])


@door
async def offer_to_somebody_invited(api: Api, who: Person, text: str, role: str) -> httpx.Response:
    _, organization, _ = await api.outsider()
    outsider = await person(api, organization=organization, by=(await api.member(*_ALL, organization=organization)))
    accepted(await api.post(f"{within(api)}/users", {"email": outsider.email, "name": "Invited"}))
    return await who.put(f"{within(api)}/users/{outsider.id}/roles", [role])


_ALL = tuple(f"{each}: [/*]" for each in Permission)


@door
async def create_user(api: Api, who: Person, text: str, role: str) -> httpx.Response:
    return await who.post(f"{within(api)}/users", {"email": fresh_email(), "name": "New", "roles": [role]})


@door
async def invite_an_account(api: Api, who: Person, text: str, role: str) -> httpx.Response:
    _, organization, _ = await api.outsider()
    outsider = await person(api, organization=organization, by=(await api.member(*_ALL, organization=organization)))
    return await who.post(f"{within(api)}/users", {"email": outsider.email, "name": "New", "roles": [role]})


@door
async def create_service_account(api: Api, who: Person, text: str, role: str) -> httpx.Response:
    return await who.post(f"{within(api)}/serviceAccounts", {"name": "x", "description": "", "roles": [role]})


@door
async def assign_to_a_service_account(api: Api, who: Person, text: str, role: str) -> httpx.Response:
    return await who.put(f"{within(api)}/users/{await service_account(api)}/roles", [role])


@door
async def token_of_a_service_account(api: Api, who: Person, text: str, role: str) -> httpx.Response:
    owner = await service_account(api, role)
    return await who.post(f"{within(api)}/accessTokens", {"name": "x", "owner": owner})


@door
async def token_with_a_scope_of_a_service_account(api: Api, who: Person, text: str, role: str) -> httpx.Response:
    owner = await service_account(api, role)
    scope = [line.removeprefix("- ") for line in text.splitlines()]
    return await who.post(f"{within(api)}/accessTokens", {"name": "x", "owner": owner, "scope": scope})


@door
async def map_a_group(api: Api, who: Person, text: str, role: str) -> httpx.Response:
    mapped = accepted(await api.get(f"{within(api)}/groupRoles"))
    return await who.put(f"{within(api)}/groupRoles", [*mapped, {"group": fresh_name("group"), "roles": [role]}])


@door
async def directory_as_a_change_set(api: Api, who: Person, text: str, role: str) -> httpx.Response:
    body = {"act": "apply", "files": {f"roles/{fresh_name('role')}.yaml": text}}
    return await who.post(f"{within(api)}/change-sets", body)


@door
async def change_set_of_somebody_else(api: Api, who: Person, text: str, role: str) -> httpx.Response:
    body = {"act": "apply", "files": {f"roles/{fresh_name('role')}.yaml": text}}
    made = accepted(await api.post(f"{within(api)}/change-sets", body))
    return await who.post(f"change-sets/{made['id']}/apply")


@door
async def source_in_git(api: Api, who: Person, text: str, role: str) -> httpx.Response:
    body = {"name": fresh_name("source"), "accountId": await service_account(api, role), "paused": True}
    return await who.post(f"{within(api)}/git-sources", {**body, "url": "https://git.example.org/x.git"})


@door
async def form_of_a_new_role(api: Api, who: Person, text: str, role: str) -> httpx.Response:
    return await _form(who, f"/console/{within(api)}/roles", name=fresh_name("role"), permissions=text)


@door
async def form_of_a_new_user(api: Api, who: Person, text: str, role: str) -> httpx.Response:
    return await _form(who, f"/console/{within(api)}/users", email=fresh_email(), name="New", role=role)


@door
async def form_of_a_users_roles(api: Api, who: Person, text: str, role: str) -> httpx.Response:
    other = await person(api)
    return await _form(who, f"/console/{within(api)}/users/{other.id}/roles", role=role)


@door
async def form_of_a_group(api: Api, who: Person, text: str, role: str) -> httpx.Response:
    return await _form(who, f"/console/{within(api)}/groupRoles", group=fresh_name("group"), add=role)


async def _form(who: Person, path: str, **fields: str) -> httpx.Response:
    """Send a form of the console; another page than an error is a success."""
    async with browser_of[who.id] as client:
        await client.post("/console/signIn", data={"email": who.email, "password": PERSON_PASSWORD})
        page = await client.get("/console/account")
        token = page.text.partition('name="formToken" value="')[2].partition('"')[0]
        return await client.post(path, data={"formToken": token, **fields})


browser_of: dict[str, httpx.AsyncClient] = {}


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(DOORS))
async def test_a_door_gives_exactly_what_is_a_part_of_the_holders_rights(api: Api, name: str) -> None:
    outcomes = set()
    for own, wanted in PAIRS:
        who = await person(api, await new_role(api, text_of([*DOORS_NEED, *own])))
        browser_of[who.id] = browser(api)
        grants = Grants((RoleGrants("role", read_role_text(text_of(own))),))
        is_free = not gate.beyond(grants, read_role_text(text_of(wanted)))
        assert is_part(wanted, own) or not is_free
        answer = await DOORS[name](api, who, text_of(wanted), await new_role(api, text_of(wanted)))
        outcomes.add(is_free)
        if is_free:
            assert answer.status_code in {200, 303}, (own, wanted, answer.text)
        else:
            assert answer.status_code == 403, (own, wanted, answer.text)
            assert "rights beyond their own" in answer.text
    assert outcomes == {True, False}


async def test_who_manages_one_role_cannot_make_an_administrator_of_themselves(api: Api) -> None:
    name = await new_role(api, "- Read: [/*]\n")
    number = await role_id(api, name)
    own = await new_role(api, f"- ManageRoles: [/roles/{number}, /users/*]\n- Read: [/*]\n")
    who = await person(api, own)
    everything = text_of(_ALL)
    sentence = refused(await who.put(f"roles/{number}", {"name": name, "permissions": everything}), 403)
    assert "you lack CreateApplication: [/*]; EditApplication: [/*]" in sentence
    accepted(await who.put(f"{within(api)}/users/{who.id}/roles", [name]))
    check = accepted(await who.post(f"{within(api)}/roles/check", {"roleId": number, "permissions": everything}))
    assert "CreateApplication: [/*]: you lack this yourself, so you can't give it." in check["errors"]
    # A token within these rights is bounded as well, whatever its owner may do.
    body = {"name": "x", "scope": [f"ManageRoles: [/roles/{number}, /users/*]", "Read: [/*]"]}
    program = api.caller(f"Bearer {accepted(await api.post(f'{within(api)}/accessTokens', body))['token']}")
    refused(await program.put(f"roles/{number}", {"name": name, "permissions": everything}), 403, "BeyondOwnRights")
    assert accepted(await api.get(f"roles/{number}"))["permissions"] == "- Read: [/*]\n"


async def test_a_role_keeps_what_others_gave_it_when_somebody_with_less_renames_or_narrows_it(api: Api) -> None:
    name = await new_role(api, "- Read: [/*]\n- EditService: [/*]\n- ViewAudit: [/*]\n")
    number = await role_id(api, name)
    who = await person(api, await new_role(api, f"- ManageRoles: [/roles/{number}, /users/*]\n"))
    for text in ("- Read: [/*]\n- EditService: [/*]\n- ViewAudit: [/*]\n", "- EditService: [/services/*]\n", ""):
        accepted(await who.put(f"roles/{number}", {"name": fresh_name("renamed"), "permissions": text}))
    refused(await who.put(f"roles/{number}", {"name": name, "permissions": "- Read: [/*]\n"}), 403, "BeyondOwnRights")
    other = await person(api, "Guest")
    accepted(await api.put(f"roles/{number}", {"name": name, "permissions": "- ViewAudit: [/*]\n"}))
    accepted(await api.put(f"{within(api)}/users/{other.id}/roles", [name]))
    # What nobody gains by needs no rights.
    accepted(await who.delete(f"{within(api)}/users/{other.id}/roles", [name]))


@pytest.mark.features("directories")
async def test_an_archive_makes_its_importer_administrator_of_the_new_organization_alone(api: Api) -> None:
    text = text_of(_ALL)
    archive = {
        "version": 1,
        "name": fresh_name("imported"),
        "services": {},
        "environments": {"default": {"default": True}},
        "applications": {},
        "roles": {"Everything": {"permissions": text}},
        "users": {},
        "mentions": {},
        "holes": [],
    }
    who: Caller = await person(api, await new_role(api, text_of(DOORS_NEED)))
    before = accepted(await api.get(f"{within(api)}/roles"))
    answer = await who.post("archives", {"archive": archive})
    if answer.status_code == 200:  # may create organizations
        assert accepted(await api.get(f"{within(api)}/roles")) == before
        refused(await who.post(f"{within(api)}/roles", {"name": "x", "permissions": text}), 403, "BeyondOwnRights")
    else:
        refused(answer, 403, "NotAllowed")


async def test_a_person_with_all_rights_gives_all_of_them_without_being_the_built_in_administrator(api: Api) -> None:
    who = await person(api, await new_role(api, text_of(_ALL)))
    accepted(await who.put(f"{within(api)}/users/{who.id}/roles", ["Administrator", "Guest"]))
