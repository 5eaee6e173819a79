"""What a service type is. A package of its own brings one through the entry-point group `launchbay.services`.

    class Clock:
        id = "example:clock"
        name = "Clock"
        parameters = {"configuration.zone": ServiceParameter(STRING, "The time zone.", required=True)}
        commands = {"now": ServiceCommand("clock", "Tells the time.", results={"time": STRING})}
        interfaces = command_pins(commands)

        async def check(self, scope, parameters):
            known = parameters["configuration.zone"] in ZONES
            return {} if known else {"configuration.zone": ["There is no such zone."]}

        async def run(self, command, call):
            return {"time": time_in(call.parameters["configuration.zone"])}

One object serves all instances of the type, at the same time. Manifests reach a service through its `interfaces`; a
type that publishes signals has a method `signals` too (`PublishesSignals`).
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable

from launchbay.errors import FieldErrors
from launchbay.model.types import ListType, MapType, PinKind, PinType, Signature, Type
from launchbay.model.values import CoercionError, coerce, coerce_text
from launchbay.store.database import Connection

ENTRY_POINT_GROUP = "launchbay.services"
FieldMessages = Mapping[str, Sequence[str]]


@dataclass(frozen=True, slots=True)
class ServiceParameter:
    """A parameter of the instances of a type. A `secret` one is sealed at rest and never shown to anybody again."""

    type: Type
    description: str
    required: bool = False
    secret: bool = False


@dataclass(frozen=True, slots=True)
class CommandArgument:
    """An argument of a command."""

    type: Type
    description: str
    required: bool = False


@dataclass(frozen=True, slots=True)
class ServiceCommand:
    """A command, which manifests reach as a pin of `interface`, and the API by its name alone.

    What a workflow gets under one of the `secret_results` is shown nowhere, and sealed wherever it is stored.
    """

    interface: str
    description: str
    arguments: Mapping[str, CommandArgument] = field(default_factory=dict)
    intermediate: Mapping[str, Type] = field(default_factory=dict)
    results: Mapping[str, Type] = field(default_factory=dict)
    secret_results: frozenset[str] = frozenset()
    changes: bool = True  # something, and so it belongs into the audit log

    def pin(self) -> PinType:
        """Return the pin that manifests see."""
        arguments = {name: argument.type for name, argument in self.arguments.items()}
        return PinType(PinKind.RECEIVE_COMMAND, signature=Signature(arguments, self.intermediate, self.results))


@dataclass(frozen=True, slots=True, kw_only=True)
class ParameterScope:
    """Where parameters are checked: inside the transaction that stores them.

    `previous` holds the parameters before the change, so that what stays as it was need not hold any more.
    """

    connection: Connection
    organization_id: str
    previous: Mapping[str, Any]


class Seal(Protocol):
    """Authenticated encryption for one service (`sealed.ServiceSeal`)."""

    def seal(self, plain: bytes, name: str) -> bytes:
        """Return the sealed form; `name` says which of the service's things it is."""
        ...

    def open(self, sealed: bytes, name: str) -> bytes:
        """Return what was sealed under the name. Raises SealBroken."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceCall:
    """One command that is carried out.

    `parameters` are those at the beginning, with the secret ones opened; `arguments` have their declared types, and the
    required ones are there. `report` takes intermediate results. A connection is not kept while a command waits:
    `transaction()` lends one, committed at the end of its block. A command of a workflow has an `idempotency_key`; when
    a crash interrupts it, it runs again with the same key. What the service keeps that is secret goes through `seal`.
    """

    service_id: str
    organization_id: str
    parameters: Mapping[str, Any]
    arguments: Mapping[str, Any]
    transaction: Callable[[], AbstractAsyncContextManager[Connection]]
    report: Callable[[Mapping[str, Any]], None]
    seal: Seal
    idempotency_key: str | None = None


class ServiceType(Protocol):
    """The contract."""

    @property
    def id(self) -> str:
        """The identifier of the type, such as `builtin:workflow_service`."""
        ...

    @property
    def name(self) -> str:
        """The name for people."""
        ...

    @property
    def parameters(self) -> Mapping[str, ServiceParameter]:
        """What instances take, by name."""
        ...

    @property
    def commands(self) -> Mapping[str, ServiceCommand]:
        """What instances do, by name."""
        ...

    @property
    def interfaces(self) -> Mapping[str, Mapping[str, PinType]]:
        """What manifests see: interface → pin → its type. `command_pins` makes it of the commands."""
        ...

    async def check(self, scope: ParameterScope, parameters: Mapping[str, Any]) -> FieldMessages:
        """Return what is wrong with parameters beyond their types, by name; secret ones are among them, opened."""
        ...

    async def run(self, command: str, call: ServiceCall) -> Mapping[str, Any]:
        """Carry out one of the commands and return its final results.

        Raises FieldErrors for arguments that make no sense and Conflict where the service cannot do it now.
        """
        ...


@runtime_checkable
class PublishesSignals(Protocol):
    """What a type with publish-signal pins among its `interfaces` has besides the contract."""

    def signals(self, parameters: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return the signals of a service by `interface.pin`, JSON values.

        They are asked for when an instance is launched or reconfigured. The secret parameters are not among
        `parameters`, because everybody sees signals who may read the instance.
        """
        ...


def command_pins(commands: Mapping[str, ServiceCommand]) -> dict[str, dict[str, PinType]]:
    """Return the interfaces that these commands make up."""
    interfaces: dict[str, dict[str, PinType]] = {}
    for name, command in commands.items():
        interfaces.setdefault(command.interface, {})[name] = command.pin()
    return interfaces


class PassiveServiceType:
    """What types without commands, or without rules beyond their types, share."""

    commands: Mapping[str, ServiceCommand] = {}
    parameters: Mapping[str, ServiceParameter] = {}
    interfaces: Mapping[str, Mapping[str, PinType]] = {}

    async def check(self, scope: ParameterScope, parameters: Mapping[str, Any]) -> FieldMessages:  # noqa: ARG002 - contract
        """Find nothing wrong."""
        return {}

    async def run(self, command: str, call: ServiceCall) -> Mapping[str, Any]:  # noqa: ARG002 - contract
        """Have no command that could be run: only declared commands get here."""
        raise AssertionError(f"the type declares no command {command!r}")


REDACTED = "********"  # stands for every secret value that is shown, and means "as it is" when it comes back
_NAMES_SHOWN = 30


@dataclass(frozen=True, slots=True)
class ServiceParameters:
    """The parameters of an instance: open ones and secret ones, by name."""

    open: Mapping[str, Any] = field(default_factory=dict)
    secret: Mapping[str, Any] = field(default_factory=dict)

    def everything(self) -> dict[str, Any]:
        """Return all of them; never to be shown or stored."""
        return {**self.open, **self.secret}


async def changed_parameters(
    kind: ServiceType, scope: ParameterScope, old: ServiceParameters, given: Mapping[str, Any]
) -> ServiceParameters:
    """Return the parameters after a change: those given have new values, null takes one away, the others stay.

    Raises FieldErrors with everything that is wrong, by parameter.
    """
    problems: dict[str, list[str]] = {}
    values = old.everything()
    for name, value in given.items():
        parameter = kind.parameters.get(name)
        if parameter is None:
            known = ", ".join(list(kind.parameters)[:_NAMES_SHOWN]) or "none"
            problems[name[:100]] = [f"There is no such parameter. This type of service has: {known}."]
        elif parameter.secret and value == REDACTED:
            if name not in old.secret:
                problems[name] = ["This is what is shown in place of a secret; give the secret itself."]
        elif value is None:
            values.pop(name, None)
        else:
            _take(values, problems, name, parameter.type, value)
    for name, parameter in kind.parameters.items():
        if parameter.required and name not in values and name not in problems:
            problems[name] = ["This parameter is required; give it a value."]
    if not problems:
        found = await kind.check(scope, values)
        problems = {name: list(messages) for name, messages in found.items() if messages}
    if problems:
        raise FieldErrors(problems)
    secret_names = {name for name, parameter in kind.parameters.items() if parameter.secret}
    return ServiceParameters(
        {name: value for name, value in values.items() if name not in secret_names},
        {name: value for name, value in values.items() if name in secret_names},
    )


def validate_arguments(command: ServiceCommand, given: Mapping[str, Any]) -> dict[str, Any]:
    """Return a command's arguments as their types; null counts as left out. Raises FieldErrors, by argument."""
    problems: dict[str, list[str]] = {}
    values: dict[str, Any] = {}
    for name, value in given.items():
        argument = command.arguments.get(name)
        if argument is None:
            known = ", ".join(list(command.arguments)[:_NAMES_SHOWN]) or "none"
            problems[name[:100]] = [f"There is no such argument. This command has: {known}."]
        elif value is not None:
            _take(values, problems, name, argument.type, value)
    for name, argument in command.arguments.items():
        if argument.required and name not in values and name not in problems:
            problems[name] = ["This argument is required; give it a value."]
    if problems:
        raise FieldErrors(problems)
    return values


def _take(values: dict[str, Any], problems: dict[str, list[str]], name: str, wanted: Type, value: Any) -> None:
    try:
        # Lists and maps may also come as JSON inside a text, as forms send them.
        as_text = isinstance(value, str) and isinstance(wanted, ListType | MapType)
        values[name] = coerce_text(wanted, value) if as_text else coerce(wanted, value)
    except CoercionError as error:
        problems[name] = [str(error)]
