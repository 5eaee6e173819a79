"""Reads that only the console needs: compiled manifests, families, audit entries."""

from launchbay.auth import permissions
from launchbay.auth.permissions import Permission
from launchbay.errors import NotFound
from launchbay.limits import SUBMODULE_LEVELS
from launchbay.manifest.graph import CompiledManifest
from launchbay.store import instances as store
from launchbay.store.applications import Application
from launchbay.store.audit import AuditRow, list_entries
from launchbay.store.environments import Environment
from launchbay.store.events import LogRow
from launchbay.store.instances import InstanceRecord, RelativeRow, Surroundings
from launchbay.usecases.context import Context
from launchbay.usecases.events import mask_lines, redactor_for
from launchbay.usecases.launch import validate_version
from launchbay.usecases.organizations import LAST_ENTRY, AuditFilter, entry_conditions, names_of

_FAMILY_ROWS = 500


async def read_compiled(
    ctx: Context, application_id: str, version: int | None
) -> tuple[Application, int, CompiledManifest]:
    """Return an application, a version (default: the newest), and its compiled graph.

    Raises BadRequest for an unknown version, InvalidManifest where a package that it needs is gone.
    """
    async with ctx.read() as work:
        application = await work.lookup.application(application_id, Permission.READ)
        checked = await validate_version(work, application, version)
        return application, checked, await work.manifest(application.id, checked)


async def read_instance_record(ctx: Context, instance_id: str) -> tuple[InstanceRecord, CompiledManifest]:
    """Return an instance as it is stored, and its compiled manifest."""
    async with ctx.read() as work:
        record = await work.lookup.instance(instance_id, Permission.READ)
        return record, await work.manifest(record.application_id, record.version)


async def read_environment(ctx: Context, environment_id: str) -> Environment:
    async with ctx.read() as work:
        return await work.lookup.environment(environment_id, Permission.READ)


async def read_surroundings(ctx: Context, instance_id: str) -> Surroundings:
    """Return the names of an instance's application and environment.

    Lists of instances have both, too: who may read an instance knows them without permission to read the objects.
    """
    async with ctx.read() as work:
        record = await work.lookup.instance(instance_id, Permission.READ)
        found = await store.get_surroundings(work.connection, instance_id=record.id)
    if found is None:
        raise NotFound(f"Unknown instance {instance_id!r}.")
    return found


async def read_family(ctx: Context, instance_id: str) -> list[RelativeRow]:
    """Return an instance with its submodules' instances that the caller may read."""
    async with ctx.read() as work:
        record = await work.lookup.instance(instance_id, Permission.READ)
        rows = await store.list_family(
            work.connection, instance_id=record.id, levels=SUBMODULE_LEVELS, count=_FAMILY_ROWS
        )
    return [
        row
        for row in rows
        if work.lookup.allows(
            record.organization_id,
            Permission.READ,
            permissions.instance(row.application_id, row.id),
            permissions.environment(row.environment_id),
        )
    ]


async def read_log_tail(ctx: Context, instance_id: str, job_id: str | None, count: int) -> list[LogRow]:
    """Return the newest log lines of an instance or job, oldest first, masked."""
    async with ctx.read() as work:
        record = await work.lookup.instance(instance_id, Permission.READ)
        rows = await store.list_log_tail(work.connection, instance_id=record.id, job_id=job_id, count=count)
    return await mask_lines(await redactor_for(record), rows[::-1])


async def read_audit_page(
    ctx: Context, organization_id: str, wanted: AuditFilter, *, before: int | None, count: int
) -> tuple[list[AuditRow], dict[str, str]]:
    """Return entries of the audit log, newest first, and names by ID."""
    async with ctx.read() as work:
        await work.lookup.member_of(organization_id, Permission.VIEW_AUDIT)
        conditions = await entry_conditions(work.connection, organization_id, wanted)
        start = LAST_ENTRY if before is None else before
        rows = await list_entries(work.connection, **conditions, descends=True, after=start, limit=count)
        return rows, await names_of(work.connection, organization_id, rows)
