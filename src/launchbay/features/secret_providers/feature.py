"""Secrets of steps from providers such as OpenBao."""

from launchbay.engine.worker import PeriodicTask
from launchbay.feature import Feature, TaskDeps
from launchbay.features.secret_providers import rows
from launchbay.features.secret_providers.usecases import POLL_S, ProvidedSecrets, SessionKeeper


def _tasks(deps: TaskDeps) -> tuple[PeriodicTask, ...]:
    keeper = SessionKeeper(deps.app)
    return (PeriodicTask("secret sessions", POLL_S, keeper.advance, due=(rows.list_due,)),)


FEATURE = Feature(
    name="secret_providers",
    sealed={rows.sealed_sessions: lambda session_id, _: rows.session_purpose(session_id)},
    tasks=_tasks,
    secret_source=ProvidedSecrets,
)
