"""The contract of service types. A package adds one in the entry-point group `launchbay.services`.

    class Clock:
        id = "example:clock"
        name = "Clock"
        parameters = {"configuration.zone": ServiceParameter(STRING, "The time zone.", required=True)}
        commands = {"now": ServiceCommand("clock", "Returns the time.", results={"time": STRING})}
        interfaces = command_pins(commands)

        async def check(self, scope, parameters):
            known = parameters["configuration.zone"] in ZONES
            return {} if known else {"configuration.zone": ["Unknown time zone."]}

        async def run(self, command, call):
            return {"time": time_in(call.parameters["configuration.zone"])}

One object serves all services of the type at the same time. Manifests access a service through its `interfaces`. A type
that publishes signals also has a method `signals` (`PublishesSignals`). One that gives secrets to steps has `sign_in`
and `read` (`SecretProvider`), and also `renew` and `revoke` if it must end what it gave (`LeasingProvider`).
"""

from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, NamedTuple, Protocol, runtime_checkable

import msgspec

from launchbay.egress.http import EgressClient
from launchbay.errors import ActionFailed, Conflict, FieldErrors
from launchbay.model.job import StepWait
from launchbay.model.scalars import with_fields_as_texts
from launchbay.model.types import STRING, ListType, MapType, PinKind, PinType, Signature, Type
from launchbay.model.values import CoercionError, coerce, coerce_text
from launchbay.store import services
from launchbay.store.database import Connection

ENTRY_POINT_GROUP = "launchbay.services"
FieldMessages = Mapping[str, Sequence[str]]


@dataclass(frozen=True, slots=True)
class ServiceParameter:
    """A parameter of the services of a type. A `secret` one is stored encrypted and never shown.

    A `required` one isn't needed if the parameter `unless` has a value.

    A secret that a service sends in clear names the parameter with the URL that it `goes_to`. Whoever may change the
    URL need not see the secret, so it isn't kept for another one.

    A URL that `takes_tokens` gets those of jobs in the environments that offer the service. So these must be editable,
    too, for who changes it.

    The console suggests the `choices` of a text.

    `texts` are the fields of an object, at any depth, whose numbers are the texts that their author wrote.
    """

    type: Type
    description: str
    required: bool = False
    secret: bool = False
    takes_tokens: bool = False
    texts: frozenset[str] = frozenset()
    unless: str = ""
    goes_to: str = ""
    choices: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class CommandArgument:
    """An argument of a command."""

    type: Type
    description: str
    required: bool = False


@dataclass(frozen=True, slots=True)
class ServiceCommand:
    """A command, which manifests call as a pin of `interface`, and the API by its name alone.

    The `secret_results` of a workflow's call are shown nowhere, and stored encrypted.
    """

    interface: str
    description: str
    arguments: Mapping[str, CommandArgument] = field(default_factory=dict)
    intermediate: Mapping[str, Type] = field(default_factory=dict)
    results: Mapping[str, Type] = field(default_factory=dict)
    secret_results: frozenset[str] = frozenset()
    changes: bool = True  # whether it changes something, which the audit log records

    def pin(self) -> PinType:
        arguments = {name: argument.type for name, argument in self.arguments.items()}
        return PinType(PinKind.RECEIVE_COMMAND, signature=Signature(arguments, self.intermediate, self.results))


@dataclass(frozen=True, slots=True, kw_only=True)
class ParameterScope:
    """The transaction that checks and stores parameters.

    `previous` contains the parameters before the change, because unchanged values may no longer be valid. `egress`
    knows where the organization may connect to.
    """

    connection: Connection
    organization_id: str
    previous: Mapping[str, Any]
    egress: EgressClient = field(default_factory=EgressClient)


class Seal(Protocol):
    """Authenticated encryption for one service."""

    def seal(self, plain: bytes, name: str) -> bytes:
        """Encrypt a value; `name` identifies it within the service."""

    def open(self, sealed: bytes, name: str) -> bytes:
        """Decrypt the value with this name. Raises UnsealFailed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceCall:
    """One call of a command.

    `parameters` are those at the start of the call, decrypted. `arguments` have their declared types, and the required
    ones exist. `report` takes intermediate results. `transaction()` opens a connection and commits at the end of its
    block, so a waiting command occupies no connection. A command of a workflow has an `idempotency_key`: after a crash
    it runs again with the same key. Encrypt secrets of the service with `seal`. `waiting` shows during a block what the
    step of a workflow waits for.
    """

    service_id: str
    organization_id: str
    parameters: Mapping[str, Any]
    arguments: Mapping[str, Any]
    transaction: Callable[[], AbstractAsyncContextManager[Connection]]
    report: Callable[[Mapping[str, Any]], None]
    seal: Seal
    idempotency_key: str | None = None
    name: str = ""
    waiting: Callable[[StepWait], AbstractContextManager[None]] = lambda _: nullcontext()


class ServiceType(Protocol):
    """The contract."""

    @property
    def id(self) -> str:
        """The ID of the type, such as `builtin:workflow_service`."""

    @property
    def name(self) -> str:
        """The name for people."""

    @property
    def parameters(self) -> Mapping[str, ServiceParameter]:
        """The parameters of services, by name."""

    @property
    def commands(self) -> Mapping[str, ServiceCommand]:
        """The commands of services, by name."""

    @property
    def interfaces(self) -> Mapping[str, Mapping[str, PinType]]:
        """The pins for manifests: interface → pin → type. `command_pins` derives them from commands."""

    async def check(self, scope: ParameterScope, parameters: Mapping[str, Any]) -> FieldMessages:
        """Return the errors of parameters, by name.

        Types are checked before, and secret parameters are decrypted. A text that is set later is `REDACTED`.
        """

    async def run(self, command: str, call: ServiceCall) -> Mapping[str, Any]:
        """Run a command and return its final results.

        Raises FieldErrors for invalid arguments, and Conflict if the service can't do it now.
        """


class SecretProblem(Enum):
    """Why a secret can't be read."""

    SEALED = "sealed"  # until an operator of the provider acts
    UNREACHABLE = "unreachable"  # the provider is away, or fails
    THROTTLED = "throttled"
    EXPIRED = "expired"  # the session; each attempt signs in again
    FORBIDDEN = "forbidden"  # for this job: its sign-in, or the path
    MISSING = "missing"  # nothing is at the path, or no such key
    UNREADABLE = "unreadable"  # it exists, but can't be given as text
    INVALID = "invalid"  # the reference, or the configuration of the provider

    @property
    def retryable(self) -> bool:
        """Whether another attempt can help."""
        return self in _PASSING


_PASSING = frozenset((SecretProblem.SEALED, SecretProblem.UNREACHABLE, SecretProblem.THROTTLED, SecretProblem.EXPIRED))


class SecretFailed(ActionFailed):
    """A provider can't give a secret.

    The messages name provider and path, and what to do, never a value.
    """

    def __init__(self, problem: SecretProblem, *messages: str) -> None:
        super().__init__(*messages, retryable=problem.retryable)
        self.problem = problem


@dataclass(frozen=True, slots=True, kw_only=True)
class SecretCall:
    """A sign-in at a provider of secrets.

    `token` returns a token of the job for an audience, or raises ActionFailed.
    """

    name: str  # of the service
    parameters: Mapping[str, Any]  # decrypted
    egress: EgressClient
    token: Callable[[str], Awaitable[str]]
    organization_id: str = ""
    environment_id: str = ""
    job_id: str = ""


class SignedIn(NamedTuple):
    """A session of a provider.

    `session` is all that its other methods need. That of a `LeasingProvider` is stored, sealed, until it is revoked.
    """

    session: str
    secret: str | Sequence[str]  # the credentials in it, to be masked
    lease_s: int = 0  # 0: it doesn't end


class ProvidedSecret(NamedTuple):
    """The values of a secret by key, and their lease if renewable.

    `whole` is what a reference without a key gives; by default the map of all keys. What `lasts` is valid after the
    session too. The `version` changes with the secret; without one, Launchbay compares fingerprints. It is None if each
    read may give something else.
    """

    values: Mapping[str, Any]
    lease: str = ""
    lease_s: int = 0
    whole: str | None = None
    lasts: bool = True
    version: str | None = ""


def provided_text(text: str, version: str = "") -> ProvidedSecret:
    """Return a secret that is text, with the keys of JSON in it."""
    try:
        values = msgspec.json.decode(text)
    except (ValueError, RecursionError):
        values = None
    return ProvidedSecret(values if isinstance(values, dict) else {}, whole=text, version=version)


class Renewed(NamedTuple):
    """What a renewal came to.

    Durations are in seconds; with 0, it doesn't end. `session_s` is None if the session can't be renewed. `lease_s` is
    that of the lease that ends first. `lost` are leases that can't be renewed anymore, with the reason, and `failed`
    those for which another attempt can help.
    """

    session_s: int | None
    lease_s: int = 0
    lost: Mapping[str, str] = {}
    failed: Mapping[str, str] = {}


@runtime_checkable
class SecretProvider(Protocol):
    """A type whose services give secrets to steps. The methods raise SecretFailed.

    All references of a step to one service share a session. It is in memory only, and ends with the attempt.
    """

    async def sign_in(self, call: SecretCall) -> SignedIn:
        """Begin a session for a step."""

    async def read(self, egress: EgressClient, session: str, path: str) -> ProvidedSecret:
        """Read the secret at a path."""


@runtime_checkable
class LeasingProvider(SecretProvider, Protocol):
    """A provider whose sessions are renewed, and then revoked, after a crash too."""

    async def renew(self, egress: EgressClient, session: str, leases: Sequence[str]) -> Renewed:
        """Renew the session and each of its leases, also after one that fails."""

    async def revoke(self, egress: EgressClient, session: str) -> None:
        """End the session and all of its leases. One that has ended is fine."""


class PathAccess(NamedTuple):
    """What a session may do with a path.

    What `is_stored` stays as it is when it is read. `may_write` is whether it may change what is stored. `fix` says
    what would let it read.
    """

    may_read: bool
    may_write: bool
    is_stored: bool
    fix: str = ""


@runtime_checkable
class ShowsAccess(SecretProvider, Protocol):
    """A provider that says what a session may do."""

    async def look(self, egress: EgressClient, session: str, path: str) -> PathAccess:
        """Ask what a session may do, without reading. Raises SecretFailed."""


@runtime_checkable
class PublishesSignals(Protocol):
    """A type with publish-signal pins in its `interfaces`."""

    def signals(self, parameters: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return the signals of a service by `interface.pin`, as JSON values.

        Called when an instance is launched or reconfigured. `parameters` excludes the secret ones, because everyone who
        can read the instance sees its signals.
        """


def command_pins(commands: Mapping[str, ServiceCommand]) -> dict[str, dict[str, PinType]]:
    """Return the interfaces of these commands."""
    interfaces: dict[str, dict[str, PinType]] = {}
    for name, command in commands.items():
        interfaces.setdefault(command.interface, {})[name] = command.pin()
    return interfaces


class PassiveServiceType:
    """Defaults for types without commands, or without checks of parameters."""

    commands: Mapping[str, ServiceCommand] = {}
    parameters: Mapping[str, ServiceParameter] = {}
    interfaces: Mapping[str, Mapping[str, PinType]] = {}

    async def check(self, scope: ParameterScope, parameters: Mapping[str, Any]) -> FieldMessages:  # noqa: ARG002 - contract
        return {}

    async def run(self, command: str, call: ServiceCall) -> Mapping[str, Any]:  # noqa: ARG002 - contract
        raise AssertionError(f"the type declares no command {command!r}")  # only declared commands are called


REDACTED = "********"  # replaces every secret value, and means "unchanged" in a request
_NAMES_SHOWN = 30


async def lock_service(connection: Connection, service_id: str) -> services.ChangeableRow:
    """Lock the row of a service until the end of the transaction. Raises Conflict if it was deleted."""
    row = await services.lock(connection, service_id=service_id)
    if row is None:
        raise Conflict("The service was deleted while this request ran.")
    return row


@dataclass(frozen=True, slots=True)
class ServiceParameters:
    """The parameters of a service: open ones and secret ones, by name."""

    open: Mapping[str, Any] = field(default_factory=dict)
    secret: Mapping[str, Any] = field(default_factory=dict)

    def everything(self) -> dict[str, Any]:
        """Return all parameters. Never show or store the result."""
        return {**self.open, **self.secret}


async def changed_parameters(
    kind: ServiceType,
    scope: ParameterScope,
    old: ServiceParameters,
    given: Mapping[str, Any],
    *,
    set_later: Collection[str] = (),
) -> ServiceParameters:
    """Return the parameters after a change. Null removes a parameter, and missing ones stay.

    The secret parameters `set_later` have no values yet: the type checks the others as if they had. Raises FieldErrors
    with all errors, by parameter.
    """
    problems: dict[str, list[str]] = {}
    values = old.everything()
    for name, value in given.items():
        parameter = kind.parameters.get(name)
        if parameter is None:
            known = ", ".join(list(kind.parameters)[:_NAMES_SHOWN]) or "none"
            problems[name[:100]] = [f"Unknown parameter. This type of service has: {known}."]
        elif parameter.secret and value == REDACTED:
            if name not in old.secret:
                problems[name] = ["This is the placeholder of a secret. Send the secret itself."]
        elif value is None:
            values.pop(name, None)
        else:
            _take(values, problems, name, parameter.type, with_fields_as_texts(value, parameter.texts))
    for name, parameter in kind.parameters.items():
        is_needed = parameter.required and not values.get(parameter.unless)
        if is_needed and name not in values and name not in problems and name not in set_later:
            problems[name] = ["This parameter is required."]
        if parameter.goes_to and name in values and given.get(name, REDACTED) == REDACTED:
            is_moved = values.get(parameter.goes_to) != old.open.get(parameter.goes_to)
            if is_moved and name in old.secret:
                problems[name] = [f"With another {parameter.goes_to}, enter this secret again: it would go there."]
    later = {name: kind.parameters[name] for name in set_later if name in kind.parameters}
    if not problems and all(parameter.type == STRING for parameter in later.values()):
        found = await kind.check(scope, {**values, **dict.fromkeys(later, REDACTED)})
        problems = {name: list(messages) for name, messages in found.items() if messages and name not in later}
    if problems:
        raise FieldErrors(problems)
    secret_names = {name for name, parameter in kind.parameters.items() if parameter.secret}
    return ServiceParameters(
        {name: value for name, value in values.items() if name not in secret_names},
        {name: value for name, value in values.items() if name in secret_names},
    )


def validate_arguments(command: ServiceCommand, given: Mapping[str, Any]) -> dict[str, Any]:
    """Return a command's arguments, coerced to their types.

    Null means missing. Raises FieldErrors, by argument.
    """
    problems: dict[str, list[str]] = {}
    values: dict[str, Any] = {}
    for name, value in given.items():
        argument = command.arguments.get(name)
        if argument is None:
            known = ", ".join(list(command.arguments)[:_NAMES_SHOWN]) or "none"
            problems[name[:100]] = [f"Unknown argument. This command has: {known}."]
        elif value is not None:
            _take(values, problems, name, argument.type, value)
    for name, argument in command.arguments.items():
        if argument.required and name not in values and name not in problems:
            problems[name] = ["This argument is required."]
    if problems:
        raise FieldErrors(problems)
    return values


def _take(values: dict[str, Any], problems: dict[str, list[str]], name: str, wanted: Type, value: Any) -> None:
    try:
        # Forms send lists and maps as JSON text.
        as_text = isinstance(value, str) and isinstance(wanted, ListType | MapType)
        values[name] = coerce_text(wanted, value) if as_text else coerce(wanted, value)
    except CoercionError as error:
        fix = " On the command line, write it as NAME:=JSON." if as_text else ""
        problems[name] = [f"{error}{fix}"]
