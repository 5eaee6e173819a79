"""The only decision about permissions, pure. Use cases reach it through `lookup.py` alone.

An entry allows an operation when

1. one of its patterns covers the first resource, the object of the operation, and
2. for every other resource that the operation touches: one of its patterns covers it, or none of them is of that
   resource's kind. So `CreateInstance: [/applications/*, /environments/<dev>]` launches anything, but only in that
   environment, and `CreateInstance: [/applications/*]` launches anything anywhere.

Patterns of one kind are alternatives; entries and roles are a union (api-decisions, "Within one entry").
"""

from dataclasses import dataclass

from launchbay.access.grants import Entry, Grants
from launchbay.access.patterns import Pattern
from launchbay.access.permissions import Permission
from launchbay.access.resources import Resource


@dataclass(frozen=True, slots=True)
class Decision:
    """Allowed or not; when allowed, the role, its entry and the pattern for the first resource that decided."""

    allowed: bool
    role: str | None = None
    entry: Entry | None = None
    pattern: Pattern | None = None


_DENIED = Decision(allowed=False)
_REASONS_SHOWN = 10


def decide(grants: Grants, permission: Permission, resources: tuple[Resource, ...]) -> Decision:
    """Decide whether these grants allow an operation on the resources; the first one is the operation's object."""
    assert resources, "an operation touches at least its object"
    for role, entry in grants.entries_for(permission):
        pattern = _covering(entry, resources[0])
        if pattern is not None and _first_uncovered(entry, resources) is None:
            return Decision(allowed=True, role=role, entry=entry, pattern=pattern)
    return _DENIED


def holds(grants: Grants, permission: Permission) -> bool:
    """Tell whether the permission is held for anything at all, for operations that are about no single object."""
    return any(entry.patterns for _, entry in grants.entries_for(permission))


def explain(grants: Grants, permission: Permission, resources: tuple[Resource, ...]) -> tuple[Decision, str]:
    """Return the decision together with a sentence that says what decided, or what is missing."""
    decision = decide(grants, permission, resources)
    if decision.allowed:
        assert decision.pattern is not None
        return decision, f"Role {decision.role!r} allows it by '{decision.pattern.text}' in '{decision.entry}'."
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


def _first_uncovered(entry: Entry, resources: tuple[Resource, ...]) -> Resource | None:
    if _covering(entry, resources[0]) is None:
        return resources[0]
    for resource in resources[1:]:
        mentioned = any(pattern.concerns(resource.kind) for pattern in entry.patterns)
        if mentioned and _covering(entry, resource) is None:
            return resource
    return None


def _covering(entry: Entry, resource: Resource) -> Pattern | None:
    return next((pattern for pattern in entry.patterns if pattern.covers(resource)), None)
