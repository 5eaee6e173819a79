"""Sources in Git (conformance.md, "Beyond the reference")."""

from typing import Annotated, Any, Literal

import msgspec

from launchbay import limits
from launchbay.clock import to_ms
from launchbay.features.git_sources import previews as forges
from launchbay.features.git_sources import syncs
from launchbay.features.git_sources import usecases as git_sources
from launchbay.features.git_sources.rows import GitSource, PreviewRow, SyncRow
from launchbay.features.git_sources.usecases import (
    ChangeNote,
    GitSettings,
    GitSourceRequest,
    PreviewSettings,
    read_changes,
    read_settings,
    status_of,
)
from launchbay.web.requests import TYPED, JsonBody, Request
from launchbay.web.responses import JSONResponse, Pages, Paging, Response, list_response, next_link, optional_ms, page
from launchbay.web.routing import EXAMPLE_ID, Returns, Routes

routes = Routes("Git sources", extension=True)

_Url = Annotated[str, msgspec.Meta(description="https://HOST/PATH or ssh://USER@HOST/PATH, without a password.")]
_Path = Annotated[
    str, msgspec.Meta(description="The manifest's file, or the folder of a directory. Default: the whole repository.")
]
_User = Annotated[str, msgspec.Meta(description="The user at the host. Default: git.")]
_Vault = Annotated[str | None, msgspec.Meta(description="The service with the credential.")]
_Credential = Annotated[
    str | None, msgspec.Meta(description="Name of a secret (https: a token) or of a key pair (ssh) in the vault.")
]
_HostKeys = Annotated[
    list[str],
    msgspec.Meta(max_length=10, description="Over ssh: the keys that the host may have: `ssh-ed25519 AAAA…`."),
]
_Interval = Annotated[
    int,
    msgspec.Meta(
        ge=limits.GIT_INTERVAL_SHORTEST_MS,
        le=limits.TIME_LATEST_MS,
        description="Interval of checks of the branch, in ms. Default: only on request.",
    ),
]
_Applies = Annotated[
    Literal["at-once", "after-approval", "change-set"],
    msgspec.Meta(
        description="Whether a new commit is applied immediately, is planned until somebody applies the plan, or, of a"
        " directory, becomes a change set."
    ),
]
_Instances = Annotated[
    Literal["keep", "change-set", "at-once"],
    msgspec.Meta(
        description="Whether running instances keep their version, get a change set, or are updated immediately."
    ),
]
_Forge = Annotated[
    Literal["github", "gitlab", "gitea"], msgspec.Meta(description="Whose events and statuses. Forgejo is gitea.")
]
_Api = Annotated[str | None, msgspec.Meta(description="Where the API of the forge is. Default: by its host.")]
_WebhookSecret = Annotated[
    str | None, msgspec.Meta(description="Name of the secret in the vault that signs the forge's events.")
]
_StatusToken = Annotated[
    str | None, msgspec.Meta(description="Name of the token in the vault that may set statuses of commits.")
]
_Prune = Annotated[
    bool, msgspec.Meta(description="Delete objects that the directory lacks, of kinds that have a folder in it.")
]


class PreviewsBody(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """Previews of pull requests: each one's manifest runs as an instance of its own."""

    environmentId: str
    lifetimeMs: Annotated[
        int,
        msgspec.Meta(
            ge=1, le=limits.GIT_PREVIEW_LONGEST_MS, description="How long a preview lives after its last commit, in ms."
        ),
    ]
    parameters: dict[str, Any] = {}

    def settings(self) -> PreviewSettings:
        """Return them for storing."""
        return PreviewSettings(
            environment_id=self.environmentId, lifetime_ms=self.lifetimeMs, parameters=self.parameters
        )


class GitSourceBody(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """A source in Git: of an application's manifest with `applicationId`, else of a directory.

    It acts on behalf of the service account `accountId`, with the permissions of its roles.
    """

    name: str
    accountId: str
    applicationId: str | None = None
    url: _Url
    branch: str = "main"
    path: _Path = ""
    user: _User = ""
    vault: _Vault = None
    credential: _Credential = None
    hostKeys: _HostKeys = []
    intervalMs: _Interval | None = None
    applies: _Applies = "at-once"
    instances: _Instances = "keep"
    prune: _Prune = False
    forge: _Forge | None = None
    api: _Api = None
    webhookSecret: _WebhookSecret = None
    statusToken: _StatusToken = None
    previews: PreviewsBody | None = None
    paused: bool = False

    def request(self) -> GitSourceRequest:
        """Return what is asked for."""
        return GitSourceRequest(
            name=self.name,
            account_id=self.accountId,
            application_id=self.applicationId,
            is_paused=self.paused,
            settings=GitSettings(
                url=self.url.strip(),
                branch=self.branch,
                path=self.path,
                user=self.user,
                vault=self.vault,
                credential=self.credential,
                host_keys=self.hostKeys,
                interval_ms=self.intervalMs,
                applies=self.applies,
                instances=self.instances,
                prune=self.prune,
                forge=self.forge,
                api=None if self.api is None else self.api.strip().rstrip("/"),
                webhook_secret=self.webhookSecret,
                status_token=self.statusToken,
                previews=None if self.previews is None else self.previews.settings(),
            ),
        )


class GitSourceDocument(msgspec.Struct, kw_only=True):
    """A source in Git. Times are in milliseconds since the Unix epoch.

    `seen` is the branch's commit at the last look, `applied` the one that the organization has, `planned` the one whose
    plan waits for approval. `problem` says why the last look failed.
    """

    id: str
    name: str
    status: Annotated[
        str, msgspec.Meta(description="Paused, Running, Failing, Planned, Waiting (for the first look) or Current.")
    ]
    accountId: str
    applicationId: str | None
    url: str
    branch: str
    path: str
    user: str
    vault: str | None
    credential: str | None
    hostKeys: list[str]
    intervalMs: int | None
    applies: str
    instances: str
    prune: bool
    forge: str | None
    api: str | None
    webhookSecret: str | None
    statusToken: str | None
    previews: PreviewsBody | None
    paused: bool
    seen: str | None
    applied: str | None
    planned: str | None
    problem: str | None
    lookedAt: int | None
    nextAt: int | None
    createdAt: int


class GitSyncDocument(msgspec.Struct, kw_only=True):
    """What came of looking at a source.

    Times are in milliseconds since the Unix epoch.
    """

    id: str
    commit: str | None
    pullRequest: Annotated[int | None, msgspec.Meta(description="The pull request, for a preview.")]
    status: Annotated[
        str, msgspec.Meta(description="Applied, Planned, Refused (until something changes) or Failed (and retried).")
    ]
    message: str | None
    changes: list[ChangeNote]
    changeSetIds: list[str]
    instanceId: Annotated[str | None, msgspec.Meta(description="The instance of the preview.")]
    reportProblem: Annotated[str | None, msgspec.Meta(description="Why the forge didn't take the status.")]
    attempts: Annotated[int, msgspec.Meta(description="How often it came to this in a row.")]
    startedAt: int
    endedAt: int


class GitPreviewDocument(msgspec.Struct, kw_only=True):
    """The preview of a pull request. `applied` is the commit that the instance has."""

    number: int
    branch: str
    commit: str
    open: bool
    applied: str | None
    applicationId: str | None
    instanceId: str | None
    problem: str | None
    changedAt: Annotated[int, msgspec.Meta(description="When the pull request changed, in ms since the Unix epoch.")]


class GitDriftDocument(msgspec.Struct, kw_only=True):
    """How the organization differs from the commit that was applied last."""

    commit: str
    changes: Annotated[list[ChangeNote], msgspec.Meta(description="What applying it again would change.")]


class CommitBody(msgspec.Struct, forbid_unknown_fields=True):
    """A commit whose plan is approved."""

    commit: str


class GitSourceQuery(Paging, frozen=True):
    """Paging and filters of sources in Git."""

    application: Annotated[str | None, msgspec.Meta(description="Only those of this application.")] = None


_EXAMPLE = {
    "name": "shop",
    "accountId": EXAMPLE_ID,
    "url": "https://git.example.org/team/shop.git",
    "branch": "main",
    "path": "deploy",
    "intervalMs": 300_000,
}
_CONTROL = "ManageRoles for its account"
_READ = "Read on its account"


@routes.post(
    "/organizations/{orgId}/git-sources",
    permission=_CONTROL,
    body=JsonBody(example=_EXAMPLE, keeps_texts=TYPED),
    returns=Returns("The source.", type=GitSourceDocument),
    idempotency_key=True,
)
async def create_git_source(request: Request[GitSourceBody, None]) -> Response:
    """Let an application or directory follow a branch."""
    return JSONResponse(
        _document(await git_sources.create_git_source(request.ctx, request.path["orgId"], request.body.request()))
    )


@routes.get(
    "/organizations/{orgId}/git-sources",
    permission="Read on each account",
    returns=Returns("The sources.", type=list[GitSourceDocument]),
)
async def list_git_sources(request: Request[None, GitSourceQuery]) -> JSONResponse:
    """List sources in Git."""
    rows = await git_sources.list_git_sources(
        request.ctx, request.path["orgId"], application_id=request.query.application
    )
    return list_response(request, [_document(row) for row in rows])


@routes.get("/git-sources/{sourceId}", permission=_READ, returns=Returns("The source."))
async def read_git_source(request: Request[None, None]) -> GitSourceDocument:
    """Show a source in Git."""
    return _document(await git_sources.read_git_source(request.ctx, request.path["sourceId"]))


@routes.put("/git-sources/{sourceId}", permission=_CONTROL, body=JsonBody(example=_EXAMPLE, keeps_texts=TYPED))
async def update_git_source(request: Request[GitSourceBody, None]) -> None:
    """Replace a source in Git, and look at its branch."""
    await git_sources.update_git_source(request.ctx, request.path["sourceId"], request.body.request())


@routes.delete("/git-sources/{sourceId}", permission=_CONTROL)
async def delete_git_source(request: Request[None, None]) -> None:
    """Delete a source in Git, not what it applied."""
    await git_sources.delete_git_source(request.ctx, request.path["sourceId"])


@routes.post("/git-sources/{sourceId}/sync", permission=_CONTROL, statuses=(409,))
async def sync_git_source(request: Request[None, None]) -> None:
    """Apply the branch's present commit now."""
    await git_sources.sync_git_source(request.ctx, request.path["sourceId"])


@routes.post(
    "/git-sources/{sourceId}/apply",
    permission=_CONTROL,
    body=JsonBody(example={"commit": "5f" * 20}),
    statuses=(409,),
)
async def apply_git_source(request: Request[CommitBody, None]) -> None:
    """Approve the plan of a commit."""
    await git_sources.apply_git_source(request.ctx, request.path["sourceId"], request.body.commit)


@routes.get(
    "/git-sources/{sourceId}/syncs",
    command="git-source syncs",
    permission=_READ,
    returns=Returns("The outcomes, newest first.", type=list[GitSyncDocument]),
)
async def list_git_syncs(request: Request[None, Pages]) -> Response:
    """List what came of the last looks."""
    limit = request.query.most_items
    rows = await git_sources.list_git_syncs(
        request.ctx, request.path["sourceId"], after=request.query.after, count=limit + 1
    )
    return page(request, [_sync(row) for row in rows], limit)


@routes.get(
    "/git-sources/{sourceId}/drift",
    command="git-source drift",
    permission=_READ,
    returns=Returns("The differences."),
    statuses=(409,),
    computes=True,
)
async def read_git_drift(request: Request[None, None]) -> GitDriftDocument:
    """Show what differs from the applied commit."""
    found = await syncs.read_git_drift(request.ctx, request.path["sourceId"])
    return GitDriftDocument(commit=found.commit, changes=found.changes)


@routes.get(
    "/git-sources/{sourceId}/previews",
    command="git-source previews",
    permission=_READ,
    returns=Returns("The previews, newest first.", type=list[GitPreviewDocument]),
)
async def list_git_previews(request: Request[None, Pages]) -> Response:
    """List the previews of pull requests."""
    query = request.query
    limit = query.most_items
    before = None if query.after is None else min(int(query.after, 16), 2**31 - 1)
    rows = await forges.list_git_previews(request.ctx, request.path["sourceId"], before=before, count=limit + 1)
    link = next_link(request, f"{rows[limit - 1].number:024x}") if len(rows) > limit else ()
    return JSONResponse([_preview(row) for row in rows[:limit]], link)


def _preview(row: PreviewRow) -> GitPreviewDocument:
    return GitPreviewDocument(
        number=row.number,
        branch=row.branch,
        commit=row.commit,
        open=row.is_open,
        applied=row.applied,
        applicationId=row.application_id,
        instanceId=row.instance_id,
        problem=row.problem,
        changedAt=to_ms(row.changed_at),
    )


@routes.post(
    "/git-sources/{sourceId}/events",
    command="git-source receive-event",
    public=True,
    body=JsonBody(bytes_max=limits.GIT_EVENT_BYTES, example={"ref": "refs/heads/main"}),
    statuses=(401,),
)
async def receive_git_event(request: Request[msgspec.Raw, None]) -> None:
    """Take an event that the forge has signed."""
    body = bytes(request.body)
    await forges.receive_git_event(request.deps.app, request.path["sourceId"], request.headers, body)


def _document(source: GitSource) -> GitSourceDocument:
    settings = read_settings(source.settings)
    return GitSourceDocument(
        id=source.id,
        name=source.name,
        status=status_of(source),
        accountId=source.account_id,
        applicationId=source.application_id,
        url=settings.url,
        branch=settings.branch,
        path=settings.path,
        user=settings.user,
        vault=settings.vault,
        credential=settings.credential,
        hostKeys=settings.host_keys,
        intervalMs=settings.interval_ms,
        applies=settings.applies,
        instances=settings.instances,
        prune=settings.prune,
        forge=settings.forge,
        api=settings.api,
        webhookSecret=settings.webhook_secret,
        statusToken=settings.status_token,
        previews=None
        if settings.previews is None
        else PreviewsBody(
            environmentId=settings.previews.environment_id,
            lifetimeMs=settings.previews.lifetime_ms,
            parameters=settings.previews.parameters,
        ),
        paused=source.is_paused,
        seen=source.seen,
        applied=source.applied,
        planned=source.planned,
        problem=source.problem,
        lookedAt=optional_ms(source.looked_at),
        nextAt=optional_ms(source.due_at),
        createdAt=to_ms(source.created_at),
    )


def _sync(row: SyncRow) -> GitSyncDocument:
    return GitSyncDocument(
        id=row.id,
        commit=row.commit,
        pullRequest=row.pull_request,
        instanceId=row.instance_id,
        reportProblem=row.report_problem,
        status=row.status,
        message=row.message,
        changes=read_changes(row.changes),
        changeSetIds=row.change_set_ids,
        attempts=row.attempts,
        startedAt=to_ms(row.started_at),
        endedAt=to_ms(row.ended_at),
    )
