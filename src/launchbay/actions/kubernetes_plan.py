"""What happens to objects of a cluster, and what is held. Pure."""

import base64
import binascii
import hashlib
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import msgspec

from launchbay.actions.plan import refuse_difference
from launchbay.model.effect import Certainty, Effect
from launchbay.model.redaction import REDACTED, is_secret_name, secrets_in

AT_RUN = "(made when it runs)"
Path = tuple[str, ...]
_OF_SERVER = frozenset(("managedFields", "resourceVersion", "generation", "uid", "creationTimestamp", "selfLink"))
_COPY = "kubectl.kubernetes.io/last-applied-configuration"  # of the whole object, with its secrets
_TAKES_ALONG = {"Namespace": "with all that is in it", "CustomResourceDefinition": "with all objects of its kind"}
_SECRET_PARTS = frozenset(("data", "stringData"))


class HeldObject(msgspec.Struct, frozen=True):
    """What a plan promises of one object.

    `varying` are the paths of values that are others each time. The digest leaves them out.
    """

    digest: bytes
    varying: tuple[Path, ...] = ()

    def holds(self, found: Mapping[str, Any]) -> bool:
        """Return whether this is the object that was planned."""
        return _digest(found, self.varying) == self.digest


def held_object(first: Mapping[str, Any], second: Mapping[str, Any]) -> HeldObject:
    """Return what two answers to one request have in common."""
    one, other = leaves(first), leaves(second)
    varying = tuple(path for path in dict.fromkeys((*one, *other)) if _leaf(one, path) != _leaf(other, path))
    return HeldObject(_digest(first, varying), varying)


def _digest(found: Mapping[str, Any], varying: Iterable[Path]) -> bytes:
    left_out = frozenset(varying)
    kept = sorted((list(path), leaf) for path, leaf in leaves(found).items() if path not in left_out)
    return hashlib.sha256(msgspec.json.encode(kept)).digest()


def cleaned(found: Mapping[str, Any]) -> dict[str, Any]:
    """Return an object without its status and what the server counts."""
    metadata = {name: value for name, value in found.get("metadata", {}).items() if name not in _OF_SERVER}
    if isinstance(annotations := metadata.get("annotations"), Mapping):
        metadata["annotations"] = {name: value for name, value in annotations.items() if name != _COPY}
    return {**{name: value for name, value in found.items() if name != "status"}, "metadata": metadata}


def leaves(value: Any, path: Path = ()) -> dict[Path, Any]:
    """Return the values of an object by their paths.

    Empty maps and lists are values too.
    """
    if isinstance(value, Mapping) and value:
        inside: Iterable[tuple[Any, Any]] = value.items()
    elif isinstance(value, list) and value:
        inside = enumerate(value)
    else:
        return {path: value}
    return {at: leaf for name, inner in inside for at, leaf in leaves(inner, (*path, str(name))).items()}


def object_effect(
    address: str,
    before: Mapping[str, Any] | None,
    after: Mapping[str, Any] | None,
    *,
    varying: Iterable[Path] = (),
    note: str = "",
) -> Effect | None:
    """Return what happens to an object, without secrets; None if nothing does.

    `before` and `after` are None if it doesn't exist. Of a change, only what differs is shown.
    """
    old, new = leaves(before or {}), leaves(after or {})
    random = frozenset(varying) & set(new)
    if after is None:
        if before is None:
            return None
        note = "; ".join(filter(None, (note, _TAKES_ALONG.get(str(before.get("kind")), ""))))
        return Effect(kind="delete", address=address, before=_shown(old, old), note=note)
    shown = {**_shown(new, new), **dict.fromkeys(map(_name, random), AT_RUN)}
    certainty: Certainty = "estimated" if random else "exact"
    if before is None:
        return Effect(kind="create", address=address, after=shown, certainty=certainty, note=note)
    differing = [path for path in dict.fromkeys((*old, *new)) if path in random or _leaf(old, path) != _leaf(new, path)]
    if not differing:
        return None
    return Effect(
        kind="change",
        address=address,
        before=_shown(old, {path: old[path] for path in differing if path in old}),
        after={_name(path): shown[_name(path)] for path in differing if path in new},
        certainty=certainty,
        note=note,
    )


def known_secrets(found: Mapping[str, Any]) -> list[str]:
    """Return the values of a `Secret` whose names say that they are secret."""
    if found.get("kind") != "Secret":
        return []
    decoded = {name: _decoded(text) for name, text in _texts(found.get("data"))}
    return secrets_in([decoded, dict(_texts(found.get("stringData")))])


def _texts(values: Any) -> Iterator[tuple[str, str]]:
    if isinstance(values, Mapping):
        yield from ((str(name), text) for name, text in values.items() if isinstance(text, str))


def _decoded(text: str) -> str:
    try:
        return base64.b64decode(text, validate=True).decode()
    except (binascii.Error, ValueError):
        return text


def _shown(found: Mapping[Path, Any], wanted: Mapping[Path, Any]) -> dict[str, Any]:
    is_secret = found.get(("kind",)) == "Secret"
    return {_name(path): REDACTED if is_secret and _is_content(path) else _value(found, path) for path in wanted}


def _is_content(path: Path) -> bool:
    return bool(path) and path[0] in _SECRET_PARTS and len(path) > 1


def _value(found: Mapping[Path, Any], path: Path) -> Any:
    """Return a value, unless its variable has the name of a secret."""
    if path[-1:] == ("value",) and is_secret_name(str(found.get((*path[:-1], "name"), ""))):
        return REDACTED
    return found[path]


def _leaf(found: Mapping[Path, Any], path: Path) -> Any:
    return found.get(path, _MISSING)


def _name(path: Path) -> str:
    return ".".join(path)


_MISSING = object()  # unequal to all values, also to null


class HeldChange(msgspec.Struct, frozen=True):
    """What a plan promises of one object of the cluster.

    `uid` is empty if the object didn't exist.
    """

    uid: str
    change: HeldObject


class ObjectChange(msgspec.Struct, frozen=True):
    """What happens to one object.

    `address` is for people, `key` names the version of the API too. `before` and `after` are None if it doesn't exist.
    `again` is a second answer of the cluster to the same request.
    """

    key: str
    address: str
    before: Mapping[str, Any] | None
    after: Mapping[str, Any] | None
    again: Mapping[str, Any] | None = None
    note: str = ""  # why the cluster couldn't answer

    @property
    def uid(self) -> str:
        return "" if self.before is None else str(self.before.get("metadata", {}).get("uid", ""))

    def held(self) -> HeldChange:
        first = self._document(self.after)
        return HeldChange(self.uid, held_object(first, first if self.again is None else self._document(self.again)))

    def effect(self) -> Effect | None:
        """Return the effect.

        It is an estimate if the cluster couldn't answer, or answers differently each time.
        """
        before = None if self.before is None else cleaned(self.before)
        after = None if self.after is None else cleaned(self.after)
        varying = () if after is None or self.again is None else held_object(after, cleaned(self.again)).varying
        found = object_effect(self.address, before, after, varying=varying, note=self.note)
        return msgspec.structs.replace(found, certainty="estimated") if found is not None and self.note else found

    def reason(self, approved: HeldChange | None) -> str | None:
        """Return what differs from what was approved, or None."""
        if approved is None:
            return f"{self.address} would change too"
        if approved.uid != self.uid:
            if not approved.uid:
                return f"{self.address} exists now"
            return f"{self.address} {'was made again' if self.uid else 'no longer exists'}"
        if not approved.change.holds(self._document(self.after)):
            return f"{self.address} or what would happen to it changed"
        return None

    def _document(self, answer: Mapping[str, Any] | None) -> dict[str, Any]:
        """Return what changes. Of fields that stay as they are, no difference matters."""
        old = leaves(cleaned(self.before)) if self.before is not None else {}
        new = leaves(cleaned(answer)) if answer is not None else {}
        paths = [path for path in dict.fromkeys((*old, *new)) if _leaf(old, path) != _leaf(new, path)]
        return {
            "before": {_name(path): old[path] for path in paths if path in old},
            "after": None if answer is None else {_name(path): new[path] for path in paths if path in new},
        }


class ApprovedObjects(msgspec.Struct, frozen=True):
    """The artifact: the cluster, and what happens to each object."""

    server: str
    changes: dict[str, HeldChange]

    def encoded(self) -> bytes:
        return msgspec.msgpack.encode(self)

    def require(self, server: str, changes: Mapping[str, ObjectChange]) -> None:
        """Raise NotApproved unless the same would happen now."""
        reasons = [] if server == self.server else ["it is another cluster"]
        reasons += [f"{name} wouldn't change" for name in self.changes if name not in changes]
        reasons += filter(None, (each.reason(self.changes.get(name)) for name, each in changes.items()))
        refuse_difference(reasons)


read_approved_objects = msgspec.msgpack.Decoder(ApprovedObjects).decode
