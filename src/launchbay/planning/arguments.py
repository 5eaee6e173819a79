"""Parameters of workflows: what they declare and require, and the values that they become."""

from collections.abc import Collection, Iterator, Mapping
from typing import Any

from launchbay import limits
from launchbay.errors import BadRequest
from launchbay.manifest.configuration import query_hint
from launchbay.manifest.expressions import Template
from launchbay.manifest.graph import (
    COMPUTE,
    SCALER,
    SERVICE,
    SUBMODULE,
    WORKFLOW_INSTANCE,
    CompiledManifest,
    Component,
    Target,
)
from launchbay.model.instance import remembered_in
from launchbay.model.scalars import settled
from launchbay.model.types import UNIT, Type
from launchbay.model.values import CoercionError, coerce, coerce_text, size_of
from launchbay.planning.names import LAUNCH, NAMES_SHOWN, shown_names


def typed_arguments(
    manifest: CompiledManifest, component: Component, pin: str, workflow: str, parameters: Mapping[str, Any]
) -> dict[str, Any]:
    check_size(parameters)
    types = declared_types(component, pin)
    unknown = sorted(name for name in parameters if name not in types)
    if unknown and manifest.is_component_manifest:
        declared = ", ".join(types) or "none"
        raise BadRequest(
            f"Workflow {workflow} has no parameter {shown_names(unknown)}. Parameters: {declared}.",
            code="UnknownParameter",
        )
    arguments: dict[str, Any] = {}
    for name, value in parameters.items():
        wanted = types.get(name)
        if wanted is None:
            arguments[name] = settled(value)
            continue
        try:
            arguments[name] = coerce_text(wanted, value) if isinstance(value, str) else coerce(wanted, value)
        except CoercionError as error:
            raise BadRequest(f"Parameter {name} of workflow {workflow}: {error}", code="WrongParameterType") from error
    return arguments


def check_size(parameters: Mapping[str, Any]) -> None:
    """Raise BadRequest for parameters with too many values: they would hold up others.

    JSON in a string counts as many values as it can have.
    """
    most = limits.PARAMETERS_BYTES
    texts = [text for text in parameters.values() if isinstance(text, str) and text.lstrip()[:1] in ("[", "{")]
    if size_of(parameters, most) + limits.VALUE_BYTES * sum(text.count(",") for text in texts) > most:
        raise BadRequest(
            f"The parameters exceed {most // limits.MIB} MiB ({limits.VALUE_BYTES} bytes for each value, and its "
            "characters). Pass less, such as the address of the data.",
            code="InvalidParameters",
        )


def declared_parameters(manifest: CompiledManifest, workflow: str) -> Collection[str]:
    """Return the parameters that a launch or a command declares; other workflows have none."""
    target = command_target(manifest, workflow)
    if target is not None:
        return declared_types(manifest.components[target.component], target.pin)
    return manifest.parameters if workflow == LAUNCH else ()


def ignored_parameters(manifest: CompiledManifest, workflow: str, parameters: Mapping[str, Any]) -> tuple[str, ...]:
    """Return a warning for each parameter of a launch or command that has no effect.

    A workflow manifest takes parameters that it doesn't declare as variables, which expressions may read. Component
    manifests refuse them.
    """
    if manifest.is_component_manifest or (workflow != LAUNCH and command_target(manifest, workflow) is None):
        return ()
    declared = declared_parameters(manifest, workflow)
    unknown = [name for name in parameters if name not in declared]
    if not unknown:
        return ()
    read = {name.rpartition("~")[2] for template in _templates(manifest) for name in template.variables}
    known = shown_names(list(declared)) or "none"
    return tuple(
        f"Workflow {workflow} has no parameter {shown_names([name])}, so it is ignored. "
        f"{(workflow == LAUNCH and query_hint(name)) or f'Parameters: {known}.'}"
        for name in unknown
        if name not in read
    )[:NAMES_SHOWN]


def _templates(manifest: CompiledManifest) -> Iterator[Template]:
    """Yield everything with expressions in the workflows of a manifest."""
    for component in manifest.components.values():
        for workflow in component.workflows.values():
            yield from workflow.returns.values()
            for step in workflow.all_steps:
                yield step.parameters
                yield from step.control.templates.values()
                yield from (each for each in (step.retry_count, step.ignore_fail) if each is not None)
            if workflow.timeout is not None:
                yield workflow.timeout


# Component types whose required arguments are known, with their optional ones. Other types check arguments themselves.
_OPTIONAL_ARGUMENTS: Mapping[str, frozenset[str]] = {
    WORKFLOW_INSTANCE: frozenset(),
    SCALER: frozenset(),
    COMPUTE: frozenset({"timeout"}),
    SUBMODULE: frozenset(),
    SERVICE: frozenset(),
}


def required_arguments(
    manifest: CompiledManifest, workflow: str, state: str, parameters: Mapping[str, Any]
) -> dict[str, Type | None]:
    """Return the arguments that a command's caller must provide, with their types.

    The workflow has no default for them, its component no configuration pin with this name and, in the instance's
    `state`, no earlier return value. `parameters` are those that the instance was given. For a component that is linked
    to an instance, these are all arguments: what the instance has is not known here.
    """
    target = command_target(manifest, workflow)
    if target is None:
        return {}
    component = manifest.components[target.component]
    optional = _OPTIONAL_ARGUMENTS.get(component.type)
    if optional is None or component.scaler is not None:  # each member of a Scaler has its own values
        return {}
    known = set(optional)
    if component.type == WORKFLOW_INSTANCE:
        known |= remembered_in(state, component.path)
        known |= {
            key.rpartition(".")[2]
            for key, pin in manifest.configuration_pins.get(component.path, {}).items()
            if pin.has_default or pin.parameter is not None
        }
        if not manifest.is_component_manifest:
            known |= set(parameters)  # undeclared ones are variables
        called = component.workflows.get(target.pin.partition(".")[2])
        if called is not None:
            known |= {name for name, parameter in called.parameters.items() if parameter.has_default}
    types = declared_types(component, target.pin)
    return {name: wanted for name, wanted in types.items() if name not in known and wanted != UNIT}


def command_target(manifest: CompiledManifest, workflow: str) -> Target | None:
    """Return the pin that runs a command of the application, or None."""
    pin = manifest.commands.get(workflow)
    return None if pin is None else pin.targets[0]


def declared_types(component: Component, pin: str) -> dict[str, Type | None]:
    """Return the parameters of a command by name: its pin's arguments and its workflow's parameters."""
    types: dict[str, Type | None] = {}
    workflow = component.workflows.get(pin.partition(".")[2])
    if workflow is not None:
        types.update({name: parameter.type for name, parameter in workflow.parameters.items()})
    signature = component.pins[pin].type.signature
    if signature is not None:
        types.update(signature.arguments)
    return types
