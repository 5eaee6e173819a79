"""What Helm would do, and what an approval holds of it. Pure."""

import hashlib
import re
import tarfile
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Literal

import msgspec

from launchbay import limits
from launchbay.actions.kubernetes_client import read_documents
from launchbay.actions.kubernetes_plan import HeldObject, held_object
from launchbay.actions.plan import refuse_difference
from launchbay.egress.archives import read_members
from launchbay.errors import ActionFailed
from launchbay.model.effect import Effect
from launchbay.model.redaction import REDACTED, is_secret_name
from launchbay.model.scalars import settled

KEPT = "kept by its resource policy, but no longer of the release"
_NAMED_AT_RANDOM = 5
# Helm ignores subcharts whose names begin with `_` or `.`.
_DEFINITION = re.compile(r"(?:\./)?[^/]+/(?:charts/[^/_.][^/]*/)*crds/.+\.(?:ya?ml|json)")
_SUBCHART = re.compile(r"(?:\./)?[^/]+/(?:charts/[^/_.][^/]*/)*charts/[^/_.][^/]*\.tgz")
_POLICY = "helm.sh/resource-policy"
_EVENTS: Mapping[str, frozenset[str]] = {
    "install": frozenset(("pre-install", "post-install")),
    "upgrade": frozenset(("pre-upgrade", "post-upgrade")),
    "uninstall": frozenset(("pre-delete", "post-delete")),
}
Operation = Literal["install", "upgrade", "uninstall"]


class Hook(msgspec.Struct, frozen=True):
    """An object that Helm makes at certain events, and doesn't compare."""

    manifest: str = ""
    events: list[str] = []


class Rendered(msgspec.Struct, frozen=True):
    """What is read of a dry run's release. Programs add fields in every release."""

    manifest: str = ""
    hooks: list[Hook] | None = None

    def objects(self) -> list[dict[str, Any]]:
        return read_objects(self.manifest)

    def hooks_of(self, operation: Operation) -> Iterator[tuple[dict[str, Any], list[str]]]:
        """Yield the objects of hooks that run, each with its events."""
        for hook in self.hooks or ():
            events = [event for event in hook.events if event in _EVENTS[operation]]
            if events:
                yield from ((found, events) for found in read_objects(hook.manifest))


def read_objects(manifest: str) -> list[dict[str, Any]]:
    """Return the objects of a manifest, as Helm reads them. Raises ActionFailed."""
    try:
        documents = settled(read_documents(manifest))
    except ValueError as error:
        raise ActionFailed(f"Can't read what Helm rendered: {error}.", retryable=False) from None
    found: list[dict[str, Any]] = []
    for document in documents:
        is_list = isinstance(document, Mapping) and isinstance(document.get("items"), list)
        found += document["items"] if is_list and str(document.get("kind")).endswith("List") else [document]
    for each in found:
        head = each if isinstance(each, Mapping) else {}
        metadata = head.get("metadata")
        name = metadata.get("name") if isinstance(metadata, Mapping) else None
        if not all(isinstance(text, str) and text for text in (head.get("apiVersion"), head.get("kind"), name)):
            raise ActionFailed("Helm rendered something without apiVersion, kind and metadata.name.", retryable=False)
    return found


def chart_definitions(archive: bytes) -> list[dict[str, Any]]:
    """Return the definitions in a chart and its subcharts, also of disabled ones.

    `helm show crds` would write files one after the other, which Helm 3 doesn't separate. Raises ActionFailed.
    """
    try:
        return [each for file in _definition_files(archive) for each in read_objects(file.decode("utf-8", "replace"))]
    except (ValueError, tarfile.TarError, EOFError, OSError, zlib.error) as error:
        raise ActionFailed(f"Can't read the definitions of the chart: {error}.", retryable=False) from error


def _definition_files(archive: bytes) -> Iterator[bytes]:
    """Yield the files of a chart and its subcharts.

    All charts together have the limits of one archive.
    """
    bytes_max, files_max = limits.ARCHIVE_UNPACKED_BYTES, limits.ARCHIVE_FILES
    bytes_left, files_left, charts = bytes_max, files_max, [archive]
    while charts:
        for source, member in read_members(charts.pop(), bytes_max, files_max):
            bytes_left, files_left = bytes_left - member.size, files_left - 1
            if bytes_left < 0 or files_left < 0:
                raise ValueError(f"it unpacks to more than {bytes_max // limits.MIB} MiB or {files_max} files")
            is_definition, is_chart = _DEFINITION.fullmatch(member.name), _SUBCHART.fullmatch(member.name)
            if (is_definition or is_chart) and (file := source.extractfile(member)) is not None:
                if is_chart:
                    charts.append(file.read())
                else:
                    yield file.read()


def read_hooks(text: str) -> list[dict[str, Any]]:
    """Return of the hooks that `helm get hooks` prints those that a deletion runs."""
    return [each for each in read_objects(text) if _EVENTS["uninstall"] & set(_events(each))]


def _events(hook: Mapping[str, Any]) -> list[str]:
    text = str((hook["metadata"].get("annotations") or {}).get("helm.sh/hook", ""))
    return [each.strip() for each in text.split(",")]


def hook_effect(hook: Mapping[str, Any], events: Iterable[str]) -> Effect:
    """Return the effect of a hook, which may do anything in the cluster."""
    name = f"{hook['kind']} {hook['metadata']['name']}"
    return Effect(kind="run", address=name, certainty="estimated", note=f"hook: {', '.join(events)}")


def deletion_hook_effects(hooks: Iterable[Mapping[str, Any]]) -> list[Effect]:
    """Return the effects of the hooks of `read_hooks`."""
    return [hook_effect(each, [event for event in _events(each) if event in _EVENTS["uninstall"]]) for each in hooks]


def is_kept(found: Mapping[str, Any]) -> bool:
    """Return whether an object says that Helm must not delete it."""
    annotations = found["metadata"].get("annotations")
    return isinstance(annotations, Mapping) and str(annotations.get(_POLICY, "")).strip().lower() == "keep"


class Revision(msgspec.Struct, frozen=True):
    """One of what `helm history` lists.

    A release that was made again begins with the same numbers.
    """

    revision: int
    status: str
    updated: str = ""


class Listed(Revision, frozen=True):
    """A revision with the chart that it was made of, such as `shop-1.0.0`."""

    chart: str = ""
    app_version: str = ""


NO_REVISION = Revision(0, "")


class ApprovedRelease(msgspec.Struct, frozen=True):
    """The artifact: what was given, the release, and what each object will be."""

    operation: Literal["install", "uninstall"]
    revision: Revision
    inputs: bytes = b""  # digest
    objects: dict[str, HeldObject] = {}

    def encoded(self) -> bytes:
        return msgspec.msgpack.encode(self)

    def require(self, operation: str, revision: Revision, inputs: bytes = b"") -> None:
        """Raise NotApproved unless these are the same."""
        differs: list[str] = []
        if operation != self.operation:
            differs.append(f"the operation is {operation} instead of {self.operation}")
        else:
            if revision != self.revision:
                differs.append(f"the release changed ({_described(revision)} instead of {_described(self.revision)})")
            if inputs != self.inputs:
                differs.append("the chart, its values or the parameters changed")
        refuse_difference(differs)

    def require_objects(self, rendered: Mapping[str, Mapping[str, Any]]) -> None:
        """Raise NotApproved unless Helm renders what it rendered for the plan."""
        names = [
            name
            for name in dict.fromkeys((*self.objects, *rendered))
            if name not in self.objects or name not in rendered or not self.objects[name].holds(rendered[name])
        ]
        refuse_difference([f"Helm now renders {name} otherwise" for name in names])


def left_values(found: Any, given: Any) -> dict[str, Any]:
    """Return the values of a release that the step doesn't set, by path.

    Lists count as a whole.
    """
    left: dict[str, Any] = {}
    for name, value in found.items() if isinstance(found, Mapping) else ():
        key = str(name).replace(".", "\\.")  # as `helm --set` writes it
        if not isinstance(given, Mapping) or name not in given:
            inner = left_values(value, {}) if isinstance(value, Mapping) and value else {"": value}
        elif isinstance(value, Mapping):
            inner = left_values(value, given[name])
        else:
            continue
        left |= {f"{key}.{path}" if path else key: each for path, each in inner.items()}
    return left


def shown_value(path: str, value: Any, redact: Callable[[str], str]) -> Any:
    """Return what anybody may see of a value: numbers and booleans, or a word.

    A text may be a secret, or have one in it, whatever its name is. So is a number under a name such as `pin`. What
    this returned is returned unchanged.
    """
    if value in (TEXT, LIST, REDACTED):
        return value
    if isinstance(value, str):
        return TEXT
    if isinstance(value, list | Mapping):
        return LIST if isinstance(value, list) else {}
    if value is None or isinstance(value, bool):
        return value
    is_secret = any(is_secret_name(name) for name in path.split(".")) or not _PRIVATE_WORDS.isdisjoint(
        word.lower() for word in _WORDS.findall(path)
    )
    return REDACTED if is_secret or redact(str(value)) != str(value) else value


TEXT, LIST = "(text)", "(list)"
_WORDS = re.compile(r"[A-Z]?[a-z]+|[A-Z]+")
_PRIVATE_WORDS = frozenset(("auth", "code", "key", "keys", "otp", "pass", "pin", "salt", "seed"))

read_approved = msgspec.msgpack.Decoder(ApprovedRelease).decode
read_rendered = msgspec.json.Decoder(Rendered).decode


def _described(revision: Revision) -> str:
    if not revision.revision:
        return "none"
    return f"revision {revision.revision}, {revision.status}" + (f", of {revision.updated}" if revision.updated else "")


def by_name(objects: Iterable[Mapping[str, Any]]) -> dict[str, Mapping[str, Any]]:
    """Return objects by what names them in a manifest."""
    return {
        " ".join(
            (
                each["apiVersion"],
                each["kind"],
                "/".join(filter(None, (str(each["metadata"].get("namespace") or ""), each["metadata"]["name"]))),
            )
        ): each
        for each in objects
    }


def held_objects(
    first: Mapping[str, Mapping[str, Any]], second: Mapping[str, Mapping[str, Any]]
) -> dict[str, HeldObject]:
    """Return what two dry runs have in common.

    Raises ActionFailed if an object has another name in each.
    """
    if first.keys() != second.keys():
        names = ", ".join(sorted(first.keys() ^ second.keys())[:_NAMED_AT_RANDOM])
        raise ActionFailed(
            f"The chart names objects at random: {names}.",
            "Give them fixed names, or make the change without a plan.",
            retryable=False,
        )
    return {name: held_object(found, second[name]) for name, found in first.items()}


def digest(*parts: bytes) -> bytes:
    """Return one digest of several parts."""
    return hashlib.sha256(b"".join(hashlib.sha256(part).digest() for part in parts)).digest()
