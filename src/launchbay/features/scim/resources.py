"""The resources, filters and patches of SCIM, which the package `scim2-models` reads.

Where providers leave the standard, they are understood as they mean it: see docs/howto/scim.md.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any, NamedTuple, TypeVar

import msgspec
import pydantic
from pydantic import Field
from scim2_models import (
    URN,
    AuthenticationScheme,
    Bulk,
    ChangePassword,
    ComplexAttribute,
    Context,
    ETag,
    ExtensibleStringEnum,
    External,
    Filter,
    ListResponse,
    Meta,
    Mutability,
    Name,
    Patch,
    PatchOp,
    Reference,
    Required,
    Resource,
    ResourceType,
    Schema,
    SCIMException,
    ScimPolicy,
    SearchRequest,
    ServiceProviderConfig,
    Sort,
    Uniqueness,
)
from scim2_models.annotations import CaseExact
from scim2_models.messages.error import Error
from scim2_models.path import CompareOperator, Comparison, LogicalExpr, LogicalOperator

from launchbay.errors import BadRequest, LaunchbayError, MalformedBody, NotFound, PreconditionFailed
from launchbay.features.scim import usecases as scim
from launchbay.features.scim.door import MEDIA_TYPE, ScimRefused, detail_of, status_and_type
from launchbay.features.scim.usecases import FoundGroup, FoundPerson, GroupFilter, PeopleFilter, Person
from launchbay.limits import NAME_CHARS, QUERY_FIELDS, SCIM_FILTER_CHARS, SCIM_PAGE
from launchbay.model.email_address import canonical_email
from launchbay.urlencoded import decode_fields
from launchbay.web.conditions import matches, tag_of
from launchbay.web.json_reader import read_json
from launchbay.web.problems import MethodNotAllowed
from launchbay.web.wire import WireCall, WireReply

R = TypeVar("R", bound="Resource[Any]")


class Email(ComplexAttribute):
    """An email address."""

    class Type(ExtensibleStringEnum):
        """What it is for."""

        work = "work"
        home = "home"
        other = "other"

    value: Annotated[str | None, Required.true] = None
    display: str | None = None
    type: Type | None = None
    primary: bool | None = None


class GroupOfUser(ComplexAttribute):
    """A group that a user is in."""

    value: Annotated[str | None, Mutability.read_only, CaseExact.true] = None
    ref: Annotated[Reference["Group"] | None, Mutability.read_only] = Field(
        None, serialization_alias="$ref", validation_alias="$ref"
    )
    display: Annotated[str | None, Mutability.read_only] = None


class User(Resource[Any]):
    """The attributes of users that Launchbay keeps. Others are ignored."""

    __schema__ = URN("urn:ietf:params:scim:schemas:core:2.0:User")

    user_name: Annotated[str | None, Uniqueness.server, Required.true] = None
    name: Name | None = None
    display_name: str | None = None
    active: Annotated[bool | None, Required.true] = None
    emails: Annotated[list[Email] | None, Required.true] = None
    groups: Annotated[list[GroupOfUser] | None, Mutability.read_only] = None


class Member(ComplexAttribute):
    """A user who is in a group."""

    value: Annotated[str | None, Mutability.immutable, Required.true, CaseExact.true] = None
    ref: Annotated[Reference[User] | None, Mutability.immutable] = Field(
        None, serialization_alias="$ref", validation_alias="$ref"
    )


class Group(Resource[Any]):
    """A group of users."""

    __schema__ = URN("urn:ietf:params:scim:schemas:core:2.0:Group")

    display_name: Annotated[str | None, Uniqueness.server, Required.true] = None
    members: list[Member] | None = None


GroupOfUser.model_rebuild()

# What Entra and Okta send although the standard says otherwise: attributes that Launchbay doesn't know, the members to
# remove as a value, and a value for an entry that isn't there yet.
_POLICY = ScimPolicy(
    unknown=ScimPolicy.Unknown.ignore,
    remove_value_as_filter=ScimPolicy.RemoveValue.apply,
    unmatched_path_filter=ScimPolicy.UnmatchedPathFilter.create,
)
_NAMES: Mapping[str, type[Resource[Any]]] = {"User": User, "Group": Group}
_USER_FILTERS = {
    "id": "id",
    "username": "user_name",
    "externalid": "external_id",
    "displayname": "display_name",
    "active": "is_active",
}
_GROUP_FILTERS = {
    "id": "id",
    "externalid": "external_id",
    "displayname": "display_name",
    "members": "member_id",
    "members.value": "member_id",
}
_LISTS = frozenset({"ServiceProviderConfig", "ResourceTypes", "Schemas"})
# For the types of resources that only the path says.
_SEARCH: Any = SearchRequest
_LIST: Any = ListResponse
_PATCH: Any = PatchOp
_NOT_IMPLEMENTED = ("Me", "Bulk", ".search")


async def answer(call: WireCall) -> WireReply:
    """Answer a request of a provider. Raises LaunchbayError.

    What was refused to a provider is remembered for its organization.
    """
    organization_id = await scim.require_provisioner(call.ctx)
    try:
        with _POLICY:
            reply = await _route(call)
    except Exception as error:
        refused = _refused(error)
        if isinstance(refused, LaunchbayError):
            status, _ = status_and_type(refused)
            if status not in {401, 403, 404, 405} and status < 500:
                request = f"{call.method} {call.path}"
                await scim.note_refusal(call.ctx, organization_id, request, status, detail_of(refused))
        if refused is error:
            raise
        raise refused from error
    await scim.note_success(call.ctx, organization_id)
    return reply


def _refused(error: Exception) -> Exception:
    """Return an exception of the package as one of ours."""
    if isinstance(error, SCIMException):
        return ScimRefused(error.status, error.scim_type or None, _sentence(error.detail))
    if isinstance(error, pydantic.ValidationError):
        first = Error.from_validation_errors(error)[0]
        return ScimRefused(first.status or 400, first.scim_type, _sentence(first.detail or "Invalid value"))
    if isinstance(error, RecursionError):
        return ScimRefused(400, "invalidSyntax", "This is nested too deeply.")
    return error


def _sentence(text: str) -> str:
    return f"{text.rstrip('.')}."


async def _route(call: WireCall) -> WireReply:
    if "\0" in call.path:
        raise _unknown_path()
    name, _, rest = call.path.strip("/").partition("/")
    if name in _LISTS:
        _require_method(call, "GET")
        return _description(call, name, rest)
    if name in _NOT_IMPLEMENTED:
        raise ScimRefused(501, None, f"/{name} isn't supported.")
    found = {"Users": _USERS, "Groups": _GROUPS}.get(name)
    if found is None or "/" in rest:
        raise _unknown_path()
    if not rest:
        _require_method(call, "GET", "POST")
        return await (_create(call, found) if call.method == "POST" else _list(call, found, _query(call, found)))
    if rest == ".search":
        _require_method(call, "POST")
        searched = _SEARCH[found.model].model_validate(_body(call), scim_ctx=Context.SEARCH_REQUEST)
        return await _list(call, found, searched)
    return await _one(call, found, rest)


async def _one(call: WireCall, kind: "_Kind", resource_id: str) -> WireReply:
    """Answer a request about one resource."""
    _require_method(call, "GET", "PUT", "PATCH", "DELETE")
    if call.method == "DELETE":
        await kind.delete(call, resource_id)
        return WireReply(204, b"", ())
    act = {"PUT": kind.replace, "PATCH": kind.patch}.get(call.method, kind.read)
    return _resource(call, _query(call, kind), await act(call, resource_id))


def _unknown_path() -> NotFound:
    return NotFound("Unknown path. SCIM has /Users, /Groups, /ServiceProviderConfig, /ResourceTypes and /Schemas.")


def _require_method(call: WireCall, *allowed: str) -> None:
    names = (*allowed, "HEAD") if "GET" in allowed else allowed
    if call.method not in names:
        raise MethodNotAllowed(call.method, names)


def _body(call: WireCall) -> dict[str, Any]:
    """Return the JSON object of a request. Raises MalformedBody, ScimRefused."""
    sent = call.headers.get("content-type", "").partition(";")[0].strip().lower()
    if sent not in {MEDIA_TYPE, "application/json"}:
        shown = f"is {sent[:80]!r}" if sent else "is missing"
        raise ScimRefused(415, None, f"The content type {shown}. Send the body as {MEDIA_TYPE}.")
    value = read_json(call.body)
    if not isinstance(value, dict):
        raise MalformedBody("The body must be a JSON object.")
    return value


def _query(call: WireCall, kind: "_Kind") -> Any:
    """Return filter, page and attributes that the query asks for. Raises BadRequest."""
    try:
        fields = decode_fields(call.query.encode("latin-1"), QUERY_FIELDS)
    except ValueError as error:
        raise BadRequest("Invalid query string.", str(error)) from None
    if len(fields.get("filter", [""])[0]) > SCIM_FILTER_CHARS:
        raise ScimRefused(400, "invalidFilter", f"A filter has at most {SCIM_FILTER_CHARS} characters.")
    known = {"filter", "startIndex", "count", "attributes", "excludedAttributes"}
    asked = {name: texts[0] for name, texts in fields.items() if name in known}
    return _SEARCH[kind.model].model_validate(asked, scim_ctx=Context.SEARCH_REQUEST)


def _conditions(search: Any, columns: Mapping[str, str]) -> dict[str, Any]:
    """Return what a filter compares, by our names. Raises ScimRefused."""
    if search.filter is None:
        return {}
    tree = search.filter.ast
    terms = tree.terms if isinstance(tree, LogicalExpr) and tree.op == LogicalOperator.and_ else (tree,)
    found: dict[str, Any] = {}
    for term in terms:
        column = columns.get(_attribute(term))
        if not isinstance(term, Comparison) or column is None or column in found or term.value is None:
            names = ", ".join(columns)
            raise ScimRefused(400, "invalidFilter", f"Filters compare with eq, joined by and, each once: {names}.")
        found[column] = _value(column, term.value)
    return found


def _attribute(term: Any) -> str:
    """Return the lower-case name of what a term compares with `eq`, or ""."""
    if not isinstance(term, Comparison) or term.op != CompareOperator.eq:
        return ""
    path = term.attr_path
    return f"{path.attr}.{path.sub_attr}".lower() if path.sub_attr else path.attr.lower()


def _value(column: str, value: Any) -> Any:
    if column == "is_active":
        return value is True or str(value).lower() == "true"
    text = str(value)
    if "\0" in text:
        raise ScimRefused(400, "invalidFilter", "A value can't contain a NUL character.")
    return text


class _Kind(NamedTuple):
    """What Users and Groups differ in. Each returns resources."""

    model: Any
    find: Callable[[WireCall, Any, int, int], Any]
    read: Callable[[WireCall, str], Any]
    create: Callable[[WireCall], Any]
    replace: Callable[[WireCall, str], Any]
    patch: Callable[[WireCall, str], Any]
    delete: Callable[[WireCall, str], Any]


async def _list(call: WireCall, kind: _Kind, search: Any) -> WireReply:
    start = max(1, search.start_index or 1)
    count = min(SCIM_PAGE, SCIM_PAGE if search.count is None else max(0, search.count))
    skipped = min(start - 1, 2**31)
    total, found = await kind.find(call, search, skipped, count)
    listed = _LIST[kind.model](total_results=total, start_index=start, items_per_page=len(found), resources=found)
    shown = listed.model_dump(scim_ctx=Context.RESOURCE_QUERY_RESPONSE, response_parameters=_shown(search))
    shown.setdefault("Resources", [])
    return _json(200, shown)


async def _create(call: WireCall, kind: _Kind) -> WireReply:
    shown = _query(call, kind)
    made = await kind.create(call)
    location = ("Location", made.meta.location)
    return _resource(call, shown, made, status=201, context=Context.RESOURCE_CREATION_RESPONSE, headers=(location,))


def _resource(
    call: WireCall,
    search: Any,
    found: Resource[Any],
    *,
    status: int = 200,
    context: Context = Context.RESOURCE_QUERY_RESPONSE,
    headers: tuple[tuple[str, str], ...] = (),
) -> WireReply:
    assert found.meta is not None
    tag = str(found.meta.version)
    known = call.headers.get("if-none-match")
    if call.method == "GET" and known is not None and matches(known, tag.removeprefix("W/"), weak=True):
        return WireReply(304, b"", (("ETag", tag),))
    shown = found.model_dump(scim_ctx=context, response_parameters=_shown(search))
    return _json(status, shown, (("ETag", tag), *headers))


def _shown(search: Any) -> Any:
    return search if search.attributes or search.excluded_attributes else None


def _json(status: int, value: Any, headers: tuple[tuple[str, str], ...] = ()) -> WireReply:
    return WireReply(status, msgspec.json.encode(value), (("Content-Type", MEDIA_TYPE), *headers))


def _check(call: WireCall, found: Resource[Any]) -> None:
    """Raise PreconditionFailed if the request is about another state of the resource."""
    assert found.meta is not None
    wanted, tag = call.headers.get("if-match"), str(found.meta.version)
    # The standard compares weak tags here (RFC 7644 §3.14).
    if wanted is not None and not matches(wanted, tag.removeprefix("W/"), weak=True):
        raise PreconditionFailed("The resource has changed since you read it.", "Read it again.", tag=tag)


def _meta(call: WireCall, kind: str, found: Resource[Any], row: Any) -> None:
    found.meta = Meta(
        resource_type=kind,
        created=row.created_at,
        last_modified=row.changed_at,
        location=f"{call.address}/{kind}s/{row.id}",
    )
    found.meta.version = "W/" + tag_of(msgspec.json.encode(found.model_dump()))


def _user(call: WireCall, found: FoundPerson) -> User:
    """Return a person as the provider sees them."""
    row = found.row
    document = {"displayName": row.name} if row.document is None else msgspec.json.decode(row.document)
    emails = document.get("emails") or [{"value": row.address, "type": "work", "primary": True}]
    user = User.model_validate({**document, "emails": emails, "userName": row.user_name})
    user.id, user.external_id, user.active = found.id, row.external_id, row.is_active
    if found.groups:
        user.groups = [
            GroupOfUser(value=each.group_id, ref=Reference(f"{call.address}/Groups/{each.group_id}"), display=each.name)
            for each in found.groups
        ]
    _meta(call, "User", user, row)
    return user


def _person(user: User) -> Person:
    """Return what a provider says of a person. Raises BadRequest without an address."""
    user_name = (user.user_name or "").strip()
    kept = user.model_dump(include={"name", "display_name", "emails"})
    kept.pop("schemas", None)
    names = (user.display_name, user.name.formatted if user.name else None, _full_name(user.name), user_name)
    external_id = user.external_id or None
    for text in (external_id, *names):
        if text is not None and len(text) > SCIM_FILTER_CHARS:
            raise BadRequest(f"A value has at most {SCIM_FILTER_CHARS} characters.", code="InvalidName")
    return Person(
        user_name=user_name,
        external_id=external_id,
        address=canonical_email(_address(user)),
        name=next(each for each in names if each and each.strip())[:NAME_CHARS],
        is_active=bool(user.active),
        document=msgspec.json.encode(kept).decode(),
    )


def _full_name(name: Name | None) -> str:
    return "" if name is None else " ".join(each for each in (name.given_name, name.family_name) if each)


def _address(user: User) -> str:
    """Return the address that names the account.

    It is the primary one, else that of work, else the first.
    """
    emails = [each for each in user.emails or () if each.value]
    chosen = [
        *(each for each in emails if each.primary),
        *(each for each in emails if each.type == Email.Type.work),
        *emails,
    ]
    return str(chosen[0].value) if chosen else user.user_name or ""


def _read_body(call: WireCall, context: Context, before: FoundPerson | None = None) -> User:
    """Return the user in a body, with what it may leave out.

    That is whether they are active, and an address that is the name too.
    """
    body = _body(call)
    names = {name.lower(): name for name in body}
    user_name = body.get(names.get("username", ""))
    if body.get(names.get("active", "")) is None:
        body[names.get("active", "active")] = before is None or before.row.is_active
    if not body.get(names.get("emails", "")) and isinstance(user_name, str) and "@" in user_name:
        body[names.get("emails", "emails")] = [{"value": user_name.strip(), "type": "work", "primary": True}]
    return User.model_validate(body, scim_ctx=context)


def _operations(body: dict[str, Any]) -> dict[str, Any]:
    """Return a patch in which no key of a value has a filter.

    Entra sends `emails[type eq "work"].value` as a key. The package takes it as a path alone.
    """
    name = next((each for each in body if each.lower() == "operations"), "Operations")
    operations = body.get(name)
    if not isinstance(operations, list):
        return body
    spread: list[Any] = []
    for operation in operations:
        value = operation.get("value") if isinstance(operation, dict) and not operation.get("path") else None
        if not isinstance(value, dict):
            spread.append(operation)
            continue
        plain = {key: each for key, each in value.items() if "[" not in key}
        if plain or not value:
            spread.append({**operation, "value": plain})
        spread += [{**operation, "path": key, "value": each} for key, each in value.items() if "[" in key]
    return {**body, name: spread}


def _patched(call: WireCall, model: type[R], resource: R) -> R:
    patch: Any = _PATCH[model].model_validate(_operations(_body(call)), scim_ctx=Context.RESOURCE_PATCH_REQUEST)
    patch.patch(resource)
    return resource


async def _find_users(call: WireCall, search: Any, skipped: int, count: int) -> tuple[int, list[User]]:
    wanted = PeopleFilter(**_conditions(search, _USER_FILTERS))
    total, found = await scim.find_people(call.ctx, wanted, skipped=skipped, count=count)
    return total, [_user(call, each) for each in found]


async def _read_user(call: WireCall, user_id: str) -> User:
    return _user(call, await scim.read_person(call.ctx, user_id))


async def _create_user(call: WireCall) -> User:
    user = _read_body(call, Context.RESOURCE_CREATION_REQUEST)
    return _user(call, await scim.create_person(call.ctx, _person(user)))


async def _replace_user(call: WireCall, user_id: str) -> User:
    def change(found: FoundPerson) -> Person:
        _check(call, _user(call, found))
        return _person(_read_body(call, Context.RESOURCE_REPLACEMENT_REQUEST, found))

    return _user(call, await scim.change_person(call.ctx, user_id, change))


async def _patch_user(call: WireCall, user_id: str) -> User:
    def change(found: FoundPerson) -> Person:
        user = _user(call, found)
        _check(call, user)
        return _person(_patched(call, User, user))

    return _user(call, await scim.change_person(call.ctx, user_id, change))


async def _delete_user(call: WireCall, user_id: str) -> None:
    await scim.delete_person(call.ctx, user_id, lambda found: _check(call, _user(call, found)))


def _group(call: WireCall, found: FoundGroup) -> Group:
    """Return a group as the provider sees it."""
    row = found.row
    group = Group(id=found.id, external_id=row.external_id, display_name=row.name)
    if found.members:
        group.members = [
            Member(value=each.id, ref=Reference(f"{call.address}/Users/{each.id}")) for each in found.members
        ]
    _meta(call, "Group", group, row)
    return group


def _wanted_group(group: Group) -> scim.Group:
    external_id = group.external_id or None
    if external_id is not None and len(external_id) > SCIM_FILTER_CHARS:
        raise BadRequest(f"externalId has at most {SCIM_FILTER_CHARS} characters.", code="InvalidName")
    members = frozenset((each.value or "").lower() for each in group.members or ())
    return scim.Group(group.display_name or "", external_id, members)


async def _find_groups(call: WireCall, search: Any, skipped: int, count: int) -> tuple[int, list[Group]]:
    wanted = GroupFilter(**_conditions(search, _GROUP_FILTERS))
    with_members = _wants_members(search)
    total, found = await scim.find_groups(call.ctx, wanted, skipped=skipped, count=count, with_members=with_members)
    return total, [_group(call, each) for each in found]


def _wants_members(search: Any) -> bool:
    """Return whether a request shows members.

    Entra leaves them out where a group may be large.
    """
    if search.attributes:
        return any("members" in str(each).lower() for each in search.attributes)
    return all(str(each).lower().rpartition(":")[2] != "members" for each in search.excluded_attributes or ())


async def _read_group(call: WireCall, group_id: str) -> Group:
    return _group(call, await scim.read_group(call.ctx, group_id))


async def _create_group(call: WireCall) -> Group:
    group = Group.model_validate(_body(call), scim_ctx=Context.RESOURCE_CREATION_REQUEST)
    return _group(call, await scim.create_group(call.ctx, _wanted_group(group)))


async def _replace_group(call: WireCall, group_id: str) -> Group:
    group = Group.model_validate(_body(call), scim_ctx=Context.RESOURCE_REPLACEMENT_REQUEST)

    def change(found: FoundGroup) -> scim.Group:
        _check(call, _group(call, found))
        return _wanted_group(group)

    return _group(call, await scim.change_group(call.ctx, group_id, change))


async def _patch_group(call: WireCall, group_id: str) -> Group:
    def change(found: FoundGroup) -> scim.Group:
        group = _group(call, found)
        _check(call, group)
        if group.members:  # providers name members by their ID alone
            group.members = [Member(value=each.value, ref=None) for each in group.members]
        return _wanted_group(_patched(call, Group, group))

    return _group(call, await scim.change_group(call.ctx, group_id, change))


async def _delete_group(call: WireCall, group_id: str) -> None:
    await scim.delete_group(call.ctx, group_id, lambda found: _check(call, _group(call, found)))


_USERS = _Kind(User, _find_users, _read_user, _create_user, _replace_user, _patch_user, _delete_user)
_GROUPS = _Kind(Group, _find_groups, _read_group, _create_group, _replace_group, _patch_group, _delete_group)


def _description(call: WireCall, name: str, rest: str) -> WireReply:
    """Return what the server supports, and its schemas.

    Raises NotFound, ScimRefused.
    """
    if name == "ServiceProviderConfig":
        if rest:
            raise _unknown_path()
        return _json(200, _config(call).model_dump(scim_ctx=Context.RESOURCE_QUERY_RESPONSE))
    if "filter=" in call.query:
        raise ScimRefused(403, None, f"/{name} can't be filtered (RFC 7644 §4).")
    described: Sequence[Resource[Any]] = _resource_types(call) if name == "ResourceTypes" else _schemas(call)
    if rest:
        for each in described:
            if rest == each.id:
                return _json(200, each.model_dump(scim_ctx=Context.RESOURCE_QUERY_RESPONSE))
        raise NotFound(f"/{name} has no {rest[:80]!r}.")
    model: Any = ResourceType if name == "ResourceTypes" else Schema
    listed = _LIST[model](
        total_results=len(described), start_index=1, items_per_page=len(described), resources=described
    )
    return _json(200, listed.model_dump(scim_ctx=Context.RESOURCE_QUERY_RESPONSE))


def _config(call: WireCall) -> ServiceProviderConfig:
    return ServiceProviderConfig(
        documentation_uri=Reference[External](f"{call.address.removesuffix('/scim/v2')}/docs/howto/scim"),
        patch=Patch(supported=True),
        bulk=Bulk(supported=False, max_operations=0, max_payload_size=0),
        filter=Filter(supported=True, max_results=SCIM_PAGE),
        change_password=ChangePassword(supported=False),
        sort=Sort(supported=False),
        etag=ETag(supported=True),
        authentication_schemes=[
            AuthenticationScheme(
                type=AuthenticationScheme.Type.oauthbearertoken,
                name="Access token",
                description="An access token of a service account with the permission ProvisionUsers.",
                spec_uri=Reference[External]("https://www.rfc-editor.org/rfc/rfc6750"),
                primary=True,
            )
        ],
        meta=Meta(resource_type="ServiceProviderConfig", location=f"{call.address}/ServiceProviderConfig"),
    )


def _resource_types(call: WireCall) -> list[ResourceType]:
    found = []
    for name, model in _NAMES.items():
        each = ResourceType.from_resource(model)
        each.meta = Meta(resource_type="ResourceType", location=f"{call.address}/ResourceTypes/{name}")
        found.append(each)
    return found


def _schemas(call: WireCall) -> list[Schema]:
    found = []
    for name, model in _NAMES.items():
        each = model.to_schema()
        each.name = name
        each.meta = Meta(resource_type="Schema", location=f"{call.address}/Schemas/{each.id}")
        found.append(each)
    return found
