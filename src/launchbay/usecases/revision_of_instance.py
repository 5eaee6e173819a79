"""What a revision of an instance says of submodules: how they are, so that its launch makes the same again."""

from collections.abc import Mapping
from typing import Any

import msgspec

from launchbay.manifest.configuration import configure
from launchbay.manifest.graph import CompiledManifest
from launchbay.manifest.v1 import inner_name
from launchbay.model.instance import LinkKind
from launchbay.store import instances
from launchbay.store.database import Connection
from launchbay.store.instances import InstanceRecord
from launchbay.usecases.desk import Desk
from launchbay.usecases.launching import shared_instances

_ABSENT = object()


async def submodules_of(desk: Desk, connection: Connection, instance: InstanceRecord) -> dict[str, Any]:
    """Return the `submodules` of a launch that makes those of the instance again, at every level (reference §4).

    Each has its revision, version and the parameters that do not come from the module around it. A shared one has the
    revision that stands for it in the catalog of the environment, if one still does.
    """
    shared = await shared_instances(connection, instance.environment_id)
    revisions = {shared_id: revision_id for revision_id, shared_id in shared.items()}
    manifest = await desk.manifests.get(connection, instance.application_id, instance.version)
    parameters = msgspec.json.decode(instance.parameters)
    return await _inside(desk, connection, instance.id, manifest, parameters, revisions)


async def _inside(
    desk: Desk,
    connection: Connection,
    instance_id: str,
    manifest: CompiledManifest,
    parameters: Mapping[str, Any],
    revisions: Mapping[str, str],
) -> dict[str, Any]:
    configured = configure(manifest, parameters)
    found: dict[str, Any] = {}
    for row in await instances.linked(connection, instance_id=instance_id):
        if row.kind == LinkKind.SHARED and row.target_id in revisions:
            found[row.component] = {"revisionId": revisions[row.target_id]}
        if row.kind != LinkKind.OWN or row.application_id is None or row.version is None:
            continue
        own = msgspec.json.decode(row.parameters or "{}")
        inner = await desk.manifests.get(connection, row.application_id, row.version)
        from_outside = {inner_name(inner, key): value for key, value in configured.get(row.component, {}).items()}
        parts = {
            "revisionId": row.revision_id,
            "manifestVersion": row.version,
            "parameters": {name: value for name, value in own.items() if from_outside.get(name, _ABSENT) != value},
            "submodules": await _inside(desk, connection, row.target_id, inner, own, revisions),
        }
        found[row.component] = {name: value for name, value in parts.items() if value}
    return found
