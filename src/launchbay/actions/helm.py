"""`helm`: a release of a chart (decision 0062)."""

import asyncio
import re
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, NamedTuple, TypeVar
from urllib.parse import urljoin

import msgspec

from launchbay import limits
from launchbay.actions.contract import ActionCall, ActionDefaults, ActionParameter, identity_environment
from launchbay.actions.helm_plan import (
    KEPT,
    NO_REVISION,
    ApprovedRelease,
    Listed,
    Operation,
    Rendered,
    Revision,
    by_name,
    chart_definitions,
    deletion_hook_effects,
    digest,
    held_objects,
    hook_effect,
    is_kept,
    left_values,
    read_approved,
    read_hooks,
    read_objects,
    read_rendered,
    shown_value,
)
from launchbay.actions.kubernetes_client import (
    KubeAccess,
    KubeApi,
    ObjectRef,
    kube_api,
    read_access,
    read_documents,
)
from launchbay.actions.kubernetes_plan import HeldObject, known_secrets, object_effect
from launchbay.actions.output import LiveLog, describe_exit
from launchbay.actions.parameters import (
    choice,
    duration_s,
    flag,
    json_text,
    one_of,
    optional_mapping,
    optional_text,
    required,
    required_text,
    wrong_parameter,
)
from launchbay.actions.plan import ActionPlan
from launchbay.concurrency import gather_bounded
from launchbay.egress.archives import download
from launchbay.errors import ActionFailed, EgressFailed, NotThereYet
from launchbay.model.durations import parse_duration_s
from launchbay.model.effect import Effect
from launchbay.model.existing import Existing
from launchbay.model.redaction import secrets_in
from launchbay.model.scalars import text_of
from launchbay.processes.run import Command, ProcessResult, private_directory, run_program, write_private
from launchbay.telemetry.tracing import trace_variables

R = TypeVar("R", bound=Revision)
_CHART = "the URL of a chart (tgz), or its name in 'repository'"
_NUMBERS = re.compile(r"v?(\d+)\.(\d+)\.(\d+)")


async def fetch_chart(call: ActionCall, directory: Path) -> Path:
    """Fetch the chart that the parameters name and return its file. Raises ActionFailed."""
    chart = required_text(call.parameters, "chart", _CHART)
    repository = optional_text(call.parameters, "repository", "the URL of a chart repository")
    if repository is not None:
        chart = await _url(call, repository.rstrip("/") + "/", chart)
    if not chart.startswith(("https://", "http://")):
        raise wrong_parameter("chart", f"{_CHART}; registries (oci://) are not supported")
    file = directory / "chart.tgz"
    await asyncio.to_thread(file.write_bytes, await download(call.context.egress, chart))
    return file


async def _url(call: ActionCall, repository: str, name: str) -> str:
    """Return the URL of a chart in a repository, in the requested version or the newest."""
    version = optional_text(call.parameters, "version", "a version of the chart")
    try:
        [index] = read_documents((await download(call.context.egress, f"{repository}index.yaml")).decode("utf-8"))
        entries = index["entries"][name]
        found = [entry for entry in entries if version is None or text_of(entry["version"]) == version]
        newest = max(found, key=_version_key, default=None)
        if newest is not None:
            return urljoin(repository, str(newest["urls"][0]))
    except (KeyError, IndexError, TypeError, ValueError):
        pass
    wanted = name if version is None else f"{name} {version}"
    raise ActionFailed(f"The repository's index.yaml has no valid chart {wanted!r}.", retryable=False)


def _version_key(entry: Mapping[str, Any]) -> tuple[bool, tuple[int, ...]]:
    """Return the sort key of a version. Versions without a suffix such as -rc.1 come after all others."""
    text = str(entry["version"]).partition("+")[0]
    numbers = _NUMBERS.match(text)
    return "-" not in text, tuple(map(int, numbers.groups())) if numbers else ()


_REMEDY = "An administrator can install Helm 3 or newer."
_OPERATIONS = ("install", "uninstall")
_NAME = re.compile(r"[a-z0-9]([a-z0-9-]*[a-z0-9])?")
_RELEASE_CHARS = 53
_NAMESPACE_CHARS = 63
_HISTORY = 10
_NOT_FOUND = "not found"
_NO_KIND = "no matches for kind"
_READING = frozenset(("history", "get"))
_ON_PENDING = ("fail", "rollback", "uninstall")
_IS_DONE = frozenset(("deployed", "superseded"))
_STATUS_BYTES = limits.MIB  # of a history, which has no manifests and no values
_REPORTED_CHARS = 1_000
_READS_AT_ONCE = 8
_BETWEEN_RENDERS_S = 1.0  # so that a time in seconds is seen to vary


class _Release(msgspec.Struct, frozen=True):
    """The stored document: the access to the cluster, and the release to uninstall."""

    access: KubeAccess
    namespace: str
    release: str


class Helm(ActionDefaults):
    """Installs or upgrades a release with the program `helm`. Uninstalls it with the component or the instance."""

    name = "helm"
    parameters: Mapping[str, ActionParameter] = {
        "cluster": ActionParameter("A kubeconfig, or a map with server, token and ca."),
        "release": ActionParameter("The release's name.", type="string", required=True),
        "operation": ActionParameter(
            "install (or upgrade), or uninstall. Default: install.",
            type="string",
            needs_value=True,
            check=one_of(*_OPERATIONS),
        ),
        "chart": ActionParameter("The URL of a chart (tgz), or its name in the repository.", type="string"),
        "repository": ActionParameter(
            "The URL of a chart repository, which has an index.yaml.", type="string", needs_value=True
        ),
        "version": ActionParameter(
            "The chart's version in the repository. Default: the newest.", type="string", needs_value=True
        ),
        "namespace": ActionParameter(
            "The namespace of the release. Default: default.", type="string", needs_value=True
        ),
        "createNamespace": ActionParameter("true: create the namespace if it doesn't exist.", type="bool"),
        "values": ActionParameter("Values for the chart.", type="map<string,object>", needs_value=True),
        "onPending": ActionParameter(
            "If a killed run left the release pending: fail, rollback to the last revision that was deployed, or "
            "uninstall a release that has none. rollback uninstalls it, too. Default: fail.",
            type="string",
            needs_value=True,
            check=one_of(*_ON_PENDING),
        ),
        "wait": ActionParameter("false: do not wait until the objects are ready.", type="bool"),
        "timeout": ActionParameter(
            'The maximum duration, in seconds or as a string such as "5 minutes". Default: 10 minutes.',
            check=parse_duration_s,
        ),
    }
    outputs: Mapping[str, str] = {
        "status": "The status of the release, such as deployed.",
        "revision": "The revision of the release, from 1.",
        "notes": "The notes of the chart.",
    }

    async def run(self, call: ActionCall) -> Mapping[str, Any]:
        target = _target(call)
        approved = None if call.approved is None else read_approved(call.approved)
        if target.operation == "uninstall":
            await self._uninstall(call, target.key, approved)
            return {"status": "uninstalled", "revision": 0, "notes": ""}
        on_pending = choice(call.parameters, "onPending", _ON_PENDING)
        wait = flag(call.parameters, "wait", default=True)
        async with self._prepared(call, target) as (work, given):
            if approved is not None:
                await work.require(approved, given)
            stored = await call.context.documents.read(target.key)
            document = msgspec.json.encode(_Release(work.access, target.namespace, target.release))
            await call.context.documents.write(target.key, document, 0 if stored is None else stored.version)
            await work.settle(on_pending)
            return await work.install(given, wait=wait)

    async def plan(self, call: ActionCall) -> ActionPlan:
        """Return what a dry run on the cluster renders, compared with the release."""
        target = _target(call)
        if target.operation == "install":
            async with self._prepared(call, target) as (work, given):
                return await work.plan(given)
        stored = await call.context.documents.read(target.key)
        if stored is None:
            return ActionPlan(artifact=ApprovedRelease("uninstall", NO_REVISION).encoded())
        async with self._stored(call, stored.data) as work:
            plan = await work.plan_uninstall()
        return msgspec.structs.replace(plan, destroys=target.key)

    async def find_existing(self, call: ActionCall) -> Existing:
        """Return the release that somebody has deployed without Launchbay."""
        target = _target(call)
        if target.operation != "install":
            raise ActionFailed(f"The step uninstalls {target.release!r}.", "Adopt it with one that installs it.")
        binary = call.context.programs.require("helm", "helm", remedy=_REMEDY)
        access = read_access(required(call.parameters, "cluster", "a kubeconfig"))
        call.context.register_secret(access.secrets())
        values = optional_mapping(call.parameters, "values", "a map from names to values")
        call.context.register_secret(secrets_in(values))
        async with private_directory() as directory:
            timeout_s = duration_s(call.parameters, "timeout", limits.KUBERNETES_READY_S)
            work = _Work(call, binary, access, timeout_s, directory, target.release, target.namespace)
            about, resources = await work.existing(values)
        return Existing(
            name=target.key,
            identity=f"{target.namespace}/{target.release} on {access.place}"[: limits.ADOPTED_IDENTITY_CHARS],
            document=msgspec.json.encode(_Release(access, target.namespace, target.release)),
            resources=resources[: limits.ADOPTED_ADDRESSES],
            resource_count=len(resources),
            about=about,
        )

    async def teardown(self, call: ActionCall, name: str) -> None:
        await self._uninstall(call, name, None)

    async def _uninstall(self, call: ActionCall, key: str, approved: ApprovedRelease | None) -> None:
        stored = await call.context.documents.read(key)
        if stored is None:
            if approved is not None:
                approved.require("uninstall", NO_REVISION)
            call.context.log("info", f"Nothing to uninstall: no release is stored as {key!r}.")
            return
        async with self._stored(call, stored.data) as work:
            if approved is not None:
                approved.require("uninstall", newest(await work.history()))
            await work.uninstall()
        await call.context.documents.delete(key)

    @asynccontextmanager
    async def _prepared(self, call: ActionCall, target: "_Target") -> "AsyncIterator[tuple[_Work, _Given]]":
        """Lend what an installation needs."""
        parameters = call.parameters
        binary = call.context.programs.require("helm", "helm", remedy=_REMEDY)
        access = read_access(required(parameters, "cluster", "a kubeconfig"))
        call.context.register_secret(access.secrets())
        timeout_s = duration_s(parameters, "timeout", limits.KUBERNETES_READY_S)
        async with private_directory() as directory:
            work = _Work(call, binary, access, timeout_s, directory, target.release, target.namespace)
            chart = await fetch_chart(call, directory)
            values = optional_mapping(parameters, "values", "a map from names to values")
            call.context.register_secret(secrets_in(values))
            creates_namespace = flag(parameters, "createNamespace", default=False)
            file = directory / "values.json"
            await asyncio.to_thread(lambda: write_private(file, json_text(values, "values")))
            yield work, _Given(chart, file, creates_namespace=creates_namespace)

    @asynccontextmanager
    async def _stored(self, call: ActionCall, document: bytes) -> "AsyncIterator[_Work]":
        """Lend what works on the release of a document."""
        binary = call.context.programs.require("helm", "helm", remedy=_REMEDY)
        found = _decoder.decode(document)
        call.context.register_secret(found.access.secrets())
        async with private_directory() as directory:
            yield _Work(
                call, binary, found.access, limits.KUBERNETES_READY_S, directory, found.release, found.namespace
            )


class _Target(NamedTuple):
    """The release that a step is about; `key` names its document."""

    operation: str
    release: str
    namespace: str
    key: str


def _target(call: ActionCall) -> _Target:
    operation = choice(call.parameters, "operation", _OPERATIONS)
    release = _named(required_text(call.parameters, "release", "a name"), "release", _RELEASE_CHARS)
    namespace = optional_text(call.parameters, "namespace", "the name of a namespace") or "default"
    return _Target(operation, release, namespace, f"{_named(namespace, 'namespace', _NAMESPACE_CHARS)}.{release}")


class _Given(NamedTuple):
    """What an installation gets, in files."""

    chart: Path
    values: Path
    creates_namespace: bool


class _Found(NamedTuple):
    """An object of a manifest, with its place and state in the cluster."""

    name: str
    ref: ObjectRef
    manifest: Mapping[str, Any]
    live: Mapping[str, Any] | None


def newest(history: list[Revision]) -> Revision:
    """Return the last revision."""
    return history[-1] if history else NO_REVISION


def installed_on(document: bytes) -> str:
    """Return the server of the release of a stored document, as `KubeAccess.place`."""
    return _decoder.decode(document).access.place


def _read_values(text: str) -> dict[str, Any]:
    """Return the values that somebody gave a release. Raises ActionFailed."""
    try:
        return msgspec.json.decode(text, type=dict[str, Any] | None) or {}
    except msgspec.DecodeError as error:
        raise ActionFailed(f"Can't read what helm get values wrote: {error}.", retryable=False) from error


class _Work:
    """Runs the program for one release of one cluster."""

    def __init__(
        self,
        call: ActionCall,
        binary: str,
        access: KubeAccess,
        timeout_s: float,
        directory: Path,
        release: str,
        namespace: str,
    ) -> None:
        self._call = call
        self._binary = binary
        self.access = access
        self._timeout_s = timeout_s
        self._directory = directory
        self._release = release
        self._of_namespace = ("--namespace", namespace)
        self._namespace = namespace

    async def install(self, given: _Given, *, wait: bool) -> Mapping[str, Any]:
        result = await self._start(*self._upgrade(given), *(("--wait",) if wait else ()))
        if result.exit_code != 0:
            raise self._failed("upgrade --install", result)
        made = newest(await self.history())
        return {"status": made.status, "revision": made.revision, "notes": await self._notes()}

    def _upgrade(self, given: _Given) -> tuple[str, ...]:
        return (
            *("upgrade", self._release, str(given.chart), "--install", *self._of_namespace),
            # Without --reset-values, Helm takes the former values where the new ones are empty.
            *("--values", str(given.values), "--reset-values", "--history-max", str(_HISTORY)),
            *(("--create-namespace",) if given.creates_namespace else ()),
        )

    async def plan(self, given: _Given) -> ActionPlan:
        """Return what an installation or upgrade would do.

        It renders twice, because only that shows what the chart makes at random.
        """
        history = await self.history()
        last = newest(history)
        if last.status.startswith("pending-"):
            raise ActionFailed(
                f"The release {self._release!r} is {last.status} in revision {last.revision}: a run was killed, or "
                "isn't over.",
                "Make it deployed again, for example by a run of this step with onPending, and plan then.",
                retryable=False,
            )
        operation: Operation = "upgrade" if history and last.status != "uninstalled" else "install"
        first = await self._render(given)
        await self._call.context.sleep(_BETWEEN_RENDERS_S)
        objects = first.objects()
        hooks = list(first.hooks_of(operation))
        held = held_objects(_rendered(first, operation), _rendered(await self._render(given), operation))
        before: list[dict[str, Any]] = []
        if operation == "upgrade":
            deployed = [each.revision for each in history if each.status == "deployed"]
            before = await self._manifest(deployed[-1] if deployed else last.revision)
        for each in (*objects, *before, *(hook for hook, _ in hooks)):
            self._call.context.register_secret(known_secrets(each))
        async with kube_api(self._call.context.egress, self.access) as api:
            effects = await self._preparations(api, given) if operation == "install" else []
            effects += [hook_effect(hook, events) for hook, events in hooks]
            old = await self._find(api, before)
            new = await self._find(api, objects)
        effects += _effects(old, new, held)
        artifact = ApprovedRelease("install", last, await asyncio.to_thread(self._digest, given), held)
        return ActionPlan(effects=tuple(effects), artifact=artifact.encoded())

    async def require(self, approved: ApprovedRelease, given: _Given) -> None:
        """Raise NotApproved unless an installation would do what somebody approved."""
        history = await self.history()
        last = newest(history)
        approved.require("install", last, await asyncio.to_thread(self._digest, given))
        operation: Operation = "upgrade" if history and last.status != "uninstalled" else "install"
        approved.require_objects(_rendered(await self._render(given), operation))

    def _digest(self, given: _Given) -> bytes:
        texts = (self.access.server, self._namespace, self._release, str(given.creates_namespace))
        return digest(given.chart.read_bytes(), given.values.read_bytes(), *map(str.encode, texts))

    async def existing(self, given: Mapping[str, Any]) -> tuple[dict[str, Any], list[str]]:
        """Return what a deployed release is, and its objects.

        It shows values that `given` doesn't set. Raises ActionFailed.
        """
        history = await self._history(_read_listed)
        where = f"The release {self._release!r} in the namespace {self._namespace!r} of {self.access.server}"
        if not history:
            raise ActionFailed(
                f"{where} isn't there.",
                f"Look with `helm list --all --namespace {self._namespace}`, and correct the step.",
                "Or launch the application, which installs the release.",
                retryable=False,
            )
        last = history[-1]
        if last.status != "deployed":
            raise ActionFailed(
                f"{where} is {last.status} in revision {last.revision}.",
                f"Make it deployed first, by an upgrade or by `helm rollback {self._release} --namespace "
                f"{self._namespace}`.",
                retryable=False,
            )
        objects = await self._manifest(last.revision)
        found = await asyncio.to_thread(_read_values, await self._get("values", last.revision, "--output", "json"))
        self._call.context.register_secret(secrets_in(found))
        for each in objects:
            self._call.context.register_secret(known_secrets(each))
        left = left_values(found, given)
        redact = self._call.context.redact
        about = {
            "release": self._release,
            "namespace": self._namespace,
            "chart": last.chart,
            "appVersion": last.app_version,
            "revision": last.revision,
            "otherValues": {
                redact(path): shown_value(path, value, redact)
                for path, value in sorted(left.items())[: limits.ADOPTED_ADDRESSES]
            },
            "otherValueCount": len(left),
        }
        return about, sorted(redact(name)[:_REPORTED_CHARS] for name in by_name(objects))

    async def plan_uninstall(self) -> ActionPlan:
        """Return what an uninstallation would delete, and its hooks."""
        last = newest(await self.history())
        effects: list[Effect] = []
        if last.revision:
            objects = await self._manifest(last.revision)
            hooks = read_hooks(await self._get("hooks", last.revision))
            for manifest in (*objects, *hooks):
                self._call.context.register_secret(known_secrets(manifest))
            async with kube_api(self._call.context.egress, self.access) as api:
                found = await self._find(api, objects)
            effects += deletion_hook_effects(hooks)
            for each in found:
                if each.live is not None and is_kept(each.manifest):
                    effects.append(Effect(kind="change", address=str(each.ref), note=KEPT))
                elif each.live is not None and (effect := object_effect(str(each.ref), each.manifest, None)):
                    effects.append(effect)
        return ActionPlan(effects=tuple(effects), artifact=ApprovedRelease("uninstall", last).encoded())

    async def _preparations(self, api: KubeApi, given: _Given) -> list[Effect]:
        """Return what only a first installation makes: the namespace, and definitions of the chart."""
        effects: list[Effect] = []
        if given.creates_namespace:
            ref = ObjectRef("v1", "Namespace", "", self._namespace)
            if await api.read(ref) is None:
                effects.append(Effect(kind="create", address=str(ref), note="createNamespace"))
        definitions = await asyncio.to_thread(lambda: chart_definitions(given.chart.read_bytes()))
        for each in await self._find(api, definitions):
            if each.live is None:
                note = "a definition of the chart: Helm never changes or deletes it"
                effects.append(Effect(kind="create", address=str(each.ref), note=note))
        return effects

    async def _find(self, api: KubeApi, objects: Iterable[Mapping[str, Any]]) -> list[_Found]:
        """Return objects with what they are in the cluster."""
        named = by_name(objects)
        refs = {name: await api.resource_ref(each, self._namespace) for name, each in named.items()}
        live = await gather_bounded(map(api.read, refs.values()), _READS_AT_ONCE)
        return [_Found(name, refs[name], named[name], now) for name, now in zip(named, live, strict=True)]

    async def _render(self, given: _Given) -> Rendered:
        """Return what a dry run on the cluster renders.

        Nothing of it is logged, because it has secrets.
        """
        result = await self._start(
            *self._upgrade(given), "--dry-run=server", "--output", "json", keep_bytes=limits.HELM_RELEASE_BYTES
        )
        if result.exit_code != 0:
            raise self._failed("upgrade --install --dry-run", result)
        text = self._whole("upgrade --dry-run", result)
        try:
            return await asyncio.to_thread(read_rendered, text.encode())
        except msgspec.DecodeError as error:
            raise ActionFailed(f"Can't read what the dry run of Helm wrote: {error}.", retryable=False) from error

    async def _manifest(self, revision: int) -> list[dict[str, Any]]:
        return await asyncio.to_thread(read_objects, await self._get("manifest", revision))

    async def _get(self, what: str, revision: int, *more: str) -> str:
        result = await self._start(
            *("get", what, self._release, *self._of_namespace, "--revision", str(revision), *more),
            keep_bytes=limits.HELM_RELEASE_BYTES,
        )
        if result.exit_code != 0:
            raise self._failed(f"get {what}", result)
        return self._whole(f"get {what}", result)

    def _whole(self, what: str, result: ProcessResult) -> str:
        """Return what the program wrote. Raises ActionFailed if a part of it is missing."""
        if len(result.stdout.encode()) >= limits.HELM_RELEASE_BYTES:
            raise ActionFailed(
                f"helm {what} writes {limits.HELM_RELEASE_BYTES} bytes or more, which is too much for a plan.",
                "Split the chart, or make the change without a plan.",
                retryable=False,
            )
        return result.stdout

    async def settle(self, on_pending: str) -> None:
        """End what a killed run has begun.

        The lock of the job makes sure that no other run is under way.
        """
        history = await self.history()
        if not history or not history[-1].status.startswith("pending-"):
            return
        pending, log = history[-1], self._call.context.log
        what = f"The release {self._release!r} is {pending.status} in revision {pending.revision}: a run was killed."
        if on_pending == "fail":
            raise ActionFailed(
                what,
                "If nothing else uses Helm for it, set onPending to rollback or uninstall.",
                retryable=False,
            )
        done = [each.revision for each in history if each.status in _IS_DONE]
        if not done:
            log("info", f"{what} It is uninstalled first, because no revision was ever deployed.")
            await self.uninstall()
        elif on_pending == "rollback":
            log("info", f"{what} It is rolled back to revision {done[-1]} first.")
            result = await self._start("rollback", self._release, str(done[-1]), *self._of_namespace, "--wait")
            if result.exit_code != 0:
                raise self._failed("rollback", result)
        else:
            raise ActionFailed(
                what,
                f"Revision {done[-1]} was deployed, so it isn't uninstalled. Set onPending to rollback.",
                retryable=False,
            )

    async def history(self) -> list[Revision]:
        """Return the revisions of a release, the newest last."""
        return await self._history(_read_revisions)

    async def _history(self, read: Callable[[str], list[R]]) -> list[R]:
        result = await self._start(
            *("history", self._release, *self._of_namespace, "--max", str(_HISTORY), "--output", "json"),
            keep_bytes=_STATUS_BYTES,
        )
        if result.exit_code != 0:
            if _NOT_FOUND in result.stderr.lower():
                return []
            raise self._failed("history", result)
        try:
            return sorted(read(result.stdout), key=lambda each: each.revision)
        except msgspec.DecodeError as error:
            raise ActionFailed(f"Can't read what helm history wrote: {error}.", retryable=False) from error

    async def _notes(self) -> str:
        """Return the notes of a release alone, because its manifests may be of any size."""
        result = await self._start("get", "notes", self._release, *self._of_namespace)
        if result.exit_code != 0:
            raise self._failed("get notes", result)
        if len(result.stdout.encode()) >= limits.STEP_OUTPUT_BYTES:
            raise ActionFailed(
                f"The notes of the chart have {limits.STEP_OUTPUT_BYTES} bytes or more.",
                "Shorten the chart's NOTES.txt.",
                retryable=False,
            )
        return result.stdout.strip("\n").removeprefix("NOTES:").strip("\n")

    async def uninstall(self) -> None:
        result = await self._start("uninstall", self._release, *self._of_namespace, "--wait")
        if result.exit_code != 0 and _NOT_FOUND not in result.stderr.lower():
            raise self._failed("uninstall", result)

    def _waiting(self, command: str) -> tuple[str, ...]:
        """Return the limit of commands that wait for objects; the others only read."""
        return () if command in _READING else ("--timeout", f"{max(1, int(self._timeout_s))}s")

    def _failed(self, what: str, result: ProcessResult) -> ActionFailed:
        if (proxy := self._call.context.egress.proxy) is not None:
            # The words of Go's client: over TLS without the number, which is elsewhere that of the answer.
            if "Proxy Authentication Required" in result.stderr or "the status code 407" in result.stderr:
                return ActionFailed(*proxy.refused(self.access.server, "407").messages, retryable=False)
            if (away := _PROXY_AWAY.search(result.stderr)) is not None:
                return ActionFailed(*proxy.unreachable(away[1]).messages)
        failure = NotThereYet if _NO_KIND in result.stderr else ActionFailed
        return failure(describe_exit(f"helm {what}", result, self._call.context.redact, _REPORTED_CHARS))

    async def _start(self, *arguments: str, keep_bytes: int = limits.STEP_OUTPUT_BYTES) -> ProcessResult:
        """Run the program. Log only its stderr, because its stdout contains the chart's values."""
        kubeconfig = self._directory / "kubeconfig.json"
        try:
            route = await self._call.context.egress.route_of_url(self.access.server)
        except EgressFailed as error:
            raise ActionFailed(*error.messages, retryable=error.retryable) from error
        if route.proxy is not None:
            self._call.context.register_secret(route.proxy.secrets())
        await asyncio.to_thread(write_private, kubeconfig, self.access.kubeconfig(route))
        command = Command(
            argv=(self._binary, *arguments, *self._waiting(arguments[0])),
            directory=self._directory,
            environment={
                "KUBECONFIG": str(kubeconfig),
                **trace_variables(),
                **identity_environment(self._call.context, self._directory),
            },
            timeout_s=self._timeout_s + limits.KUBERNETES_CALL_S,
            keep_bytes=keep_bytes,
        )
        with LiveLog(self._call.context.log, self._call.context.clock) as live:
            return await run_program(
                command, lambda stream, line: live.write(line, stream) if stream == "stderr" and line.strip() else None
            )


_PROXY_AWAY = re.compile(r"proxyconnect tcp: ([^\n\"]{1,200})")


def _rendered(found: Rendered, operation: Operation) -> dict[str, Mapping[str, Any]]:
    """Return what a dry run renders, by name: objects and the hooks that run."""
    hooks = by_name(hook for hook, _ in found.hooks_of(operation))
    return {**by_name(found.objects()), **{f"hook {name}": hook for name, hook in hooks.items()}}


def _effects(old: Iterable[_Found], new: Iterable[_Found], held: Mapping[str, HeldObject]) -> list[Effect]:
    """Return what happens to objects whose manifests are compared."""
    before = {_identity(each): each for each in old}
    after = {_identity(each): each for each in new}
    effects: list[Effect | None] = []
    for key, each in after.items():
        address, varying = str(each.ref), held[each.name].varying
        former = before.get(key)
        if each.live is None:
            effects.append(object_effect(address, None, each.manifest, varying=varying))
        elif former is not None:
            effects.append(object_effect(address, former.manifest, each.manifest, varying=varying))
        elif made := object_effect(address, None, each.manifest, varying=varying):
            effects.append(
                msgspec.structs.replace(made, kind="change", note="it exists, and the release takes it over")
            )
    for key, each in before.items():
        if key in after or each.live is None:
            continue
        # Helm asks the object itself here, and not the manifest.
        if is_kept(each.live):
            effects.append(Effect(kind="change", address=str(each.ref), note=KEPT))
        else:
            effects.append(object_effect(str(each.ref), each.manifest, None))
    return [effect for effect in effects if effect is not None]


def _identity(found: _Found) -> tuple[str, ...]:
    """Return what Helm tells objects apart by, without the API's version."""
    group = found.ref.api_version.rpartition("/")[0]
    return group, found.ref.kind, found.ref.namespace, found.ref.name


def _named(text: str, name: str, maximum: int) -> str:
    if not _NAME.fullmatch(text) or len(text) > maximum:
        raise wrong_parameter(name, f"lower-case letters, digits and '-', at most {maximum} characters")
    return text


_read_revisions = msgspec.json.Decoder(list[Revision]).decode
_read_listed = msgspec.json.Decoder(list[Listed]).decode
_decoder = msgspec.json.Decoder(_Release)
