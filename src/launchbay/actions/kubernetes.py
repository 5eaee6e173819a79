"""`kubernetes.apply`: objects of a cluster, as YAML describes them (decision 0062)."""

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any, NamedTuple

import msgspec

from launchbay import limits
from launchbay.actions.contract import ActionCall, ActionDefaults, ActionParameter
from launchbay.actions.kubernetes_client import KubeAccess, KubeApi, ObjectRef, kube_api, read_access, read_documents
from launchbay.actions.kubernetes_plan import ApprovedObjects, ObjectChange, known_secrets, read_approved_objects
from launchbay.actions.parameters import (
    document_name,
    duration_s,
    flag,
    optional_text,
    require_one,
    required,
    wrong_parameter,
)
from launchbay.actions.plan import ActionPlan
from launchbay.concurrency import gather_bounded
from launchbay.egress.archives import download
from launchbay.errors import ActionFailed
from launchbay.model.durations import parse_duration_s
from launchbay.model.scalars import settled

_NOT_OBSERVED = "its controller has not processed it yet"


def unready_reason(found: Mapping[str, Any]) -> str | None:
    """Return why an object isn't ready, or None if it is. Raises ActionFailed if it never will be."""
    metadata, status = _map(found, "metadata"), _map(found, "status")
    if metadata.get("deletionTimestamp"):
        return "it is being deleted"
    if _count(metadata, "generation") > _count(status, "observedGeneration") and "observedGeneration" in status:
        return "its controller has not processed the change yet"
    rule = _RULES.get(str(found.get("kind")), _by_conditions)
    return rule(found, status)


def _deployment(found: Mapping[str, Any], status: Mapping[str, Any]) -> str | None:
    wanted = _wanted(found)
    if "observedGeneration" not in status:
        return _NOT_OBSERVED
    for condition in _conditions(status):
        if condition.get("type") == "Progressing" and condition.get("reason") == "ProgressDeadlineExceeded":
            raise ActionFailed(str(condition.get("message") or "it makes no progress"))
    updated, available = _count(status, "updatedReplicas"), _count(status, "availableReplicas")
    if updated < wanted or available < wanted or _count(status, "replicas") > updated:
        return f"{available} of {wanted} replicas are available, {updated} are updated"
    return None


def _stateful_set(found: Mapping[str, Any], status: Mapping[str, Any]) -> str | None:
    wanted, ready = _wanted(found), _count(status, "readyReplicas")
    if "observedGeneration" not in status:
        return _NOT_OBSERVED
    if ready < wanted or status.get("updateRevision") != status.get("currentRevision"):
        return f"{ready} of {wanted} replicas are ready"
    return None


def _daemon_set(_: Mapping[str, Any], status: Mapping[str, Any]) -> str | None:
    if "observedGeneration" not in status:
        return _NOT_OBSERVED
    wanted = _count(status, "desiredNumberScheduled")
    available, updated = _count(status, "numberAvailable"), _count(status, "updatedNumberScheduled")
    return None if min(available, updated) >= wanted else f"{available} of {wanted} are available"


def _job(_: Mapping[str, Any], status: Mapping[str, Any]) -> str | None:
    for condition in _conditions(status):
        if condition.get("status") == "True" and condition.get("type") == "Failed":
            raise ActionFailed(str(condition.get("message") or "it failed"))
        if condition.get("status") == "True" and condition.get("type") == "Complete":
            return None
    return "it is not complete"


def _pod(_: Mapping[str, Any], status: Mapping[str, Any]) -> str | None:
    if status.get("phase") == "Failed":
        raise ActionFailed(str(status.get("message") or "it failed"))
    if status.get("phase") == "Succeeded":
        return None
    return None if _is_true(status, "Ready") else f"it is {status.get('phase') or 'Pending'}"


def _by_conditions(_: Mapping[str, Any], status: Mapping[str, Any]) -> str | None:
    """Check the condition Ready or Available. Objects without conditions are ready."""
    for condition in _conditions(status):
        if condition.get("type") in ("Ready", "Available") and condition.get("status") != "True":
            return str(condition.get("message") or condition.get("reason") or f"it is not {condition['type']}")
    return None


_RULES: Mapping[str, Callable[[Mapping[str, Any], Mapping[str, Any]], str | None]] = {
    "Deployment": _deployment,
    "StatefulSet": _stateful_set,
    "DaemonSet": _daemon_set,
    "Job": _job,
    "Pod": _pod,
    "PersistentVolumeClaim": lambda _, status: None if status.get("phase") == "Bound" else "it is not bound",
    "CustomResourceDefinition": lambda _, status: None if _is_true(status, "Established") else "it is not established",
}


def _map(found: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    value = found.get(name)
    return value if isinstance(value, Mapping) else {}


def _conditions(status: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    several = status.get("conditions")
    return [each for each in several if isinstance(each, Mapping)] if isinstance(several, list) else []


def _is_true(status: Mapping[str, Any], kind: str) -> bool:
    return any(each.get("type") == kind and each.get("status") == "True" for each in _conditions(status))


def _count(status: Mapping[str, Any], name: str) -> int:
    value = status.get(name)
    return value if isinstance(value, int) else 0


def _wanted(found: Mapping[str, Any]) -> int:
    replicas = _map(found, "spec").get("replicas", 1)
    return replicas if isinstance(replicas, int) else 1


_INSTANCE_LABEL = "launchbay.io/instance"
_DOCUMENTS = "objects with apiVersion, kind and metadata.name: a list of them, or YAML text"
_FIRST_KINDS = ("Namespace", "CustomResourceDefinition")  # others may need them
_POLL_S = 1.0
_ASKED_AT_ONCE = 8


class _Applied(msgspec.Struct, frozen=True):
    """The stored document: the access to the cluster, and the applied objects."""

    access: KubeAccess
    objects: list[ObjectRef]


class KubernetesApply(ActionDefaults):
    """Applies objects on the server side, deletes those that were removed, and waits until all are ready."""

    name = "kubernetes.apply"
    parameters: Mapping[str, ActionParameter] = {
        "cluster": ActionParameter("A kubeconfig, or a map with server, token and ca.", required=True),
        "documents": ActionParameter("The objects: a list of them, or YAML text with any number of documents."),
        "url": ActionParameter("Instead of documents: the URL of the YAML text.", type="string"),
        "namespace": ActionParameter(
            "The namespace of objects that name none. Default: default.", type="string", needs_value=True
        ),
        "name": ActionParameter(
            "The name of the set of objects in the component. Default: default.", type="string", needs_value=True
        ),
        "prune": ActionParameter(
            "false: keep objects that were applied before and are missing now.", type="bool", needs_value=True
        ),
        "force": ActionParameter(
            "false: the step fails if another manager owns a field.", type="bool", needs_value=True
        ),
        "wait": ActionParameter("false: do not wait until the objects are ready.", type="bool"),
        "timeout": ActionParameter(
            'The maximum time to wait, in seconds or as a string such as "5 minutes". Default: 10 minutes.',
            check=parse_duration_s,
        ),
    }
    outputs: Mapping[str, str] = {
        "objects": "The applied objects: apiVersion, kind, namespace, name and uid of each.",
        "deleted": "The deleted objects, as text.",
    }

    async def run(self, call: ActionCall) -> Mapping[str, Any]:
        wait = flag(call.parameters, "wait", default=True)
        timeout_s = duration_s(call.parameters, "timeout", limits.KUBERNETES_READY_S)
        async with self._prepared(call) as (work, given):
            if call.approved is not None:
                await work.require(read_approved_objects(call.approved), given)
            await work.apply(given)
            deleted = await work.prune() if given.prune else []
            if wait:
                await work.wait(timeout_s)
        return {"objects": work.report(), "deleted": deleted}

    async def plan(self, call: ActionCall) -> ActionPlan:
        """Return the cluster's answers to a dry run, compared with its objects."""
        async with self._prepared(call) as (work, given):
            plan = await work.plan(given)
        deletes_all = given.prune and not given.objects
        return msgspec.structs.replace(plan, destroys=document_name(call.parameters) if deletes_all else "")

    @asynccontextmanager
    async def _prepared(self, call: ActionCall) -> "AsyncIterator[tuple[_Work, _Given]]":
        """Lend what the parameters ask for."""
        parameters = call.parameters
        name = document_name(parameters)
        prune, force = flag(parameters, "prune", default=True), flag(parameters, "force", default=True)
        namespace = optional_text(parameters, "namespace", "the name of a namespace") or "default"
        access = read_access(required(parameters, "cluster", "a kubeconfig"))
        call.context.register_secret(access.secrets())
        objects = await _objects(call)
        async with kube_api(call.context.egress, access) as api:
            yield _Work(call, api, name, access), _Given(objects, namespace, force=force, prune=prune)

    async def teardown(self, call: ActionCall, name: str) -> None:
        stored = await call.context.documents.read(name)
        if stored is None:
            return
        applied = _decoder.decode(stored.data)
        call.context.register_secret(applied.access.secrets())
        async with kube_api(call.context.egress, applied.access) as api:
            await _delete(call, api, applied.objects)
        await call.context.documents.delete(name)


class _Given(NamedTuple):
    """What a step asks for."""

    objects: Sequence[dict[str, Any]]
    namespace: str
    force: bool
    prune: bool


class _Missing(NamedTuple):
    """Namespaces and kinds that the cluster doesn't have yet.

    A kind has a group and a name, its definition, and whether its objects are in a namespace.
    """

    namespaces: dict[str, ObjectRef]
    kinds: dict[tuple[str, str], tuple[ObjectRef, bool]]

    def before(self, ref: ObjectRef) -> ObjectRef | None:
        """Return what must exist before the cluster can say anything about an object."""
        kind = self.kinds.get((ref.api_version.rpartition("/")[0], ref.kind))
        return self.namespaces.get(ref.namespace) if kind is None else kind[0]


class _Work:
    """One application of some objects."""

    def __init__(self, call: ActionCall, api: KubeApi, name: str, access: KubeAccess) -> None:
        self._call = call
        self._api = api
        self._name = name
        self._access = access
        self._version = 0
        self._recorded: list[ObjectRef] = []
        self._applied: dict[ObjectRef, dict[str, Any]] = {}

    async def apply(self, given: _Given) -> None:
        """Apply the objects. Records each one before, so that no crash leaves an unknown object."""
        await self._read_recorded()
        for number, body in enumerate(given.objects):
            ref = await self._api.resource_ref(body, given.namespace)
            if ref not in self._recorded:
                self._recorded.append(ref)
                await self._record(self._recorded)
            self._applied[ref], is_new = await self._api.apply(ref, self._labeled(ref, body), force=given.force)
            self._call.context.log("info", f"{'Created' if is_new else 'Applied'} {ref}.")
            await self._call.context.progress(50 * (number + 1) // len(given.objects))

    async def plan(self, given: _Given) -> ActionPlan:
        """Return what would happen to each object."""
        changes = await self._changes(given, answers=2)
        effects = [effect for each in changes if (effect := each.effect()) is not None]
        held = {each.key: each.held() for each in changes}
        return ActionPlan(effects=tuple(effects), artifact=ApprovedObjects(self._access.server, held).encoded())

    async def require(self, approved: ApprovedObjects, given: _Given) -> None:
        """Raise NotApproved unless the same would happen as was approved."""
        changes = {each.key: each for each in await self._changes(given, answers=1)}
        approved.require(self._access.server, changes)

    async def _changes(self, given: _Given, *, answers: int) -> list[ObjectChange]:
        """Return what the cluster says would happen to each object.

        Two answers show what it decides at random.
        """
        await self._read_recorded()
        missing = await self._made_on_the_way(given)
        refs = [await self._ref(body, given.namespace, missing) for body in given.objects]

        async def change(ref: ObjectRef, body: dict[str, Any]) -> ObjectChange:
            wanted = self._labeled(ref, body)
            if (earlier := missing.before(ref)) is not None:
                return ObjectChange(
                    f"{ref.api_version} {ref}", str(ref), None, wanted, note=f"{earlier} is made by the same step"
                )
            before = await self._api.read(ref)
            found = [(await self._api.apply(ref, wanted, force=given.force, dry_run=True))[0] for _ in range(answers)]
            return ObjectChange(f"{ref.api_version} {ref}", str(ref), before, found[0], found[-1])

        async def deletion(ref: ObjectRef) -> ObjectChange:
            return ObjectChange(f"{ref.api_version} {ref}", str(ref), await self._api.read(ref), None)

        changed = await gather_bounded(map(change, refs, given.objects), _ASKED_AT_ONCE)
        removed = [ref for ref in self._recorded if ref not in refs] if given.prune else []
        found = [*changed, *await gather_bounded(map(deletion, removed), _ASKED_AT_ONCE)]
        for each in found:
            for side in (each.before, each.after):
                self._call.context.register_secret(known_secrets(side or {}))
        return [each for each in found if each.before is not None or each.after is not None]

    async def _made_on_the_way(self, given: _Given) -> "_Missing":
        """Return which namespaces and kinds the objects themselves make."""
        missing = _Missing({}, {})
        for body in given.objects:
            if body["kind"] not in _FIRST_KINDS:
                continue
            ref = await self._api.resource_ref(body, given.namespace)
            if await self._api.read(ref) is not None:
                continue
            if ref.kind == "Namespace":
                missing.namespaces[ref.name] = ref
            else:
                spec = _map(body, "spec")
                missing.kinds[str(spec.get("group")), str(_map(spec, "names").get("kind"))] = (
                    ref,
                    spec.get("scope") != "Cluster",
                )
        return missing

    async def _ref(self, body: dict[str, Any], namespace: str, missing: "_Missing") -> ObjectRef:
        made = missing.kinds.get((body["apiVersion"].rpartition("/")[0], body["kind"]))
        if made is None:
            return await self._api.resource_ref(body, namespace)
        own = str(body["metadata"].get("namespace") or namespace) if made[1] else ""
        return ObjectRef(body["apiVersion"], body["kind"], own, body["metadata"]["name"])

    async def _read_recorded(self) -> None:
        stored = await self._call.context.documents.read(self._name)
        if stored is not None:
            self._version, self._recorded = stored.version, _decoder.decode(stored.data).objects

    def _labeled(self, ref: ObjectRef, body: dict[str, Any]) -> dict[str, Any]:
        """Return what is applied of an object."""
        metadata = dict(body["metadata"])
        metadata["labels"] = {**(metadata.get("labels") or {}), _INSTANCE_LABEL: self._call.context.instance_id}
        if ref.namespace:
            metadata["namespace"] = ref.namespace
        return {**body, "metadata": metadata}

    async def prune(self) -> list[str]:
        """Delete the objects that were applied before and are missing now."""
        removed = [ref for ref in self._recorded if ref not in self._applied]
        await _delete(self._call, self._api, removed)
        if self._applied:
            await self._record(list(self._applied))
        else:
            await self._call.context.documents.delete(self._name)
        return [str(ref) for ref in removed]

    async def wait(self, timeout_s: float) -> None:
        context, left = self._call.context, dict.fromkeys(self._applied, "it is not ready")
        until_s = context.clock.monotonic_s() + timeout_s
        while left:
            for ref in list(left):
                found = await self._api.read(ref)
                reason = await self._reason(ref, found)
                if reason is None:
                    del left[ref]
                    context.log("info", f"{ref} is ready.")
                    await context.progress(100 - 50 * len(left) // len(self._applied))
                else:
                    left[ref] = reason
            if left and context.clock.monotonic_s() >= until_s:
                reasons = "; ".join(f"{ref}: {reason}" for ref, reason in left.items())
                raise ActionFailed(f"Not ready after {timeout_s:g} s: {reasons}.")
            if left:
                await context.sleep(_POLL_S)

    def report(self) -> list[dict[str, Any]]:
        return [
            {
                "apiVersion": ref.api_version,
                "kind": ref.kind,
                "namespace": ref.namespace,
                "name": ref.name,
                "uid": str((found.get("metadata") or {}).get("uid", "")),
            }
            for ref, found in self._applied.items()
        ]

    async def _reason(self, ref: ObjectRef, found: Mapping[str, Any] | None) -> str | None:
        if found is None:
            return "it was deleted"
        try:
            return unready_reason(found)
        except ActionFailed as error:
            raise ActionFailed(f"{ref} failed: {error}") from error

    async def _record(self, objects: list[ObjectRef]) -> None:
        data = msgspec.json.encode(_Applied(self._access, objects))
        self._version = await self._call.context.documents.write(self._name, data, self._version)


async def _delete(call: ActionCall, api: KubeApi, objects: Sequence[ObjectRef]) -> None:
    """Delete objects, the last ones first, and wait until they no longer exist."""
    left = [*reversed(objects)]
    for ref in left:
        await api.delete(ref)
        call.context.log("info", f"Deleted {ref}.")
    until_s = call.context.clock.monotonic_s() + limits.KUBERNETES_READY_S
    while left := [ref for ref in left if await api.read(ref) is not None]:
        if call.context.clock.monotonic_s() >= until_s:
            raise ActionFailed(f"Not deleted within {limits.KUBERNETES_READY_S:g} s: {', '.join(map(str, left))}.")
        await call.context.sleep(_POLL_S)


async def _objects(call: ActionCall) -> list[dict[str, Any]]:
    url = optional_text(call.parameters, "url", "the URL of a YAML text")
    value = call.parameters.get("documents")
    require_one(call.parameters, "documents", "url")
    if url is not None:
        value = (await download(call.context.egress, url)).decode("utf-8", "replace")
    if isinstance(value, str):
        try:
            value = settled(read_documents(value))
        except ValueError as error:
            raise wrong_parameter("url" if url else "documents", f"{_DOCUMENTS} ({error})") from None
    objects = [_checked(each) for each in _flat(value)]
    if len(objects) > limits.KUBERNETES_OBJECTS:
        raise wrong_parameter("documents", f"at most {limits.KUBERNETES_OBJECTS} objects")
    return sorted(objects, key=lambda each: each["kind"] not in _FIRST_KINDS)


def _flat(value: Any) -> list[Any]:
    several = value if isinstance(value, list | tuple) else [value]
    found: list[Any] = []
    for each in several:
        is_list = isinstance(each, Mapping) and each.get("kind") == "List" and isinstance(each.get("items"), list)
        found += each["items"] if is_list else [each]
    return found


def _checked(value: Any) -> dict[str, Any]:
    metadata = value.get("metadata") if isinstance(value, Mapping) else None
    texts = [value.get("apiVersion"), value.get("kind")] if isinstance(value, Mapping) else [None]
    name = metadata.get("name") if isinstance(metadata, Mapping) else None
    if not all(isinstance(text, str) and text for text in (*texts, name)):
        raise wrong_parameter("documents", _DOCUMENTS)
    return dict(value)


_decoder = msgspec.json.Decoder(_Applied)
