"""Writes an accepted launch: the instances at every level, their links, and the one job that launches them."""

import msgspec

from launchbay.ids import new_id
from launchbay.model.environment import EnvironmentView
from launchbay.model.instance import InstanceStatus
from launchbay.planning import job_columns, plan_launch
from launchbay.store import instances, jobs
from launchbay.store.database import Connection
from launchbay.store.environments import Environment
from launchbay.store.instances import InstanceRecord
from launchbay.usecases.launch_tree import LaunchNode


async def write_launch(
    connection: Connection,
    root: LaunchNode,
    environment: Environment,
    view: EnvironmentView,
    owner_id: str,
    destroy_after_ms: int | None,
) -> None:
    """Write the root with its job and expiry, and below it the submodules, which its job will launch in their turn."""
    shared = _shared(environment.organization_id, environment.id, owner_id, view)
    await jobs.accept_launch(
        connection,
        **shared,
        **_columns(root),
        job_id=new_id(),
        schedule_id=new_id(),
        destroy_after_ms=destroy_after_ms,
        **job_columns(plan_launch({}, InstanceStatus.REQUESTED), root.manifest),
    )
    await write_links(connection, root)
    for parent in root.walk():
        for child in parent.children.values():
            await instances.insert_child(connection, **shared, **_columns(child), parent_id=parent.instance_id)
            await write_links(connection, child)


async def write_child(
    connection: Connection,
    child: LaunchNode,
    parent: LaunchNode,
    of: InstanceRecord,
    view: EnvironmentView,
    owner_id: str,
) -> None:
    """Write a submodule that a reconfiguration brings; `of` is the instance that is reconfigured."""
    shared = _shared(of.organization_id, of.environment_id, owner_id, view)
    await instances.insert_child(connection, **shared, **_columns(child), parent_id=parent.instance_id)
    await write_links(connection, child)


async def write_links(connection: Connection, node: LaunchNode) -> None:
    """Write where the node's components lead."""
    if node.links:
        await instances.insert_links(
            connection,
            instance_id=node.instance_id,
            components=list(node.links),
            targets=[link.instance_id for link in node.links.values()],
            kinds=[link.kind.value for link in node.links.values()],
            bindings=[link.binding_text() for link in node.links.values()],
        )


def components_text(node: LaunchNode) -> str:
    """Return the instance's components as the API shows them; none for manifests without components (reference §2)."""
    if not node.manifest.is_component_manifest:
        return "[]"
    return msgspec.json.encode([_component(node, path) for path in node.manifest.components]).decode()


def _shared(organization_id: str, environment_id: str, owner_id: str, view: EnvironmentView) -> dict[str, object]:
    return {
        "organization_id": organization_id,
        "environment_id": environment_id,
        "owner_id": owner_id,
        "status": InstanceStatus.REQUESTED,
        "environment_view": view.to_text(),
    }


def _component(node: LaunchNode, path: str) -> dict[str, str]:
    link = node.links.get(path)
    return {"name": path, "instanceId": link.instance_id} if link is not None and link.is_instance else {"name": path}


def _columns(node: LaunchNode) -> dict[str, object]:
    return {
        "instance_id": node.instance_id,
        "application_id": node.application_id,
        "revision_id": node.revision_id,
        "version": node.version,
        "name": node.name,
        "parameters": msgspec.json.encode(node.parameters).decode(),
        "components": components_text(node),
    }
