"""Secrets of steps from providers such as OpenBao."""

from launchbay.engine.worker import PeriodicTask
from launchbay.feature import Feature, Stuck, TaskDeps
from launchbay.features.secret_providers import api, rows
from launchbay.features.secret_providers.checks import POLL_S as CHECK_S
from launchbay.features.secret_providers.checks import VersionChecks
from launchbay.features.secret_providers.reads import ProvidedSecrets
from launchbay.features.secret_providers.sessions import POLL_S, SessionKeeper
from launchbay.features.secret_providers.usecases import list_service_users
from launchbay.store.database import Connection
from launchbay.usecases.context import Ports

_SHOWN = 20


def _tasks(deps: TaskDeps) -> tuple[PeriodicTask, ...]:
    keeper = SessionKeeper(deps.app)
    deps.on_close(keeper.close)
    versions = VersionChecks(deps.app)
    return (
        PeriodicTask("secret sessions", POLL_S, keeper.advance, due=(rows.list_due,)),
        PeriodicTask("secret versions", CHECK_S, versions.advance, may_take_long=True, due=(rows.list_unchecked,)),
    )


def _open_sessions(row: rows.StuckProvider) -> str:
    of = f"job {row.job_id}" if row.job_id else "a test"
    if row.sessions == 1:
        return f"A session of {of} is still open, because it can't be revoked: {row.message}"
    return f"{row.sessions} sessions are still open, because they can't be revoked. That of {of}: {row.message}"


async def _stuck(connection: Connection) -> list[Stuck]:
    return [
        Stuck(
            "secret sessions",
            f"{row.organization}/{row.provider}",
            _open_sessions(row),
            f"Launchbay tries again until the last one expires, {row.expires_at:%Y-%m-%d %H:%M} UTC. "
            "You can also revoke them at the provider.",
        )
        for row in await rows.list_stuck(connection, count=_SHOWN)
    ]


FEATURE = Feature(
    name="secret_providers",
    routes=(api.routes, api.instance_routes),
    sealed={rows.sealed_sessions: lambda session_id, _: rows.session_purpose(session_id)},
    tasks=_tasks,
    stuck=_stuck,
    secret_source=ProvidedSecrets,
    ports=Ports(service_users=list_service_users),
)
