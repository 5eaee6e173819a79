"""The application of a test with its submodules: what a launch decides at every level (language §7 and §8)."""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from launchbay.errors import BadRequest
from launchbay.limits import SUBMODULE_LEVELS
from launchbay.manifest.bindings import provided_needs, unbound_requirements
from launchbay.manifest.configuration import configure
from launchbay.manifest.graph import LOCATOR, SERVICE, SUBMODULE, CompiledManifest
from launchbay.manifest.scaling import scaled
from launchbay.manifest.services import Shape, required_providers, service_shape, unmet_needs
from launchbay.manifest.v1 import inner_name
from launchbay.manifest_tests.suite import Services
from launchbay.model.environment import EnvironmentView
from launchbay.model.instance import Binding, BoundService, Link, LinkKind
from launchbay.model.types import PinKind

ModulePath = tuple[str, ...]  # component by component from the instance of the test

# Services of a new organization's default environment (conformance.md, "Organizations").
DEFAULT_SERVICES: Services = {"keypair-store": {"get-keypair": {"privateKey": {}}}}


@dataclass(frozen=True, slots=True)
class LaunchTree:
    """The plan of an instance. `children` and `services` are by component path."""

    path: ModulePath
    manifest: CompiledManifest
    parameters: Mapping[str, Any]
    children: "dict[str, LaunchTree]" = field(default_factory=dict)
    services: dict[str, Link] = field(default_factory=dict)

    def walk(self) -> "Iterator[LaunchTree]":
        yield self
        for child in self.children.values():
            yield from child.walk()


@dataclass(frozen=True, slots=True)
class Fixtures:
    """The environment of a test. `applications` are by the name that submodules use."""

    applications: Mapping[str, CompiledManifest]
    view: EnvironmentView
    services: Services

    def plan_tree(self, manifest: CompiledManifest, parameters: Mapping[str, Any]) -> LaunchTree:
        """Return the plan of an application. Raises BadRequest with all problems that prevent its launch."""
        tree = self._plan_node((), manifest, parameters)
        # A test plays the parent, so that children can be tested alone.
        problems = [*_unbound(tree, manifest.needs), *(text for each in tree.walk() for text in self._problems(each))]
        if problems:
            raise BadRequest(*problems, code="CannotLaunch")
        return tree

    def _plan_node(
        self, module_path: ModulePath, manifest: CompiledManifest, parameters: Mapping[str, Any]
    ) -> LaunchTree:
        where = ".".join(module_path)
        try:
            configuration = configure(manifest, parameters)
        except BadRequest as error:
            prefix = f"Submodule {where}: " if module_path else ""
            raise BadRequest(*(f"{prefix}{message}" for message in error.messages), code=error.code) from error
        tree = LaunchTree(module_path, manifest, parameters)
        members, values = scaled(manifest, configuration, lambda _, configured: configured)
        for path, component in members.components.items():
            if component.type == SUBMODULE:
                configured = values.get(path, {})
                inner = self._application(configured, ".".join((*module_path, path)))
                named = {inner_name(inner, key): value for key, value in configured.items()}
                given = {key: value for key, value in named.items() if key in inner.parameters}
                if len(module_path) >= SUBMODULE_LEVELS:
                    raise BadRequest(f"Submodule {where} contains itself.")
                tree.children[path] = self._plan_node((*module_path, path), inner, given)
            elif component.type == SERVICE and (shape := service_shape(component)):
                link = self._service(path, shape)
                if link is not None:
                    tree.services[path] = link
        return tree

    def _application(self, configured: Mapping[str, Any], where: str) -> CompiledManifest:
        locator = str(configured.get(LOCATOR))
        found = self.applications.get(locator)
        if found is None:
            raise BadRequest(
                f"Submodule {where} has no manifest. Add '{locator}: path/to/manifest.yml' to 'applications'.",
                code="UnknownSubmodule",
            )
        return found

    def _service(self, path: str, shape: Shape) -> Link | None:
        """Return a link to the services of a test for all interfaces of a component, or None if one is missing."""
        pins: dict[str, str] = {}
        signals: dict[str, Any] = {}
        for interface, wanted in shape.items():
            offered = self._offered(interface, wanted)
            if offered is None:
                return None
            for name, kind in wanted.items():
                key = f"{interface}.{name}"
                pins[key] = f"{offered}.{name}"
                if kind is PinKind.PUBLISH_SIGNAL:
                    signals[pins[key]] = self.service_value(pins[key])
        bound = BoundService(name=path, type_id="", signals=signals)
        return Link(path, LinkKind.SERVICE_INSTANCE, Binding(pins, bound))

    def _offered(self, interface: str, wanted: Mapping[str, PinKind]) -> str | None:
        """Return the name of a service with all wanted pins, preferably the interface's name."""
        names = sorted((*self.services, *DEFAULT_SERVICES), key=lambda name: name != interface)
        return next((name for name in names if all(self._has(name, pin) for pin in wanted)), None)

    def _has(self, name: str, pin: str) -> bool:
        return pin in {**DEFAULT_SERVICES.get(name, {}), **self.services.get(name, {})}

    def service_value(self, key: str) -> Any:
        """Return the value of the pin `interface.pin` of a service: the results of a command, or a signal's value."""
        interface, _, pin = key.rpartition(".")
        return {**DEFAULT_SERVICES.get(interface, {}), **self.services.get(interface, {})}.get(pin)

    def _problems(self, tree: LaunchTree) -> list[str]:
        where = _prefix(tree)
        problems = unmet_needs(tree.manifest, self.view)
        for path in sorted(required_providers(tree.manifest)):
            component = tree.manifest.components[path]
            if component.type == SERVICE and path not in tree.services and service_shape(component):
                interfaces = ", ".join(service_shape(component))
                problems.append(
                    f"Component {path!r} needs a service with {interfaces}. Add it to 'services' of 'environment'."
                )
        return [f"{where}{problem}" for problem in problems]


def _prefix(tree: LaunchTree) -> str:
    return f"Submodule {'.'.join(tree.path)}: " if tree.path else ""


def _unbound(tree: LaunchTree, provided: Collection[str]) -> Iterator[str]:
    """Yield the required interfaces without a binding, at every level."""
    for problem in unbound_requirements(tree.manifest, provided):
        yield f"{_prefix(tree)}{problem}"
    for path, child in tree.children.items():
        yield from _unbound(child, provided_needs(tree.manifest, tree.manifest.components[path], provided))
