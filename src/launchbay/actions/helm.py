"""`helm`: a release of a chart (docs/decisions/0062-kubernetes-over-http.md)."""

import asyncio
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urljoin

import msgspec

from launchbay import limits
from launchbay.actions.contract import ActionCall, ActionParameter
from launchbay.actions.kubernetes_client import KubeAccess, read_access, read_documents
from launchbay.actions.output import LiveLog
from launchbay.actions.parameters import (
    flag,
    optional_duration_s,
    optional_mapping,
    optional_text,
    required,
    required_text,
    wrong_parameter,
)
from launchbay.egress.archives import download
from launchbay.errors import ActionFailed, EgressFailed
from launchbay.processes.run import Command, ProcessResult, private_directory, run_program, write_private

_CHART = "the URL of a chart (tgz), or with repository its name there"
_NUMBERS = re.compile(r"v?(\d+)\.(\d+)\.(\d+)")


async def fetch_chart(call: ActionCall, directory: Path) -> Path:
    """Fetch the chart that the parameters name and return its file. Raises ActionFailed."""
    chart = required_text(call.parameters, "chart", _CHART)
    repository = optional_text(call.parameters, "repository", "the URL of a chart repository")
    if repository is not None:
        chart = await _address(call, repository.rstrip("/") + "/", chart)
    if not chart.startswith(("https://", "http://")):
        raise ActionFailed(
            f"The parameter 'chart' is wrong: expected {_CHART}; registries (oci://) are not supported.",
            retryable=False,
        )
    file = directory / "chart.tgz"
    await asyncio.to_thread(file.write_bytes, await download(call.context.egress, chart))
    return file


async def _address(call: ActionCall, repository: str, name: str) -> str:
    """Return the address of a chart in a repository: of the version that is asked for, or of the newest."""
    version = optional_text(call.parameters, "version", "a version of the chart")
    try:
        [index] = read_documents((await download(call.context.egress, f"{repository}index.yaml")).decode("utf-8"))
        entries = index["entries"][name]
        found = [entry for entry in entries if version is None or str(entry["version"]) == version]
        newest = max(found, key=_dependency_order, default=None)
        if newest is not None:
            return urljoin(repository, str(newest["urls"][0]))
    except (KeyError, IndexError, TypeError, ValueError):
        found = []
    wanted = name if version is None else f"{name} {version}"
    raise ActionFailed(f"The repository's index.yaml has no chart {wanted!r} that can be read.", retryable=False)


def _dependency_order(entry: Mapping[str, Any]) -> tuple[bool, tuple[int, ...]]:
    """Return what orders versions: those without a suffix, such as -rc.1, come after all that have one."""
    text = str(entry["version"]).partition("+")[0]
    numbers = _NUMBERS.match(text)
    return "-" not in text, tuple(map(int, numbers.groups())) if numbers else ()


_REMEDY = "The operator installs Helm 3 or newer."
_OPERATIONS = ("install", "uninstall")
_NAME = re.compile(r"[a-z0-9]([a-z0-9-]*[a-z0-9])?")
_RELEASE_CHARS = 53
_NAMESPACE_CHARS = 63
_HISTORY = 10
_GONE = "not found"
_REPORTED_CHARS = 1_000


class _Release(msgspec.Struct, frozen=True):
    """What is kept: the way to the cluster, and what is to be uninstalled there."""

    access: KubeAccess
    namespace: str
    release: str


class Helm:
    """Installs or upgrades a release with the program `helm`; it is uninstalled with the component or the instance."""

    name = "helm"
    aliases: tuple[str, ...] = ()
    pure = False
    parameters: Mapping[str, ActionParameter] = {
        "cluster": ActionParameter("A kubeconfig, or a map with server, token and ca."),
        "release": ActionParameter("The release's name.", type="string", required=True),
        "operation": ActionParameter("install, which upgrades too, or uninstall; install if left out.", type="string"),
        "chart": ActionParameter("The URL of a chart (tgz), or with repository its name there.", type="string"),
        "repository": ActionParameter("The URL of a chart repository, which has an index.yaml.", type="string"),
        "version": ActionParameter("The chart's version in the repository; the newest if left out.", type="string"),
        "namespace": ActionParameter("Where it is installed; default if left out.", type="string"),
        "createNamespace": ActionParameter("true: make the namespace where it is missing.", type="bool"),
        "values": ActionParameter("Values for the chart.", type="map<string,object>"),
        "wait": ActionParameter("false: do not wait until what it made is ready.", type="bool"),
        "timeout": ActionParameter(
            'How long it may take: seconds, or a text such as "5 minutes"; 10 minutes if left out.'
        ),
    }
    outputs: Mapping[str, str] = {
        "status": "The release's status, such as deployed.",
        "revision": "Which revision of the release it is, from 1.",
        "notes": "What the chart has to say.",
    }

    async def run(self, call: ActionCall) -> Mapping[str, Any]:
        """Install, upgrade or uninstall."""
        parameters = call.parameters
        binary = call.context.programs.require("helm", "helm", remedy=_REMEDY)
        operation = optional_text(parameters, "operation", "install or uninstall") or "install"
        if operation not in _OPERATIONS:
            raise wrong_parameter("operation", "install or uninstall")
        release = _named(required_text(parameters, "release", "a name"), "release", _RELEASE_CHARS)
        namespace = optional_text(parameters, "namespace", "the name of a namespace") or "default"
        key = f"{_named(namespace, 'namespace', _NAMESPACE_CHARS)}.{release}"
        if operation == "uninstall":
            await self.teardown(call, key)
            return {"status": "uninstalled", "revision": 0, "notes": ""}
        access = read_access(required(parameters, "cluster", "a kubeconfig"))
        call.context.register_secret(access.secrets())
        timeout_s = optional_duration_s(parameters, "timeout")
        work = _Work(call, binary, access, limits.KUBERNETES_READY_S if timeout_s is None else timeout_s)
        async with private_directory() as directory:
            chart = await fetch_chart(call, directory)
            values = optional_mapping(parameters, "values", "a map from names to values")
            kept = await call.context.documents.read(key)
            document = msgspec.json.encode(_Release(access, namespace, release))
            await call.context.documents.write(key, document, 0 if kept is None else kept.version)
            options = ["--create-namespace"] if flag(parameters, "createNamespace", default=False) else []
            options += ["--wait"] if flag(parameters, "wait", default=True) else []
            return await work.install(directory, chart, release, namespace, values, options)

    async def teardown(self, call: ActionCall, name: str) -> None:
        """Uninstall a release."""
        kept = await call.context.documents.read(name)
        if kept is None:
            call.context.log("info", f"There is nothing to uninstall: no release is kept as {name!r}.")
            return
        binary = call.context.programs.require("helm", "helm", remedy=_REMEDY)
        found = _decoder.decode(kept.data)
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
        self,
        directory: Path,
        chart: Path,
        release: str,
        namespace: str,
        values: Mapping[str, Any],
        options: list[str],
    ) -> Mapping[str, Any]:
        file = directory / "values.json"
        try:
            await asyncio.to_thread(write_private, file, msgspec.json.encode(values).decode())
        except (TypeError, ValueError, RecursionError) as error:
            raise wrong_parameter("values", f"data that JSON can hold ({error})") from error
        result = await self._start(
            directory,
            *("upgrade", release, str(chart), "--install", "--namespace", namespace, "--values", str(file)),
            *("--output", "json", "--history-max", str(_HISTORY), *options),
        )
        if result.exit_code != 0:
            raise self._failed("upgrade --install", result)
        try:
            told = msgspec.json.decode(result.stdout, type=dict[str, Any])
        except msgspec.DecodeError:
            told = {}
        info = told.get("info")
        about = info if isinstance(info, dict) else {}
        return {
            "status": str(about.get("status", "")),
            "revision": told.get("version") if isinstance(told.get("version"), int) else None,
            "notes": str(about.get("notes") or ""),
        }

    async def uninstall(self, directory: Path, release: str, namespace: str) -> None:
        result = await self._start(directory, "uninstall", release, "--namespace", namespace, "--wait")
        if result.exit_code != 0 and _GONE not in result.stderr.lower():
            raise self._failed("uninstall", result)

    def _failed(self, what: str, result: ProcessResult) -> ActionFailed:
        told = self._call.context.redact(result.stderr.strip() or result.stdout.strip())[-_REPORTED_CHARS:]
        return ActionFailed(f"helm {what} ended with exit code {result.exit_code}: {told}")

    async def _start(self, directory: Path, *arguments: str) -> ProcessResult:
        """Run the program. What it prints holds the chart's values, so only its other stream is logged."""
        kubeconfig = directory / "kubeconfig.json"
        try:
            address = await self._call.context.egress.validate_url(self._access.server)
        except EgressFailed as error:
            raise ActionFailed(*error.messages, retryable=error.retryable) from error
        await asyncio.to_thread(write_private, kubeconfig, self._access.kubeconfig(address))
        live = LiveLog(self._call.context.log, self._call.context.clock)
        command = Command(
            argv=(self._binary, *arguments, "--timeout", f"{max(1, int(self._timeout_s))}s"),
            directory=directory,
            environment={"KUBECONFIG": str(kubeconfig)},
            timeout_s=self._timeout_s + limits.KUBERNETES_CALL_S,
            keep_bytes=limits.STEP_OUTPUT_BYTES,
        )
        try:
            return await run_program(
                command, lambda stream, line: live.write(line) if stream == "stderr" and line.strip() else None
            )
        finally:
            live.close()


def _named(text: str, name: str, maximum: int) -> str:
    if not _NAME.fullmatch(text) or len(text) > maximum:
        raise wrong_parameter(name, f"small letters, digits and '-', at most {maximum} characters")
    return text


_decoder = msgspec.json.Decoder(_Release)
