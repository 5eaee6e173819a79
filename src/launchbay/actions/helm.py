"""`helm`: a release of a chart (docs/decisions/0062-kubernetes-over-http.md)."""

import asyncio
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urljoin

import msgspec

from launchbay import limits
from launchbay.actions.contract import ActionCall, ActionDefaults, ActionParameter, identity_environment
from launchbay.actions.kubernetes_client import KubeAccess, read_access, read_documents
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
from launchbay.egress.archives import download
from launchbay.errors import ActionFailed, EgressFailed
from launchbay.model.durations import parse_duration_s
from launchbay.model.scalars import text_of
from launchbay.processes.run import Command, ProcessResult, private_directory, run_program, write_private
from launchbay.telemetry.tracing import trace_variables

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
_READING = frozenset(("history", "get"))
_ON_PENDING = ("fail", "rollback", "uninstall")
_IS_DONE = frozenset(("deployed", "superseded"))
_STATUS_BYTES = limits.MIB  # of a history, which has no manifests and no values
_REPORTED_CHARS = 1_000


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
        parameters = call.parameters
        binary = call.context.programs.require("helm", "helm", remedy=_REMEDY)
        operation = choice(parameters, "operation", _OPERATIONS)
        release = _named(required_text(parameters, "release", "a name"), "release", _RELEASE_CHARS)
        namespace = optional_text(parameters, "namespace", "the name of a namespace") or "default"
        key = f"{_named(namespace, 'namespace', _NAMESPACE_CHARS)}.{release}"
        if operation == "uninstall":
            await self.teardown(call, key)
            return {"status": "uninstalled", "revision": 0, "notes": ""}
        access = read_access(required(parameters, "cluster", "a kubeconfig"))
        call.context.register_secret(access.secrets())
        work = _Work(call, binary, access, duration_s(parameters, "timeout", limits.KUBERNETES_READY_S))
        async with private_directory() as directory:
            chart = await fetch_chart(call, directory)
            values = optional_mapping(parameters, "values", "a map from names to values")
            stored = await call.context.documents.read(key)
            document = msgspec.json.encode(_Release(access, namespace, release))
            await call.context.documents.write(key, document, 0 if stored is None else stored.version)
            options = ["--create-namespace"] if flag(parameters, "createNamespace", default=False) else []
            options += ["--wait"] if flag(parameters, "wait", default=True) else []
            await work.settle(directory, release, namespace, choice(parameters, "onPending", _ON_PENDING))
            return await work.install(directory, chart, release, namespace, values, options)

    async def teardown(self, call: ActionCall, name: str) -> None:
        stored = await call.context.documents.read(name)
        if stored is None:
            call.context.log("info", f"Nothing to uninstall: no release is stored as {name!r}.")
            return
        binary = call.context.programs.require("helm", "helm", remedy=_REMEDY)
        found = _decoder.decode(stored.data)
        call.context.register_secret(found.access.secrets())
        async with private_directory() as directory:
            work = _Work(call, binary, found.access, limits.KUBERNETES_READY_S)
            await work.uninstall(directory, found.release, found.namespace)
        await call.context.documents.delete(name)


class _Work:
    """Runs the program for one cluster."""

    def __init__(self, call: ActionCall, binary: str, access: KubeAccess, timeout_s: float) -> None:
        self._call = call
        self._binary = binary
        self._access = access
        self._timeout_s = timeout_s

    async def install(
        self, directory: Path, chart: Path, release: str, namespace: str, values: Mapping[str, Any], options: list[str]
    ) -> Mapping[str, Any]:
        file = directory / "values.json"
        await asyncio.to_thread(lambda: write_private(file, json_text(values, "values")))
        result = await self._start(
            directory,
            *("upgrade", release, str(chart), "--install", "--namespace", namespace, "--values", str(file)),
            # Without --reset-values, Helm takes the former values where the new ones are empty.
            *("--reset-values", "--history-max", str(_HISTORY), *options),
        )
        if result.exit_code != 0:
            raise self._failed("upgrade --install", result)
        newest = (await self._history(directory, release, namespace))[-1]
        return {
            "status": newest.status,
            "revision": newest.revision,
            "notes": await self._notes(directory, release, namespace),
        }

    async def settle(self, directory: Path, release: str, namespace: str, on_pending: str) -> None:
        """End what a killed run has begun.

        The lock of the job makes sure that no other run is under way.
        """
        history = await self._history(directory, release, namespace)
        if not history or not history[-1].status.startswith("pending-"):
            return
        pending, log = history[-1], self._call.context.log
        what = f"The release {release!r} is {pending.status} in revision {pending.revision}: a run was killed."
        if on_pending == "fail":
            raise ActionFailed(
                what,
                "If nothing else uses Helm for it, set onPending to rollback or uninstall.",
                retryable=False,
            )
        done = [each.revision for each in history if each.status in _IS_DONE]
        if not done:
            log("info", f"{what} It is uninstalled first, because no revision was ever deployed.")
            await self.uninstall(directory, release, namespace)
        elif on_pending == "rollback":
            log("info", f"{what} It is rolled back to revision {done[-1]} first.")
            result = await self._start(
                directory, "rollback", release, str(done[-1]), "--namespace", namespace, "--wait"
            )
            if result.exit_code != 0:
                raise self._failed("rollback", result)
        else:
            raise ActionFailed(
                what,
                f"Revision {done[-1]} was deployed, so it isn't uninstalled. Set onPending to rollback.",
                retryable=False,
            )

    async def _history(self, directory: Path, release: str, namespace: str) -> list["_Revision"]:
        """Return the revisions of a release, the newest last."""
        result = await self._start(
            directory,
            *("history", release, "--namespace", namespace, "--max", str(_HISTORY), "--output", "json"),
            keep_bytes=_STATUS_BYTES,
        )
        if result.exit_code != 0:
            if _NOT_FOUND in result.stderr.lower():
                return []
            raise self._failed("history", result)
        try:
            return sorted(msgspec.json.decode(result.stdout, type=list[_Revision]), key=lambda each: each.revision)
        except msgspec.DecodeError as error:
            raise ActionFailed(f"Can't read what helm history wrote: {error}.", retryable=False) from error

    async def _notes(self, directory: Path, release: str, namespace: str) -> str:
        """Return the notes of a release alone, because its manifests may be of any size."""
        result = await self._start(directory, "get", "notes", release, "--namespace", namespace)
        if result.exit_code != 0:
            raise self._failed("get notes", result)
        if len(result.stdout.encode()) >= limits.STEP_OUTPUT_BYTES:
            raise ActionFailed(
                f"The notes of the chart have {limits.STEP_OUTPUT_BYTES} bytes or more.",
                "Shorten the chart's NOTES.txt.",
                retryable=False,
            )
        return result.stdout.strip("\n").removeprefix("NOTES:").strip("\n")

    async def uninstall(self, directory: Path, release: str, namespace: str) -> None:
        result = await self._start(directory, "uninstall", release, "--namespace", namespace, "--wait")
        if result.exit_code != 0 and _NOT_FOUND not in result.stderr.lower():
            raise self._failed("uninstall", result)

    def _waiting(self, command: str) -> tuple[str, ...]:
        """Return the limit of commands that wait for objects; the others only read."""
        return () if command in _READING else ("--timeout", f"{max(1, int(self._timeout_s))}s")

    def _failed(self, what: str, result: ProcessResult) -> ActionFailed:
        if (proxy := self._call.context.egress.proxy) is not None:
            # The words of Go's client: over TLS without the number, which is elsewhere that of the answer.
            if "Proxy Authentication Required" in result.stderr or "the status code 407" in result.stderr:
                return ActionFailed(*proxy.refused(self._access.server, "407").messages, retryable=False)
            if (away := _PROXY_AWAY.search(result.stderr)) is not None:
                return ActionFailed(*proxy.unreachable(away[1]).messages)
        return ActionFailed(describe_exit(f"helm {what}", result, self._call.context.redact, _REPORTED_CHARS))

    async def _start(
        self, directory: Path, *arguments: str, keep_bytes: int = limits.STEP_OUTPUT_BYTES
    ) -> ProcessResult:
        """Run the program. Log only its stderr, because its stdout contains the chart's values."""
        kubeconfig = directory / "kubeconfig.json"
        try:
            route = await self._call.context.egress.route_of_url(self._access.server)
        except EgressFailed as error:
            raise ActionFailed(*error.messages, retryable=error.retryable) from error
        if route.proxy is not None:
            self._call.context.register_secret(route.proxy.secrets())
        await asyncio.to_thread(write_private, kubeconfig, self._access.kubeconfig(route))
        command = Command(
            argv=(self._binary, *arguments, *self._waiting(arguments[0])),
            directory=directory,
            environment={
                "KUBECONFIG": str(kubeconfig),
                **trace_variables(),
                **identity_environment(self._call.context, directory),
            },
            timeout_s=self._timeout_s + limits.KUBERNETES_CALL_S,
            keep_bytes=keep_bytes,
        )
        with LiveLog(self._call.context.log, self._call.context.clock) as live:
            return await run_program(
                command, lambda stream, line: live.write(line, stream) if stream == "stderr" and line.strip() else None
            )


_PROXY_AWAY = re.compile(r"proxyconnect tcp: ([^\n\"]{1,200})")


class _Revision(msgspec.Struct, frozen=True):
    """One of what `helm history` lists."""

    revision: int
    status: str


def _named(text: str, name: str, maximum: int) -> str:
    if not _NAME.fullmatch(text) or len(text) > maximum:
        raise wrong_parameter(name, f"lower-case letters, digits and '-', at most {maximum} characters")
    return text


_decoder = msgspec.json.Decoder(_Release)
