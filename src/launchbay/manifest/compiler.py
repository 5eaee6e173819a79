"""The compiler's pipeline: bytes to a compiled manifest, or to findings.

reader (bytes → tree) → parser, v1 (tree → typed manifest) → layout (binds) → bindings (links) → checker,
workflow_rules → graph. Pure: no I/O, no clock. The result is immutable and may be cached by manifest version.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from launchbay.errors import InvalidManifest
from launchbay.limits import TRIGGER_ROUNDS
from launchbay.manifest.bindings import Connector, Peers, Relays, launch_order, providers
from launchbay.manifest.check_rules import CheckRules, check_application
from launchbay.manifest.checker import ComponentChecker
from launchbay.manifest.expressions import Templates
from launchbay.manifest.graph import (
    BUILTIN,
    NO_CONTROL,
    SUBMODULE,
    WORKFLOW_INSTANCE,
    ApplicationPin,
    CompiledManifest,
    Component,
    ComponentType,
    ConfigurationPin,
    Control,
    Step,
    Workflow,
    WorkflowParameter,
)
from launchbay.manifest.layout import Layout, Leaf, build_layout, find_pin
from launchbay.manifest.parser import read_component
from launchbay.manifest.reader import DEFAULT_BOUNDS, Bounds, read
from launchbay.manifest.source import Source
from launchbay.manifest.syntax import ManifestSyntax, ParameterSyntax, StepSyntax, WorkflowSyntax
from launchbay.manifest.tree import MappingNode, Node, kind_of, unquoted_expression, written_data
from launchbay.manifest.v1 import read_workflow_manifest
from launchbay.manifest.workflow_rules import (
    KnownActions,
    ScopeRules,
    WorkflowRules,
    always_configured,
    check_signals,
    preceding_phases,
    started_workflows,
)
from launchbay.model.findings import Finding, Findings
from launchbay.model.scalars import kept_for_json
from launchbay.model.types import PinKind, Type
from launchbay.model.values import CoercionError, coerce, coerced_if_possible


@dataclass(frozen=True, slots=True)
class ApplicationPins:
    """The application's pins by API name, grouped by their role for the caller."""

    parameters: dict[str, ApplicationPin] = field(default_factory=dict)
    results: dict[str, ApplicationPin] = field(default_factory=dict)
    commands: dict[str, ApplicationPin] = field(default_factory=dict)
    needs: dict[str, ApplicationPin] = field(default_factory=dict)

    def of(self, kind: PinKind) -> dict[str, ApplicationPin]:
        if kind.is_need:
            return self.needs
        if kind is PinKind.CONFIGURATION:
            return self.parameters
        return self.commands if kind.is_command else self.results

    def parameter_by_target(self) -> Mapping[tuple[str, str], str]:
        """Return the first parameter that is bound to each (component path, `interface.pin`)."""
        found: dict[tuple[str, str], str] = {}
        for name, pin in self.parameters.items():
            for target in pin.targets:
                found.setdefault((target.component, target.pin), name)
        return found

    def needed_targets(self) -> frozenset[tuple[str, str]]:
        """Return (component path, `interface.pin`) of everything that a need of the application is bound to."""
        return frozenset((target.component, target.pin) for pin in self.needs.values() for target in pin.targets)


def application_pins(layout: Layout, *, plain_names: bool) -> ApplicationPins:
    """Return the application's pins by `interface.pin`, or by `plain_names` for workflow manifests."""
    found = ApplicationPins()
    for interface, pins in layout.public_pins[""].items():
        for name, pin in pins.items():
            key = name if plain_names else f"{interface}.{name}"
            found.of(pin.type.kind)[key] = ApplicationPin(key, pin.type, pin.targets, pin.label, pin.suggestions)
    return found


def required_parameters(
    parameters: Mapping[str, ApplicationPin],
    layout: Layout,
    configuration: Mapping[str, Mapping[str, ConfigurationPin]],
) -> tuple[str, ...]:
    """Return the parameters without which some component has no value.

    A pin of a submodule makes no parameter required: its own manifest, read at launch, may have a default.
    """
    return tuple(
        name
        for name, pin in parameters.items()
        if any(
            not configuration[target.component][target.pin].has_default
            for target in pin.targets
            if layout.leaves[target.component].type != SUBMODULE
        )
    )


def configuration_pins(
    layout: Layout, parameters: Mapping[tuple[str, str], str], findings: Findings
) -> Mapping[str, Mapping[str, ConfigurationPin]]:
    """Return every configuration pin by component path and `interface.pin`.

    `parameters` maps (component path, `interface.pin`) to the application pin that is bound to it. A default that
    doesn't match the pin's type is a warning here and rejected by `configure`, since another value may be given.
    """
    outer = _outer_defaults(layout)
    return {path: dict(_pins_of(leaf, outer, parameters, findings)) for path, leaf in layout.leaves.items()}


def _outer_defaults(layout: Layout) -> Mapping[tuple[str, str], Sequence[Node]]:
    """Return the values that the application and the composites configure for each pin, outermost first."""
    found: dict[tuple[str, str], list[Node]] = {}
    for path, composite in layout.composites.items():
        for key, node in composite.configuration.items():
            pin = find_pin(layout.public_pins[path], key)
            for target in () if pin is None else pin.targets:
                found.setdefault((target.component, target.pin), []).append(node)
    return found


def _pins_of(
    leaf: Leaf,
    outer: Mapping[tuple[str, str], Sequence[Node]],
    parameters: Mapping[tuple[str, str], str],
    findings: Findings,
) -> Iterator[tuple[str, ConfigurationPin]]:
    path = leaf.syntax.path
    for key, pin in leaf.pins.items():
        if pin.type.kind is not PinKind.CONFIGURATION:
            continue
        has_default, default = False, None
        for node in (*outer.get((path, key), ()), leaf.syntax.configuration.get(key)):
            if node is not None and not has_default:
                has_default, default = _coerced(node, pin.type.value_type, key, findings.at(leaf.syntax.label))
        if not has_default:
            has_default, default = _parameter_default(leaf, pin.name, pin.type.value_type)
        yield key, ConfigurationPin(path, key, pin.type.value_type, parameters.get((path, key)), has_default, default)


def _coerced(node: Node, value_type: Type, key: str, findings: Findings) -> tuple[bool, Any]:
    """Return whether the node gives the pin a value, and that value; null gives none unless it matches the type."""
    value = written_data(node)
    try:
        return True, coerce(value_type, value)
    except CoercionError as error:
        if value is None:
            return False, None
        if unquoted_expression(node) is None:  # the reader has said what is wrong
            findings.warning("ValueOfWrongType", f"The default of '{key}' doesn't match its type. {error}", node)
        return True, kept_for_json(value)  # with its text: rounded, it might match


def _parameter_default(leaf: Leaf, name: str, value_type: Type) -> tuple[bool, Any]:
    """Return the default of the parameter of `launch` with the pin's name; others apply only in their workflows."""
    launch = leaf.syntax.workflows.workflows.get("launch") if leaf.type == WORKFLOW_INSTANCE else None
    parameter = None if launch is None else launch.parameters.get(name)
    if parameter is None or not parameter.has_default:
        return False, None
    try:
        return True, coerce(value_type, parameter.default)
    except CoercionError:
        # The workflow itself still sees the default unchanged: parameters have no strict type.
        return False, None


_ROOTS = ("application", "root")


def read_document(document: Node, findings: Findings) -> ManifestSyntax | None:
    """Return the typed manifest; None, with one error, if the document isn't a map."""
    if not isinstance(document, MappingNode):
        message = f"A manifest must be a map, not {kind_of(document)}. Start with 'application:' or 'launch:'."
        findings.error("UnexpectedKind", message, document)
        return None
    roots = [key for key in _ROOTS if key in document]
    if not roots:
        return read_workflow_manifest(document, findings)
    for key in document.children:
        if key in _ROOTS and key != roots[0]:
            message = f"'{roots[0]}' and '{key}' mean the same. Keep one of them."
            findings.error("DuplicateKey", message, document.place_of(key))
        elif key != roots[0]:
            message = f"Unknown key '{key}' next to '{roots[0]}' (ignored)."
            findings.warning("UnknownKey", message, document.place_of(key))
    return ManifestSyntax(read_component("", document.children[roots[0]], findings), is_component_manifest=True)


def _workflow(syntax: WorkflowSyntax, templates: Templates, findings: Findings) -> Workflow:
    return Workflow(
        syntax.name,
        {name: _parameter(parameter) for name, parameter in syntax.parameters.items()},
        _steps(syntax.steps, templates, findings),
        {name: templates.of(entry.value, findings.at("return", name)) for name, entry in syntax.returns.items()},
        _steps(syntax.on_failure, templates, findings),
        _steps(syntax.finally_, templates, findings),
        None if syntax.timeout is None else templates.of(syntax.timeout, findings),
        syntax.concurrency,
    )


def _steps(syntax: Sequence[StepSyntax], templates: Templates, findings: Findings) -> tuple[Step, ...]:
    return tuple(
        [
            _step(step, phases, templates, findings.at(step.name))
            for step, phases in zip(syntax, preceding_phases(syntax), strict=True)
        ]
    )


def _parameter(syntax: ParameterSyntax) -> WorkflowParameter:
    return WorkflowParameter(
        syntax.name, syntax.type, syntax.has_default, _default(syntax), syntax.description, syntax.suggestions
    )


def _default(syntax: ParameterSyntax) -> Any:
    """Return the default coerced to its type if that loses nothing (language §3, Types)."""
    return None if syntax.default is None else coerced_if_possible(syntax.type, syntax.default)


def _step(syntax: StepSyntax, preceding: tuple[str, ...], templates: Templates, findings: Findings) -> Step:
    return Step(
        syntax.name,
        "" if syntax.action is None else syntax.action.text,
        syntax.phase or syntax.name,
        preceding,
        templates.of_map(syntax.parameters, findings),
        {variable: output.text for variable, output in syntax.outputs.items()},
        None if syntax.retry_count is None else templates.of(syntax.retry_count, findings),
        None if syntax.ignore_fail is None else templates.of(syntax.ignore_fail, findings),
        syntax.line,
        _control(syntax.control, templates, findings) if syntax.control else NO_CONTROL,
    )


_CONDITIONS = frozenset({"when", "each", "until"})  # text without braces is an expression


def _control(written: Mapping[str, Node], templates: Templates, findings: Findings) -> Control:
    return Control(
        **{
            key: templates.of_condition(node, findings) if key in _CONDITIONS else templates.of(node, findings)
            for key, node in written.items()
        }
    )


def compile_manifest(
    data: bytes,
    *,
    known_actions: KnownActions,
    known_types: Mapping[str, ComponentType] = BUILTIN,
    bounds: Bounds = DEFAULT_BOUNDS,
) -> CompiledManifest:
    """Return the compiled manifest, with its warnings. Raises `InvalidManifest` with every error."""
    findings = Findings()
    compiled = _compile(data, known_actions, known_types, findings, bounds)
    findings.raise_errors()
    assert compiled is not None  # without a manifest there is an error
    return compiled


def check(
    data: bytes,
    *,
    known_actions: KnownActions,
    known_types: Mapping[str, ComponentType] = BUILTIN,
    bounds: Bounds = DEFAULT_BOUNDS,
) -> list[Finding]:
    """Return all findings in the manifest, errors first. Raises nothing, for any bytes."""
    findings = Findings()
    try:
        _compile(data, known_actions, known_types, findings, bounds)
    except InvalidManifest as refused:
        return [Finding("error", f["code"], f["message"], f["line"], f["column"]) for f in refused.findings]
    errors = findings.errors
    refused_places = {(error.line, error.column) for error in errors}
    return [
        *errors,
        *(
            warning
            for warning in findings.warnings
            if warning.code != "UnquotedExpression" or (warning.line, warning.column) not in refused_places
        ),
    ]


def _compile(
    data: bytes, known_actions: KnownActions, types: Mapping[str, ComponentType], findings: Findings, bounds: Bounds
) -> CompiledManifest | None:
    """Return the manifest as far as it can be compiled; it is complete only without errors."""
    manifest = read_document(read(data, bounds, findings), findings)
    if manifest is None:
        return None
    source = Source(data)
    templates = Templates(source, bounds.expressions)
    return _Compilation(manifest, known_actions, types, findings, bounds, source, templates).compile()


@dataclass(frozen=True, slots=True)
class _Compilation:
    """The compilation of one manifest."""

    manifest: ManifestSyntax
    known_actions: KnownActions
    types: Mapping[str, ComponentType]
    findings: Findings
    bounds: Bounds
    source: Source
    templates: Templates

    def compile(self) -> CompiledManifest:
        layout = build_layout(self.manifest.application, self.types, self.findings, self.bounds.bound_pins)
        bound = Connector(layout, self.findings).connect()
        relays = Relays(layout, bound)
        peers = relays.peers(bound)
        pins = application_pins(layout, plain_names=not self.manifest.is_component_manifest)
        configuration = configuration_pins(layout, pins.parameter_by_target(), self.findings)
        checker = ComponentChecker(layout, self.types, self.findings)
        checker.check(bound, pins.needed_targets())
        exposed = {(target.component, target.pin) for pin in pins.results.values() for target in pin.targets}
        components = {
            path: self._component(leaf, peers, configuration[path], exposed) for path, leaf in layout.leaves.items()
        }
        checks = check_application(self.manifest.application, layout.leaves.values(), self.findings)
        order = self._order(layout, peers)
        self._check_triggers(layout, components)
        return CompiledManifest(
            is_component_manifest=self.manifest.is_component_manifest,
            components=components,
            order=tuple(order),
            parameters=pins.parameters,
            required_parameters=required_parameters(pins.parameters, layout, configuration),
            results=relays.pins(pins.results),
            commands=pins.commands,
            needs=pins.needs,
            configuration_pins=configuration,
            warnings=self.findings.warnings,
            concurrency=self.manifest.application.concurrency,
            checks=checks,
        )

    def _component(
        self,
        leaf: Leaf,
        peers: Peers,
        configuration: Mapping[str, ConfigurationPin],
        exposed: Collection[tuple[str, str]],
    ) -> Component:
        syntax = leaf.syntax
        component = partial(
            Component,
            syntax.path,
            leaf.type,
            leaf.pins,
            {key: written_data(node) for key, node in syntax.configuration.items()},
            tuple([name.text for name in syntax.required]),
            {interface: tuple(found) for interface, found in peers.get(syntax.path, {}).items()},
            scaler=leaf.scaler,
            line=syntax.line,
        )
        checks = CheckRules(leaf, self.known_actions, self.findings, self.manifest.application.checks).check()
        if leaf.type != WORKFLOW_INSTANCE:
            return component()
        workflows = {
            name: _workflow(workflow, self.templates, self.findings.at(syntax.label, name))
            for name, workflow in syntax.workflows.workflows.items()
        }
        triggers = WorkflowRules(leaf, self.known_actions, self.findings).check(exposed)
        check_signals(leaf, peers.get(syntax.path, {}), self.findings)
        ScopeRules(leaf, configuration, workflows, self.findings, self.source).check()
        return component(
            workflows=workflows,
            triggers=triggers,
            schedule={name: cron.text for name, cron in syntax.workflows.schedule.items()},
            propagate_status=frozenset({"launch", *(name.text for name in syntax.workflows.propagate_status)}),
            always_configured=always_configured(workflows, {leaf.pins[key].name for key in configuration}),
            checks=checks,
            replans=syntax.replans,
        )

    def _check_triggers(self, layout: Layout, components: Mapping[str, Component]) -> None:
        """Warn about workflows that start each other."""
        _, cycle = launch_order(started_workflows(components))
        if not cycle:
            return
        path, workflow = cycle[0]
        triggers = layout.leaves[path].syntax.workflows.triggers.values()
        place = next(each for each in triggers if each.text == workflow)
        chain = " → ".join(f"'{path} › {name}'" for path, name in cycle)
        message = (
            f"These workflows start each other: {chain}. Each returns a signal that triggers the next. Return the same "
            f"values when nothing has changed: after {TRIGGER_ROUNDS} rounds they fail."
        )
        self.findings.at(layout.leaves[path].syntax.label).warning("TriggerCycle", message, place)

    def _order(self, layout: Layout, peers: Peers) -> list[str]:
        needed = {
            path: providers(path, [name.text for name in leaf.syntax.required], peers)
            for path, leaf in layout.leaves.items()
        }
        order, cycle = launch_order(needed)
        if cycle:
            chain = " → ".join(f"'{path}'" for path in cycle)
            message = f"These components require each other: {chain}. Remove one requirement."
            self.findings.error("RequiredCycle", message, layout.leaves[cycle[0]].syntax)
        return order
