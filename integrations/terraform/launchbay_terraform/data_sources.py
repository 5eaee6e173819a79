"""The data sources: objects that exist, found by their names, and live instances by ID."""

from abc import ABC, abstractmethod
from typing import Any, ClassVar

from tf.schema import Attribute, Schema
from tf.types import Number, String
from tf.utils import Diagnostics

from launchbay.client import Client, ClientError, NotFound
from launchbay_terraform.resources import Connected, Json, State, explain


class _Named(ABC):
    """An object of an organization by its name."""

    name: ClassVar[str]

    def __init__(self, provider: Connected) -> None:
        self._provider = provider

    @classmethod
    def get_name(cls) -> str:
        return cls.name

    @classmethod
    def get_schema(cls) -> Schema:
        return Schema(
            attributes=[
                Attribute("id", String(), "ID.", computed=True),
                Attribute("organization_id", String(), "ID of the organization.", required=True),
                Attribute("name", String(), "Name.", required=True),
            ]
        )

    @abstractmethod
    def listed(self, client: Client, organization: str) -> Any:
        """Return the objects of the organization."""

    def validate(self, diags: Diagnostics, type_name: str, config: State) -> None:  # noqa: B027 - nothing to check
        """Reading says whether there is one."""

    def read(self, ctx: Any, config: State) -> State | None:
        assert self._provider.client is not None, "Terraform configures a provider before it reads"
        try:
            listed = self.listed(self._provider.client, config["organization_id"])
            found = [each.id for each in listed if each.name == config["name"]]
        except ClientError as error:
            explain(ctx.diagnostics, error)
            return None
        if len(found) != 1:
            count = f"{len(found)} of them have" if found else "None has"
            ctx.diagnostics.add_error(f"No such {self.name}", f"{count} the name '{config['name']}'.", ["name"])
            return None
        return {**config, "id": found[0]}


class EnvironmentData(_Named):
    """An environment."""

    name = "environment"

    def listed(self, client: Client, organization: str) -> Any:
        return client.list_environments(organization)


class ApplicationData(_Named):
    """An application."""

    name = "application"

    def listed(self, client: Client, organization: str) -> Any:
        return client.list_applications(organization)


class ServiceData(_Named):
    """A service."""

    name = "service"

    def listed(self, client: Client, organization: str) -> Any:
        return client.list_services(organization)


class RoleData(_Named):
    """A role."""

    name = "role"

    def listed(self, client: Client, organization: str) -> Any:
        return client.list_roles(organization)


class OrganizationData(_Named):
    """An organization."""

    name = "organization"

    def listed(self, client: Client, organization: str) -> Any:
        return client.list_organizations()

    @classmethod
    def get_schema(cls) -> Schema:
        return Schema(
            attributes=[
                Attribute("id", String(), "ID.", computed=True),
                Attribute("name", String(), "Name.", required=True),
            ]
        )

    def read(self, ctx: Any, config: State) -> State | None:
        found = super().read(ctx, {**config, "organization_id": ""})
        return None if found is None else {"id": found["id"], "name": found["name"]}


class InstanceData:
    """A live instance: its status and return values."""

    def __init__(self, provider: Connected) -> None:
        self._provider = provider

    @classmethod
    def get_name(cls) -> str:
        return "instance"

    @classmethod
    def get_schema(cls) -> Schema:
        return Schema(
            attributes=[
                Attribute("id", String(), "ID.", required=True),
                Attribute("name", String(), "Name.", computed=True),
                Attribute("application_id", String(), "ID of the application.", computed=True),
                Attribute("environment_id", String(), "ID of the environment.", computed=True),
                Attribute("version", Number(), "Version of the manifest.", computed=True),
                Attribute("status", String(), "Status.", computed=True),
                Attribute("return_values", Json(), "Return values, for `jsondecode()`.", computed=True),
            ]
        )

    def validate(self, diags: Diagnostics, type_name: str, config: State) -> None:
        """Reading says whether there is one."""

    def read(self, ctx: Any, config: State) -> State | None:
        assert self._provider.client is not None, "Terraform configures a provider before it reads"
        try:
            shown = self._provider.client.read_instance(config["id"])
        except NotFound:
            ctx.diagnostics.add_error("No such instance", f"There is none with the ID {config['id']}.", ["id"])
            return None
        except ClientError as error:
            explain(ctx.diagnostics, error)
            return None
        return {
            "id": shown.id,
            "name": shown.name,
            "application_id": shown.application_id,
            "environment_id": shown.environment_id,
            "version": shown.version,
            "status": shown.status,
            # The framework encodes what resources return, but not what data sources do.
            "return_values": Json().encode(shown.return_values),
        }


DATA_SOURCES: tuple[type, ...] = (
    OrganizationData,
    EnvironmentData,
    ApplicationData,
    ServiceData,
    RoleData,
    InstanceData,
)
