"""The resources, filters and patches of SCIM, which the package `scim2-models` reads.

Where providers leave the standard, they are understood as they mean it: see docs/howto/scim.md.
"""

import asyncio
import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Annotated, Any, NamedTuple

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

from launchbay.concurrency import computed
from launchbay.errors import BadRequest, LaunchbayError, MalformedBody, NotFound, PreconditionFailed
from launchbay.features.scim import usecases as scim
from launchbay.features.scim.door import MEDIA_TYPE, ScimRefused, detail_of, status_and_type
from launchbay.features.scim.usecases import FoundGroup, FoundPerson, GroupFilter, PeopleFilter, Person
from launchbay.limits import (
    KIB,
    NAME_CHARS,
    QUERY_FIELDS,
    SCIM_BODY_BYTES,
    SCIM_EMAILS,
    SCIM_FILTER_CHARS,
    SCIM_FILTER_TERMS,
    SCIM_FULL_GROUPS,
    SCIM_OPERATIONS,
    SCIM_PAGE,
    SCIM_PATCH_KEYS,
    SCIM_PATCH_TERMS,
    SCIM_PEOPLE,
)
from launchbay.model.email_address import canonical_email
from launchbay.urlencoded import decode_fields
from launchbay.web.conditions import matches, tag_of
from launchbay.web.json_reader import read_json
from launchbay.web.problems import MethodNotAllowed
from launchbay.web.wire import WireCall, WireReply


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
_PATCH_SCHEMA = str(PatchOp.__schema__)
_NOT_IMPLEMENTED = ("Me", "Bulk", ".search")
_MOST_SKIPPED = 2**31
_RESOURCE_BYTES = 1_000  # about what a resource or a member is to render
# Attributes of users in RFC 7643 that Launchbay doesn't keep: providers send them, and nothing comes of it.
_IGNORED = frozenset(
    {
        *("nickname", "profileurl", "title", "usertype", "preferredlanguage", "locale", "timezone", "password"),
        *("phonenumbers", "ims", "photos", "addresses", "entitlements", "roles", "x509certificates"),
    }
)
_QUOTED = re.compile(r'"(?:[^"\\]|\\.)*+"', re.DOTALL)
_TERM = re.compile(r"\b(?:and|or|not)\b|[(\[]", re.IGNORECASE)
_NO_TEXT = re.compile("[\0\ud800-\udfff]")
_MEMBERS = re.compile(
    r"(?:urn:ietf:params:scim:schemas:core:2\.0:group:)?members(?:\[(.*)\])?", re.IGNORECASE | re.DOTALL
)
_MEMBER = re.compile(r'\s*value\s+eq\s+"([^"\\]*)"\s*', re.IGNORECASE)
_UNDERSCORE = re.compile("_([a-z])")
_OR = re.compile(r"\s+or\s+", re.IGNORECASE)


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
    """Return one sentence of what the package says.

    That may be the lines of an error of `pydantic`.
    """
    lines = [each.strip().partition(" [type=")[0] for each in text.splitlines()]
    if len(lines) > 1 and "validation error" in lines[0]:
        # The attribute and what is expected; about the whole resource without an attribute.
        name = _UNDERSCORE.sub(lambda found: found[1].upper(), lines[1])
        is_about_all = "[type=" in text.splitlines()[1]
        text = lines[1] if is_about_all else f"{name}: {' '.join(lines[2:3])}"
    return f"{' '.join(text.split()).rstrip('.')}."


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
        return await _list(call, found, _searched(found, _small_body(call)))
    return await _one(call, found, rest)


async def _one(call: WireCall, kind: "_Kind", resource_id: str) -> WireReply:
    """Answer a request about one resource."""
    _require_method(call, "GET", "PUT", "PATCH", "DELETE")
    if call.method == "DELETE":
        await kind.delete(call, resource_id)
        return WireReply(204, b"", ())
    change = {"PUT": kind.replace, "PATCH": kind.patch}.get(call.method)
    shown = _query(call, kind)
    found = kind.read(call, shown, resource_id) if change is None else change(call, resource_id)
    return await _resource(call, kind, shown, await found)


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


def _small_body(call: WireCall) -> dict[str, Any]:
    """Return a body that isn't about a group. Raises as `_body`."""
    if len(call.body) > SCIM_BODY_BYTES:
        raise ScimRefused(413, None, f"This request has at most {SCIM_BODY_BYTES // KIB} KiB.")
    return _body(call)


def _check_text(text: str, scim_type: str) -> None:
    """Check a filter or a path before it is parsed. Raises ScimRefused.

    Its quoted values are JSON strings, so they must be texts that may be stored, as in bodies.
    """
    if len(text) > SCIM_FILTER_CHARS:
        raise ScimRefused(400, scim_type, f"A filter or path has at most {SCIM_FILTER_CHARS} characters.")
    if _count_terms(text) > SCIM_FILTER_TERMS:
        raise ScimRefused(400, scim_type, f"A filter or path has at most {SCIM_FILTER_TERMS} terms and parentheses.")
    for quoted in _QUOTED.findall(text):
        try:
            value = json.loads(quoted, strict=False)
        except ValueError:
            continue  # the parser says what is wrong
        if _NO_TEXT.search(value):
            raise ScimRefused(400, scim_type, f"{quoted[:80]} has a NUL character or half of a surrogate pair.")
    if _NO_TEXT.search(text):
        raise ScimRefused(400, scim_type, "A filter or path can't have a NUL character or half of a surrogate pair.")


def _count_terms(text: str) -> int:
    return len(_TERM.findall(_QUOTED.sub("", text)))


def _query(call: WireCall, kind: "_Kind") -> Any:
    """Return filter, page and attributes that the query asks for. Raises BadRequest."""
    try:
        fields = decode_fields(call.query.encode("latin-1"), QUERY_FIELDS)
    except ValueError as error:
        raise BadRequest("Invalid query string.", str(error)) from None
    known = {"filter", "startIndex", "count", "attributes", "excludedAttributes"}
    asked = {name: texts[0] for name, texts in fields.items() if name in known}
    return _searched(kind, asked)


def _searched(kind: "_Kind", asked: dict[str, Any]) -> Any:
    """Return what a request asks for.

    Its filter and paths are checked before. Raises ScimRefused.
    """
    for name, value in asked.items():
        texts = [each for each in (value if isinstance(value, list) else [value]) if isinstance(each, str)]
        if name.lower() != "schemas":
            _check_text(",".join(texts), "invalidFilter" if name.lower() == "filter" else "invalidValue")
    search = _SEARCH[kind.model].model_validate(asked, scim_ctx=Context.SEARCH_REQUEST)
    if max(abs(search.start_index or 0), abs(search.count or 0)) > _MOST_SKIPPED:
        raise ScimRefused(400, "invalidValue", f"startIndex and count are at most {_MOST_SKIPPED}.")
    return search


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
    return str(value)


class _Kind(NamedTuple):
    """What Users and Groups differ in.

    Each returns what was found; `resource` makes resources of that.
    """

    model: Any
    resource: Callable[[WireCall, Any], Resource[Any]]
    find: Callable[[Any, Any, int, int], Any]
    read: Callable[[WireCall, Any, str], Any]
    create: Callable[[WireCall], Any]
    replace: Callable[[WireCall, str], Any]
    patch: Callable[[WireCall, str], Any]
    delete: Callable[[WireCall, str], Any]


async def _list(call: WireCall, kind: _Kind, search: Any) -> WireReply:
    start = max(1, search.start_index or 1)
    count = min(SCIM_PAGE, SCIM_PAGE if search.count is None else max(0, search.count))
    total, found = await kind.find(call, search, start - 1, count)

    def render() -> bytes:
        resources = [kind.resource(call, each) for each in found]
        listed = _LIST[kind.model](
            total_results=total, start_index=start, items_per_page=len(resources), resources=resources
        )
        shown = listed.model_dump(scim_ctx=Context.RESOURCE_QUERY_RESPONSE, response_parameters=_shown(search))
        shown.setdefault("Resources", [])
        return msgspec.json.encode(shown)

    return _json(200, await computed(sum(map(_size, found)), render))


async def _create(call: WireCall, kind: _Kind) -> WireReply:
    shown = _query(call, kind)
    made = await kind.create(call)
    context = Context.RESOURCE_CREATION_RESPONSE
    location = ("Location", _location(call, kind.model.__name__, made))
    return await _resource(call, kind, shown, made, status=201, context=context, headers=(location,))


async def _resource(
    call: WireCall,
    kind: _Kind,
    search: Any,
    found: FoundPerson | FoundGroup,
    *,
    status: int = 200,
    context: Context = Context.RESOURCE_QUERY_RESPONSE,
    headers: tuple[tuple[str, str], ...] = (),
) -> WireReply:
    tag = _version(found)
    tags = (("ETag", tag),) if tag is not None else ()
    known = call.headers.get("if-none-match")
    if call.method == "GET" and known and tag and matches(known, tag.removeprefix("W/"), weak=True):
        return WireReply(304, b"", tags)

    def render() -> bytes:
        shown = kind.resource(call, found).model_dump(scim_ctx=context, response_parameters=_shown(search))
        return msgspec.json.encode(shown)

    return _json(status, await computed(_size(found), render), (*tags, *headers))


def _parts(found: FoundPerson | FoundGroup) -> Sequence[tuple[str, ...]]:
    """Return the groups of a person, or the members of a group."""
    return found.groups if isinstance(found, FoundPerson) else found.members


def _size(found: FoundPerson | FoundGroup) -> int:
    """Return about how many bytes a resource is."""
    return _RESOURCE_BYTES * (1 + len(_parts(found)))


def _shown(search: Any) -> Any:
    return search if search.attributes or search.excluded_attributes else None


def _json(status: int, body: bytes, headers: tuple[tuple[str, str], ...] = ()) -> WireReply:
    return WireReply(status, body, (("Content-Type", MEDIA_TYPE), *headers))


def _check(call: WireCall, found: FoundPerson | FoundGroup) -> None:
    """Raise PreconditionFailed if the request is about another state of the resource."""
    wanted = call.headers.get("if-match")
    if wanted is None:
        return
    tag = _version(found)
    assert tag is not None, "changes read the members"
    # The standard compares weak tags here (RFC 7644 §3.14).
    if not matches(wanted, tag.removeprefix("W/"), weak=True):
        raise PreconditionFailed("The resource has changed since you read it.", "Read it again.", tag=tag)


def _version(found: FoundPerson | FoundGroup) -> str | None:
    """Return the tag of a resource; None for a group without members."""
    if isinstance(found, FoundGroup) and not found.has_members:
        return None
    state = (found.row._replace(total=1), _parts(found))
    return "W/" + tag_of(msgspec.json.encode(state))


def _location(call: WireCall, kind: str, found: FoundPerson | FoundGroup) -> str:
    return f"{call.address}/{kind}s/{found.id}"


def _meta(call: WireCall, kind: str, found: FoundPerson | FoundGroup) -> Meta:
    return Meta(
        resource_type=kind,
        created=found.row.created_at,
        last_modified=found.row.changed_at,
        location=_location(call, kind, found),
        version=_version(found),
    )


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
    user.meta = _meta(call, "User", found)
    return user


def _person(user: User) -> Person:
    """Return what a provider says of a person. Raises BadRequest without an address."""
    user_name = (user.user_name or "").strip()
    _check_emails(user.emails)
    kept = user.model_dump(include={"name", "display_name", "emails"})
    kept.pop("schemas", None)
    names = (user.display_name, user.name.formatted if user.name else None, _full_name(user.name), user_name)
    external_id = user.external_id or None
    for text in (external_id, *names):
        if text is not None and len(text) > SCIM_FILTER_CHARS:
            raise BadRequest(f"A value has at most {SCIM_FILTER_CHARS} characters.", code="InvalidName")
    if not user_name:
        raise BadRequest("userName: it is empty.", code="InvalidName")
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


def _check_emails(emails: Any) -> None:
    if isinstance(emails, list) and len(emails) > SCIM_EMAILS:
        raise ScimRefused(400, "invalidValue", f"emails: a user has at most {SCIM_EMAILS}.")


def _read_person(call: WireCall, context: Context) -> tuple[Person, bool]:
    """Return the person in a body, and whether it has `active`.

    It may leave out that, and an address that is the name too.
    """
    body = _small_body(call)
    names = {name.lower(): name for name in body}
    user_name = body.get(names.get("username", ""))
    says_active = body.get(names.get("active", "")) is not None
    if not says_active:
        body[names.get("active", "active")] = True
    emails = body.get(names.get("emails", ""))
    _check_emails(emails)
    if not emails and isinstance(user_name, str) and "@" in user_name:
        body[names.get("emails", "emails")] = [{"value": user_name.strip(), "type": "work", "primary": True}]
    return _person(User.model_validate(body, scim_ctx=context)), says_active


def _operations(body: dict[str, Any]) -> list[Any]:
    """Return the operations of a patch. Raises ScimRefused.

    No key of a value has a filter: Entra sends `emails[type eq "work"].value` as a key. The package takes it as a path
    alone.
    """
    operations = next((value for name, value in body.items() if name.lower() == "operations"), None)
    if not isinstance(operations, list):
        raise ScimRefused(400, "invalidValue", "Operations: a patch has a list of operations.")
    spread: list[Any] = []
    for each in operations:
        if not isinstance(each, dict):
            raise ScimRefused(400, "invalidValue", "Operations: each operation is an object with op, path and value.")
        operation = {name.lower(): value for name, value in each.items()}
        value = None if operation.get("path") else operation.get("value")
        if not isinstance(value, dict):
            spread.append(operation)
            continue
        own = {key: text for key, text in value.items() if "[" in key or _MEMBERS.fullmatch(key)}
        plain = {key: text for key, text in value.items() if key not in own}
        if plain or not value:
            spread.append({**operation, "value": plain})
        spread += [{**operation, "path": key, "value": text} for key, text in own.items()]
    if max(len(operations), len(spread)) > SCIM_OPERATIONS:
        raise ScimRefused(400, "tooMany", f"Operations: a patch has at most {SCIM_OPERATIONS}; send several.")
    for operation in spread:
        if isinstance(operation.get("path"), str):
            _check_text(operation["path"], "invalidPath")
    return spread


def _patches(model: type[Resource[Any]], operations: list[Any]) -> list[Any]:
    """Return patches of one operation each. Raises ScimRefused, and what the package raises."""
    if _count_keys(operations) > SCIM_PATCH_KEYS:
        raise ScimRefused(400, "tooMany", f"Operations: all values have at most {SCIM_PATCH_KEYS} attributes.")
    if sum(_count_terms(str(each.get("path") or "")) for each in operations) > SCIM_PATCH_TERMS:
        raise ScimRefused(400, "tooMany", f"Operations: all paths have at most {SCIM_PATCH_TERMS} terms.")
    body = {"schemas": [_PATCH_SCHEMA], "Operations": operations}
    patch: Any = _PATCH[model].model_validate(body, scim_ctx=Context.RESOURCE_PATCH_REQUEST)
    for operation in patch.operations:
        _check_known(model, operation.path)
    return [_PATCH[model].model_construct(operations=[each]) for each in patch.operations]


def _count_keys(value: Any) -> int:
    if isinstance(value, dict):
        return len(value) + sum(map(_count_keys, value.values()))
    return sum(map(_count_keys, value)) if isinstance(value, list) else 0


def _check_known(model: type[Resource[Any]], path: Any) -> None:
    """Refuse a path to nothing.

    Those of extensions, and of attributes that aren't kept, are ignored.
    """
    if not path or path.model is not None or path.resolve() is not None:
        return
    schema, text = str(model.__schema__).lower() + ":", str(path).lower()
    text = text.removeprefix(schema)
    is_extension = text.startswith("urn:")
    if not is_extension and not (model is User and re.split(r"[.\[]", text, maxsplit=1)[0] in _IGNORED):
        raise ScimRefused(400, "invalidPath", f"path: {model.__name__} has no attribute {str(path)[:80]!r}.")


async def _find_users(call: WireCall, search: Any, skipped: int, count: int) -> tuple[int, list[FoundPerson]]:
    wanted = PeopleFilter(**_conditions(search, _USER_FILTERS))
    return await scim.find_people(call.ctx, wanted, skipped=skipped, count=count)


async def _read_user(call: WireCall, _: Any, user_id: str) -> FoundPerson:
    return await scim.read_person(call.ctx, user_id)


async def _create_user(call: WireCall) -> FoundPerson:
    context = Context.RESOURCE_CREATION_REQUEST
    person, _ = await asyncio.to_thread(_read_person, call, context)
    return await scim.create_person(call.ctx, person)


async def _replace_user(call: WireCall, user_id: str) -> FoundPerson:
    context = Context.RESOURCE_REPLACEMENT_REQUEST
    person, says_active = await asyncio.to_thread(_read_person, call, context)

    def change(found: FoundPerson) -> Person:
        _check(call, found)
        return person if says_active else person._replace(is_active=found.row.is_active)

    return await scim.change_person(call.ctx, user_id, change)


async def _patch_user(call: WireCall, user_id: str) -> FoundPerson:
    patches = await asyncio.to_thread(lambda: _patches(User, _operations(_small_body(call))))

    def change(found: FoundPerson) -> Person:
        _check(call, found)
        user = _user(call, found)
        for patch in patches:
            patch.patch(user)
            _check_emails(user.emails)  # after each one: they take longer with more
        return _person(user)

    return await scim.change_person(call.ctx, user_id, change)


async def _delete_user(call: WireCall, user_id: str) -> None:
    await scim.delete_person(call.ctx, user_id, lambda found: _check(call, found))


def _group(call: WireCall, found: FoundGroup) -> Group:
    """Return a group as the provider sees it."""
    group = Group(id=found.id, external_id=found.row.external_id, display_name=found.row.name)
    if found.members:
        group.members = [
            Member(value=each.id, ref=Reference(f"{call.address}/Users/{each.id}")) for each in found.members
        ]
    group.meta = _meta(call, "Group", found)
    return group


def _wanted_group(group: Group, members: Iterable[str]) -> scim.Group:
    external_id = group.external_id or None
    if external_id is not None and len(external_id) > SCIM_FILTER_CHARS:
        raise BadRequest(f"externalId has at most {SCIM_FILTER_CHARS} characters.", code="InvalidName")
    return scim.Group(group.display_name or "", external_id, frozenset(members))


def _member_ids(value: Any) -> frozenset[str]:
    """Return the IDs of members in a body. Raises ScimRefused."""
    entries = value if isinstance(value, list) else [] if value is None else [value]
    if len(entries) > SCIM_PEOPLE:
        raise ScimRefused(400, "tooMany", f"members: a group has at most {SCIM_PEOPLE}.")
    found = set()
    for entry in entries:
        keys = {name.lower(): each for name, each in entry.items()} if isinstance(entry, dict) else {}
        if not isinstance(keys.get("value"), str):
            raise ScimRefused(400, "invalidValue", "members: each one is an object whose value is the ID of a user.")
        found.add(keys["value"].lower())
    return frozenset(found)


class _MemberChange(NamedTuple):
    """What an operation does to members; without IDs, to all."""

    op: str
    ids: frozenset[str] | None


def _member_change(operation: Any) -> _MemberChange | None:
    """Return what an operation does to members, else None. Raises ScimRefused.

    The package would copy a large group for each operation.
    """
    op, path, value = (operation.get(name) for name in ("op", "path", "value"))
    found = _MEMBERS.fullmatch(path.strip()) if isinstance(path, str) else None
    op = op.lower() if isinstance(op, str) else None
    if op not in {"add", "remove", "replace"} or found is None:
        if isinstance(path, str) and _MEMBERS.match(path.strip()):
            raise ScimRefused(400, "invalidPath", "path: add, remove or replace members, which have a value alone.")
        return None
    if found[1] is not None:
        terms = [_MEMBER.fullmatch(each) for each in _OR.split(found[1])]
        if op != "remove" or value is not None:
            raise ScimRefused(400, "invalidPath", "path: a filter of members removes them. Add them as a value.")
        ids = [term[1].lower() for term in terms if term]
        if len(ids) != len(terms):
            raise ScimRefused(400, "invalidFilter", 'path: name members as value eq "ID", joined by or.')
        return _MemberChange(op, frozenset(ids))
    if value is None and op == "add":
        raise ScimRefused(400, "invalidValue", "value: add needs the members.")
    return _MemberChange(op, None if value is None else _member_ids(value))


def _changed_members(members: set[str], changes: Iterable[_MemberChange]) -> set[str]:
    for each in changes:
        if each.op != "add" and (each.ids is None or each.op == "replace"):
            members.clear()
        if each.op == "remove":
            members -= each.ids or set()
        else:
            members |= each.ids or set()
    return members


async def _find_groups(call: WireCall, search: Any, skipped: int, count: int) -> tuple[int, list[FoundGroup]]:
    wanted = GroupFilter(**_conditions(search, _GROUP_FILTERS))
    with_members = _wants_members(search)
    count = min(count, SCIM_FULL_GROUPS) if with_members else count
    return await scim.find_groups(call.ctx, wanted, skipped=skipped, count=count, with_members=with_members)


def _wants_members(search: Any) -> bool:
    """Return whether a request shows members.

    Entra leaves them out where a group may be large.
    """
    if search.attributes:
        return any("members" in str(each).lower() for each in search.attributes)
    return all(str(each).lower().rpartition(":")[2] != "members" for each in search.excluded_attributes or ())


async def _read_group(call: WireCall, search: Any, group_id: str) -> FoundGroup:
    return await scim.read_group(call.ctx, group_id, with_members=_wants_members(search))


def _group_in_body(call: WireCall, context: Context) -> scim.Group:
    body = _body(call)
    names = {name.lower(): name for name in body}
    members = _member_ids(body.pop(names.get("members", ""), None))
    return _wanted_group(Group.model_validate(body, scim_ctx=context), members)


async def _create_group(call: WireCall) -> FoundGroup:
    context = Context.RESOURCE_CREATION_REQUEST
    return await scim.create_group(call.ctx, await asyncio.to_thread(_group_in_body, call, context))


async def _replace_group(call: WireCall, group_id: str) -> FoundGroup:
    group = await asyncio.to_thread(_group_in_body, call, Context.RESOURCE_REPLACEMENT_REQUEST)

    def change(found: FoundGroup) -> scim.Group:
        _check(call, found)
        return group

    return await scim.change_group(call.ctx, group_id, change)


async def _patch_group(call: WireCall, group_id: str) -> FoundGroup:
    def read() -> tuple[list[_MemberChange], list[Any]]:
        changes, others = [], []
        operations = _operations(_body(call))
        for operation in operations:
            change = _member_change(operation)
            if change is None:
                others.append(operation)
            else:
                changes.append(change)
        return changes, _patches(Group, others) if others or not operations else []

    changes, patches = await asyncio.to_thread(read)

    def change(found: FoundGroup) -> scim.Group:
        _check(call, found)
        group = Group(id=found.id, external_id=found.row.external_id, display_name=found.row.name)
        for patch in patches:
            patch.patch(group)
        return _wanted_group(group, _changed_members({each.id for each in found.members}, changes))

    return await scim.change_group(call.ctx, group_id, change)


async def _delete_group(call: WireCall, group_id: str) -> None:
    await scim.delete_group(call.ctx, group_id, lambda found: _check(call, found))


_USERS = _Kind(User, _user, _find_users, _read_user, _create_user, _replace_user, _patch_user, _delete_user)
_GROUPS = _Kind(Group, _group, _find_groups, _read_group, _create_group, _replace_group, _patch_group, _delete_group)


def _description(call: WireCall, name: str, rest: str) -> WireReply:
    """Return what the server supports, and its schemas.

    Raises NotFound, ScimRefused.
    """
    if name == "ServiceProviderConfig":
        if rest:
            raise _unknown_path()
        return _json(200, msgspec.json.encode(_config(call).model_dump(scim_ctx=Context.RESOURCE_QUERY_RESPONSE)))
    if "filter=" in call.query:
        raise ScimRefused(403, None, f"/{name} can't be filtered (RFC 7644 §4).")
    described: Sequence[Resource[Any]] = _resource_types(call) if name == "ResourceTypes" else _schemas(call)
    if rest:
        for each in described:
            if rest == each.id:
                return _json(200, msgspec.json.encode(each.model_dump(scim_ctx=Context.RESOURCE_QUERY_RESPONSE)))
        raise NotFound(f"/{name} has no {rest[:80]!r}.")
    model: Any = ResourceType if name == "ResourceTypes" else Schema
    listed = _LIST[model](
        total_results=len(described), start_index=1, items_per_page=len(described), resources=described
    )
    return _json(200, msgspec.json.encode(listed.model_dump(scim_ctx=Context.RESOURCE_QUERY_RESPONSE)))


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
