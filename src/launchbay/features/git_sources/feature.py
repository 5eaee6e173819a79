"""Git sources, as the rest of Launchbay sees them."""

from launchbay.egress.git import Git
from launchbay.engine.worker import PeriodicTask
from launchbay.feature import Feature, TaskDeps
from launchbay.features.git_sources import api, pages, rows
from launchbay.features.git_sources.directory import STORED_KIND
from launchbay.features.git_sources.previews import PREVIEWS_S, REPORTS_S, PreviewRunner, StatusReporter
from launchbay.features.git_sources.syncs import COMMIT_SOURCE, POLL_S, GitRunner
from launchbay.features.git_sources.usecases import seal_parameters
from launchbay.usecases.later import PutOff


def _tasks(deps: TaskDeps) -> tuple[PeriodicTask, ...]:
    syncs = GitRunner(deps.app, Git(deps.app.egress, deps.programs))
    previews = PreviewRunner(deps.app, syncs.git)
    statuses = StatusReporter(deps.app, deps.base_url)
    deps.on_close(syncs.close)
    deps.on_close(previews.close)
    return (
        PeriodicTask("Git sources", POLL_S, syncs.advance, due=(rows.list_due,)),
        PeriodicTask("Git previews", PREVIEWS_S, previews.advance, due=(rows.list_due_previews, rows.list_due_checks)),
        PeriodicTask("Git statuses", REPORTS_S, statuses.advance, due=(rows.list_due_reports,)),
    )


FEATURE = Feature(
    name="git_sources",
    routes=(api.routes,),
    sealed={rows.sealed_parameters: lambda source_id, _: rows.parameters_purpose(source_id)},
    locks={"git-sources": rows.lock_git_source},
    pages=(pages.routes,),
    start=seal_parameters,
    tasks=_tasks,
    offers=(PutOff(rows.wake), COMMIT_SOURCE, STORED_KIND),
)
