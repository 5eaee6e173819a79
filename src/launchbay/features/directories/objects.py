"""Objects of an organization by name, as a directory holds them.

Features offer how their kinds are read and made; `contents.py` has the form of all. Reading leaves out what can't be
in a file and says so in a sentence. Making an object goes through the use cases of its kind, with their permissions.
Secrets stay where they are; a new object may lack them until somebody sets them.
"""

import re
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import msgspec

from launchbay.errors import BadRequest, FieldErrors, LaunchbayError, NotAllowed
from launchbay.features.directories.contents import (
    KINDS,
    Member,
    Noun,
    Service,
    ServiceAccount,
    as_values,
)
from launchbay.ids import with_names
from launchbay.model.email_address import canonical_email
from launchbay.service_types.builtin import CATALOG
from launchbay.service_types.contract import REDACTED
from launchbay.service_types.secrets import SECRET_NAME, VAULT, is_reference, parse_reference
from launchbay.store import organizations
from launchbay.usecases import (
    applications,
    environments,
    revisions,
    roles,
    service_accounts,
    services,
    users,
)
from launchbay.usecases.context import Context
from launchbay.usecases.sign_in import Invitation


class DirectoryObject(NamedTuple):
    """An object: values in the form of its kind, and where roles allow it.

    `reason` says why an export leaves it out. One that no file can describe has no content.
    """

    kind: Noun
    id: str
    name: str
    content: dict[str, Any]
    at: tuple[str, ...]
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Listing:
    """Readable objects, and a sentence for each thing that a directory lacks.

    `unexported` are schedules that exist, and that an export leaves out.
    """

    objects: list[DirectoryObject]
    omitted: list[str]
    unexported: list[DirectoryObject] = field(default_factory=list)


class CreatedObject(NamedTuple):
    """An object that was made or changed. A new user gets an invitation."""

    id: str
    invitation: Invitation | None = None


class Omitted(Exception):
    """Why an object can't be in a directory."""


_ENTRIES = {"secret": "secret", "key-pair": "key pair"}  # what a vault keeps


@dataclass(slots=True)
class Names:
    """Names of what objects refer to, by ID; read once, when they are needed."""

    ctx: Context
    organization_id: str
    _found: dict[str, dict[str, str]] = field(default_factory=dict)
    _shared: dict[str, set[str]] = field(default_factory=dict)

    async def of(self, kind: str) -> dict[str, str]:
        """Return the names of a kind by ID."""
        if kind not in self._found:
            self._found[kind] = dict(await self._listed(kind))
            counts = Counter(self._found[kind].values())
            self._shared[kind] = {name for name, count in counts.items() if count > 1}
        return self._found[kind]

    async def _listed(self, kind: str) -> list[tuple[str, str]]:
        ctx, organization_id = self.ctx, self.organization_id
        if kind == "service":
            return [(each.id, each.name) for each in await services.list_services(ctx, organization_id)]
        if kind == "service account":
            found = await service_accounts.list_service_accounts(ctx, organization_id)
            return [(each.id, each.name) for each in found]
        if kind == "application":
            return [(each.id, each.name) for each in await applications.list_applications(ctx, organization_id)]
        if kind == "environment":
            return [(each.id, each.name) for each in await environments.list_environments(ctx, organization_id)]
        if kind == "user":
            people = await _people(ctx, organization_id)
            return [(number, email) for email, (number, _, _) in people.items()]
        assert kind == "revision", kind
        names = await self.of("application")
        return [
            (each.id, f"{names[each.application_id]}/{each.name}")
            for each in await revisions.list_all_revisions(ctx, organization_id)
            if each.application_id in names
        ]

    async def name(self, kind: str, number: str) -> str:
        """Return a name. Raises Omitted for a hidden or a shared one."""
        names = await self.of(kind)
        if number not in names:
            raise Omitted(f"it names the {kind} {number}, which you can't see")
        if names[number] in self._shared[kind]:
            raise Omitted(f"several objects are the {kind} '{names[number]}'")
        return names[number]

    async def number(self, kind: str, name: str) -> str:
        """Return the ID of a name. Raises BadRequest."""
        found = await self.numbers(kind, name)
        if not found:
            raise BadRequest(f"Unknown {kind} '{name[:100]}'.", code="InvalidDirectory")
        if len(found) > 1:
            raise _ambiguous(kind, name)
        return found[0]

    async def numbers(self, kind: str, name: str) -> list[str]:
        """Return the IDs of a name."""
        return [number for number, each in (await self.of(kind)).items() if each == name]

    def reword(self, text: str) -> str:
        """Return a message about IDs as one about the names that the author wrote."""
        names = {number: name for listed in self._found.values() for number, name in listed.items()}
        return _ID_FIELD.sub(r"\1:", with_names(text, names))


_ID_FIELD = re.compile(r"^(account|application|previews\.environment|environment|revision)Id:")


def _ambiguous(kind: str, name: str) -> BadRequest:
    return BadRequest(
        f"Several objects are the {kind} '{name[:100]}', and a directory knows names alone.",
        "Rename all but one.",
        code="AmbiguousName",
    )


@dataclass(frozen=True, slots=True)
class StoredKind:
    """How objects of a kind are read and made. A feature offers its own.

    `find` returns the IDs of a name. `put` makes an object of a name, or changes the one with an ID.
    """

    kind: Noun
    read: Callable[[Names, Listing], Awaitable[None]]
    find: Callable[[Names, str], Awaitable[list[str]]]
    put: Callable[[Names, str, str | None, Any], Awaitable[str | CreatedObject]]
    delete: Callable[[Context, str, str], Awaitable[None]]  # with the IDs of the organization and the object


@dataclass(frozen=True, slots=True)
class LeftOut:
    """Objects that no file can hold, offered by a feature.

    `read` adds a sentence for each.
    """

    read: Callable[[Names, Listing], Awaitable[None]]


async def list_directory_objects(ctx: Context, organization_id: str) -> Listing:
    """Return the objects that the caller may read."""
    names, found = Names(ctx, organization_id), Listing([], [])
    async with ctx.app.database.snapshot():
        stored = _stored_kinds(ctx)
        for kind in KINDS:
            if kind in stored:
                await stored[kind].read(names, found)
        for left_out in ctx.app.offered(LeftOut):
            await left_out.read(names, found)
    return Listing(
        sorted(found.objects, key=lambda each: (each.kind, each.name)), sorted(found.omitted), found.unexported
    )


async def _services(names: Names, found: Listing) -> None:
    for row in await services.describe_services(names.ctx, names.organization_id):
        parameters = dict(row.parameters)
        if parameters.pop(CATALOG, None):
            found.omitted.append(f"service '{row.name}': the shared instances, since it has no instances")
        for name, reference in row.references.items():
            vault = None
            if reference is not None and VAULT in reference:
                try:
                    vault = await names.name("service", reference[VAULT])
                except Omitted as why:
                    found.omitted.append(f"service '{row.name}': the parameter '{name}', since {why}")
                    continue
            if reference is None:
                found.omitted.append(f"service '{row.name}': the secret parameter '{name}'")
            else:
                parameters[name] = {SECRET_NAME: reference[SECRET_NAME]} | ({} if vault is None else {VAULT: vault})
        found.omitted.extend(
            f"service '{row.name}': the {_ENTRIES[kind]} '{entry}'" for kind, entry in row.entries if kind in _ENTRIES
        )
        content = Service(row.type_id, parameters)
        found.objects.append(DirectoryObject("service", row.id, row.name, as_values(content), ("service", row.id)))


async def _put_service(names: Names, name: str, existing: str | None, content: Service) -> str:
    ctx, given = names.ctx, dict(content.parameters)
    for each, value in given.items():
        if is_reference(value):
            try:
                secret, vault = parse_reference(value)
            except ValueError as error:
                raise BadRequest(f"{each}: {error}", code="InvalidDirectory") from None
            given[each] = {SECRET_NAME: secret}
            if vault is not None:
                given[each][VAULT] = await names.number("service", vault)
    kind = ctx.app.service_types.find(content.type)
    plain = [
        each
        for each, value in given.items()
        if kind is not None and each in kind.parameters and kind.parameters[each].secret
        if value is not None and value != REDACTED and not is_reference(value)
    ]
    if plain:
        raise BadRequest(
            f"{', '.join(plain)}: a directory holds no secrets. Write {{fromVault: SECRET, vault: SERVICE}}, "
            "or leave it out and set it in the service.",
            code="InvalidDirectory",
        )
    if existing is None:
        return await services.create_service(
            ctx,
            names.organization_id,
            name=name,
            type_id=content.type,
            zone_id=None,
            parameters={each: value for each, value in given.items() if value is not None},
            allows_holes=True,
        )
    view = await services.read_service(ctx, existing)
    if view.record.type_id != content.type:
        raise BadRequest(
            f"The service '{name}' has the type {view.record.type_id}, and a type can't change.",
            "Delete the service, or give the file another name.",
            code="InvalidDirectory",
        )
    gone = {each for each, value in view.parameters.items() if value != REDACTED} - {CATALOG} - set(given)
    try:
        await services.update_service(ctx, existing, None, {**dict.fromkeys(gone), **given}, allows_holes=True)
    except FieldErrors as error:  # only update and command of a service answer by field (reference §7)
        raise BadRequest(*error.messages, code="InvalidParameters") from None
    return existing


async def _service_accounts(names: Names, found: Listing) -> None:
    for row in await service_accounts.list_service_accounts(names.ctx, names.organization_id):
        content = ServiceAccount(row.description, row.enabled, sorted(row.roles))
        found.objects.append(DirectoryObject("service-account", row.id, row.name, as_values(content), ("user", row.id)))


async def _put_service_account(names: Names, name: str, existing: str | None, content: ServiceAccount) -> str:
    ctx, organization_id = names.ctx, names.organization_id
    held: Sequence[str] = content.roles
    enabled = True
    if existing is None:
        made = await service_accounts.create_service_account(
            ctx, organization_id, name=name, description=content.description, role_names=content.roles
        )
        existing = made.id
    else:
        row = await service_accounts.read_service_account(ctx, organization_id, existing)
        held, enabled = row.roles, row.enabled
        if row.description != content.description:
            await service_accounts.update_service_account(
                ctx, organization_id, existing, name=None, description=content.description, enabled=None
            )
    if enabled != content.enabled:
        await service_accounts.update_service_account(
            ctx, organization_id, existing, name=None, description=None, enabled=content.enabled
        )
    await _assign(ctx, organization_id, existing, held, content.roles)
    return existing


async def _assign(ctx: Context, organization_id: str, user_id: str, held: Sequence[str], wanted: Sequence[str]) -> None:
    """Give a member the roles of the file, and take the others."""
    if given := [each for each in wanted if each not in held]:
        await roles.assign_roles(ctx, organization_id, user_id, given)
    if taken := [each for each in held if each not in wanted]:
        await roles.revoke_roles(ctx, organization_id, user_id, taken)


async def _people(ctx: Context, organization_id: str) -> dict[str, tuple[str, str, list[str]]]:
    """Return members and invited people by email address: ID, name and roles."""
    found = {
        each.row.email: (each.row.id, each.row.name, each.row.roles)
        for each in await users.list_users(ctx, organization_id)
    }
    try:
        invited = await users.list_pending_members(ctx, organization_id)
    except NotAllowed:
        return found
    return {**{each.email: (each.id, each.name, each.roles) for each in invited}, **found}


async def _users(names: Names, found: Listing) -> None:
    for email, (number, name, held) in (await _people(names.ctx, names.organization_id)).items():
        content = Member(name, sorted(held))
        found.objects.append(DirectoryObject("user", number, email, as_values(content), ("user", number)))


async def _put_user(names: Names, name: str, existing: str | None, content: Member) -> CreatedObject:
    ctx, organization_id = names.ctx, names.organization_id
    if existing is None:
        made = await users.create_user(
            ctx, organization_id, email=name, name=content.name, password=None, role_names=content.roles
        )
        return CreatedObject(made.id, made.invitation)
    _, _, held = (await _people(ctx, organization_id))[canonical_email(name)]
    await _assign(ctx, organization_id, existing, held, content.roles)
    return CreatedObject(existing)


def within(what: str, value: int, least: int, most: int) -> int:
    if not least <= value <= most:
        raise BadRequest(f"{what} is {value}. Use {least} to {most}.", code="InvalidDirectory")
    return value


async def put_directory_object(
    ctx: Context, organization_id: str, kind: Noun, name: str, content: Mapping[str, Any]
) -> CreatedObject:
    """Make the object of this name, or change it to this content.

    Secrets that it has stay. Raises BadRequest for what can't be, and for a name that several objects have.
    """
    names = Names(ctx, organization_id)
    wanted: Any = msgspec.convert(content, KINDS[kind].content)
    async with ctx.begin() as work:
        organization = await work.lookup.organization(organization_id)
        # One after the other: of two that make the same name, the second changes what the first made.
        await organizations.lock(work.connection, organization_id=organization.id)
        with ctx.app.database.joined(work.connection):
            try:
                stored = _stored(ctx, kind)
                found = await stored.find(names, name)
                if len(found) > 1:
                    raise _ambiguous(kind, name)
                made = await stored.put(names, name, found[0] if found else None, wanted)
            except LaunchbayError as error:
                error.reword(names.reword)
                raise
    return made if isinstance(made, CreatedObject) else CreatedObject(made)


async def delete_directory_object(ctx: Context, organization_id: str, kind: Noun, number: str) -> None:
    """Delete an object, with the permissions of its kind."""
    await _stored(ctx, kind).delete(ctx, organization_id, number)


def _stored(ctx: Context, kind: Noun) -> StoredKind:
    try:
        return _stored_kinds(ctx)[kind]
    except KeyError:
        raise BadRequest(f"This server keeps no object of the kind {kind}.", code="InvalidDirectory") from None


def _stored_kinds(ctx: Context) -> dict[Noun, StoredKind]:
    kinds = [*_OF_KERNEL, *ctx.app.offered(StoredKind)]
    by_name = {each.kind: each for each in kinds}
    assert len(by_name) == len(kinds), "two features offer one kind"
    return by_name


async def _named_services(names: Names, name: str) -> list[str]:
    return await names.numbers("service", name)


async def _delete_service(ctx: Context, _organization_id: str, number: str) -> None:
    await services.delete_service(ctx, number)


async def _named_accounts(names: Names, name: str) -> list[str]:
    return await names.numbers("service account", name)


async def _named_users(names: Names, name: str) -> list[str]:
    email = canonical_email(name)
    people = await _people(names.ctx, names.organization_id)
    return [number for each, (number, _, _) in people.items() if each == email]


_OF_KERNEL = (
    StoredKind("service", _services, _named_services, _put_service, _delete_service),
    StoredKind(
        "service-account",
        _service_accounts,
        _named_accounts,
        _put_service_account,
        service_accounts.delete_service_account,
    ),
    StoredKind("user", _users, _named_users, _put_user, users.remove_user),
)
