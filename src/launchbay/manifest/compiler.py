"""Bytes to a compiled manifest, or to findings: the way through all parts of the compiler.

reader (bytes → tree) → document (tree → typed manifest) → composites (binds) → bindings (links) → defaults, workflows →
rules → graph. Pure: no input, no output, no clock; what comes out is immutable and may be kept by manifest version.
"""

from collections.abc import Collection, Mapping
from dataclasses import replace

from launchbay.errors import InvalidManifest
from launchbay.manifest.application_pins import application_pins, required_parameters
from launchbay.manifest.bindings import Connector, Peers
from launchbay.manifest.checker import ComponentChecker
from launchbay.manifest.component_types import BUILTIN, WORKFLOW_INSTANCE, ComponentType
from launchbay.manifest.composites import lay_out
from launchbay.manifest.defaults import configuration_pins
from launchbay.manifest.document import read_document
from launchbay.manifest.graph import CompiledManifest, Component, ConfigurationPin
from launchbay.manifest.layout import Layout, Leaf
from launchbay.manifest.reader import read
from launchbay.manifest.relays import Relays
from launchbay.manifest.requirements import launch_order, providers
from launchbay.manifest.scope_rules import ScopeRules, always_configured
from launchbay.manifest.syntax import ManifestSyntax
from launchbay.manifest.templates import Templates
from launchbay.manifest.tree import plain
from launchbay.manifest.workflow_compiler import compile_workflows
from launchbay.manifest.workflow_rules import WorkflowRules
from launchbay.model.findings import Finding, Findings, Hints


def compile_manifest(
    data: bytes, *, known_actions: Collection[str], known_types: Mapping[str, ComponentType] = BUILTIN
) -> CompiledManifest:
    """Return the compiled manifest, with its warnings.

    Raises `InvalidManifest` with every error when there is one.
    """
    findings = Findings()
    compiled = _compile(data, known_actions, known_types, findings)
    findings.raise_errors()
    assert compiled is not None  # without a manifest there is an error
    return compiled


def check(
    data: bytes, *, known_actions: Collection[str], known_types: Mapping[str, ComponentType] = BUILTIN
) -> list[Finding]:
    """Return everything there is to say about the manifest, errors first; raises nothing, whatever the bytes are."""
    findings = Findings()
    try:
        _compile(data, known_actions, known_types, findings)
    except InvalidManifest as refused:
        return [Finding("error", f["code"], f["message"], f["line"], f["column"]) for f in refused.findings]
    return [*findings.errors, *findings.warnings]


def _compile(
    data: bytes, known_actions: Collection[str], types: Mapping[str, ComponentType], findings: Findings
) -> CompiledManifest | None:
    """Return the manifest as far as it can be compiled; it is whole only if there are no errors."""
    manifest = read_document(read(data), findings)
    return None if manifest is None else _Compilation(manifest, known_actions, types, findings).compile()


class _Compilation:
    """One manifest on its way."""

    def __init__(
        self,
        manifest: ManifestSyntax,
        known_actions: Collection[str],
        types: Mapping[str, ComponentType],
        findings: Findings,
    ) -> None:
        self._manifest = manifest
        self._known_actions = known_actions
        self._types = types
        self._findings = findings
        self._hints = Hints()
        self._templates = Templates(findings)

    def compile(self) -> CompiledManifest:
        """Return the graph; what is wrong is in the findings afterwards."""
        layout = lay_out(self._manifest.application, self._types, self._findings)
        bound = Connector(layout, self._findings).connect()
        relays = Relays(layout, bound)
        peers = relays.peers(bound)
        pins = application_pins(layout, plain_names=not self._manifest.is_component_manifest)
        configuration = configuration_pins(layout, pins.parameter_by_target(), self._findings)
        checker = ComponentChecker(layout, self._types, self._findings, self._hints)
        checker.check(bound, pins.needed_targets())
        components = {path: self._component(leaf, peers, configuration[path]) for path, leaf in layout.leaves.items()}
        order = self._order(layout, peers)
        return CompiledManifest(
            is_component_manifest=self._manifest.is_component_manifest,
            components=components,
            order=tuple(order),
            parameters=pins.parameters,
            required_parameters=required_parameters(pins.parameters, layout, configuration),
            results=relays.pins(pins.results),
            commands=pins.commands,
            needs=pins.needs,
            configuration_pins=configuration,
            warnings=self._findings.warnings,
        )

    def _component(self, leaf: Leaf, peers: Peers, configuration: Mapping[str, ConfigurationPin]) -> Component:
        syntax = leaf.syntax
        own_peers = {interface: tuple(found) for interface, found in peers.get(syntax.path, {}).items()}
        component = Component(
            syntax.path,
            leaf.type,
            leaf.pins,
            {key: plain(node) for key, node in syntax.configuration.items()},
            tuple(name.text for name in syntax.required),
            own_peers,
            scaler=leaf.scaler,
            line=syntax.line,
        )
        if leaf.type != WORKFLOW_INSTANCE:
            return component
        workflows = compile_workflows(syntax.workflows.workflows, syntax.title, self._templates)
        triggers = WorkflowRules(leaf, self._known_actions, self._findings, self._hints).check()
        ScopeRules(leaf, configuration, workflows, self._findings, self._hints).check()
        return replace(
            component,
            workflows=workflows,
            triggers=triggers,
            schedule={name: cron.text for name, cron in syntax.workflows.schedule.items()},
            propagate_status=frozenset({"launch", *(name.text for name in syntax.workflows.propagate_status)}),
            always_configured=always_configured(workflows, {leaf.pins[key].name for key in configuration}),
        )

    def _order(self, layout: Layout, peers: Peers) -> list[str]:
        needed = {
            path: providers(path, [name.text for name in leaf.syntax.required], peers)
            for path, leaf in layout.leaves.items()
        }
        order, cycle = launch_order(needed)
        if cycle:
            way = " → ".join(f"'{path}'" for path in cycle)
            message = f"The required interfaces of these components wait for each other: {way}. Require one less."
            self._findings.error("RequiredCycle", message, layout.leaves[cycle[0]].syntax)
        return order
