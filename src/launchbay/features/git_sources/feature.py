"""Git sources, as the rest of Launchbay sees them."""

from launchbay.console.pages import git_sources as pages
from launchbay.egress.git import Git
from launchbay.engine.worker import PeriodicTask
from launchbay.feature import Feature, TaskDeps
from launchbay.store import git_sources as rows
from launchbay.usecases.forges import PREVIEWS_S, REPORTS_S, PreviewRunner, StatusReporter
from launchbay.usecases.git_source_objects import STORED_KIND
from launchbay.usecases.git_sources import seal_parameters
from launchbay.usecases.git_syncs import MAKER, POLL_S, GitRunner
from launchbay.web.api import git_sources as api


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
    offers=(MAKER, STORED_KIND),
)
