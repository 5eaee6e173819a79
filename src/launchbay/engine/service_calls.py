"""Runs commands of workflows on services of the environment (language §8).

A command is recorded in the journal and isn't repeated after a crash once it has succeeded.
"""

from collections.abc import Mapping
from functools import partial
from typing import Any

from launchbay.auth.audit import record_once
from launchbay.auth.secret_key import SecretKey, UnsealFailed
from launchbay.engine.audit import EngineAudit
from launchbay.engine.journal import retry_while_unavailable, run_until_available
from launchbay.errors import ActionFailed, BadRequest, Conflict
from launchbay.model.instance import BoundService, Link
from launchbay.model.secret_reference import SecretReference, reference_in
from launchbay.model.values import CoercionError, coerce
from launchbay.runtime.contract import JobRun, SecretSource
from launchbay.runtime.step import run_recorded
from launchbay.service_types.builtin import SecureStore
from launchbay.service_types.contract import ServiceCall, ServiceType, validate_arguments
from launchbay.service_types.registry import ServiceTypes
from launchbay.service_types.secrets import (
    ServiceSeal,
    is_reference,
    open_values,
    provided_references,
    resolve_references,
)
from launchbay.store import services
from launchbay.store.database import Database


class ServiceCalls:
    """Runs commands; one object serves all jobs of the process."""

    def __init__(
        self, database: Database, service_types: ServiceTypes, secret_key: SecretKey, secret_source: SecretSource
    ) -> None:
        self._database = database
        self._secret_source = secret_source
        self._service_types = service_types
        self._secret_key = secret_key
        self._audit = EngineAudit(secret_key)

    async def run(
        self, job: JobRun, link: Link, command: str, arguments: Mapping[str, Any], path: str, *, is_replay: bool = False
    ) -> Mapping[str, Any]:
        """Run a command on the linked service and return its final results. Raises WorkflowFailed.

        The service has its parameters as of the last reconfiguration.
        """

        async def work() -> Mapping[str, Any]:
            return await self._run(job, link, command, arguments, path)

        return await run_recorded(job, path, command, work, is_replay=is_replay)

    async def _run(
        self, job: JobRun, link: Link, command: str, arguments: Mapping[str, Any], path: str
    ) -> Mapping[str, Any]:
        bound = link.binding.service
        if bound is None or not await run_until_available(self._database, services.exists, service_id=link.instance_id):
            name = "" if bound is None else f" {bound.name!r}"
            raise ActionFailed(
                f"Can't run {command!r}: the service{name} ({link.instance_id}) was deleted.",
                "Add another service to the environment and reconfigure the instance.",
                retryable=False,
            )
        kind = self._type(bound)
        declared = kind.commands.get(command)
        if declared is None:
            raise ActionFailed(f"The service {bound.name!r} no longer has a command {command!r}.", retryable=False)
        try:
            opened_parameters = await retry_while_unavailable(partial(self._open, link.instance_id, bound))
            provided = provided_references(opened_parameters)
            job.secrets.register_secret({name: opened_parameters[name] for name in {*opened_parameters} - {*provided}})
            if provided:
                opened_parameters = {**opened_parameters, **await self._provided(job, path, kind, provided)}
            checked = validate_arguments(declared, arguments)
            entry = partial(
                self._audit.service_command_run,
                job=job,
                service_id=link.instance_id,
                command=command,
                arguments=checked,
            )
            call = ServiceCall(
                service_id=link.instance_id,
                organization_id=job.organization_id,
                parameters={**bound.parameters, **opened_parameters},
                arguments=checked,
                transaction=record_once(self._database, entry) if declared.changes else self._database.transaction,
                report=lambda _: None,  # a workflow waits for the final result
                seal=ServiceSeal(self._secret_key, link.instance_id),
                idempotency_key=job.idempotency_key(path),
                name=bound.name,
                waiting=partial(job.journal.waiting, path),
            )
            try:
                results = await retry_while_unavailable(partial(kind.run, command, call))
            except Conflict as missing:
                reference = reference_in(str(checked.get("name")))
                if (kind.id, command, missing.code) != (SecureStore.id, "get-secret", "NoSecret") or reference is None:
                    raise
                results = await self._recorded(job, path, reference)
            job.secrets.register_secret([results.get(name) for name in declared.secret_results])
            return results
        except (BadRequest, Conflict, UnsealFailed) as error:
            raise ActionFailed(f"The service {bound.name!r} rejected {command!r}: {error}") from error

    async def _recorded(self, job: JobRun, path: str, reference: SecretReference) -> Mapping[str, Any]:
        """Return a provider's secret as the recorded, encrypted result of a command."""
        found = await self._secret_source.read(job, path, 1, {"value": reference}, is_recorded=True)
        if not isinstance(found["value"], str):
            raise ActionFailed(
                f"The secret {str(reference)!r} isn't a string.",
                "Name its key, provider/path#key, or name it in `secrets` of the step that needs it.",
                retryable=False,
            )
        return found

    async def _provided(
        self, job: JobRun, path: str, kind: ServiceType, references: Mapping[str, SecretReference]
    ) -> Mapping[str, Any]:
        """Return the parameters that stand for secrets of providers, for this call alone."""
        found = await self._secret_source.read(job, path, 1, references)
        try:
            return {name: coerce(kind.parameters[name].type, value) for name, value in found.items()}
        except CoercionError as error:
            named = ", ".join(map(str, references.values()))
            raise ActionFailed(f"A parameter of the service can't be {named}: {error}", retryable=False) from None

    def _type(self, bound: BoundService) -> ServiceType:
        kind = self._service_types.find(bound.type_id)
        if kind is None:
            raise ActionFailed(
                f"The service {bound.name!r} has the type {bound.type_id}, which isn't installed.",
                "Install the package that provides it.",
                retryable=False,
            )
        return kind

    async def _open(self, service_id: str, bound: BoundService) -> Mapping[str, Any]:
        stored = open_values(self._secret_key, service_id, bound.secrets)
        if not any(map(is_reference, stored.values())):
            return stored
        async with self._database.connection() as connection:
            return await resolve_references(self._secret_key, connection, stored)
