"""What an environment offers to `reference.Service` components, and which of it each of them gets (language §8).

It is decided when a launch or a reconfiguration is accepted, and stays so until the next reconfiguration.
"""

from collections.abc import Collection, Mapping
from typing import Any

import msgspec

from launchbay.errors import BadRequest, Conflict, InvalidManifest
from launchbay.manifest.graph import CompiledManifest
from launchbay.manifest.services import (
    REFERENCE_SERVICE,
    Fit,
    OfferedPin,
    ServiceOffer,
    ServiceOffers,
    Shape,
    choose,
    required_providers,
    service_shape,
)
from launchbay.manifest.v1 import ACTIONS, RESULT
from launchbay.model.instance import Binding, BoundService, InstanceStatus, Link, LinkKind
from launchbay.model.types import PinKind
from launchbay.service_types.contract import PublishesSignals, ServiceType
from launchbay.store import environments
from launchbay.store.database import Connection
from launchbay.store.environments import Environment, OfferedInstance, OfferedService
from launchbay.usecases.desk import Desk
from launchbay.usecases.launch_tree import LaunchNode

_OVER = frozenset({InstanceStatus.DESTROYING, InstanceStatus.DESTROYED})

UnmetServices = dict[tuple[str, ...], list[str]]  # way of a node from the root → sentences


async def lead_to_services(
    desk: Desk, connection: Connection, environment: Environment, root: LaunchNode
) -> UnmetServices:
    """Add to every node of a launch or reconfiguration the links to its services.

    Returns what stands against it: needs of required interfaces that nothing meets, and choices that nothing decides.
    """
    needing = [(node, shapes) for node in root.walk() if (shapes := _shapes(node.manifest))]
    if not needing:
        return {}
    offered = await _offers(desk, connection, environment, root)
    unmet: UnmetServices = {}
    for node, shapes in needing:
        required = required_providers(node.manifest)
        for path, shape in shapes.items():
            former = None if node.former is None else node.former.link(path)
            fits = offered.fitting(shape)
            chosen = choose(path, shape, fits, None if former is None else former.instance_id)
            if isinstance(chosen, Fit):
                node.links[path] = Link(chosen.offer.id, chosen.offer.kind, Binding(dict(chosen.pins)))
            elif path in required or any(fit.offer.unusable is None for fit in fits):
                unmet.setdefault(node.path, []).append(chosen)
    if not unmet:
        await _keep_services(desk, connection, [node for node, _ in needing])
    return unmet


def _shapes(manifest: CompiledManifest) -> dict[str, Shape]:
    """Return what each component that stands for a service needs of it."""
    return {
        path: shape
        for path, component in manifest.components.items()
        if component.type == REFERENCE_SERVICE and (shape := service_shape(component))
    }


async def _offers(desk: Desk, connection: Connection, environment: Environment, root: LaunchNode) -> ServiceOffers:
    services = await environments.services(connection, environment_id=environment.id)
    found = [offer for row in services if (offer := _service_offer(row, desk.service_types.find(row.type_id)))]
    instances = await environments.offered_instances(connection, environment_id=environment.id)
    standing = await _standing_on(connection, environment, root) if instances else frozenset()
    for row in instances:
        try:
            manifest = await desk.manifests.get(connection, row.application_id, row.version)
        except InvalidManifest:
            continue  # a package is gone; the instance's own next job says so to its owner
        found.append(_instance_offer(row, manifest, standing))
    return ServiceOffers(found)


def _service_offer(row: OfferedService, kind: ServiceType | None) -> ServiceOffer | None:
    if kind is None:
        return None
    interfaces = {
        interface: {
            # Commands have their bare names, by which the API runs them too.
            name: OfferedPin(pin.kind, name if pin.kind is PinKind.RECEIVE_COMMAND else f"{interface}.{name}")
            for name, pin in pins.items()
        }
        for interface, pins in kind.interfaces.items()
    }
    return ServiceOffer(row.id, f"the service {row.name!r} ({row.id})", LinkKind.SERVICE_INSTANCE, interfaces)


def _instance_offer(row: OfferedInstance, manifest: CompiledManifest, standing: Collection[str]) -> ServiceOffer:
    interfaces: dict[str, dict[str, OfferedPin]] = {}
    for pins, plain_interface in ((manifest.results, RESULT), (manifest.commands, ACTIONS), (manifest.needs, "")):
        for key, pin in pins.items():
            # The API's names of a workflow manifest are bare (language §2).
            interface, name = key.split(".", 1) if manifest.is_component_manifest else (plain_interface, key)
            interfaces.setdefault(interface, {})[name] = OfferedPin(pin.type.kind, key)
    unusable = None
    if InstanceStatus(row.status) in _OVER:
        unusable = f"that is {row.status}"
    elif row.id in standing:
        unusable = "that stands on this instance itself"
    return ServiceOffer(row.id, f"the instance {row.name!r} ({row.id})", LinkKind.SERVICE, interfaces, unusable)


async def _standing_on(connection: Connection, environment: Environment, root: LaunchNode) -> frozenset[str]:
    """Return the instances that may not become services here: their jobs and this one's would wait for each other."""
    present = [node.instance_id for node in root.walk() if node.former is not None]
    if not present:
        return frozenset()  # nothing stands on instances that are not there yet
    await environments.lock_links(connection, organization_id=environment.organization_id)
    return frozenset(row.id for row in await environments.standing_on(connection, instance_ids=present))


async def _keep_services(desk: Desk, connection: Connection, nodes: list[LaunchNode]) -> None:
    """Put into the links what the nodes are to see of their services until the next reconfiguration."""
    linked = [
        (node, path, link)
        for node in nodes
        for path, link in node.links.items()
        if link.kind is LinkKind.SERVICE_INSTANCE
    ]
    if not linked:
        return
    kept = await _kept(desk, connection, sorted({link.instance_id for _, _, link in linked}))
    for node, path, link in linked:
        if link.instance_id not in kept:
            raise Conflict("A service of the environment was deleted at the same moment; try again.")
        binding = Binding(link.binding.pins, kept[link.instance_id])
        node.links[path] = Link(link.instance_id, link.kind, binding)


async def _kept(desk: Desk, connection: Connection, service_ids: list[str]) -> Mapping[str, BoundService]:
    secrets: dict[str, dict[str, bytes]] = {}
    for sealed in await environments.sealed_parameters(connection, service_ids=service_ids):
        secrets.setdefault(sealed.service_id, {})[sealed.name] = sealed.sealed
    return {
        row.id: BoundService(
            name=row.name,
            type_id=row.type_id,
            parameters=(parameters := msgspec.json.decode(row.parameters)),
            secrets=secrets.get(row.id, {}),
            signals=_signals(row.name, desk.service_types.find(row.type_id), parameters),
        )
        for row in await environments.bound_services(connection, service_ids=service_ids)
    }


def _signals(name: str, kind: ServiceType | None, parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a service publishes. Raises BadRequest where its type, which may be a package's, breaks."""
    if not isinstance(kind, PublishesSignals):
        return {}
    try:
        signals: dict[str, Any] = msgspec.json.decode(
            msgspec.json.encode(kind.signals(parameters)), type=dict[str, Any]
        )
    except Exception as error:
        raise BadRequest(
            f"The service {name!r} cannot tell its signals: {type(error).__name__}: {error}.",
            "Mend its parameters, or the package that brings its type.",
            code="CannotLaunch",
        ) from error
    return signals
