"""Parameters and arguments as they are given, held against what a type declares. Pure but for the type's own check."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from launchbay.errors import FieldErrors
from launchbay.model.types import ListType, MapType, Type
from launchbay.model.values import CoercionError, coerce, coerce_text
from launchbay.service_types.contract import ParameterScope, ServiceCommand, ServiceType

MASK = "********"  # stands for every secret value that is shown, and means "as it is" when it comes back
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
        elif parameter.secret and value == MASK:
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


def checked_arguments(command: ServiceCommand, given: Mapping[str, Any]) -> dict[str, Any]:
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
