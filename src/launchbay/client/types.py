"""The types of the API's answers. Times are milliseconds since the Unix epoch.

Made from the endpoint table by `python -m generators`; a test holds that it is up to date.
"""

from typing import Any

import msgspec


class Named(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """An ID with its name: the list item of organizations, applications and revisions (reference §2)."""

    id: str
    name: str


class Created(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The ID of the created object."""

    id: str


class PlannedObject(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """What happens to an object or a part of it. `id` is null until it exists."""

    sign: str
    what: str
    kind: str
    id: str | None = None
    detail: str = ""
    from_version: int | None = None
    to_version: int | None = None
    difference: str = ""


class RuleAnswer(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """What a rule would say to a change of a directory."""

    what: str
    outcome: str
    messages: list[str]
    approvals: int = 0


class DirectoryPreview(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """What applying a directory would do, and what rules would say."""

    objects: list[PlannedObject]
    hidden: int
    warnings: list[str]
    rules: list[RuleAnswer]


class ArchivedRevision(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A revision with its version."""

    parameters: dict[str, Any] = {}
    environment: str | None = None
    submodules: dict[str, Any] = {}
    version: int


class Rules(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Rules of an application or environment, in the form of the API. None: there are no such rules. An application
    with `sleep` that has no windows doesn't sleep with its environment. `changes` are those about changes, as text.
    Without it they stay as they are: who maintains a directory need not be who guards it. Neither does `audiences`,
    for which steps in an environment may get tokens.
    """

    lifetime: dict[str, Any] | None = None
    sleep: dict[str, Any] | None = None
    concurrency: list[Any] | None = None
    freeze: list[Any] | None = None
    changes: str | None = None
    audiences: list[str] | None = None


class StageEntry(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """An environment of a promotion order, by name. `soak` is in milliseconds."""

    environment: str
    soak: int = 0
    workflows: list[str] = []
    approvals: int = 0
    automatic: bool = False


class ArchivedApplication(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """An application with all versions of its manifest, oldest first. In an archive in lines there are `versions` of
    them, in lines of their own.
    """

    manifests: list[str] = []
    versions: int = 0
    source: str | None = None
    labels: dict[str, Any] = {}
    rules: Rules | None = None
    revisions: dict[str, Any] = {}
    promotion: list[StageEntry] | None = None


class ArchivedRole(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A role's text."""

    permissions: str
    is_guest: bool = False


class ArchivedService(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A service without its secrets."""

    type_id: str
    parameters: dict[str, Any] = {}


class ArchivedUser(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A member of the organization, and the roles that they hold."""

    name: str
    roles: list[str] = []


class PropertyEntry(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A property of an environment."""

    name: str
    type: str
    value: Any


class Environment(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """An environment. Omitted parts stay unchanged; services are named."""

    default: bool = False
    policies: dict[str, Any] | None = None
    markers: list[str] | None = None
    properties: list[PropertyEntry] | None = None
    services: list[str] | None = None
    labels: dict[str, Any] | None = None
    rules: Rules | None = None


class Archive(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """An organization in one document; `holes` lists the missing secrets. `mentions` are the IDs in manifests and
    roles, each with the kind and name of its object: imported objects have other IDs. `objects` are texts of files,
    by kind and name: service accounts, Git sources, schedules, and services whose parameters refer to vaults.
    """

    format: Any = "launchbay organization"
    version: int = 2
    name: str
    services: dict[str, Any]
    environments: dict[str, Any]
    applications: dict[str, Any]
    roles: dict[str, Any]
    users: dict[str, Any]
    mentions: dict[str, Any]
    holes: list[str]
    objects: dict[str, Any] = {}
    promotion: list[StageEntry] | None = None


class InvitedUser(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A new account, and the link to set its password."""

    email: str
    invitation: str
    invitation_expires_at: int


class ImportedOrganization(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The result of an import. A plan has no ID. `holes` lists what the archive could not contain, such as secrets."""

    id: str | None
    created: dict[str, Any]
    holes: list[str]
    invitations: list[InvitedUser]


class NamedObject(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """An object as the file of a directory describes it, without secrets."""

    kind: Any
    id: str
    name: str
    content: str
    at: list[str]


class UnexportedObject(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """An object without a file. Its content may be empty."""

    kind: Any
    id: str
    name: str
    content: str
    at: list[str]
    reason: str


class DirectoryObjects(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The objects, and a sentence for each thing that can't be in a directory."""

    objects: list[NamedObject]
    omitted: list[str]
    unexported: list[UnexportedObject]


class PutObject(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The ID of the object, and the invitation of a new user, shown once."""

    id: str
    invitation: str | None = None
    invitation_expires_at: int | None = None


class UserItem(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A user as lists show it."""

    id: str
    name: str
    email: str
    roles: list[str]
    can_evict: bool
    can_manage_roles: bool


class AddedUser(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The ID of the user. `pending`: they must accept the invitation first."""

    id: str
    invitation: str | None = None
    invitation_expires_at: int | None = None
    pending: bool = False


class PendingUser(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Somebody who is invited. `roles` are those offered."""

    id: str
    name: str
    email: str
    roles: list[str]
    created_at: int
    expires_at: int


class UserDetail(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A user in detail. `invited`: has no password yet. `pending`: must accept the invitation first."""

    id: str
    name: str
    email: str
    roles: list[str]
    can_evict: bool
    can_manage_roles: bool
    enabled: bool
    invited: bool
    created_at: int
    pending: bool | None = None


class SignInBlock(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A user who can't sign in for so many seconds."""

    id: str
    name: str
    email: str
    seconds: int


class SignInPolicy(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Whether members whose accounts have a password need a second factor."""

    second_factor_required: bool


class ServiceAccount(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A service account. The audit log shows its `email`, which gets no mail."""

    id: str
    name: str
    email: str
    description: str
    enabled: bool
    roles: list[str]
    created_at: int


class TokenOwner(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The user or service account whose permissions a token uses."""

    id: str
    name: str
    email: str
    is_service_account: bool


class AccessTokenItem(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """An access token, never its value. Without a scope nothing limits it."""

    id: str
    name: str
    scope: list[str] | None
    owner: TokenOwner
    created_at: int
    expires_at: int
    last_used_at: int | None


class CreatedAccessToken(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A new access token. Its value is shown only here."""

    id: str
    token: str
    name: str
    scope: list[str] | None
    expires_at: int


class RoleItem(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A role as lists show it."""

    id: str
    name: str
    can_edit: bool
    can_delete: bool


class RoleDetail(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A role with its permissions, unchanged as uploaded."""

    id: str
    name: str
    can_edit: bool
    can_delete: bool
    permissions: str


class LostChangeDocument(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A change that a holder made, and could no longer make."""

    at: int
    by: str
    operation: str
    object: str
    permission: str


class RecentRoleCheck(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The last changes by holders, and those that the text would refuse. Refused requests aren't in the audit log,
    so nothing says which of them would be allowed.
    """

    changes: int
    refused: list[LostChangeDocument]
    missing: str | None = None


class RoleHolderChange(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A holder of the role, and the entries that would be gained and lost."""

    id: str
    name: str
    is_service_account: bool
    gains: list[str]
    losses: list[str]
    kept: list[str]


class RoleCheckDocument(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """What is wrong with a text, and what saving it would change."""

    errors: list[str]
    warnings: list[str]
    holders: list[RoleHolderChange]
    hidden: int
    recent: RecentRoleCheck | None = None


class GroupItem(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A group of the identity provider, and the names of its roles."""

    group: str
    roles: list[str]


class Explained(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The decision, its reason, and the role, entry and pattern that allowed it."""

    allowed: bool
    reason: str
    role: str | None
    entry: str | None
    pattern: str | None
    rules: list[str] = []
    held_by: str | None = None


class ApplicationDocument(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """An application. `version` is the newest manifest version; `sourceUrl` is the URL it is loaded from, without
    the query. `createdAt` is in milliseconds since the Unix epoch.
    """

    id: str
    name: str
    organization_id: str
    version: int
    source_url: str | None
    created_at: int


class LaunchAnswer(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The ID of the instance. `warnings` name what is ignored."""

    id: str
    warnings: list[str] | None = None


class FindingShape(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """One finding of the manifest checker."""

    message: str
    line: int
    column: int
    code: str


class ManifestVersion(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A manifest version. Warnings at line 0 are about the request."""

    version: int
    warnings: list[FindingShape] = []


class Findings(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The findings of the manifest checker."""

    errors: list[FindingShape]
    warnings: list[FindingShape]


class VersionItem(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A manifest version. `createdAt` is in milliseconds since the Unix epoch, `authorId` the user who stored it.
    `message` says what it changed, in the words of this user.
    """

    version: int
    created_at: int
    author_id: str
    message: str | None


class RefreshedVersion(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The newest version; `changed` if the refresh created it, with its warnings."""

    version: int
    changed: bool
    warnings: list[FindingShape] = []


class StepChange(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A step that is `added`, `removed`, `changed` or `moved`. The lines say where it begins in the two texts.
    `diff` has its source lines, each after `+ `, `- ` or two spaces.
    """

    name: str
    change: str
    from_line: int | None = None
    to_line: int | None = None
    diff: list[str] = []


class WorkflowChange(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A workflow that is `added`, `removed` or `changed`. `parts` are those of its own that differ, such as
    `timeout`.
    """

    name: str
    change: str
    parts: list[str] = []
    steps: list[StepChange] = []


class CodeChange(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """What differs of a component that is in both manifests, without values of pins. `parts` are of `type`,
    `interfaces`, `bindings`, `required`, `configuration`, `triggers`, `schedule`, `status`, `Scaler` and `checks`.
    """

    path: str
    parts: list[str] = []
    workflows: list[WorkflowChange] = []


class DefaultChange(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The default of a configuration pin that isn't the same. It is `added`, `removed` or `changed`. Without one it
    is null, which is also a default.
    """

    component: str
    pin: str
    from_: Any = msgspec.field(name="from")
    to: Any
    change: str = "changed"


class NameChanges(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """What is added, removed and changed among things with a name."""

    added: list[str] = []
    removed: list[str] = []
    changed: list[str] = []


class ManifestDifference(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """All that two manifests differ in, apart from how they are written. `parameters`, `results`, `commands` and
    `needs` are those of the application; a parameter changes also if it need no longer be given. `checks` says that
    instances are checked at other times. `kind` says that one is a component manifest and the other a workflow
    manifest. `defaults` and `code` are about components that both have; values that instances give themselves aren't
    in a manifest.
    """

    components: NameChanges
    parameters: NameChanges
    results: NameChanges
    commands: NameChanges
    needs: NameChanges
    concurrency: bool
    checks: bool
    kind: bool
    defaults: list[DefaultChange]
    code: list[CodeChange]


class VersionDifference(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """What a version differs in from another one. Comments and layout don't count. `version` is null for a text that
    isn't saved.
    """

    version: int | None
    against: int
    is_same: bool
    difference: ManifestDifference


class ComponentChange(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A component that is `added`, `removed` or `changed` by another version. `workflows` are those that differ.
    `other` says that something else does: its pins, their defaults, its bindings.
    """

    path: str
    change: str
    workflows: list[str] = []
    other: bool = False


class UsedVersionItem(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A version that instances have, and what they would get with the other one. `application` says that parameters,
    results, commands, needs, limits or the kind of the application differ. With a `problem`, nobody can say: the
    version no longer compiles. A `pending` one isn't compared yet: ask again.
    """

    version: int
    instances: int
    is_same: bool
    application: bool
    components: list[ComponentChange]
    problem: str | None
    pending: bool


class UsedVersions(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The versions of live instances, the newest first, against `version`. `pending` counts those that aren't
    compared yet. After an upgrade, each answer compares some more.
    """

    version: int
    pending: int
    used: list[UsedVersionItem]


class RevisionDocument(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A revision; `createdAt` is in milliseconds since the Unix epoch. Each manifest version has one with an empty
    name: that of launches which name none.
    """

    id: str
    name: str
    application_id: str
    version: int
    parameters: dict[str, Any]
    environment_id: str | None
    submodules: dict[str, Any]
    created_at: int


class EnvironmentItem(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """An environment as lists show it."""

    id: str
    name: str
    is_default: bool


class Marker(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A name that an environment has or not."""

    name: str


class Markers(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The markers of an environment."""

    markers: list[Marker]


class Property(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A value of the environment; `type` is the type as written, such as `list<string>`."""

    name: str
    value: Any
    type: str


class Properties(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The properties of an environment."""

    properties: list[Property]


class ServiceItem(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A service instance as lists show it."""

    id: str
    name: str
    type_id: str


class OfferedServices(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The services that an environment offers."""

    services: list[ServiceItem]


class ParameterShape(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A parameter or argument."""

    name: str
    type: str
    required: bool
    secret: bool
    description: str


class TypedName(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A name with its type, such as `list<string>`."""

    name: str
    type: str


class CommandShape(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A command of a service type."""

    name: str
    interface: str
    description: str
    arguments: list[ParameterShape]
    intermediate: list[TypedName]
    results: list[TypedName]


class ServiceTypeShape(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A type of services."""

    id: str
    name: str
    interfaces: list[str]
    parameters: list[ParameterShape]
    commands: list[CommandShape]


class ServiceStatus(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The status of a service."""

    name: str
    pending: bool


class ServiceDocument(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A service with exactly the fields of the reference; secret parameters are masked."""

    id: str
    name: str
    type_id: str
    type_name: str
    zone_id: str
    zone_name: str
    organization_id: str
    interfaces: list[str]
    parameters: dict[str, Any]
    status: ServiceStatus
    internal_id: str


class PathTestDocument(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """What a job may do with a path. It has no value."""

    path: str
    result: str
    may_write: bool | None
    message: str


class ProviderTestDocument(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """What came of a test."""

    problem: str | None
    paths: list[PathTestDocument]


class OpenSessionDocument(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A session that should be revoked, and couldn't be."""

    job: str | None
    message: str
    expires_at: int


class SecretReadDocument(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The last read of a secret by a step."""

    application: Named
    environment: Named
    instance: Named
    component: str
    step: str
    secret: str
    read_at: int
    job: str
    is_changed: bool


class ProviderUseDocument(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Who has read from a provider."""

    reads: list[SecretReadDocument]
    open_sessions: list[OpenSessionDocument]
    services: list[Named]


class ChangedSecretDocument(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A secret that has changed since a step read it."""

    secret: str
    component: str
    step: str
    read_at: int
    job: str


class SecretNames(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The names of masked values."""

    parameters: list[str]
    return_values: list[str]


class Revealed(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The value in clear."""

    name: str
    value: Any


class InstanceSummary(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """An instance in a list, with exactly the fields of the reference (§2), under their names. A list may have a
    hundred thousand, so a row becomes this and this becomes JSON, with nothing in between.
    """

    id: str
    name: str
    environment: str
    application: str
    revision: str
    status: str


class ComponentDocument(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A component; `instanceId` is set if it represents another instance."""

    instance_id: str | None = None
    name: str | None = None


class FailureDocument(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The last failure; `time` is in milliseconds since the epoch. `code` is the error code that explains `message`;
    null if a step didn't fail.
    """

    code: str | None
    job_id: str
    message: str
    time: int
    workflow: str


class StepDocument(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A step in brief."""

    name: str
    percent_complete: int
    status: str


class JobDocument(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A job of the history. `number` counts the jobs of the instance. `failureCode` is the error code that explains
    `errorMessage`; null if a step didn't fail.
    """

    error_message: str | None
    failure_code: str | None
    finished_at: int | None
    id: str
    name: str
    number: int
    owner_id: str
    started_at: int | None
    status: str
    steps: list[StepDocument]


class WorkflowDocument(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The running job, with exactly the fields of the reference."""

    name: str
    owner_id: str
    status: str
    steps: list[StepDocument]


class InstanceDocument(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """An instance; `workflow` is set while a job runs, `dryRun` if its machines are simulated. `parameters` are the
    effective ones, with the manifest's defaults; `parameterOrigins` says where each comes from. For a time in the
    past, `at` is set, `recordedSince` says how far back the record goes, and `environment` and `machines` (by
    component) are what the instance had then. `waitingFor` is set while it or its job waits: it describes for what.
    `errorMessage` and `lastFailure` are those of the last failed job, until a launch or reconfiguration succeeds.
    """

    application_id: str
    at: int | None = None
    available_workflows: list[str]
    components: list[ComponentDocument]
    created_at: int
    destroy_at: int | None
    dry_run: bool | None = None
    environment: dict[str, Any] | None = None
    environment_id: str
    error_message: str | None
    id: str
    labels: dict[str, Any] | None = None
    last_failure: FailureDocument | None
    machines: dict[str, Any] | None = None
    name: str
    owner_id: str
    parameter_origins: dict[str, Any]
    parameters: dict[str, Any]
    recorded_since: int | None = None
    return_values: dict[str, Any]
    status: str
    user_data: dict[str, Any]
    version: int
    waiting_for: str | None = None
    workflow: WorkflowDocument | None = None
    workflow_history: list[JobDocument]


class Accepted(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """With `include=warnings`, `warnings` name what was ignored."""

    warnings: list[str] | None = None


class Estimate(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """How long the last successful launches of the application took. `usualDurationMs` is their median. Nine of ten
    took at most `slowDurationMs`.
    """

    launches: int
    usual_duration_ms: int
    slow_duration_ms: int


class ParameterChange(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A configuration pin whose value would change; `reset` says that it goes back to its default."""

    name: str
    from_: Any = msgspec.field(name="from")
    to: Any
    reset: bool


class PreviewedComponent(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """What would happen to a component; `path` leads through the submodules. `link` says which kind of instance or
    service is behind it (`own`, `shared`, `service`, `service-instance`): the former one if it stops, otherwise the
    new one. The ID is that of an instance that exists. `code` says what differs in workflows and other parts of a
    component that stays: it applies from the next run on.
    """

    path: str
    change: str
    parameters: list[ParameterChange]
    code: CodeChange | None = None
    link: str | None = None
    instance_id: str | None = None
    type: str | None = None


class Preview(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """What would happen. With errors nothing would: they are the reasons for a refusal. `steps` are those of the
    workflows, and `approvals` how many of them ask people. Steps inside a step aren't counted. Of a launch,
    `destroyAfterMs` says how long the instance lives; null means without an end. `refused` says that a freeze, a
    policy or a rule refuses it now, as the first warning explains. It may still be proposed, or wait.
    """

    components: list[PreviewedComponent] = []
    workflows: list[str] = []
    errors: list[str] = []
    warnings: list[str] = []
    steps: int = 0
    approvals: int = 0
    estimate: Estimate | None = None
    destroy_after_ms: int | None = None
    refused: bool = False


class CauseDocument(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The larger change that brought it: `change-set`, `rollout` or `rollback`. `id` is its ID, or the number of the
    generation.
    """

    kind: str
    id: str


class GenerationItem(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A generation in the list. `id` is the number, written as an ID."""

    id: str
    number: int
    version: int
    revision_id: str | None
    owner_id: str
    job_id: str | None
    cause: CauseDocument | None
    created_at: int


class GenerationSubmodule(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The instance that was behind a component. `outerId` is the instance with the component."""

    outer_id: str
    component: str
    instance_id: str
    link: str
    application_id: str | None
    version: int | None
    revision_id: str | None
    parameters: dict[str, Any] | None


class GenerationDocument(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A configuration that took effect, as it was given."""

    id: str
    number: int
    version: int
    revision_id: str | None
    owner_id: str
    job_id: str | None
    cause: CauseDocument | None
    created_at: int
    parameters: dict[str, Any]
    submodules: list[GenerationSubmodule]
    environment: dict[str, Any]


class RollbackDocument(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The generation, and what the rollback does. A preview has no `jobId`."""

    generation: int
    job_id: str | None
    preview: Preview | None


class FailurePolicyBody(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """What instances do when a reconfiguration fails: `keep` the failed state, or `rollback`."""

    on_failure: Any


class ChangedField(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A changed field. `names` are the parts that changed, of a field with parts. `diff` has their values."""

    field: str
    from_: str | int | None = msgspec.field(name="from")
    to: str | int | None
    names: list[str]


class TimelineEntry(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """What changed at once, and the job that did it, if one did. The oldest entry may be the creation."""

    id: str
    at: int
    kind: Any
    job_id: str | None
    job_number: int | None
    workflow: str | None
    owner_id: str | None
    changes: list[ChangedField]


class ComparedState(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """One of the two; `at` is null for the present."""

    instance_id: str
    at: int | None


class DifferentValue(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A value that isn't the same in both."""

    path: str
    change: Any
    from_: Any = msgspec.field(name="from")
    to: Any


class InstanceDiff(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """What differs between two states. `own` is what two instances differ in however they were launched: names,
    ends, hosts of machines, instances of submodules, results and errors, and the versions if their manifests mean
    the same. Of two times of one instance, it is empty.
    """

    from_: ComparedState = msgspec.field(name="from")
    to: ComparedState
    differences: list[DifferentValue]
    own: list[DifferentValue]
    manifest: ManifestDifference | None


class OfferedInstance(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """An instance that an environment offers as a service; `application` is an ID."""

    id: str
    name: str
    application: str
    status: str


class OfferedIn(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The IDs of the environments that offer an instance as a service."""

    environments: list[str]


class RunAnswer(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The ID of the instance. A destroy with a grace time is due at `destroyAt`."""

    id: str
    destroy_at: int | None = None
    warnings: list[str] | None = None


class Scheduled(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The ID of the schedule, omitted if it no longer exists."""

    id: str | None = None
    warnings: list[str] | None = None


class ScheduleEntry(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A schedule; times are in milliseconds since the Unix epoch. A schedule of the manifest has a `component`. If
    someone cancels it, it stays in the list.
    """

    id: str
    name: str
    timestamp: int
    component: str | None = None
    cancelled_at: int | None = None
    cancelled_by: str | None = None


class Schedules(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The schedules of an instance."""

    schedules: list[ScheduleEntry]


class ComponentDetail(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """What a component does (docs/reference/component-states.md). `status` is NotStarted, InProgress, NeedsApproval,
    Running, Degraded, Sleeping, Failed, Interrupted, Destroying or Destroyed. `step` is the name of the step that
    runs, asks, failed or was interrupted, and `percent` is set while steps run. `instanceId` is set if it stands for
    a submodule. It is `declared` unless it belongs to an earlier version and is not removed yet.
    """

    path: str
    type: str
    status: str
    step: str | None
    percent: int | None
    instance_id: str | None
    declared: bool


class ListedJob(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A job of an instance. `number` counts them. `cancelled` is true if somebody cancelled it: its status is
    Failed, but nothing went wrong. `failureCode` is the error code that explains `errorMessage`; null if a step
    didn't fail.
    """

    cancelled: bool
    error_message: str | None
    failure_code: str | None
    finished_at: int | None
    id: str
    name: str
    number: int
    owner_id: str
    started_at: int | None
    status: str
    steps: list[StepDocument]


class Beginning(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """What began a job: `person`, `token`, `schedule`, `trigger`, `expiry` or `job`. `name` is that of the person,
    token or schedule; a schedule of one instance has that of its workflow. That of an expiry says whether the
    lifetime or the idle time of the instance ended. That of a job is its workflow, and where a job is read by itself
    also the instance. `owner` is the person whose permissions the job has.
    """

    kind: str
    id: str
    name: str
    owner: str


class JobReference(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A job on another instance."""

    id: str
    number: int
    workflow: str
    status: str
    instance_id: str
    instance_name: str
    cancelled: bool


class AttemptDetail(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """One attempt of a step; `errorMessage` says why it failed."""

    number: int
    started_at: int | None
    finished_at: int | None
    error_message: str | None


class StepDetail(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A step. `path` is its place in the plan; times are in milliseconds since the Unix epoch. `component` has the
    workflow of the step; `phase` and `action` are null if the manifest no longer has the step. `children` are the
    steps inside it. `notRun` is true if the job ended before the step began, `skipped` if its condition was false,
    `ignored` if it failed and the workflow continued (`ignoreFail`). `outputsOmitted` is true if the outputs are too
    large to show. `inputs` are the parameters as the step was sent them, those of a loop its items, with secrets
    masked; null if none are recorded. `inputsCut` is true if they aren't whole: `…` is where that is so.
    `inputsOmitted` is true if they are recorded, but those of the whole job are too large to show.
    """

    path: str
    name: str
    status: str
    percent_complete: int
    attempt: int
    started_at: int | None = None
    finished_at: int | None = None
    outputs: dict[str, Any] | None = None
    outputs_omitted: bool = False
    inputs: dict[str, Any] | None = None
    inputs_cut: bool = False
    inputs_omitted: bool = False
    error_message: str | None = None
    component: str = ""
    phase: str | None = None
    action: str | None = None
    duration_ms: int | None = None
    attempts: list[AttemptDetail] = []
    children: int = 0
    not_run: bool = False
    skipped: bool = False
    ignored: bool = False


class WaitDetail(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """One thing that a job waits for, since when, and what ends it. `kind` is `worker`, `limit`, `approval`, `job`,
    `instance`, `service`, `resource`, `machine`, `peers`, `retry` or `time`. `position` is the job's place in the
    queue for a worker or a resource; `jobId` and `instanceId` are the job to wait for.
    """

    kind: str
    text: str
    since: int
    ends_when: str
    until: int | None
    position: int | None
    job_id: str | None
    instance_id: str | None


class JobDetail(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A job. `number` counts the jobs of its instance; `workflow` equals `name`. `parameters` and `results` are
    those of a command, or the effective parameters and the return values of a launch or reconfiguration.
    `parametersCut` or `resultsCut` is true if they aren't whole: `…` is where that is so. `parametersRecorded` is
    false if an earlier version of Launchbay ran the launch or reconfiguration. `component` is set if the job runs a
    workflow of one component. `queuedAt` is the time of the request. `resumes` is the failed job that this one
    continues, and `attempt` counts both. `parent` is the job that runs this one, and `children` are the jobs that
    this one runs on other instances. `usualDurationMs` is the median of the last successful runs. `failureCode` is
    the error code that explains `errorMessage`; null if a step didn't fail. `cancelled` is true if somebody
    cancelled the job: its status is Failed, but nothing went wrong.
    """

    id: str
    instance_id: str
    name: str
    status: str
    owner_id: str
    created_at: int
    started_at: int | None
    finished_at: int | None
    error_message: str | None
    failure_code: str | None
    cancelled: bool
    parameters: dict[str, Any]
    parameters_cut: bool
    parameters_recorded: bool
    results: dict[str, Any]
    results_cut: bool
    resumes: str | None
    steps: list[StepDetail]
    number: int
    workflow: str
    component: str | None
    began_by: Beginning
    queued_at: int
    duration_ms: int | None
    percent: int
    attempt: int
    parent: JobReference | None
    children: list[JobReference]
    waiting_for: list[WaitDetail]
    usual_duration_ms: int | None


class ComparedJob(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """One of two compared jobs. `manifestVersion` is the version that it ran."""

    id: str
    number: int | None
    workflow: str
    status: str
    instance_id: str
    manifest_version: int | None
    duration_ms: int | None


class ComparedStepDetail(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A step of one of the jobs. `status` is as the console shows it, such as Succeeded, Skipped or Not run."""

    status: str
    duration_ms: int | None


class ValueDifference(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A value that differs: null where it is missing. Names in maps follow those of the maps, after a period."""

    name: str
    one: Any
    other: Any


class StepDifference(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A step in both jobs. `one` or `other` is null if the job has no such step. `differenceMs` is how much longer
    the other one took, if both ended. Values are those that differ. `uncertain` names those that may, such as
    `inputs.password`: they are masked or cut, and what is shown of them is equal.
    """

    path: str
    one: ComparedStepDetail | None
    other: ComparedStepDetail | None
    difference_ms: int | None
    inputs: list[ValueDifference]
    outputs: list[ValueDifference]
    uncertain: list[str]


class JobComparisonDetail(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Two jobs side by side, secrets masked. `stepsInAll` counts the steps of both. `unrecorded` are the numbers of
    jobs whose parameters an earlier version didn't keep, so they aren't compared. `uncertain` names parameters and
    results that may differ, such as `parameters.password`: they are masked or cut, and what is shown of them is
    equal. `stepsUncertain` counts the steps with such values.
    """

    one: ComparedJob
    other: ComparedJob
    parameters: list[ValueDifference]
    results: list[ValueDifference]
    unrecorded: list[int | None]
    uncertain: list[str]
    steps: list[StepDifference]
    steps_in_all: int
    steps_uncertain: int


class ComingDestroy(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A destroy within its grace time, and what it changes to take it back. Of a submodule it is that of the
    instance that it goes with.
    """

    at: int
    text: str


class ComponentCounts(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """How many components there are, and how many of them do what. The numbers add up to `total`. `busy` ones are in
    progress or being destroyed, `waiting` ones need an approval. `failed` and `interrupted` ones are so since the
    newest job.
    """

    total: int
    running: int
    failed: int
    busy: int
    waiting: int
    sleeping: int
    interrupted: int
    destroyed: int
    not_started: int


class FreezeNote(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Why nothing changes, or will change."""

    kind: Any
    reason: str
    until: int | None
    begins_at: int | None


class LastJob(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The job that ended last. Times are in milliseconds since the Unix epoch. `cancelled` is true if somebody
    cancelled it: its status is Failed, but nothing went wrong.
    """

    id: str
    number: int | None
    workflow: str
    status: str
    started_at: int | None
    finished_at: int | None
    error_message: str | None
    cancelled: bool


class FleetInstance(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """An instance of the organization's list. Times are in milliseconds since the Unix epoch. `health` is Healthy,
    Degraded, Failed, Busy or Gone. A job that somebody cancelled doesn't make an instance Degraded that runs.
    `components` is null if it is unknown: no job of this version has ended, and its manifest compiles no more.
    """

    id: str
    name: str
    status: str
    health: str
    application_id: str
    application_name: str
    environment_id: str
    environment_name: str
    version: int
    owner_id: str
    parent_id: str | None
    labels: dict[str, Any]
    components: ComponentCounts | None
    created_at: int | None
    destroy_at: int | None
    last_job: LastJob | None
    waiting_destroy: ComingDestroy | None = None
    is_asleep: bool = False
    is_drifted: bool = False
    is_observed: bool = False
    secrets_changed: bool = False
    is_frozen: bool = False
    freeze: FreezeNote | None = None


class FleetJob(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A job of the organization's list. Times are in milliseconds since the Unix epoch. `currentStep` is the path of
    the step that began last, of a job under way. `cancelled` is true if somebody cancelled the job: its status is
    Failed, but nothing went wrong.
    """

    id: str
    number: int | None
    workflow: str
    status: str
    instance_id: str
    instance_name: str
    application_id: str
    application_name: str
    environment_id: str
    environment_name: str
    owner_id: str
    parent_job_id: str | None
    created_at: int
    started_at: int | None
    finished_at: int | None
    error_message: str | None
    cancelled: bool
    current_step: str | None
    began_by: Beginning


class SummaryPart(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """How many instances an application or environment has."""

    id: str
    name: str
    total: int
    by_status: dict[str, Any]
    by_last_status: dict[str, Any]


class FleetSummary(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """How many instances there are, and what happens."""

    total: int
    by_status: dict[str, Any]
    by_last_status: dict[str, Any]
    running: int
    approvals: int
    expiring: int
    failures: int
    applications: list[SummaryPart]
    environments: list[SummaryPart]


class FleetSchedule(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A scheduled workflow. `component` is set for a schedule of the manifest, which recurs. A cancelled one would
    have run at `dueAt`.
    """

    id: str
    instance_id: str
    instance_name: str
    application_id: str
    environment_id: str
    workflow: str
    due_at: int
    owner_id: str
    component: str | None
    cancelled_at: int | None
    cancelled_by: str | None
    instance_ends_at: int | None = None


class SavedView(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A query of a list that a person keeps under a name."""

    name: str
    query: str
    of: Any = "instances"
    sort: str = ""


class SavedViews(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Queries of lists that a person keeps; `of` names the list."""

    views: list[SavedView]


class FailedInstance(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """An instance with the failure. `workflow`, `jobId` and `number` are those of its last job. `failedAt` is when
    the failure was, which an earlier one may have.
    """

    id: str
    name: str
    status: str
    environment_name: str
    job_id: str | None
    number: int | None
    workflow: str | None
    failed_at: int | None


class Failure(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Equal failures of instances. Times are in milliseconds since the Unix epoch. `count` is the number of all its
    instances; `instances` are the latest ones. `failed` of them are Failed; the others run. In `reason`, `…` is in
    place of names and IDs, and `#` of numbers; `message` is the latest one in full.
    """

    id: str
    count: int
    failed: int
    place: str
    reason: str
    message: str
    first_at: int | None
    last_at: int | None
    instances: list[FailedInstance]


class BulkCounts(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """How many instances have each status."""

    waiting: int
    running: int
    succeeded: int
    failed: int
    refused: int
    cancelled: int


class BulkInstance(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """An instance of a bulk run. `message` is why it failed or waits."""

    id: str
    instance_id: str
    instance_name: str
    status: str
    job_id: str | None = None
    message: str | None = None
    started_at: int | None = None
    finished_at: int | None = None


class BulkDocument(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A bulk run. A preview has `instances`, at most 1,000, and no `id`."""

    id: str | None
    act: str
    workflow: str | None
    status: str
    counts: BulkCounts
    max_parallel: int
    stop_after_failures: int | None
    owner_id: str
    created_at: int | None
    finished_at: int | None
    instances: list[BulkInstance] | None = None
    waiting_for: str | None = None


class Selection(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The filters of the organization's list of instances, or `all` of them."""

    status: str | None = None
    last_status: str | None = None
    degraded: bool = False
    drifted: bool = False
    observed: bool = False
    secrets_changed: bool = False
    last_workflow: str | None = None
    application: str | None = None
    environment: str | None = None
    owner: str | None = None
    version: int | None = None
    labels: str | None = None
    expires_before: int | None = None
    name: str | None = None
    name_part: str | None = None
    q: str | None = None
    all: bool = False


class BulkItem(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A bulk run of the list."""

    id: str
    act: str
    workflow: str | None
    status: str
    counts: BulkCounts
    owner_id: str
    created_at: int
    finished_at: int | None


class BulkBody(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """What to do, and with which instances: either `ids` or `select`. `expiresIn` is in milliseconds from the turn
    of the instance; -1 is never. A label that is null is removed.
    """

    act: Any
    ids: list[str] | None = None
    select: Selection | None = None
    workflow: str | None = None
    parameters: dict[str, Any] = {}
    version: int | None = None
    expires_in: int | None = None
    labels: dict[str, Any] = {}
    max_parallel: int = 10
    stop_after_failures: int | None = None
    preview: bool = False


class FiringDocument(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A firing; times are in milliseconds since the Unix epoch. `jobStatus` is the present one."""

    due_at: int
    at: int
    outcome: str
    message: str | None = None
    job_id: str | None = None
    job_status: str | None = None
    instance_id: str | None = None
    bulk_id: str | None = None


class RecurringDocument(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A recurring schedule; times are in milliseconds since the Unix epoch. `nextAt` are the next five times without
    jitter, before the end of the instance. `firings` are the last twenty, the newest first. A preview has no `id`.
    """

    id: str | None
    name: str
    kind: str
    status: str
    cron: str
    zone: str
    starts_at: int | None
    ends_at: int | None
    when_busy: str
    jitter_ms: int
    instance_id: str | None
    application_id: str | None
    workflow: str | None
    act: str | None
    next_at: list[int]
    warnings: list[str] | None
    instance_ends_at: int | None = None
    waiting_since: int | None = None
    waiting_for: str | None = None
    fired: int
    firings: list[FiringDocument]
    owner_id: str | None
    owner_email: str | None
    created_at: int | None


class PreviewsBody(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Previews of pull requests: each one's manifest runs as an instance of its own."""

    environment_id: str
    lifetime_ms: int
    parameters: dict[str, Any] = {}


class GitSourceDocument(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A source in Git. Times are in milliseconds since the Unix epoch. `seen` is the branch's commit at the last
    look, `applied` the one that the organization has, `planned` the one whose plan waits for approval. `problem`
    says why the last look failed.
    """

    id: str
    name: str
    status: str
    account_id: str
    application_id: str | None
    url: str
    branch: str
    path: str
    user: str
    vault: str | None
    credential: str | None
    host_keys: list[str]
    interval_ms: int | None
    applies: str
    instances: str
    prune: bool
    forge: str | None
    api: str | None
    webhook_secret: str | None
    status_token: str | None
    previews: PreviewsBody | None
    paused: bool
    seen: str | None
    applied: str | None
    planned: str | None
    problem: str | None
    looked_at: int | None
    next_at: int | None
    created_at: int


class ChangeNote(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A change of a plan: `+`, `~` or `-`, and of what."""

    sign: str
    what: str
    detail: str = ""


class GitSyncDocument(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """What came of looking at a source. Times are in milliseconds since the Unix epoch."""

    id: str
    commit: str | None
    pull_request: int | None
    status: str
    message: str | None
    changes: list[ChangeNote]
    change_set_ids: list[str]
    instance_id: str | None
    report_problem: str | None
    attempts: int
    started_at: int
    ended_at: int


class GitDriftDocument(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """How the organization differs from the commit that was applied last."""

    commit: str
    changes: list[ChangeNote]


class GitPreviewDocument(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The preview of a pull request. `applied` is the commit that the instance has."""

    number: int
    branch: str
    commit: str
    open: bool
    applied: str | None
    application_id: str | None
    instance_id: str | None
    problem: str | None
    changed_at: int


class ConcurrencyLimitBody(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """At most `limit` jobs at a time. `when` says what happens to a job that finds no place."""

    limit: int
    key: str | None = None
    when: Any = "queue"


class ConcurrencyBody(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The limits of an application or environment."""

    limits: list[ConcurrencyLimitBody]


class ConcurrencyPlace(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A job that has a place in the group, or waits for one."""

    job_id: str
    number: int
    workflow: str
    instance_id: str
    instance: str
    has_place: bool
    since: int


class ConcurrencyGroup(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A group of jobs with a limit. `jobs` are those that the caller may read; the counts are of all."""

    title: str
    limit: int
    started: int
    waiting: int
    jobs: list[ConcurrencyPlace]


class LifetimeBody(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Rules for how long instances live. Null means that there is no such rule."""

    default_ms: int | None = None
    greatest_ms: int | None = None
    may_never: bool = True
    extend_ms: int | None = None
    extensions: int | None = None
    grace_ms: int | None = None
    idle_ms: int | None = None
    mail: bool = False
    if_exists: Any | None = None


class ComingEvent(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """What will happen by itself: `warning` or `destroy`."""

    kind: str
    at: int
    text: str


class WaitingDestroyDocument(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A destroy within its grace time."""

    at: int
    requested_at: int
    requested_by: str
    is_stopped: bool
    is_idle: bool
    text: str


class LifetimeDocument(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """How long an instance lives, by the rules of its application and environment."""

    created_at: int
    destroy_at: int | None
    latest_at: int | None
    idle_ends_at: int | None
    extensions: int
    rules: LifetimeBody
    waiting_destroy: WaitingDestroyDocument | None
    coming: list[ComingEvent]


class ExtendedDocument(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The new end."""

    destroy_at: int
    ends_first: str | None = None


class UndoneDocument(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The schedule that starts the instance again, as soon as no job runs. Null if it wasn't stopped."""

    schedule_id: str | None


class SleepWindowBody(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A time that returns, on the clock of a zone."""

    sleep_at: str
    wake_at: str
    days: list[str] = []
    zone: str = "UTC"


class SleepBody(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """When instances sleep, and the workflows that stop and start them."""

    windows: list[SleepWindowBody] | None = None
    stop: str = ""
    start: str = ""
    when_busy: Any = "queue"


class SleepDocument(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Whether an instance sleeps, and when that changes."""

    is_asleep: bool
    since: int | None
    sleeps_at: int | None
    wakes_at: int | None
    kept_awake_until: int | None
    kept_awake_by: str | None
    message: str | None
    rule_of: str | None
    rules: SleepBody
    waiting_for: str | None = None


class ChangeSetAnswer(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The answer of one user; `at` is in milliseconds since the Unix epoch."""

    user_id: str
    email: str
    approves: bool
    comment: str
    at: int
    counts: bool = True


class UsedPermission(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A permission that the change needs, and for what."""

    permission: str
    resource: str


class DirectoryChanges(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """What applying a directory does. `hidden` is the number of objects that the caller may not read."""

    objects: list[PlannedObject]
    hidden: int
    permissions: list[UsedPermission]
    warnings: list[str]
    differences: list[str] | None


class FollowUp(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """How an instance is planned again after its job stopped. `problem` is why there is no change set for that."""

    change_set_id: str | None
    problem: str | None


class Cost(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """What machines cost per hour, by currency; `unknown` counts those without a price."""

    hourly: dict[str, Any]
    unknown: int


class Price(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """What one machine costs per hour, in decimal digits. Both are empty if nobody knows."""

    hourly: str = ""
    currency: str = ""


class Effect(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """One thing that happens to what `address` names. A replacement is a `delete` and a `create` of one address.
    `before` and `after` are JSON values without secrets. `note` says why, or what is special. Machines that are made
    have a price, which may be unknown.
    """

    kind: Any
    address: str
    before: Any = None
    after: Any = None
    certainty: Any = "exact"
    note: str = ""
    price: Price | None = None


class PlannedStep(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """What one step would do. `instance` leads through the submodules, and is empty for the instance itself. With
    `held`, the step does exactly this once it is approved, or stops; `digest` is that of what it needs for that.
    """

    path: str
    component: str
    action: str
    effects: list[Effect]
    instance: str = ""
    warnings: list[str] = []
    digest: str = ""
    held: bool = False


class PlanDocument(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A plan. Without steps, it isn't made yet or failed. Secrets are masked."""

    id: str
    status: str
    counts: dict[str, Any]
    deletes: list[str]
    cost: Cost
    steps: list[PlannedStep]
    problem: str | None
    digest: str | None
    created_at: int
    expires_at: int


class PromisedWorkflow(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A workflow that will run, and how long it usually takes, if known."""

    name: str
    usual_ms: int | None = None


class PlannedInstance(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """What happens to one instance, as it was shown."""

    instance_id: str | None
    instance_name: str
    application_id: str
    environment_id: str
    from_version: int | None
    to_version: int | None
    components: list[PreviewedComponent]
    workflows: list[PromisedWorkflow]
    machines_made: list[str]
    machines_released: list[str]
    permissions: list[UsedPermission]
    warnings: list[str]
    status: str
    job_id: str | None
    message: str | None
    differences: list[str] | None
    effects: PlanDocument | None = None
    follow_up: FollowUp | None = None


class ChangeSetDocument(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A change set with the instances or objects that the caller may read."""

    id: str
    act: str
    status: str
    comment: str
    owner_id: str
    owner_email: str
    on_failure: str
    instances: int
    needed: int
    confirm: bool
    created_at: int
    expires_at: int
    applied_by: str | None
    applied_at: int | None
    finished_at: int | None
    answers: list[ChangeSetAnswer]
    role_ids: list[str]
    plan: list[PlannedInstance]
    directory: DirectoryChanges | None
    commit: str | None
    plan_digest: str | None = None
    follows: str | None = None
    waiting_for: str | None = None
    stale: list[str] | None = None


class ChangeSetItem(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A change set. `instances` is their number; `needed` is how many have to approve."""

    id: str
    act: str
    status: str
    comment: str
    owner_id: str
    owner_email: str
    on_failure: str
    instances: int
    needed: int
    confirm: bool
    created_at: int
    expires_at: int
    applied_by: str | None
    applied_at: int | None
    finished_at: int | None


class ChangePolicyBody(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """How many approve change sets, and the role that each needs, if any."""

    approvals: int = 0
    role_id: str | None = None
    plans_before_approval: bool = False


class NextFreeze(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A window that begins next."""

    reason: str
    begins_at: int | None
    until: int | None


class FreezeDocument(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The freeze of an environment or application, and the next one."""

    reason: str | None
    by_id: str | None
    by_email: str | None
    at: int | None
    until: int | None = None
    next: NextFreeze | None = None


class FreezeWindowBody(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A time in which nothing changes: one that returns, or days."""

    reason: str
    begins_at: str = ""
    ends_at: str = ""
    days: list[str] = []
    first_day: str = ""
    last_day: str = ""
    zone: str = "UTC"


class FreezeWindowsBody(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """When nothing changes, again and again or on certain days."""

    windows: list[FreezeWindowBody] = []


class RulesDocument(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A version of rules."""

    version: int
    by_id: str | None
    by_email: str | None
    at: int | None
    rules: str


class RefusedChangeDocument(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A recent change that rules would have refused."""

    at: int
    by: str
    operation: str
    object: str
    outcome: Any
    sentence: str


class RecentCheckDocument(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """What rules would have said to recent changes, by the audit log. Objects and roles are as they are now."""

    changes: int
    refused: list[RefusedChangeDocument]
    warned: int
    unchecked: list[str]
    missing: str | None


class RulesSaved(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The version in force, and what rules would have said to recent changes."""

    version: int
    saved: bool
    recent: RecentCheckDocument


class RulesVersion(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Who wrote a version of rules, and when."""

    version: int
    by_id: str | None
    by_email: str | None
    at: int | None


class StageBody(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """An environment of an order, with its gates. The first one has none."""

    environment_id: str
    soak: int = 0
    workflows: list[str] = []
    approvals: int = 0
    automatic: bool = False


class OrderDocument(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The order in force."""

    stages: list[StageBody]
    own: bool
    by_email: str | None
    at: int | None


class DifferenceDocument(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """What differs from the environment before. Values aren't shown: only names."""

    manifest: ManifestDifference | None
    parameters: list[str]
    properties: list[str]
    policies: list[str]
    markers: list[str]


class GateDocument(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A condition of a promotion."""

    kind: str
    open: bool
    sentence: str
    opens_at: int | None


class PlacedDocument(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """An instance that the caller may read, with its version."""

    id: str
    name: str
    status: str
    version: int
    revision: str | None
    since: int | None
    by_email: str | None
    change_set_id: str | None


class BoardColumnDocument(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """One environment. Of one that the caller may not read, there is only the ID."""

    environment_id: str
    name: str | None
    version: int | None
    candidate: int | None
    open: bool
    gates: list[GateDocument]
    change_set_id: str | None
    change_set_status: str | None
    message: str | None
    differences: DifferenceDocument | None
    instances: list[PlacedDocument]
    more_instances: int


class BoardDocument(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Which version of an application is in which environment."""

    application_id: str
    own: bool
    environments: list[BoardColumnDocument]


class PromotionDocument(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The change set of a promotion."""

    version: int
    is_new: bool
    change_set: ChangeSetDocument


class CheckDocument(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """One check of the history."""

    at: int
    new: int
    ignored: int
    unchecked: int
    baseline: bool
    problem: str


class FindingDocument(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """How one address differs. Secrets are masked. Times are in milliseconds since the Unix epoch. `from` is what
    the instance is described as, and `to` what was found: the attributes that differ.
    """

    id: str
    state: str
    kind: str
    address: str
    component: str
    step: str
    from_: dict[str, Any] = msgspec.field(name="from")
    to: dict[str, Any]
    note: str
    first_seen: int
    last_seen: int
    reason: str
    until: int | None
    by_email: str
    change_set_id: str | None
    remedy: str


class InstanceScheduleDocument(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A schedule of an instance, and where it comes from."""

    cron: str | None
    zone: str
    jitter: int
    next_at: int | None
    owner_email: str
    problem: str | None
    paused: bool
    mail: bool
    from_manifest: bool
    source: str
    replaced: bool


class Unchecked(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A step about which the plan says nothing, and why."""

    step: str
    note: str


class DriftDocument(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """How an instance differs from what it is described as. Times are in milliseconds since the Unix epoch. The
    findings are as of `checkedAt`. With a `problem`, the last check found nothing out.
    """

    instance_id: str
    status: str
    ahead: int
    counts: dict[str, Any]
    checked_at: int | None
    baseline_at: int | None
    problem: str | None
    problem_at: int | None
    unchecked: list[Unchecked]
    findings: list[FindingDocument]
    checks: list[CheckDocument]
    put_back: str | None
    schedules: list[InstanceScheduleDocument]


class DriftedDocument(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """An instance with findings, or whose last check failed."""

    id: str
    name: str
    status: str
    counts: dict[str, Any]
    checked_at: int | None
    problem: str | None


class MadeDocument(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A change set that was made."""

    change_set_id: str


class DriftScheduleDocument(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """When instances are checked. `nextAt` is the next time without jitter, in milliseconds since the Unix epoch."""

    cron: str | None
    zone: str
    jitter: int
    next_at: int | None
    owner_email: str
    problem: str | None
    paused: bool
    mail: bool
    from_manifest: bool


class PutBackRuleDocument(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """What is put back without anybody."""

    addresses: list[str]
    allow_deletes: list[str]
    most_per_day: int
    owner_email: str
    problem: str | None


class AdoptedHostDocument(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A host that a component has adopted."""

    component: str
    role: str
    address: str
    login: str


class AdoptedReleaseDocument(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A release of Helm that a component has adopted, as it was then."""

    component: str
    release: str
    namespace: str
    chart: str
    app_version: str
    revision: int
    resources: list[str]
    resource_count: int
    other_values: dict[str, Any]
    other_value_count: int


class AdoptedStateDocument(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A state that a component has adopted."""

    component: str
    name: str
    lineage: str
    resources: list[str]
    resource_count: int


class AdoptDocument(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The adopted instance. With `dryRun`, its ID is null."""

    instance_id: str | None
    name: str
    environment_id: str
    version: int
    states: list[AdoptedStateDocument]
    releases: list[AdoptedReleaseDocument]
    hosts: list[AdoptedHostDocument]
    left_out: list[str]


class HostsBody(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A component that adopts the hosts of its steps provisionVms."""

    component: str


class ReleaseBody(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A component that adopts its release of Helm."""

    component: str
    release: str | None = None
    namespace: str | None = None


class StateBody(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A state of OpenTofu or Terraform, and the component that it belongs to."""

    component: str
    state: str
    name: str | None = None


class AdoptionDocument(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """What an instance has adopted. Without states, releases and hosts, Launchbay has launched it."""

    instance_id: str
    managed: str
    states: list[AdoptedStateDocument]
    releases: list[AdoptedReleaseDocument]
    hosts: list[AdoptedHostDocument]
    adopted_at: int | None
    adopted_by: str | None


class ImpactValue(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The value of a pin before and after; null if unset."""

    name: str
    from_: Any = msgspec.field(name="from")
    to: Any


class ImpactComponent(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A component that would start, change or stop, and the pins that would change."""

    path: str
    change: str
    parameters: list[str]
    values: list[ImpactValue]


class ImpactInstance(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """An instance of a group."""

    id: str
    name: str


class ImpactSetting(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Something that would change, with the component that uses it."""

    kind: str
    name: str
    component: str | None
    from_: Any = msgspec.field(name="from")
    to: Any


class ImpactItem(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Instances with the same outcome: how many, and the first 20."""

    outcome: str
    application_id: str
    from_version: int
    count: int
    components: list[ImpactComponent]
    workflows: list[str]
    code: list[CodeChange]
    settings: list[ImpactSetting]
    errors: list[str]
    instances: list[ImpactInstance]


class ImpactDocument(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """How many instances would fail, change or keep what they have."""

    version: int | None
    present: int
    fails: int
    changes: int
    keeps: int
    warnings: list[str]
    groups: list[ImpactItem]


class RolloutCounts(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """How many instances have each status."""

    waiting: int
    running: int
    unchecked: int
    checking: int
    succeeded: int
    failed: int
    refused: int
    returning: int
    returned: int
    lost: int
    skipped: int


class RolloutDocument(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A rollout. `waves` are numbers of instances, `wave` is the present one."""

    id: str
    application_id: str
    version: int
    status: str
    counts: RolloutCounts
    waves: list[int]
    wave: int
    wave_done_at: int | None
    pause: int | None
    health_workflow: str | None
    max_parallel: int
    stop_after_failures: int
    on_failure: str
    comment: str
    owner_id: str
    created_at: int
    finished_at: int | None
    waiting_for: str | None = None
    message: str | None = None


class RolloutInstance(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """An instance of a rollout. `generation` is the one that it goes back to."""

    id: str
    wave: int
    instance_id: str
    instance_name: str
    former_version: int
    generation: int | None
    status: str
    job_id: str | None
    message: str | None
    started_at: int | None
    finished_at: int | None


class GivenAnswer(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The answer of one user; `at` is in milliseconds since the Unix epoch."""

    user_id: str
    email: str
    approves: bool
    comment: str
    at: int


class Approval(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """An approval. `who` describes the approvers; programs read `permission` or `role`, null if the role was
    deleted. Times are in milliseconds since the Unix epoch; after `expiresAt` the step fails.
    """

    id: str
    status: Any
    text: str
    who: str
    permission: str | None
    role: str | None
    needed: int
    answers: list[GivenAnswer]
    requesters: list[str]
    not_by_requester: bool
    instance_id: str
    instance_name: str
    application_id: str
    environment_id: str
    job_id: str
    workflow: str
    step: str
    created_at: int
    expires_at: int
    decided_at: int | None
    instance_ends_at: int | None = None


class LogLine(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A log line. Pass `id` as `after`; `at` is in milliseconds since the epoch. `step` is the step's path. `stream`
    is `stdout` or `stderr` for the output of a program, otherwise `system`.
    """

    at: int
    attempt: int | None
    component: str | None
    id: int
    job: str
    level: str
    step: str | None
    stream: str
    text: str


class AuditToken(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The access token that acted."""

    id: str
    name: str


class AuditActor(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The account, how it signed in, and with which access token, if any."""

    id: str
    email: str
    method: str
    token: AuditToken | None = None
    name: str | None = None


class AuditChange(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """One field that the change has set. `field` has dots for nested fields."""

    field: str
    before: Any
    after: Any


class AuditEntryShape(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """An entry as the documentation describes it."""

    id: str
    at: int
    actor: AuditActor
    address: str
    operation: str
    object: str
    before: dict[str, Any] | None
    after: dict[str, Any] | None
    names: dict[str, Any]
    changes: list[AuditChange]


class Usage(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The quota `id`. Without `allowed`, the organization may use any amount."""

    id: str
    used: int
    allowed: int | None


class AudiencesBody(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """For whom steps in an environment may get tokens."""

    audiences: list[str]


class IssuerDocument(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The metadata of an issuer (OpenID Connect Discovery)."""

    issuer: str
    jwks_uri: str
    response_types_supported: list[str]
    subject_types_supported: list[str]
    id_token_signing_alg_values_supported: list[str]


class KeySetDocument(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Public keys (RFC 7517)."""

    keys: list[dict[str, Any]]


class Webhook(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A webhook. `url` shows only the host; times are in milliseconds since the Unix epoch."""

    id: str
    url: str
    events: list[str]
    enabled: bool
    disabled_reason: str | None
    failing_since: int | None
    created_at: int
    format: str


class CreatedWebhook(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The ID of a new webhook, and its secret if generated, shown once."""

    id: str
    secret: str | None = None


class Delivery(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A delivery; `nextAt` is set while it is pending, `lastStatus` after the receiver responded. `joinedTo` is the
    delivery of a chat's message that counts this equal failure.
    """

    id: str
    event: str
    status: Any
    attempts: int
    created_at: int
    next_at: int | None
    finished_at: int | None
    last_status: int | None
    last_error: str | None
    joined_to: str | None


class SentDelivery(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A delivery with the event that is sent, secrets masked."""

    id: str
    event: str
    status: Any
    attempts: int
    created_at: int
    next_at: int | None
    finished_at: int | None
    last_status: int | None
    last_error: str | None
    joined_to: str | None
    body: dict[str, Any]


class SentTest(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The delivery of a test."""

    delivery: str


class Retried(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """How many deliveries are sent again."""

    deliveries: int


class HostKey(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A pinned key. `id` is the host's address and port; times are in milliseconds since the Unix epoch."""

    id: str
    algorithm: str
    fingerprint: str
    pinned_at: int


class TokenItem(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A refresh token, never its value. Times are milliseconds since the Unix epoch."""

    id: str
    label: str
    created_at: int
    expires_at: int
    last_used_at: int | None


class InvitationItem(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """An organization that you can join, with the roles that it offers."""

    id: str
    organization_id: str
    organization_name: str
    roles: list[str]
    created_at: int
    expires_at: int


class JoinedOrganization(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The ID of the organization."""

    id: str


class SessionToken(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A session token, valid for `expiresIn` seconds."""

    jwt_bearer: str
    expires_in: int


class SecondFactor(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A second factor: `totp` or `passkey`. Times are in milliseconds."""

    id: str
    kind: str
    name: str
    created_at: int
    last_used_at: int | None


class Health(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The state of this process."""

    status: str
    dispatch: Any = None
