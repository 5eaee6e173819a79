"""What OpenTofu's `show -json` of a saved plan says, as effects. Pure."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Literal

import msgspec

from launchbay.actions.plan import mask
from launchbay.model.effect import AFTER_APPLY, Certainty, Effect, EffectKind
from launchbay.model.redaction import REDACTED

_DELETE_FIRST, _CREATE_FIRST = ("delete", "create"), ("create", "delete")
_WARNINGS_EACH = 3  # of one check
_TEXT_CHARS = 100  # of a value in a refusal
_REASONS: Mapping[str, str] = {
    "replace_because_cannot_update": "it can't be changed in place",
    "replace_because_tainted": "its creation had failed",
    "replace_by_request": "the plan asks for it",
    "replace_by_triggers": "what it depends on changes",
    "delete_because_no_resource_config": "the module no longer has it",
    "delete_because_no_module": "the module no longer has its module",
    "delete_because_wrong_repetition": "its repetition changed",
    "delete_because_count_index": "its count is smaller",
    "delete_because_each_key": "its key is gone",
    "delete_because_no_move_target": "where it moved no longer exists",
    "read_because_config_unknown": "its parameters are known only then",
    "read_because_dependency_pending": "what it depends on changes first",
}


class Change(msgspec.Struct, frozen=True):
    """The values on both sides.

    Marks of unknown and sensitive ones have the same shape.
    """

    actions: list[str] = []
    before: Any = None
    after: Any = None
    after_unknown: Any = False
    before_sensitive: Any = False
    after_sensitive: Any = False
    replace_paths: list[list[Any]] = []
    importing: dict[str, Any] | None = None


class ResourceChange(msgspec.Struct, frozen=True):
    """What happens to a resource, or what somebody did to it."""

    address: str
    change: Change
    mode: str = "managed"
    previous_address: str | None = None
    action_reason: str | None = None
    deposed: str | None = None


class _Display(msgspec.Struct, frozen=True):
    to_display: str = ""


class _Problem(msgspec.Struct, frozen=True):
    message: str = ""


class _CheckInstance(msgspec.Struct, frozen=True):
    problems: list[_Problem] = []


class _Check(msgspec.Struct, frozen=True):
    address: _Display = _Display()
    status: str = ""
    instances: list[_CheckInstance] = []


class ShownPlan(msgspec.Struct, frozen=True):
    """What is read of a plan. Programs add fields in every release."""

    resource_changes: list[ResourceChange] = []
    resource_drift: list[ResourceChange] = []
    output_changes: dict[str, Change] = {}
    checks: list[_Check] = []
    complete: bool = True
    deferred_changes: Sequence[Any] = ()

    def effects(self) -> tuple[Effect, ...]:
        """Return what happens to resources and outputs."""
        found = [effect for each in self.resource_changes for effect in _of_resource(each)]
        found += [effect for name, change in self.output_changes.items() for effect in _of_output(name, change)]
        if self.deferred_changes or not self.complete:
            note = "OpenTofu defers a part, which another plan shows after this one."
            found.append(Effect(kind="unknown", address="(deferred)", certainty="unknown", note=note))
        return tuple(found)

    def warnings(self) -> tuple[str, ...]:
        """Return which checks fail, and what somebody changed outside."""
        found = [f"{each.address} was changed outside of its state." for each in self.resource_drift]
        for check in self.checks:
            if check.status in {"fail", "error"}:
                problems = [problem.message for each in check.instances for problem in each.problems]
                found.append(f"{check.address.to_display}: {'; '.join(problems[:_WARNINGS_EACH]) or check.status}")
        return tuple(found)

    def secrets(self) -> list[Any]:
        """Return the sensitive values, of which no text may have any."""
        found: list[Any] = []
        changes = [*(each.change for each in (*self.resource_changes, *self.resource_drift))]
        for change in (*changes, *self.output_changes.values()):
            found += _marked(change.before, change.before_sensitive)
            found += _marked(change.after, change.after_sensitive)
        return found


def _of_resource(found: ResourceChange) -> Iterator[Effect]:
    change, actions = found.change, tuple(found.change.actions)
    before = masked(change.before, change.before_sensitive, None)
    after = masked(change.after, change.after_sensitive, change.after_unknown)
    certainty: Certainty = "estimated" if _is_marked(change.after_unknown) else "exact"
    address = found.address if found.deposed is None else f"{found.address} (deposed {found.deposed})"
    notes = _notes(found)

    def effect(kind: EffectKind, *, old: Any = None, new: Any = None, sure: Certainty = "exact") -> Effect:
        return Effect(kind=kind, address=address, before=old, after=new, certainty=sure, note="; ".join(notes))

    if actions in {_DELETE_FIRST, _CREATE_FIRST}:
        notes.insert(0, "replaced")
        yield effect("delete", old=before)
        yield effect("create", new=after, sure=certainty)
    elif actions == ("create",):
        yield effect("create", new=after, sure=certainty)
    elif actions == ("delete",):
        yield effect("delete", old=before)
    elif actions == ("update",):
        old, new = differing(change, before, after)
        yield effect("change", old=old, new=new, sure=certainty)
    elif "forget" in actions or "remove" in actions:
        notes.insert(0, "forgotten: it stays, but is no longer managed")
        yield effect("change", old=before)
        if "create" in actions:
            yield effect("create", new=after, sure=certainty)
    elif actions == ("read",):
        notes.insert(0, "is read")
        yield effect("run")
    elif actions in {("no-op",), ()}:
        if notes:  # moved or imported, and nothing else
            yield effect("change")
    else:
        notes.insert(0, f"OpenTofu plans {', '.join(actions)}")
        yield effect("unknown", old=before, new=after, sure="unknown")


def _notes(found: ResourceChange) -> list[str]:
    notes: list[str] = []
    if found.previous_address and found.previous_address != found.address:
        notes.append(f"moved from {found.previous_address}")
    if found.change.importing is not None:
        notes.append(f"imported from {found.change.importing.get('id') or AFTER_APPLY}")
    if found.action_reason:
        notes.append(_REASONS.get(found.action_reason, found.action_reason.replace("_", " ")))
    if found.change.replace_paths:
        paths = (".".join(map(str, path)) for path in found.change.replace_paths)
        notes.append(f"because of {', '.join(paths)}")
    return notes


def _of_output(name: str, change: Change) -> Iterator[Effect]:
    if tuple(change.actions) in {("no-op",), ()}:
        return
    is_unknown = _is_marked(change.after_unknown)
    yield Effect(
        kind="change",  # no more than a value: one that goes deletes nothing
        address=f"output.{name}",
        before=masked(change.before, change.before_sensitive, None),
        after=masked(change.after, change.after_sensitive, change.after_unknown),
        certainty="estimated" if is_unknown else "exact",
    )


def differing(change: Change, before: Any, after: Any) -> tuple[Any, Any]:
    """Return of two masked objects what differs, also where both show the mask."""
    if not isinstance(before, Mapping) or not isinstance(after, Mapping):
        return before, after
    raw_before, raw_after = change.before or {}, change.after or {}
    names = [
        name
        for name in dict.fromkeys((*before, *after))
        if before.get(name) != after.get(name) or raw_before.get(name) != raw_after.get(name)
    ]
    return {name: before.get(name) for name in names}, {name: after.get(name) for name in names}


def masked(value: Any, sensitive: Any, unknown: Any) -> Any:
    """Return a value with a text in each place that is marked."""
    if sensitive is True:
        return None if value is None and not _is_marked(unknown) else REDACTED
    if unknown is True or (value is None and isinstance(unknown, list) and _is_marked(unknown)):
        return AFTER_APPLY
    if isinstance(value, Mapping) or (value is None and isinstance(unknown, Mapping) and _is_marked(unknown)):
        inside: Mapping[str, Any] = value or {}
        unknowns = unknown if isinstance(unknown, Mapping) else {}
        marks = sensitive if isinstance(sensitive, Mapping) else {}
        names = [*inside, *(name for name in unknowns if name not in inside and _is_marked(unknowns[name]))]
        return {name: masked(inside.get(name), marks.get(name, False), unknowns.get(name, False)) for name in names}
    if isinstance(value, list):
        return [masked(item, _at(sensitive, number), _at(unknown, number)) for number, item in enumerate(value)]
    return value


def _at(marks: Any, number: int) -> Any:
    return marks[number] if isinstance(marks, list) and number < len(marks) else False


def _is_marked(marks: Any) -> bool:
    if isinstance(marks, Mapping):
        return any(map(_is_marked, marks.values()))
    if isinstance(marks, list):
        return any(map(_is_marked, marks))
    return marks is True


def _marked(value: Any, marks: Any) -> list[Any]:
    if marks is True:
        return [] if value is None else [value]
    if isinstance(value, Mapping) and isinstance(marks, Mapping):
        return [found for name, item in value.items() for found in _marked(item, marks.get(name, False))]
    if isinstance(value, list):
        return [found for number, item in enumerate(value) for found in _marked(item, _at(marks, number))]
    return []


def world_differences(approved: ShownPlan, now: ShownPlan, state: str, redact: Callable[[str], str]) -> list[str]:
    """Return how a new plan finds another world than the approved one.

    Module, `state` and versions are the same. So what differs was changed outside: what happens to an address, or a
    value that it has before. Values after it aren't compared: the approved plan has them, and times always differ.
    """
    old, new = _by_address(approved.resource_changes), _by_address(now.resource_changes)
    stored = _stored_attributes(state)
    found: list[str] = []
    for address in dict.fromkeys((*old, *new)):
        verbs = [_verb(plan.get(address)) for plan in (old, new)]
        if verbs[0] != verbs[1]:
            found.append(f"{redact(address)}: {verbs[1]} instead of {verbs[0]}")
        elif verbs[0] != _NOTHING:
            attributes = stored.get(old[address].previous_address or address, {})
            found += _other_values(old[address], new[address], attributes, redact)
    return found


def _by_address(changes: Sequence[ResourceChange]) -> dict[str, ResourceChange]:
    return {
        each.address if each.deposed is None else f"{each.address} (deposed {each.deposed})": each
        for each in changes
        if each.mode == "managed"
    }


_NOTHING = "nothing happens"
_VERBS: Mapping[tuple[str, ...], str] = {
    ("create",): "it is created",
    ("update",): "it is changed",
    ("delete",): "it is deleted",
    _DELETE_FIRST: "it is replaced",
    _CREATE_FIRST: "it is replaced",
    ("no-op",): _NOTHING,
    (): _NOTHING,
}


def _verb(found: ResourceChange | None) -> str:
    """Return what happens to a resource."""
    if found is None:
        return _NOTHING
    actions = tuple(found.change.actions)
    return _VERBS.get(actions, f"OpenTofu plans {', '.join(actions)}")


def _other_values(
    old: ResourceChange, new: ResourceChange, stored: Mapping[str, Any], redact: Callable[[str], str]
) -> Iterator[str]:
    """Yield what a resource has now instead of then, without noise.

    Noise are attributes that the provider sets later, and those that already differed from the `stored` ones then,
    unless the plan changes them.
    """
    sides = [each.change.before if isinstance(each.change.before, Mapping) else {} for each in (old, new)]
    unknown = old.change.after_unknown if isinstance(old.change.after_unknown, Mapping) else {}
    changed = set() if old.change.after is None else set(_changed_names(old.change))
    for name in dict.fromkeys((*sides[0], *sides[1])):
        if sides[0].get(name) == sides[1].get(name) or _is_marked(unknown.get(name)):
            continue
        if name in changed or stored.get(name) == sides[0].get(name):
            was, found = (_text(each.change, name, redact) for each in (old, new))
            yield f"{redact(old.address)}: {name} is {found} instead of {was}"


def _changed_names(change: Change) -> Iterator[str]:
    sides = [side if isinstance(side, Mapping) else {} for side in (change.before, change.after)]
    return (name for name in dict.fromkeys((*sides[0], *sides[1])) if sides[0].get(name) != sides[1].get(name))


def _text(change: Change, name: str, redact: Callable[[str], str]) -> str:
    """Return the value before, without secrets, as a short text."""
    value = masked(change.before, change.before_sensitive, None)
    text = msgspec.json.encode(mask({name: value.get(name)}, redact)[redact(name)]).decode()
    return text if len(text) <= _TEXT_CHARS else f"{text[:_TEXT_CHARS]}…"


Operation = Literal["apply", "destroy", "plan"]


class SavedPlan(msgspec.Struct, frozen=True):
    """The artifact: a plan file, and what it was made of.

    Without a file the step changes nothing: it plans, or has no module to destroy.

    OpenTofu itself ignores variables that changed since, and applies two plans of an empty state.
    """

    operation: Operation
    plan: bytes
    lock: bytes  # the versions of providers, as chosen for the plan
    module: bytes  # digest
    state: bytes  # digest
    serial: int
    lineage: str

    def encoded(self) -> bytes:
        return msgspec.msgpack.encode(self)


read_saved_plan = msgspec.msgpack.Decoder(SavedPlan).decode
read_shown_plan = msgspec.json.Decoder(ShownPlan).decode


class _StateInstance(msgspec.Struct, frozen=True):
    attributes: dict[str, Any] = {}
    index_key: int | str | None = None
    deposed: str | None = None


class _StateResource(msgspec.Struct, frozen=True):
    type: str
    name: str
    module: str | None = None
    instances: list[_StateInstance] = []


class _StateResources(msgspec.Struct, frozen=True):
    resources: list[_StateResource] = []


def _stored_attributes(state: str) -> dict[str, Mapping[str, Any]]:
    """Return the attributes in a state by address.

    A value of any type has its type next to it there.
    """
    found: dict[str, Mapping[str, Any]] = {}
    for each in msgspec.json.decode(state, type=_StateResources).resources if state else ():
        for one in each.instances:
            index = "" if one.index_key is None else f"[{msgspec.json.encode(one.index_key).decode()}]"
            deposed = f" (deposed {one.deposed})" if one.deposed else ""
            address = f"{each.module + '.' if each.module else ''}{each.type}.{each.name}{index}{deposed}"
            found[address] = {name: _untyped(value) for name, value in one.attributes.items()}
    return found


def _untyped(value: Any) -> Any:
    return value["value"] if isinstance(value, Mapping) and value.keys() == {"value", "type"} else value


class _StateHead(msgspec.Struct, frozen=True):
    serial: int = 0
    lineage: str = ""


def state_head(state: str) -> tuple[int, str]:
    """Return serial and lineage of a state; those of none are 0 and empty."""
    head = msgspec.json.decode(state, type=_StateHead) if state else _StateHead()
    return head.serial, head.lineage
