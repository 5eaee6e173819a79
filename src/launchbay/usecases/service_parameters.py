"""Parameters of services as they are given, with secrets of vaults in the place of values."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from launchbay.auth.lookup import Lookup
from launchbay.auth.permissions import Permission
from launchbay.errors import Conflict, FieldErrors
from launchbay.service_types.contract import MASK, ParameterScope, ServiceParameters, ServiceType, changed_parameters
from launchbay.service_types.secrets import SECRET_NAME, VAULT, is_reference, reference, resolved
from launchbay.store import services
from launchbay.store.database import Connection
from launchbay.usecases.desk import Desk

NO_PARAMETERS = ServiceParameters()
_SHOWN = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """A change of a service's parameters. The caller's `lookup` decides which vaults they may name."""

    desk: Desk
    connection: Connection
    lookup: Lookup
    organization_id: str
    kind: ServiceType

    async def checked(self, given: Mapping[str, Any], old: ServiceParameters = NO_PARAMETERS) -> ServiceParameters:
        """Return the parameters as they are to be stored; `old` are those that are stored now.

        Raises FieldErrors with everything that is wrong, by parameter, and NotAllowed for a vault that is not the
        caller's to read.
        """
        new = await self._references(given)
        kept = {name: value for name, value in old.secret.items() if is_reference(value) and _stays(given, name)}
        values = await self._values({**kept, **new})
        now = ServiceParameters(old.open, {**old.secret, **{name: values[name] for name in kept}})
        scope = ParameterScope(
            connection=self.connection, organization_id=self.organization_id, previous=now.everything()
        )
        checked = await changed_parameters(self.kind, scope, now, {**given, **{name: values[name] for name in new}})
        return ServiceParameters(checked.open, {**checked.secret, **kept, **new})

    async def _references(self, given: Mapping[str, Any]) -> dict[str, dict[str, str]]:
        """Return what is to be stored for the parameters that are to stand for secrets of vaults."""
        found: dict[str, dict[str, str]] = {}
        problems: dict[str, list[str]] = {}
        for name, value in given.items():
            parameter = self.kind.parameters.get(name)
            if parameter is None or not is_reference(value):
                continue
            if not parameter.secret:
                problems[name] = ["Only a secret parameter may stand for a secret of a vault; give this one a value."]
                continue
            secret, wanted = str(value[SECRET_NAME]), value.get(VAULT)
            vaults = await services.vaults_with(
                self.connection, organization_id=self.organization_id, name=secret, vault_id=wanted and str(wanted)
            )
            if not vaults:
                problems[name] = [f"No vault of the organization has a secret {secret[:80]!r}; set it there first."]
            elif len(vaults) > 1:
                known = ", ".join(f"{each.id} ({each.name})" for each in vaults[:_SHOWN])
                problems[name] = [f"Several vaults have a secret {secret[:80]!r}; name one with `{VAULT}`: {known}."]
            else:
                await self.lookup.service(vaults[0].id, Permission.RUN_SERVICE_COMMAND)
                found[name] = reference(vaults[0].id, secret)
        if problems:
            raise FieldErrors(problems)
        return found

    async def _values(self, references: Mapping[str, Any]) -> dict[str, Any]:
        values: dict[str, Any] = {}
        problems: dict[str, list[str]] = {}
        for name, value in references.items():
            try:
                values |= await resolved(self.desk.secret_key, self.connection, {name: value})
            except Conflict as gone:
                problems[name] = list(gone.sentences)
        if problems:
            raise FieldErrors(problems)
        return values


def _stays(given: Mapping[str, Any], name: str) -> bool:
    return bool(given.get(name, MASK) == MASK)
