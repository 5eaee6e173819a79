"""Secrets that people reveal: their names, and the value of one.

The console masks them, and so do answers for services. `GET instances/{id}` shows parameters as they are: clients of
the reference send them back. The permission is `RevealSecrets` on the service or instance, and each value leaves an
entry in the audit log.
"""

from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Any, NamedTuple

import msgspec

from launchbay.auth import permissions
from launchbay.auth.permissions import Permission
from launchbay.auth.secret_key import TextSeal
from launchbay.errors import BadRequest, NotFound
from launchbay.limits import REASON_CHARS
from launchbay.manifest.configuration import effective_parameters
from launchbay.model import redaction
from launchbay.model.redaction import Redactor
from launchbay.service_types.secrets import KEY_PAIR, SECRET, SECRET_NAME, ServiceSeal, is_reference, open_stored
from launchbay.store import services as store
from launchbay.store.instances import InstanceRecord
from launchbay.store.services import EntryRow, Service
from launchbay.usecases.context import Context, Work


class SecretKind(StrEnum):
    """Where a secret of an instance is."""

    PARAMETERS = "parameters"
    RETURN_VALUES = "returnValues"


class Secrets(NamedTuple):
    """An object, the names of its secrets by kind, and what a vault keeps."""

    owner: Service | InstanceRecord
    names: Mapping[SecretKind, list[str]]
    secrets: Sequence[EntryRow] = ()
    key_pairs: Sequence[EntryRow] = ()


async def list_service_secrets(ctx: Context, service_id: str) -> Secrets:
    async with ctx.read() as work:
        service = await work.lookup.service(service_id, Permission.READ)
        rows = await store.list_secrets(work.connection, service_id=service.id)
        found = Secrets(service, {SecretKind.PARAMETERS: sorted(row.name for row in rows)})
        # As for the commands that list them, or to reveal them.
        wanted, at = (Permission.RUN_SERVICE_COMMAND, Permission.REVEAL_SECRETS), permissions.service(service.id)
        if any(work.lookup.allows(service.organization_id, each, at) for each in wanted):
            secrets = await store.list_entries(work.connection, service_id=service.id, kind=SECRET)
            key_pairs = await store.list_entries(work.connection, service_id=service.id, kind=KEY_PAIR)
            found = found._replace(secrets=secrets, key_pairs=key_pairs)
    return found


async def list_instance_secrets(ctx: Context, instance_id: str) -> Secrets:
    async with ctx.read() as work:
        record = await work.lookup.instance(instance_id, Permission.READ)
        values = await _values(work, record)
    redactor = Redactor()
    return Secrets(
        record,
        {
            kind: sorted(name for name, value in found.items() if redactor.named(name, value) != value)
            for kind, found in values.items()
        },
    )


async def reveal_service_secret(ctx: Context, service_id: str, name: str, reason: str) -> Any:
    """Return a secret parameter or a secret of a vault, and note it.

    Raises NotFound, and BadRequest for a parameter that refers to a secret of a vault.
    """
    async with ctx.begin() as work:
        service = await work.lookup.service(service_id, Permission.REVEAL_SECRETS)
        reason = _checked(reason)
        found = await open_stored(ctx.app.secret_key, work.connection, service.id)
        if name in found:
            value = found[name]
        elif entry := await store.get_entry(work.connection, service_id=service.id, kind=SECRET, name=name):
            value = ServiceSeal(ctx.app.secret_key, service.id).open(entry.sealed, entry.id).decode()
        else:
            raise NotFound(f"The service has no secret {name[:80]!r}.")
        if is_reference(value):
            raise BadRequest(
                f"The parameter refers to the secret {str(value[SECRET_NAME])[:80]!r} of a vault or provider.",
                "Read it there.",
            )
        await work.audit("reveal_service_secret", service, after={"name": name, "reason": reason})
    return value


async def reveal_instance_secret(
    ctx: Context, instance_id: str, kind: SecretKind | None, name: str, reason: str
) -> Any:
    """Return a value of an instance in clear, and note it.

    Without a kind, it is where the name is. Raises NotFound, and BadRequest for a value that Launchbay doesn't have.
    """
    async with ctx.begin() as work:
        record = await work.lookup.instance(instance_id, Permission.REVEAL_SECRETS)
        reason = _checked(reason)
        values = await _values(work, record)
        if kind is None:
            kind = next((each for each in SecretKind if name in values[each]), None)
        if kind is None:
            raise NotFound(f"The instance has no {name[:80]!r} in its parameters and return values.")
        found = values[kind]
        if name not in found:
            raise NotFound(f"The instance has no {name[:80]!r} in its {kind.value}.")
        value = _opened(found[name], TextSeal(ctx.app.secret_key, record.organization_id))
        if value == found[name] and redaction.REDACTED in str(value):
            raise BadRequest(
                f"Launchbay doesn't have what is masked in {name[:80]!r}: `secrets` of a step read it from a provider.",
                "Read it there.",
            )
        after = {"kind": kind.value, "name": name, "reason": reason}
        await work.audit("reveal_instance_secret", record, after=after)
    return value


async def _values(work: Work, record: InstanceRecord) -> dict[SecretKind, dict[str, Any]]:
    manifest = await work.manifest(record.application_id, record.version)
    given: dict[str, Any] = msgspec.json.decode(record.parameters)
    returned: dict[str, Any] = msgspec.json.decode(record.return_values)
    return {
        SecretKind.PARAMETERS: effective_parameters(manifest, given),
        SecretKind.RETURN_VALUES: returned,
    }


def _opened(value: Any, seal: TextSeal) -> Any:
    """Return a value with its tokens opened. What no key opens stays masked."""

    def text(token: str) -> str:
        opened = seal.open(token)
        return redaction.REDACTED if opened is None else opened[1]

    return redaction.map_strings(value, lambda each: redaction.replace_tokens(each, text))


def _checked(reason: str) -> str:
    reason = reason.strip()
    if not reason or len(reason) > REASON_CHARS:
        raise BadRequest(f"reason: say in 1 to {REASON_CHARS} characters why you need the value.")
    return reason
