"""The pages of the console and their pictures. `python -m tests.support.screenshots` takes the pictures again."""

from typing import NamedTuple

FOLDER = "images/console"


class Shown(NamedTuple):
    """A page: the name of its picture, its path in the console's routes, its heading, and its purpose."""

    name: str
    path: str
    heading: str
    sentence: str
    former: str = ""  # the address of a heading that it had


GALLERY = (
    Shown(
        "sign-in",
        "/console/signIn",
        "Sign in",
        "By password, or through the identity provider if one is configured. It says if your session ended, and whether"
        " the form that you sent was saved.",
    ),
    Shown(
        "organizations",
        "/console/organizations",
        "Organizations",
        "The organizations that you belong to. If you belong to only one, its page opens instead.",
    ),
    Shown(
        "organization",
        "/console/organizations/{id}",
        "Overview",
        "What is broken and why, what waits for you, what runs, and what expires.",
    ),
    Shown(
        "start",
        "/console/organizations/{id}/start",
        "The first start",
        "Three steps to the first running application: a sample, a machine, a repository, or an empty manifest.",
    ),
    Shown(
        "applications",
        "/console/organizations/{id}/applications",
        "Applications",
        "Each application links to its page, its manifest, and its launch form.",
    ),
    Shown(
        "application",
        "/console/applications/{id}",
        "An application",
        "The graph of its components, and its instances; versions, revisions and settings are tabs.",
    ),
    Shown(
        "version",
        "/console/applications/{id}/versions/{version}",
        "A version",
        "What a version changed, by meaning and by line. Launch it, or restore it as the newest.",
    ),
    Shown(
        "application-revisions",
        "/console/applications/{id}/revisions",
        "Revisions",
        "Versions with parameters under a name, to launch from.",
    ),
    Shown(
        "revision",
        "/console/revisions/{id}",
        "A revision",
        "Its version, environment and parameters. Shows what a change means for the instances that have it.",
    ),
    Shown(
        "revision-new",
        "/console/applications/{id}/revisions/new",
        "A new revision",
        "The same form: a version, and the fields of its parameters.",
    ),
    Shown(
        "delete-revision",
        "/console/revisions/{id}/delete",
        "Delete a revision",
        "Asks first. Instances that were launched from it stay.",
    ),
    Shown(
        "application-settings",
        "/console/applications/{id}/settings",
        "Settings of an application",
        "Lifetimes, limits of runs, what happens after a failure, its Git source and webhooks, name and deletion.",
    ),
    Shown(
        "versions",
        "/console/applications/{id}/versions",
        "Versions",
        "What a version changes against another one. Launch it, or restore it as the newest.",
    ),
    Shown(
        "manifest",
        "/console/applications/{id}/manifest",
        "The manifest editor",
        "Errors and warnings appear at their lines while you type. Ctrl-Space requests completion.",
    ),
    Shown(
        "launch",
        "/console/applications/{id}/launch",
        "The launch form",
        "One field per parameter of the manifest, with what would start and how long that usually takes.",
    ),
    Shown(
        "delete-application",
        "/console/applications/{id}/delete",
        "Delete an application",
        "Permanent deletions ask for confirmation.",
    ),
    Shown(
        "instances",
        "/console/organizations/{id}/instances",
        "Instances",
        "Found by a query or facets, sorted, exported, and selected for one act on all of them. Each row has a menu.",
    ),
    Shown(
        "bulk-new",
        "/console/organizations/{id}/bulk/new",
        "An act on many instances",
        "What it does, how fast, and which instances refuse it; labels before and after.",
    ),
    Shown(
        "bulk-runs",
        "/console/organizations/{id}/bulk",
        "Bulk runs",
        "Acts on many instances, with their progress.",
    ),
    Shown(
        "bulk",
        "/console/organizations/{id}/bulk/{bulk}",
        "A bulk run",
        "Progress, the result of each instance, and the reasons of failures. Pause, continue, or cancel the rest.",
    ),
    Shown(
        "instance",
        "/console/instances/{id}",
        "An instance",
        "Status, workflows, return values, jobs, graphs, schedules, user data, and log. Updates automatically.",
    ),
    Shown(
        "instance-run",
        "/console/instances/{id}/run",
        "Run a workflow",
        "One form per workflow: run it now, or in some minutes.",
    ),
    Shown(
        "generation",
        "/console/instances/{id}/generations/{number}",
        "A generation of an instance",
        "An earlier configuration, what differs from the present one, and what going back does.",
    ),
    Shown(
        "drift",
        "/console/instances/{id}/drift",
        "Drift of an instance",
        "What somebody changed without Launchbay: as it is described, and as a check found it.",
    ),
    Shown(
        "instance-signals",
        "/console/instances/{id}/signals",
        "Signals of an instance",
        "What each component publishes, its present value with secrets masked, and who reads it.",
    ),
    Shown(
        "instance-schedules",
        "/console/instances/{id}/schedules",
        "Schedules of an instance",
        "What runs by itself, and when. Move or pause it.",
    ),
    Shown(
        "instance-activity",
        "/console/instances/{id}/activity",
        "Activity of an instance",
        "What people and programs did with it.",
    ),
    Shown(
        "instance-settings",
        "/console/instances/{id}/settings",
        "Settings of an instance",
        "Labels, expiry, offers as a service, notes, and its end.",
    ),
    Shown(
        "components",
        "/console/instances/{id}/components",
        "Components of an instance",
        "The components with their bindings and states, as a graph or as a list, folded by composite and Scaler.",
    ),
    Shown(
        "job",
        "/console/instances/{id}/jobs/{job}",
        "A run",
        "What happened and why, a timeline, what each step was sent, and the log. Resume with other parameters.",
    ),
    Shown(
        "runs",
        "/console/organizations/{id}/runs",
        "Runs",
        "What ran and runs on all instances, filtered by status, workflow, person, time and duration.",
    ),
    Shown(
        "compare",
        "/console/instances/{id}/jobs/{job}/compare/{other}",
        "Two runs compared",
        "Steps side by side with durations, statuses, inputs and outputs, and what else differs.",
    ),
    Shown(
        "instance-runs",
        "/console/instances/{id}/runs",
        "Runs of an instance",
        "The same list, of one instance. Select two runs to compare them.",
    ),
    Shown(
        "configuration",
        "/console/instances/{id}/configuration",
        "Reconfigure",
        "The page shows the difference before you apply it.",
    ),
    Shown(
        "end",
        "/console/instances/{id}/end",
        "Destroy or delete an instance",
        "Names the instances that use it before anything happens.",
    ),
    Shown(
        "schedules",
        "/console/organizations/{id}/schedules",
        "Schedules",
        "What runs by schedule and what expires, as a month or a list.",
    ),
    Shown(
        "approvals",
        "/console/organizations/{id}/approvals",
        "Approvals",
        "Questions for you, asked by you, all open ones, and the decided ones.",
    ),
    Shown(
        "promotion",
        "/console/applications/{id}/promotion",
        "Promotion",
        "Which version is in which environment, which gates are in front of the next one, and what differs.",
    ),
    Shown(
        "rollouts",
        "/console/applications/{id}/rollouts",
        "Rollouts",
        "Versions that went to many instances in waves, with their states.",
        former="roll-outs",
    ),
    Shown(
        "rollout-new",
        "/console/applications/{id}/rollouts/new",
        "A new rollout",
        "Which instances, waves and their pause, the check of health, and what happens after failures.",
        former="a-new-roll-out",
    ),
    Shown(
        "rollout",
        "/console/applications/{id}/rollouts/{rollout}",
        "A rollout",
        "Waves and the outcome of each instance, live. Stop it, continue it, or take it back.",
        former="a-roll-out",
    ),
    Shown(
        "recurring-schedules",
        "/console/organizations/{id}/recurring",
        "Recurring schedules",
        "What people repeat: next times, last results, pause and resume.",
    ),
    Shown(
        "recurring-new",
        "/console/organizations/{id}/recurring/new",
        "A new recurring schedule",
        "A workflow, launches or many instances at the times of a cron expression. The next times follow it.",
    ),
    Shown(
        "recurring",
        "/console/organizations/{id}/recurring/{recurring}",
        "A recurring schedule",
        "Its next times, its last results, and the form to change it.",
    ),
    Shown(
        "delete-recurring",
        "/console/organizations/{id}/recurring/{recurring}/delete",
        "Delete a recurring schedule",
        "Asks first. What the schedule has begun continues.",
    ),
    Shown(
        "change-sets",
        "/console/organizations/{id}/changes",
        "Change sets",
        "Changes that are kept, approved and applied later, with their states.",
    ),
    Shown(
        "change-set",
        "/console/organizations/{id}/changes/{change}",
        "A change set",
        "What it does to each instance, what it uses, who approves it, and how the result compares.",
    ),
    Shown(
        "delete-change-set",
        "/console/organizations/{id}/changes/{change}/delete",
        "Delete a change set",
        "Asks first. What the change set has applied stays.",
    ),
    Shown(
        "environments",
        "/console/organizations/{id}/environments",
        "Environments",
        "Their instances, what each gives, and where they differ.",
    ),
    Shown(
        "environment",
        "/console/environments/{id}",
        "An environment",
        "Policies, markers, properties, services, and the instances that it offers as services.",
    ),
    Shown(
        "environment-settings",
        "/console/environments/{id}/settings",
        "Settings of an environment",
        "Lifetimes, limits of runs, name, copy and deletion.",
    ),
    Shown(
        "delete-environment",
        "/console/environments/{id}/delete",
        "Delete an environment",
        "Deletes the environment's policies, markers, and properties. Keeps the services.",
    ),
    Shown(
        "services",
        "/console/organizations/{id}/services",
        "Services",
        "The services, where they are offered and who uses them, and the pinned keys of hosts.",
    ),
    Shown(
        "service",
        "/console/services/{id}",
        "A service: a pool",
        "Its resources with their holders, the instances that use it, its configuration and its commands.",
    ),
    Shown(
        "service-vault",
        "/console/services/{id}",
        "A vault",
        "Its secrets, masked, and its key pairs; who revealed what, and the forms to change it.",
    ),
    Shown(
        "service-cloud",
        "/console/services/{id}",
        "A cloud account",
        "Signs in to each region on request. Instances with machines, and the configuration.",
    ),
    Shown(
        "service-catalog",
        "/console/services/{id}",
        "A catalog of shared instances",
        "Running instances that launches use instead of a submodule of their own.",
    ),
    Shown(
        "service-secrets",
        "/console/services/{id}/secrets",
        "Secrets of a service",
        "Its masked parameters. To reveal one takes a permission and a reason, which the audit log keeps.",
    ),
    Shown(
        "instance-secrets",
        "/console/instances/{id}/secrets",
        "Secrets of an instance",
        "Its masked parameters and return values, revealed in the same way.",
    ),
    Shown(
        "roles",
        "/console/organizations/{id}/roles",
        "Roles",
        "The roles with their holders, who may do what, and a form that explains why an operation is allowed or not."
        " Groups of the identity provider have roles here too.",
    ),
    Shown(
        "role",
        "/console/roles/{id}",
        "A role",
        "Its text, who gains and loses what when you save it, and who holds it.",
    ),
    Shown(
        "users",
        "/console/organizations/{id}/users",
        "Users",
        "How they sign in and when they were last seen. A new user gets a password, or an invitation link.",
    ),
    Shown(
        "user",
        "/console/organizations/{id}/users/{user}",
        "A user",
        "Roles, what they allow in each environment, and sign-in. Disable the account, or remove the user.",
    ),
    Shown(
        "git-sources",
        "/console/organizations/{id}/git-sources",
        "Git sources",
        "Which branches applications and directories follow, and the commits that were applied.",
    ),
    Shown(
        "git-source-new",
        "/console/organizations/{id}/git-sources/new",
        "A new Git source",
        "Repository and branch, what its commits change and as whom, credential, and forge.",
    ),
    Shown(
        "git-source-settings",
        "/console/organizations/{id}/git-sources/{source}/settings",
        "Settings of a Git source",
        "The same form, for a source that exists.",
    ),
    Shown(
        "delete-git-source",
        "/console/organizations/{id}/git-sources/{source}/delete",
        "Delete a Git source",
        "Asks first. What it applied stays.",
    ),
    Shown(
        "git-source",
        "/console/organizations/{id}/git-sources/{source}",
        "A Git source",
        "Its commits, how the organization differs from them, and what came of each look at the branch.",
    ),
    Shown(
        "rules",
        "/console/organizations/{id}/change-rules",
        "Rules",
        "The rules about changes of an organization, and which applications and environments have their own.",
    ),
    Shown(
        "application-rules",
        "/console/applications/{id}/change-rules",
        "Rules of an application",
        "The same for an application.",
    ),
    Shown(
        "environment-rules",
        "/console/environments/{id}/change-rules",
        "Rules of an environment",
        "The text in force, what a version changed, and what a text would have refused of the last changes.",
    ),
    Shown(
        "webhooks",
        "/console/organizations/{id}/webhooks",
        "Webhooks",
        "Programs that Launchbay notifies about instances.",
    ),
    Shown(
        "webhook",
        "/console/organizations/{id}/webhooks/{webhook}",
        "A webhook",
        "Its deliveries and what each sent. Send a test, or failed deliveries again.",
    ),
    Shown(
        "audit",
        "/console/organizations/{id}/audit",
        "Audit log",
        "Who did what and when, with what it changed, by day. The query has terms for the person (`by`), the object "
        "(`on`), the kind of change (`did`) and the time (`since`, `until`).",
        former="activity",
    ),
    Shown(
        "activity-entry",
        "/console/organizations/{id}/audit/{entry}",
        "An entry of the audit log",
        "What was before and after, from where it was done, and the run that it began.",
        former="an-entry-of-the-activity",
    ),
    Shown(
        "usage",
        "/console/organizations/{id}/usage",
        "Organization settings",
        "What the organization uses of its quotas, name, sign-in policy, export and import.",
    ),
    Shown(
        "account", "/console/account", "Your account", "How you sign in, your open sessions, and your refresh tokens."
    ),
    Shown(
        "access-tokens",
        "/console/account/accessTokens",
        "Your access tokens",
        "Tokens with an end and with permissions of their own, for programs.",
    ),
    Shown(
        "service-accounts",
        "/console/organizations/{id}/serviceAccounts",
        "Service accounts",
        "Accounts of programs. They sign in with access tokens only.",
    ),
    Shown(
        "service-account",
        "/console/organizations/{id}/serviceAccounts/{account}",
        "A service account",
        "Its roles and its access tokens.",
    ),
    Shown(
        "refresh-token",
        "/refreshToken",
        "A new refresh token",
        "For programs. The page asks for your password again and shows the token once.",
    ),
    Shown(
        "refusal", "/console/{anything}", "An error page", "The problem, and the request ID to search for in the log."
    ),
)


def file_name(shown: Shown) -> str:
    """Return the name of the picture of a page."""
    return f"{shown.name}.png"


def _section(shown: Shown) -> str:
    former = f'<a id="{shown.former}"></a>' if shown.former else ""
    picture = f"![{shown.heading}](../{FOLDER}/{file_name(shown)})"
    return f"## {shown.heading}\n\n{former}{shown.sentence}\n\n{picture}\n"


def console_pages() -> str:
    """Return the sections of the reference page."""
    return "\n".join(_section(shown) for shown in GALLERY)
