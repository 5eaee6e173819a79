"""The only decision about permissions, and the text of a role that it reads. Pure.

Use cases get their objects from `lookup.py`, which asks here for each of them. A few call it directly: to explain a
decision, to check the text of a role, or to show which users the caller can manage.

An entry allows an operation when

1. one of its patterns covers the first resource, the object of the operation, and
2. for every other resource that the operation touches: one of its patterns covers it, or none of them is of that
   resource's kind. So `CreateInstance: [/applications/*, /environments/<dev>]` launches anything, but only in that
   environment, and `CreateInstance: [/applications/*]` launches anything anywhere.

Patterns of one kind are alternatives; entries and roles are a union. With an access token that has a scope, an entry of
the scope must allow the operation too: a token never allows more than its owner may do at the moment.

The text of a role is a YAML list of entries, each a permission name with a list of patterns. `read_role_text` reads it
as events, with bounds, and constructs nothing: no document costs more than its length.
"""

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cached_property, lru_cache
from operator import itemgetter
from typing import Any, Generic, NamedTuple, NoReturn, Protocol, TypeVar

import yaml

from launchbay.auth import permissions
from launchbay.auth.permissions import Pattern, Permission, Resource, parse_pattern, permission_named
from launchbay.errors import BadRequest
from launchbay.limits import ROLE_PATTERNS, ROLE_TEXT_BYTES
from launchbay.store.users import RoleKind, leaves_no_administrator

T = TypeVar("T")


class _ObjectIndex(Generic[T]):
    """Patterns, or entries with patterns, by the object that the patterns begin with.

    Without it, a role that names hundreds of objects costs milliseconds for each row of a list.
    """

    def __init__(self, items: Iterable[tuple[T, Iterable[Pattern]]]) -> None:
        self._named: dict[tuple[str, ...], list[tuple[int, T]]] = {}
        self._starred: list[tuple[int, T]] = []  # a wildcard may stand for any object
        for place, (item, patterns) in enumerate(items):
            objects = {pattern.segments[:2] for pattern in patterns}
            if any("*" in segment for each in objects for segment in each):
                self._starred.append((place, item))
                continue
            for each in objects:
                self._named.setdefault(each, []).append((place, item))

    def about(self, resource: Resource | Pattern) -> list[T]:
        """Return what may cover the resource, or include the pattern, in order.

        The first that does decides.
        """
        found = [*self._named.get(resource.segments[:2], ()), *self._starred]
        return [item for _, item in sorted(found, key=itemgetter(0))]


@dataclass(frozen=True)
class RoleEntry:
    """One entry of a role: a permission, and the patterns of what it holds for."""

    permission: Permission
    patterns: tuple[Pattern, ...]

    def covering(self, resource: Resource) -> Pattern | None:
        """Return the first pattern that covers the resource."""
        is_short = len(self.patterns) <= _SCANNED
        for pattern in self.patterns if is_short else self._by_object.about(resource):
            if pattern.covers(resource):
                return pattern
        return None

    def includes(self, pattern: Pattern) -> bool:
        """Return whether one of the patterns covers all that another one covers."""
        is_short = len(self.patterns) <= _SCANNED
        return any(each.includes(pattern) for each in (self.patterns if is_short else self._by_object.about(pattern)))

    def mentions(self, kind: str) -> bool:
        """Return whether the entry limits objects of a kind."""
        kinds = self._kinds
        return "*" in kinds or kind in kinds or any(_kind_matches(each, kind) for each in kinds)

    @cached_property
    def _kinds(self) -> frozenset[str]:
        return frozenset(pattern.segments[0] for pattern in self.patterns)

    @cached_property
    def _by_object(self) -> _ObjectIndex[Pattern]:
        return _ObjectIndex((pattern, (pattern,)) for pattern in self.patterns)

    def __str__(self) -> str:
        return f"{self.permission}: [{', '.join(pattern.text for pattern in self.patterns)}]"


@dataclass(frozen=True, slots=True)
class RoleGrants:
    """The entries of one role, under the role's name."""

    role: str
    entries: tuple[RoleEntry, ...]


@dataclass(frozen=True)
class Grants:
    """The union over all roles, limited by the scope; without roles, nothing is allowed."""

    roles: tuple[RoleGrants, ...]
    member: bool = True  # of the organization; without membership there are no roles either
    scope: RoleGrants | None = None  # of the access token, under its name; None: no limit

    def entries_for(self, permission: Permission) -> tuple[tuple[str, RoleEntry], ...]:
        """Return the entries that name the permission, each with its role's name, in the order of the roles."""
        return self._by_permission.get(permission, ())

    @cached_property
    def _by_permission(self) -> dict[Permission, tuple[tuple[str, RoleEntry], ...]]:
        found: dict[Permission, list[tuple[str, RoleEntry]]] = {}
        for role in self.roles:
            for entry in role.entries:
                found.setdefault(entry.permission, []).append((role.role, entry))
        return {permission: tuple(entries) for permission, entries in found.items()}

    def entries_about(self, permission: Permission, resource: Resource) -> Sequence[tuple[str, RoleEntry]]:
        """Return those of `entries_for` that may cover the resource."""
        entries = self.entries_for(permission)
        if len(entries) <= _SCANNED:
            return entries
        if permission not in self._by_object:
            self._by_object[permission] = _ObjectIndex((each, each[1].patterns) for each in entries)
        return self._by_object[permission].about(resource)

    @cached_property
    def _by_object(self) -> dict[Permission, _ObjectIndex[tuple[str, RoleEntry]]]:
        return {}


NO_GRANTS = Grants((), member=False)
_FEW = 16  # patterns of an entry that plainly allows everything
_EVERYWHERE = (Pattern("/*"),)
# Of the role of kind 'administrator': by the code, not by a stored text, so that a permission added later is included.
ALL_GRANTS = tuple(RoleEntry(permission, _EVERYWHERE) for permission in Permission)
# The texts that the two built-in roles are created with and show.
ADMINISTRATOR_TEXT = "".join(f"- {permission}: [/*]\n" for permission in Permission)
GUEST_TEXT = "- Read: [/*]\n"


@dataclass(frozen=True, slots=True)
class Decision:
    """Allowed or not; when allowed, the role, its entry and the pattern for the first resource that decided."""

    allowed: bool
    role: str | None = None
    entry: RoleEntry | None = None
    pattern: Pattern | None = None


_DENIED = Decision(allowed=False)
_REASONS_SHOWN = 10
_kind_matches = lru_cache(permissions.segment_matches)  # there are few kinds, and each decision asks
_SCANNED = 8  # patterns or entries: to compare so few is faster than to look in an index


def decide(grants: Grants, permission: Permission, resources: tuple[Resource, ...]) -> Decision:
    """Decide whether these grants allow an operation on the resources; the first one is the operation's object."""
    assert resources, "an operation touches at least its object"
    if permission in _UNDIVIDED and not holds(grants, permission):
        return _DENIED
    if grants.scope is not None and not _is_in_scope(grants.scope, permission, resources):
        return _DENIED
    for role, entry in grants.entries_about(permission, resources[0]):
        pattern = entry.covering(resources[0])
        if pattern is not None and _first_uncovered_beside(entry, resources) is None:
            return Decision(allowed=True, role=role, entry=entry, pattern=pattern)
    return _DENIED


# Whoever may do it sees all of it (decision 0173).
_UNDIVIDED = frozenset({Permission.VIEW_AUDIT, Permission.PROVISION_USERS})


def may_concern(grants: Grants, permission: Permission, kind: str) -> bool:
    """Tell whether the permission is held for any object of a kind, such as `users`, as far as the roles say."""
    return any(entry.mentions(kind) for _, entry in grants.entries_for(permission))


def is_of_no_use(entry: RoleEntry) -> bool:
    """Tell whether an entry allows nothing, since its permission is for everything or not at all."""
    return entry.permission in _UNDIVIDED and not _implies(RoleEntry(entry.permission, _EVERYWHERE), entry)


def holds(grants: Grants, permission: Permission) -> bool:
    """Tell whether the permission is held for operations that are about no single object.

    For anything at all, or for everything, if what they show isn't split by objects.
    """
    scope = grants.scope
    if permission in _UNDIVIDED:
        held = (entry for _, entry in grants.entries_for(permission))
        every = [held] if scope is None else [held, scope.entries]
        return all(extent(entries, permission) == "all" for entries in every)
    if scope is not None and not any(entry.patterns for entry in scope.entries if entry.permission is permission):
        return False
    return any(entry.patterns for _, entry in grants.entries_for(permission))


class InstancePatterns(NamedTuple):
    """Which instances are allowed, for statements.

    The first five are patterns of LIKE and the numbers of their entries: those of one entry match an instance's IDs.
    `whole` are applications, and `places` environments, whose instances are all allowed, without a pattern. The last
    two are IDs that the patterns name, of applications or instances and of environments: nothing else can match. None
    if a pattern has a wildcard.
    """

    applications: list[str]
    instances: list[str]
    entries: list[int]
    environments: list[str]
    environment_entries: list[int]
    whole: list[str]
    places: list[str]
    named: list[str] | None
    named_environments: list[str] | None


_ANYWHERE = 0  # the number of all entries that are about every environment


def instance_patterns(entries: Iterable[RoleEntry], permission: Permission) -> InstancePatterns | None:
    """Return for which instances and environments the entries allow an operation.

    None is all of them. It decides as `decide` does, for lists whose database must do it. Patterns of an entry aren't
    multiplied: a role with 500 applications and 500 environments has a thousand patterns.
    """
    objects: list[tuple[str, str, int]] = []
    environments = [("*", _ANYWHERE)]
    whole: list[str] = []
    whole_places: list[str] = []
    for number, entry in enumerate((each for each in entries if each.permission is permission), _ANYWHERE + 1):
        limited = any(pattern.concerns("environments") for pattern in entry.patterns)
        places = [each for pattern in entry.patterns for [each] in _ids_of(pattern, "environments")]
        is_anywhere = not limited or "*" in places
        if not is_anywhere:
            environments += [(place, number) for place in places]
        for pattern in entry.patterns:
            for application, instance in _ids_of(pattern, "applications", "instances"):
                if is_anywhere and application == instance == "*":
                    return None
                if is_anywhere and instance == "*" and "*" not in application:
                    whole.append(application)
                elif application == instance == "*" and not any("*" in place for place in places):
                    whole_places += places
                else:
                    objects.append((application, instance, _ANYWHERE if is_anywhere else number))
    named = [next((each for each in pair[:2] if "*" not in each), None) for pair in objects]
    needed = {number for *_, number in objects}
    environments = [each for each in environments if each[1] in needed]
    return InstancePatterns(
        [_like(application) for application, _, _ in objects],
        [_like(instance) for _, instance, _ in objects],
        [number for *_, number in objects],
        [_like(place) for place, _ in environments],
        [number for _, number in environments],
        list(dict.fromkeys(whole)),
        list(dict.fromkeys(whole_places)),
        None if None in named else [each for each in named if each is not None],
        None if any("*" in place for place, _ in environments) else [place for place, _ in environments],
    )


def _ids_of(pattern: Pattern, *kinds: str) -> Iterator[list[str]]:
    """Yield patterns for the IDs in covered paths `/kind/ID/kind/ID…`."""
    segments = pattern.segments
    if pattern.covers_below:
        segments = (*segments, *("*",) * (2 * len(kinds) - len(segments)))
    if len(segments) == 2 * len(kinds) and all(map(permissions.segment_matches, segments[::2], kinds)):
        yield [segment if segment.strip("*") else "*" for segment in segments[1::2]]


def _like(segment: str) -> str:
    return _LIKE.sub(r"\\\g<0>", segment).replace("*", "%")


_LIKE = re.compile(r"[\\%_]")


def visible(grants: Grants, permission: Permission) -> dict[str, Any]:
    """Return the parameters of `{visible(…)}` in statements: the instances with a permission."""
    entries = [entry for _, entry in grants.entries_for(permission)]
    scope = None if grants.scope is None else grants.scope.entries
    return _parameters("seen", entries, permission) | _parameters("scoped", scope, permission)


def sees_none(parameters: Mapping[str, Any]) -> bool:
    """Tell whether no instance can fit what `visible` returned."""
    return any(
        parameters[name] == parameters[f"{name}_whole"] == parameters[f"{name}_places"] == []
        for name in ("seen", "scoped")
    )


def _parameters(name: str, entries: Iterable[RoleEntry] | None, permission: Permission) -> dict[str, Any]:
    found = None if entries is None else instance_patterns(entries, permission)
    fields = {name if field == "applications" else f"{name}_{field}": field for field in InstancePatterns._fields}
    return {parameter: None if found is None else getattr(found, field) for parameter, field in fields.items()}


def explain(grants: Grants, permission: Permission, resources: tuple[Resource, ...]) -> tuple[Decision, str]:
    """Return the decision together with a sentence that says what decided, or what is missing."""
    decision = decide(grants, permission, resources)
    if permission in _UNDIVIDED and grants.entries_for(permission) and not holds(grants, permission):
        return decision, f"{permission} is for everything or not at all: the role and the token's scope must name /*."
    if decision.allowed:
        assert decision.pattern is not None
        return decision, f"Role {decision.role!r} allows it by '{decision.pattern.text}' in '{decision.entry}'."
    if grants.scope is not None and not _is_in_scope(grants.scope, permission, resources):
        return decision, f"The scope of the access token {grants.scope.role!r} doesn't allow it."
    entries = grants.entries_for(permission)
    if not entries:
        held = ", ".join(repr(role.role) for role in grants.roles) or "none"
        return decision, f"No role held names {permission}. Roles held: {held}."
    reasons = [
        f"role {role!r} has '{entry}', which does not cover {_first_uncovered(entry, resources)}"
        for role, entry in entries[:_REASONS_SHOWN]
    ]
    if len(entries) > _REASONS_SHOWN:
        reasons.append(f"and {len(entries) - _REASONS_SHOWN} more")
    return decision, f"No entry covers it: {'; '.join(reasons)}."


def is_within(entries: Collection[RoleEntry], scope: Collection[RoleEntry]) -> bool:
    """Whether each of the entries allows only what an entry of the scope allows.

    Compares one entry with one: what only several entries of the scope allow together isn't within it.
    """
    return all(any(_implies(entry, wider) for wider in scope) for entry in entries)


def extent(entries: Iterable[RoleEntry], permission: Permission) -> str:
    """Return for what the entries hold a permission: `all`, `some`, or `none`."""
    held = [entry for entry in entries if entry.permission is permission and entry.patterns]
    if not held:
        return "none"
    return "all" if is_within((RoleEntry(permission, _EVERYWHERE),), held) else "some"


def split_entry(entry: RoleEntry) -> tuple[RoleEntry, ...]:
    """Return entries of one pattern that together allow the same.

    An entry stays whole if a pattern limits another kind than the first one.
    """
    kinds = {pattern.segments[0] for pattern in entry.patterns}
    if len(kinds) > 1 or (any("*" in kind for kind in kinds) and len(entry.patterns) > 1):
        return (entry,)
    return tuple(RoleEntry(entry.permission, (pattern,)) for pattern in entry.patterns)


def entries_beyond(entries: Iterable[RoleEntry], known: Collection[RoleEntry]) -> list[RoleEntry]:
    """Return what allows more than the known entries, in parts if possible.

    Whoever may do everything, or has the same entry, is known at once. Others are compared with what begins with the
    same object or a wildcard: comparing all with all would take seconds.
    """
    wider: dict[Permission, list[RoleEntry]] = {}
    for each in known:
        wider.setdefault(each.permission, []).append(each)
    everywhere = {permission for permission, held in wider.items() if any(map(_is_everywhere, held))}
    parts = dict.fromkeys(
        part for entry in entries if entry.permission not in everywhere for part in split_entry(entry)
    )
    same = set(known).union(*(split_entry(each) for each in known)) if parts else set()
    found = []
    indices: dict[Permission, _ObjectIndex[RoleEntry]] = {}
    for part in parts:
        held = wider.get(part.permission, [])
        if part in same:
            continue
        if len(held) > _SCANNED and part.patterns:
            if part.permission not in indices:
                indices[part.permission] = _ObjectIndex((each, each.patterns) for each in held)
            held = indices[part.permission].about(part.patterns[0])
        if not is_within((part,), held):
            found.append(part)
    return found


def _is_everywhere(entry: RoleEntry) -> bool:
    """Return whether an entry plainly allows everything. One of very many patterns may do so less plainly."""
    return len(entry.patterns) <= _FEW and _implies(RoleEntry(entry.permission, _EVERYWHERE), entry)


def holds_everything(grants: Grants) -> bool:
    """Return whether grants plainly are those of an administrator, without a scope."""
    return grants.scope is None and any(role.entries == ALL_GRANTS for role in grants.roles)


def beyond(grants: Grants, entries: Collection[RoleEntry]) -> list[RoleEntry]:
    """Return what allows more than these grants do.

    Entries are in parts if possible. Who holds the grants can't give it to anybody. A scope bounds them too.
    """
    if holds_everything(grants):
        return []
    held = [entry for role in grants.roles for entry in role.entries]
    found = entries_beyond(entries, held)
    if grants.scope is not None:
        found += entries_beyond(entries, grants.scope.entries)
    return list(dict.fromkeys(found))


def _implies(entry: RoleEntry, wider: RoleEntry) -> bool:
    """Whether all that the entry allows is allowed by the wider one.

    A kind that the wider one mentions is limited by it. An entry that doesn't mention it allows all of that kind.
    """
    if entry.permission is not wider.permission:
        return False
    unmentioned = (
        Pattern(f"/{kind}/*") for kind in permissions.KINDS if wider.mentions(kind) and not entry.mentions(kind)
    )
    return all(map(wider.includes, (*entry.patterns, *unmentioned)))


def _is_in_scope(scope: RoleGrants, permission: Permission, resources: tuple[Resource, ...]) -> bool:
    entries = (entry for entry in scope.entries if entry.permission is permission)
    return any(_first_uncovered(entry, resources) is None for entry in entries)


def _first_uncovered(entry: RoleEntry, resources: tuple[Resource, ...]) -> Resource | None:
    return resources[0] if entry.covering(resources[0]) is None else _first_uncovered_beside(entry, resources)


def _first_uncovered_beside(entry: RoleEntry, resources: tuple[Resource, ...]) -> Resource | None:
    """Return the first resource after the operation's object that the entry excludes."""
    for resource in resources[1:]:
        if entry.mentions(resource.kind) and entry.covering(resource) is None:
            return resource
    return None


def can_manage_roles(grants: Grants, user_id: str) -> bool:
    """Tell whether who holds these grants may assign roles to the user and revoke them."""
    return decide(grants, Permission.MANAGE_ROLES, (permissions.user(user_id),)).allowed


def can_evict(grants: Grants, user_id: str, administrators: Collection[str]) -> bool:
    """Tell whether who holds these grants may remove the user, who must not be the last administrator."""
    permitted = decide(grants, Permission.MANAGE_USERS, (permissions.user(user_id),)).allowed
    return permitted and not leaves_no_administrator(administrators, user_id)


_FINDINGS_SHOWN = 20
_SHAPE = "a role is a list such as '- CreateInstance: [/applications/*]'"


def entries_of_role(kind: RoleKind, text: str) -> tuple[RoleEntry, ...]:
    """Return what a stored role allows; the built-in Administrator allows everything."""
    return ALL_GRANTS if kind is RoleKind.ADMINISTRATOR else read_role_text(text)


def read_role_text(text: str) -> tuple[RoleEntry, ...]:
    """Return the entries of a role in their order; an empty text has none.

    Raises BadRequest with line and column for bad YAML, another shape, an unknown permission name or a bad pattern.
    """
    try:
        size = len(text.encode("utf-8"))
    except UnicodeEncodeError as error:
        _refuse_at_index(text, error.start, "half of a surrogate pair is not a character")
    if size > ROLE_TEXT_BYTES:
        raise BadRequest(
            f"The permissions of a role have at most {ROLE_TEXT_BYTES} bytes, these have {size}.", field="permissions"
        )
    reader = _Reader(text)
    try:
        entries = reader.document()
    except yaml.MarkedYAMLError as error:
        _refuse_syntax(text, error)
    except yaml.reader.ReaderError:
        found = yaml.reader.Reader.NON_PRINTABLE.search(text)
        _refuse_at_index(text, found.start() if found else 0, "this character isn't allowed in YAML")
    if reader.findings:
        more = len(reader.findings) - _FINDINGS_SHOWN
        rest = [f"There are {more} more errors like these."] if more > 0 else []
        raise BadRequest(*reader.findings[:_FINDINGS_SHOWN], *rest, code="InvalidRole", field="permissions")
    return entries


class _Mark(Protocol):
    """A place as PyYAML's C parser and its Python parser both give it; the numbers start at 0."""

    @property
    def line(self) -> int: ...

    @property
    def column(self) -> int: ...


class _Reader:
    """Goes through the events once. What is wrong in meaning is collected, what is wrong in shape is raised."""

    def __init__(self, text: str) -> None:
        self.findings: list[str] = []
        self._events: Iterator[yaml.Event] = yaml.parse(text, Loader=yaml.CSafeLoader)
        self._patterns = 0

    def document(self) -> tuple[RoleEntry, ...]:
        self._next()  # the start of the stream
        if isinstance(self._next(), yaml.StreamEndEvent):
            return ()
        event = self._next()
        entries: list[RoleEntry] = []
        if isinstance(event, yaml.SequenceStartEvent):
            while not isinstance(event := self._next(), yaml.SequenceEndEvent):
                entries += self._entry(event)
        elif not (isinstance(event, yaml.ScalarEvent) and event.value == ""):
            _refuse(event.start_mark, _SHAPE)
        self._next()  # the end of the document
        event = self._next()
        if not isinstance(event, yaml.StreamEndEvent):
            _refuse(event.start_mark, "a role is one YAML document, here begins another one")
        return tuple(entries)

    def _entry(self, event: yaml.Event) -> list[RoleEntry]:
        if not isinstance(event, yaml.MappingStartEvent):
            _refuse(event.start_mark, f"an entry is a permission name with a list of patterns; {_SHAPE}")
        entries = []
        names: set[str] = set()
        while not isinstance(event := self._next(), yaml.MappingEndEvent):
            if not isinstance(event, yaml.ScalarEvent):
                _refuse(event.start_mark, "expected a permission name")
            permission = self._permission(event, names)
            patterns = self._pattern_list(event.value)
            if permission is not None:
                entries.append(RoleEntry(permission, patterns))
        return entries

    def _permission(self, event: yaml.ScalarEvent, names: set[str]) -> Permission | None:
        if event.value in names:
            self._find(
                event.start_mark, f"duplicate permission {event.value!r} in one entry; start another entry with '-'"
            )
        names.add(event.value)
        permission = permission_named(event.value)
        if permission is None:
            near = get_close_matches(event.value[:80], list(Permission), 1)
            meant = f"Did you mean {near[0]}? " if near else ""
            known = ", ".join(Permission)
            self._find(event.start_mark, f"{event.value[:80]!r} is not a permission. {meant}Permissions: {known}")
        return permission

    def _pattern_list(self, name: str) -> tuple[Pattern, ...]:
        event = self._next()
        if not isinstance(event, yaml.SequenceStartEvent):
            _refuse(
                event.start_mark, f"{name[:80]!r} needs a list of resource path patterns, such as [/applications/*]"
            )
        patterns = []
        while not isinstance(event := self._next(), yaml.SequenceEndEvent):
            if not isinstance(event, yaml.ScalarEvent):
                _refuse(event.start_mark, "a resource path pattern must be a string, such as /applications/*")
            self._patterns += 1
            if self._patterns > ROLE_PATTERNS:
                _refuse(event.start_mark, f"a role has at most {ROLE_PATTERNS} patterns; the rest begins here")
            try:
                patterns.append(parse_pattern(event.value))
            except ValueError as error:
                self._find(event.start_mark, str(error))
        return tuple(patterns)

    def _next(self) -> yaml.Event:
        event = next(self._events)
        if isinstance(event, yaml.AliasEvent) or getattr(event, "anchor", None) is not None:
            _refuse(event.start_mark, "anchors and aliases have no place in a role; write the patterns out")
        if getattr(event, "tag", None) is not None:
            _refuse(event.start_mark, "tags have no place in a role; leave out what begins with '!'")
        return event

    def _find(self, mark: _Mark | None, problem: str) -> None:
        self.findings.append(_message_at(mark, problem))


def _message_at(mark: _Mark | None, problem: str) -> str:
    assert mark is not None, "the parser gives every event a place"
    return f"Line {mark.line + 1}, column {mark.column + 1}: {problem}."


def _refuse(mark: _Mark | None, problem: str) -> NoReturn:
    raise BadRequest(_message_at(mark, problem), code="InvalidRole", field="permissions")


def _refuse_syntax(text: str, error: yaml.MarkedYAMLError) -> NoReturn:
    problem = error.problem or "this is not YAML"
    mark = error.problem_mark or error.context_mark
    # The parser may see the end of the text on a line that the text does not have.
    if mark is None or mark.line > text.rstrip("\n").count("\n"):
        _refuse_at_index(text, len(text.rstrip("\n")), problem)
    _refuse(mark, problem)


def _refuse_at_index(text: str, index: int, problem: str) -> NoReturn:
    line = text.count("\n", 0, index) + 1
    column = index - text.rfind("\n", 0, index)
    raise BadRequest(f"Line {line}, column {column}: {problem}.", code="InvalidRole", field="permissions")
