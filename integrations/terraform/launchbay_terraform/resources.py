"""The resources: what Terraform makes, reads, changes and deletes through the client of the API."""

import functools
import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import Any, ClassVar, Protocol
from uuid import uuid4

import msgspec
from tf.schema import Attribute, Schema
from tf.types import Bool, List, Map, NormalizedJson, Number, String, Unknown
from tf.utils import Diagnostics

from launchbay.client import ApiError, Client, ClientError, NotFound
from launchbay.client.types import Preview

State = dict[str, Any]
_MASKED = "********"  # how answers show secrets
_NEVER = -1
_WAIT_S = 3600.0
_NO_POLICIES = "policies: {}"  # how an environment without any exports them


class Json(NormalizedJson):  # type: ignore[misc] # the framework isn't in the tests' environment
    """A JSON document, written exactly as `jsonencode()` of Terraform does: any other spaces were a change."""

    def encode(self, value: Any) -> Any:
        if value is None or value is Unknown:
            return value
        text = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
        return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


class Connected(Protocol):
    """What resources need of the provider: the client, as soon as Terraform has configured it."""

    client: Client | None


def explain(diags: Diagnostics, error: ClientError) -> None:
    """Report a failed call, with what the server says about each field or line."""
    lines = [str(error)]
    if isinstance(error, ApiError):
        lines += [f"{name}: {' '.join(messages)}" for name, messages in error.fields.items()]
        lines += [f"Line {each['line']}, column {each['column']}: {each['message']}" for each in error.findings]
        lines.append(f"Code {error.code}, request {error.request_id}.")
    diags.add_error("Launchbay refused the change" if isinstance(error, ApiError) else "No answer", "\n".join(lines))


def reported(work: Callable[..., Any]) -> Callable[..., Any]:
    """Turn a failed call into a diagnostic. The state stays what it was, None for an object that wasn't made."""

    @functools.wraps(work)
    def reporting(self: "_Resource", ctx: Any, *states: Any) -> Any:
        try:
            return work(self, ctx, *states)
        except ClientError as error:
            explain(ctx.diagnostics, error)
            return states[0] if len(states) > 1 or work.__name__ in {"read", "delete"} else None

    return reporting


class _Resource(ABC):
    """What all resources share: they are found by ID, and an object that is gone leaves the state."""

    name: ClassVar[str]
    attributes: ClassVar[list[Attribute]]
    # Computed attributes that another value is expected for when one of these changes.
    derived: ClassVar[Mapping[str, str]] = {}

    def __init__(self, provider: Connected) -> None:
        self._provider = provider

    @property
    def client(self) -> Client:
        assert self._provider.client is not None, "Terraform configures a provider before it asks for anything"
        return self._provider.client

    @classmethod
    def get_name(cls) -> str:
        return cls.name

    @classmethod
    def get_schema(cls) -> Schema:
        return Schema(version=1, attributes=[Attribute("id", String(), "ID.", computed=True), *cls.attributes])

    def validate(self, diags: Diagnostics, type_name: str, config: State) -> None:  # noqa: B027 - most check nothing
        """The server checks values, because it knows the rules: with each plan of an instance, else when applied."""

    def plan(self, ctx: Any, current: State, planned: State) -> State:
        """Expect new values of what the server derives from a changed attribute."""
        for source, target in self.derived.items():
            if source in ctx.changed_fields:
                planned[target] = Unknown
        return planned

    def upgrade(self, _: Any, __: int, old: State) -> State:
        return old

    @reported
    def read(self, _: Any, current: State) -> State | None:
        try:
            found = self.found(current)
        except NotFound:
            return None
        return None if found is None else {**current, **found}

    @reported
    def delete(self, ctx: Any, current: State) -> None:
        try:
            self.remove(ctx, current)
        except NotFound:
            return

    def import_(self, ctx: Any, id: str) -> State | None:  # noqa: A002 - the framework's name
        """Import `ID`, or `ORGANIZATION_ID/ID` for objects that only their organization lists."""
        organization, _, last = id.rpartition("/")
        blank = {attribute.name: None for attribute in self.get_schema().attributes}
        known = {"organization_id": organization} if organization else {}
        current = {**blank, **known, "id": last}
        try:
            found = self.found(current)
        except NotFound:
            found = None
        except ClientError as error:
            explain(ctx.diagnostics, error)
            return None
        if found is None:
            ctx.diagnostics.add_error("Nothing to import", f"There is no {self.name} {id}, or you may not read it.")
            return None
        return {**current, **found}

    @abstractmethod
    def found(self, current: State) -> State | None:
        """Return the attributes as the server has them, None for an object that has ended. Raises NotFound."""

    @abstractmethod
    def remove(self, ctx: Any, current: State) -> None:
        """Delete the object. Raises NotFound."""


def _organization() -> Attribute:
    return Attribute("organization_id", String(), "ID of the organization.", required=True, requires_replace=True)


def _labels(of: str) -> Attribute:
    return Attribute("labels", Map(String()), f"Labels of the {of}.", optional=True)


def _shown_labels(current: State, labels: Mapping[str, Any]) -> dict[str, Any] | None:
    return dict(labels) if labels or current.get("labels") is not None else None


class Organization(_Resource):
    """An organization."""

    name = "organization"
    attributes: ClassVar = [Attribute("name", String(), "Name.", required=True)]

    @reported
    def create(self, _: Any, planned: State) -> State:
        return {**planned, "id": self.client.create_organization(name=planned["name"]).id}

    @reported
    def update(self, _: Any, current: State, planned: State) -> State:
        self.client.rename_organization(current["id"], name=planned["name"])
        return planned

    def found(self, current: State) -> State:
        return {"name": self.client.read_organization(current["id"]).name}

    def remove(self, ctx: Any, current: State) -> None:
        ctx.diagnostics.add_warning(
            f"Organization '{current['name']}' still exists",
            "The API can't delete organizations. Terraform has only forgotten it.",
        )


class Environment(_Resource):
    """An environment with its policies and services."""

    name = "environment"
    attributes: ClassVar = [
        _organization(),
        Attribute("name", String(), "Name.", required=True),
        Attribute("policies", String(), "Policies and properties as a YAML document.", optional=True),
        Attribute("exported_policies", String(), "The policies as the server exports them.", computed=True),
        Attribute("services", List(String()), "IDs of the services that it offers.", optional=True),
        _labels("environment"),
    ]
    derived: ClassVar = {"policies": "exported_policies"}

    @reported
    def create(self, ctx: Any, planned: State) -> State:
        made = self.client.create_environment(planned["organization_id"], name=planned["name"])
        state = {**planned, "id": made.id, "exported_policies": ""}
        try:
            return self._written(state, {})
        except ClientError as error:
            explain(ctx.diagnostics, error)
            return state  # it exists, and Terraform makes it anew

    @reported
    def update(self, _: Any, current: State, planned: State) -> State:
        if planned["name"] != current["name"]:
            self.client.rename_environment(current["id"], name=planned["name"])
        return self._written(planned, current)

    def _written(self, planned: State, current: State) -> State:
        environment = planned["id"]
        exported = current.get("exported_policies")
        is_written = planned["policies"] != current.get("policies")
        if is_written:
            self.client.replace_policies(environment, planned["policies"] or _NO_POLICIES)
        if planned["services"] != current.get("services"):
            self.client.replace_environment_services(environment, services=planned["services"] or [])
        if planned["labels"] != current.get("labels"):
            self.client.put_environment_labels(environment, planned["labels"] or {})
        if is_written or exported is None:
            exported = self.client.read_policies(environment)
        # Otherwise what Terraform knew: policies of somebody else are a difference that the next plan must show.
        return {**planned, "exported_policies": exported}

    def found(self, current: State) -> State:
        environment = current["id"]
        exported = self.client.read_policies(environment)
        services = [each.id for each in self.client.read_environment_services(environment).services]
        known = current["services"]
        # The server's document differs in form from the one that was written: only a change of it is a difference.
        policies = current["policies"] if exported == current["exported_policies"] else exported
        if policies is not None and policies.strip() == _NO_POLICIES and current["policies"] is None:
            policies = None
        return {
            "name": self.client.read_environment_name(environment).name,
            "policies": policies,
            "exported_policies": exported,
            "services": known if sorted(known or []) == sorted(services) else services,
            "labels": _shown_labels(current, self.client.read_environment_labels(environment)),
        }

    def remove(self, _: Any, current: State) -> None:
        self.client.delete_environment(current["id"])


class Application(_Resource):
    """An application with its manifest."""

    name = "application"
    attributes: ClassVar = [
        _organization(),
        Attribute("name", String(), "Name.", required=True),
        Attribute("manifest", String(), "The manifest, a YAML document.", required=True),
        Attribute("message", String(), "What the newest version changes.", optional=True),
        Attribute("version", Number(), "The newest version of the manifest.", computed=True),
        _labels("application"),
    ]
    derived: ClassVar = {"manifest": "version"}

    @reported
    def create(self, ctx: Any, planned: State) -> State:
        made = self.client.create_application(planned["organization_id"], name=planned["name"])
        state = {**planned, "id": made.id, "version": 0}
        try:
            return self._written(ctx, state, {})
        except ClientError as error:
            explain(ctx.diagnostics, error)
            return state  # it exists, and Terraform makes it anew

    @reported
    def update(self, ctx: Any, current: State, planned: State) -> State:
        if planned["name"] != current["name"]:
            self.client.rename_application(current["id"], name=planned["name"])
        return self._written(ctx, planned, current)

    def _written(self, ctx: Any, planned: State, current: State) -> State:
        application = planned["id"]
        version = current.get("version")
        if planned["manifest"] != current.get("manifest"):
            written = self.client.replace_manifest(application, planned["manifest"], message=planned["message"])
            version = written.version
            for each in written.warnings:
                ctx.diagnostics.add_warning(each.message, f"Line {each.line}, column {each.column}.", ["manifest"])
        if planned["labels"] != current.get("labels"):
            self.client.put_application_labels(application, planned["labels"] or {})
        return {**planned, "version": version}

    def found(self, current: State) -> State:
        application = self.client.read_application(current["id"])
        return {
            "organization_id": application.organization_id,
            "name": application.name,
            "manifest": self.client.read_manifest(application.id),
            "version": application.version,
            "labels": _shown_labels(current, self.client.read_application_labels(application.id)),
        }

    def remove(self, _: Any, current: State) -> None:
        self.client.delete_application(current["id"])


class Service(_Resource):
    """A service, such as a cloud account, a pool or a vault."""

    name = "service"
    attributes: ClassVar = [
        _organization(),
        Attribute("name", String(), "Name.", required=True),
        Attribute("type", String(), "ID of the type of services.", required=True, requires_replace=True),
        Attribute("zone_id", String(), "ID of the zone.", optional=True, computed=True, requires_replace=True),
        Attribute("parameters", Json(), "Parameters, with `jsonencode()`.", optional=True, sensitive=True),
    ]

    @reported
    def create(self, _: Any, planned: State) -> State:
        made = self.client.create_service(
            planned["organization_id"],
            name=planned["name"],
            type_id=planned["type"],
            zone_id=None if planned["zone_id"] is Unknown else planned["zone_id"],
            parameters=planned["parameters"] or {},
        )
        return {**planned, "id": made.id, "zone_id": self.client.read_service(made.id).zone_id}

    @reported
    def update(self, _: Any, current: State, planned: State) -> State:
        self.client.update_service(current["id"], name=planned["name"], parameters=planned["parameters"] or {})
        return planned

    def found(self, current: State) -> State:
        service = self.client.read_service(current["id"])
        return {
            "organization_id": service.organization_id,
            "name": service.name,
            "type": service.type_id,
            "zone_id": service.zone_id,
            "parameters": _seen(current["parameters"], service.parameters),
        }

    def remove(self, _: Any, current: State) -> None:
        self.client.delete_service(current["id"])


def _seen(known: Mapping[str, Any] | None, shown: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the known parameters with the values that the server shows; masked ones are taken to be as known."""
    if known is None:
        return None
    return {name: value if shown.get(name) == _MASKED else shown.get(name) for name, value in known.items()}


class Role(_Resource):
    """A role with its permissions."""

    name = "role"
    attributes: ClassVar = [
        _organization(),
        Attribute("name", String(), "Name.", required=True),
        Attribute("permissions", String(), "Permissions as a YAML document.", required=True),
    ]

    @reported
    def create(self, _: Any, planned: State) -> State:
        made = self.client.create_role(
            planned["organization_id"], name=planned["name"], permissions=planned["permissions"]
        )
        return {**planned, "id": made.id}

    @reported
    def update(self, _: Any, current: State, planned: State) -> State:
        self.client.update_role(current["id"], name=planned["name"], permissions=planned["permissions"])
        return planned

    def found(self, current: State) -> State:
        role = self.client.read_role(current["id"])
        return {"name": role.name, "permissions": role.permissions}

    def remove(self, _: Any, current: State) -> None:
        self.client.delete_role(current["id"])


class Instance(_Resource):
    """An instance of an application: launched, reconfigured, destroyed."""

    name = "instance"
    attributes: ClassVar = [
        Attribute("application_id", String(), "ID of the application.", required=True, requires_replace=True),
        Attribute("environment_id", String(), "ID of the environment.", required=True, requires_replace=True),
        Attribute("name", String(), "Name.", required=True),
        Attribute("version", Number(), "Version of the manifest. Default: the newest.", optional=True, computed=True),
        Attribute("parameters", Json(), "Parameters, with `jsonencode()`.", optional=True),
        _labels("instance"),
        Attribute("status", String(), "Status.", computed=True),
        Attribute("return_values", Json(), "What the launch returned, for `jsondecode()`.", computed=True),
    ]

    def validate(self, diags: Diagnostics, type_name: str, config: State) -> None:
        """Show with each plan what the launch of a new instance would do.

        The framework asks a resource for no plan of what isn't there yet, but Terraform checks each configuration with
        a configured provider while it plans.
        """
        known = all(value is not Unknown for value in config.values())
        if self._provider.client is None or not known or self._is_there(config):
            return
        try:
            preview = self.client.preview_launch(
                config["application_id"],
                environment_id=config["environment_id"],
                instance_name=config["name"],
                version=_whole(config["version"]),
                parameters=msgspec.json.decode(config["parameters"] or "{}"),
                labels=config["labels"] or {},
                destroy_interval=_NEVER,
            )
        except ClientError as error:
            explain(diags, error)
            return
        _show(diags, f"Launching '{config['name']}'", preview)

    def _is_there(self, config: State) -> bool:
        listed = self.client.list_environment_instances(config["environment_id"], name=config["name"])
        return any(each.name == config["name"] and each.status != "Destroyed" for each in listed)

    def plan(self, ctx: Any, current: State, planned: State) -> State:
        """Show what the reconfiguration would do.

        With any change, even of labels alone, Terraform must expect other computed values: a job may run meanwhile.
        """
        if not ctx.changed_fields:
            return planned
        planned["return_values"], planned["status"] = Unknown, Unknown
        if not ctx.changed_fields & {"name", "version", "parameters"}:
            return planned
        given = {name: planned[name] for name in ("name", "version", "parameters")}
        if any(value is Unknown for value in given.values()) or "application_id" in ctx.changed_fields:
            return planned
        try:
            preview = self.client.preview_configuration(current["id"], **_configuration(planned))
        except ClientError as error:
            explain(ctx.diagnostics, error)
        else:
            _show(ctx.diagnostics, f"Reconfiguring '{current['name']}'", preview)
        return planned

    @reported
    def create(self, ctx: Any, planned: State) -> State:
        version = planned["version"]
        made = self.client.launch_application(
            planned["application_id"],
            environment_id=planned["environment_id"],
            instance_name=planned["name"],
            version=None if version is Unknown else _whole(version),
            parameters=planned["parameters"] or {},
            labels=planned["labels"] or {},
            destroy_interval=_NEVER,
            if_exists="fail",
            idempotency_key=str(uuid4()),  # with it the client asks again if the answer is lost
        )
        return self._settled(ctx, {**planned, "id": made.id})

    @reported
    def update(self, ctx: Any, current: State, planned: State) -> State:
        if planned["labels"] != current["labels"]:
            self.client.put_instance_labels(current["id"], planned["labels"] or {})
        if any(planned[name] != current[name] for name in ("name", "version", "parameters")):
            self.client.reconfigure_instance(current["id"], **_configuration(planned))
        return self._settled(ctx, planned)

    def _settled(self, ctx: Any, planned: State) -> State:
        """Wait for the job; report its failure, but keep the instance: it exists, and somebody must look at it."""
        try:
            self.client.wait(planned["id"], timeout_s=_WAIT_S)
        except ClientError as error:
            ctx.diagnostics.add_error("The instance didn't get to Running", f"{error}\nIts ID is {planned['id']}.")
        shown = self.client.read_instance(planned["id"])
        return {
            **planned,
            # Somebody may have reconfigured it meanwhile: the next plan shows that. Terraform insists on what it knew.
            "version": shown.version if planned["version"] is Unknown else planned["version"],
            "status": shown.status,
            "return_values": shown.return_values,
        }

    def found(self, current: State) -> State | None:
        shown = self.client.read_instance(current["id"])
        if shown.status == "Destroyed":
            return None
        given = {name: shown.parameters[name] for name, origin in shown.parameter_origins.items() if origin == "given"}
        known = current["parameters"]
        # Masked values are taken to be as known.
        parameters = {name: (known or {}).get(name) if value == _MASKED else value for name, value in given.items()}
        return {
            "application_id": shown.application_id,
            "environment_id": shown.environment_id,
            "name": shown.name,
            "version": shown.version,
            "parameters": parameters if parameters or known is not None else None,
            "labels": _shown_labels(current, shown.labels or {}),
            "status": shown.status,
            "return_values": shown.return_values,
        }

    def remove(self, _: Any, current: State) -> None:
        instance = current["id"]
        if self.client.read_instance(instance).status != "Destroyed":
            self.client.run(instance, "destroy").wait(timeout_s=_WAIT_S)
        self.client.delete_instance(instance)


class Schedule(_Resource):
    """A recurring schedule of a workflow, or of a launch."""

    name = "schedule"
    attributes: ClassVar = [
        _organization(),
        Attribute("name", String(), "Name.", required=True),
        Attribute("cron", String(), "Cron expression of 5 to 7 fields.", required=True),
        Attribute("zone", String(), "Time zone, such as `Europe/Berlin`.", optional=True, computed=True, default="UTC"),
        Attribute("paused", Bool(), "Whether it is paused.", optional=True),
        Attribute("instance_id", String(), "Instance to run on.", optional=True, requires_replace=True),
        Attribute("workflow", String(), "Workflow to run.", optional=True, requires_replace=True),
        Attribute("parameters", Json(), "Arguments of the workflow.", optional=True, requires_replace=True),
        Attribute("application_id", String(), "Application to launch.", optional=True, requires_replace=True),
        Attribute("launch", Json(), "Launch request, as in the API.", optional=True, requires_replace=True),
    ]

    @reported
    def create(self, _: Any, planned: State) -> State:
        made = self.client.create_recurring_schedule(
            planned["organization_id"],
            name=planned["name"],
            cron=planned["cron"],
            zone=planned["zone"],
            paused=bool(planned["paused"]),
            instance_id=planned["instance_id"],
            workflow=planned["workflow"],
            parameters=planned["parameters"],
            application_id=planned["application_id"],
            launch=planned["launch"],
        )
        return {**planned, "id": made.id}

    @reported
    def update(self, _: Any, current: State, planned: State) -> State:
        self.client.update_recurring_schedule(
            current["id"],
            name=planned["name"],
            cron=planned["cron"],
            zone=planned["zone"],
            paused=bool(planned["paused"]),
        )
        return planned

    def found(self, current: State) -> State:
        shown = self.client.read_recurring_schedule(current["id"])
        is_paused = shown.status == "paused"
        return {
            "name": shown.name,
            "cron": shown.cron,
            "zone": shown.zone,
            "paused": current["paused"] if bool(current["paused"]) == is_paused else is_paused,
            "instance_id": shown.instance_id,
            "workflow": shown.workflow,
            # A schedule of an instance is shown with the instance's application.
            "application_id": shown.application_id if shown.instance_id is None else None,
        }

    def remove(self, _: Any, current: State) -> None:
        self.client.delete_recurring_schedule(current["id"])


def _whole(number: Any) -> int | None:
    return None if number is None else int(number)


def _configuration(planned: State) -> dict[str, Any]:
    return {
        "instance_name": planned["name"],
        "manifest_version": _whole(planned["version"]),
        "parameters": planned["parameters"] or {},
    }


def _show(diags: Diagnostics, what: str, preview: Preview) -> None:
    if preview.errors:
        diags.add_error(f"{what} would be refused", "\n".join(preview.errors))
        return
    lines = [_line(each) for each in preview.components if each.change != "keep"] or ["No component changes."]
    if preview.workflows:
        lines.append(f"Runs {', '.join(preview.workflows)}: {preview.steps} steps, {preview.approvals} approvals.")
    if preview.estimate is not None:
        lines.append(f"Usually takes {preview.estimate.usual_duration_ms / 1000:g} s.")
    diags.add_warning(what, "\n".join([*lines, *preview.warnings]))


def _line(component: Any) -> str:
    changes = ", ".join(
        f"{each.name}: {each.to!r}" if each.from_ is None else f"{each.name}: {each.from_!r} → {each.to!r}"
        for each in component.parameters
    )
    return f"{component.change} {component.path}{': ' if changes else ''}{changes}"


RESOURCES: tuple[type[_Resource], ...] = (Organization, Environment, Application, Service, Role, Instance, Schedule)
