"""What surrounds every page: the side navigation, and the appearance that somebody chose."""

from typing import NamedTuple

from launchbay.auth.cookies import sent_cookie

# The first choice is the default.
CHOICES = {
    "theme": ("auto", "light", "dark"),
    "density": ("comfortable", "compact"),
    "keys": ("on", "off"),  # shortcuts of a single key (WCAG 2.1.4)
}


class Appearance(NamedTuple):
    """One choice of each kind."""

    theme: str = "auto"
    density: str = "comfortable"
    keys: str = "on"


def cookie_name(kind: str) -> str:
    return f"launchbay_{kind}"


def chosen(kind: str, value: str) -> str:
    """Return the choice, or the default if there is no such choice."""
    return value if value in CHOICES[kind] else CHOICES[kind][0]


def read_appearance(cookies: str, *, secure: bool) -> Appearance:
    """Return the choices in the cookies of a request."""
    return Appearance(*(chosen(kind, sent_cookie(cookies, cookie_name(kind), secure=secure)) for kind in CHOICES))


class NavigationEntry(NamedTuple):
    """An entry; `key` ends its path, and is the section of its pages."""

    key: str
    label: str
    icon: str
    shortcut: str  # the key after G
    also: tuple[str, ...] = ()  # sections of other pages that belong here


class Group(NamedTuple):
    """A group of entries. The first group has no title."""

    title: str
    entries: tuple[NavigationEntry, ...]


NAVIGATION = (
    Group("", (NavigationEntry("", "Overview", "home", "o"), NavigationEntry("approvals", "Approvals", "check", "a"))),
    Group(
        "Operate",
        (
            NavigationEntry("instances", "Instances", "inst", "i"),
            NavigationEntry("runs", "Runs", "runs", "r"),
            NavigationEntry("schedules", "Schedules", "clock", "s"),
        ),
    ),
    Group(
        "Build",
        (
            NavigationEntry("applications", "Applications", "app", "p"),
            NavigationEntry("environments", "Environments", "env", "e"),
            NavigationEntry("services", "Services", "svc", "v"),
        ),
    ),
    Group(
        "Govern",
        (
            NavigationEntry("audit", "Audit log", "act", "l"),
            NavigationEntry("users", "Access", "users", "u", ("roles", "serviceAccounts")),
            NavigationEntry("webhooks", "Webhooks", "hook", "w"),
        ),
    ),
)
# The tabs of Access: key and label.
ACCESS_TABS = (("users", "Users"), ("roles", "Roles"), ("serviceAccounts", "Service accounts"))


class Guide(NamedTuple):
    """A page of the documentation, below `/docs/`, and the words of a link to it."""

    page: str
    label: str


# The pages of the documentation that the console leads to, by topic. Only this table has their addresses.
GUIDES = {
    "start": Guide("index", "Documentation"),
    "tour": Guide("get-started/tour", "Tour of the console"),
    "tutorial": Guide("get-started/tutorial", "Tutorial"),
    "troubleshooting": Guide("troubleshooting", "Troubleshooting"),
    "approvals": Guide("cookbook/ask-for-approval", "Ask for approval"),
    "recipes": Guide("cookbook/index", "Recipes"),
    "manifest": Guide("reference/manifest/index", "Manifest reference"),
    "workflows": Guide("reference/manifest/workflows", "Workflows"),
    "components": Guide("reference/manifest/components", "Components"),
    "signals": Guide("reference/manifest/bindings", "Bindings and signals"),
    "parameters": Guide("reference/manifest/pins-and-types", "Parameters and types"),
    "environments": Guide("reference/manifest/environments", "Environments"),
    "revisions": Guide("reference/glossary", "What is a revision?"),
    "services": Guide("reference/services", "Types of services"),
    "vault": Guide("reference/services#credentials-service-builtincobalt_secure_store", "Credentials service"),
    "catalog": Guide("reference/services#shared-instances-catalog-builtinshared_instances_catalog", "Shared instances"),
    "permissions": Guide("reference/permissions", "Permissions"),
    "quotas": Guide("reference/settings#quotas", "Quotas"),
    "rules": Guide("howto/rules", "Write rules"),
    "freezes": Guide("howto/stop-the-line", "How freezes work"),
    "lifetimes": Guide("howto/lifetimes", "How lifetimes work"),
    "sleep": Guide("howto/sleep", "How sleep works"),
    "limits": Guide("howto/limit-jobs", "How limits work"),
    "identity": Guide("howto/identity", "How tokens of jobs work"),
    "scim": Guide("howto/scim", "How SCIM works"),
    "change-safely": Guide("howto/change-safely", "Change safely"),
    "promotion": Guide("howto/promote", "Promote versions"),
    "jobs": Guide("get-started/concepts#the-path-of-a-job", "How a job runs"),
    "bulk": Guide("howto/repair-many", "Repair many instances"),
    "history": Guide("howto/see-the-past", "See the past"),
    "schedules": Guide("howto/recurring-schedules", "Recurring schedules"),
    "git": Guide("howto/git", "Follow a repository"),
    "webhooks": Guide("howto/webhooks", "Use webhooks"),
    "secrets": Guide("howto/secrets", "Use secrets"),
    "tokens": Guide("howto/automation-tokens", "Tokens for programs"),
    "second-factors": Guide("howto/second-factors", "Second factors"),
    "move": Guide("howto/move-an-organization", "Move an organization"),
}
# What the pages of a section are about. Others are about the tour.
TOPICS = {
    "approvals": "approvals",
    "runs": "troubleshooting",
    "schedules": "schedules",
    "applications": "recipes",
    "environments": "environments",
    "services": "services",
    "audit": "history",
    "users": "permissions",
    "roles": "permissions",
    "serviceAccounts": "tokens",
    "webhooks": "webhooks",
    "usage": "quotas",
}
# What a page is about that differs from its section, by its template.
_OWN_TOPICS = {
    "access_tokens.html": "tokens",
    "account.html": "second-factors",
    "second_factor.html": "second-factors",
    "applications.html": "tutorial",
    "bulk/templates/bulk.html": "bulk",
    "bulk/templates/bulk_new.html": "bulk",
    "bulk/templates/bulk_runs.html": "bulk",
    "change_rules/templates/change_rules.html": "rules",
    "change_sets/templates/change_set.html": "change-safely",
    "change_sets/templates/change_sets.html": "change-safely",
    "configuration.html": "parameters",
    "generations/templates/generation.html": "change-safely",
    "git_sources/templates/git_source.html": "git",
    "git_sources/templates/git_source_form.html": "git",
    "git_sources/templates/git_sources.html": "git",
    "instance_components.html": "components",
    "instance_end.html": "lifetimes",
    "instance_run.html": "workflows",
    "instance_schedules.html": "schedules",
    "instance_activity.html": "history",
    "instance_settings.html": "lifetimes",
    "instance_signals.html": "signals",
    "launch.html": "parameters",
    "manifest.html": "manifest",
    "organizations.html": "move",
    "revision.html": "revisions",
    "revisions.html": "revisions",
    "promotion/templates/promotion.html": "promotion",
    "rollouts/templates/rollout.html": "change-safely",
    "rollouts/templates/rollout_new.html": "change-safely",
    "rollouts/templates/rollouts.html": "change-safely",
    "secrets.html": "secrets",
    "start.html": "tutorial",
    "versions.html": "change-safely",
}


def guide_to(template: str, section: str) -> Guide:
    """Return the page of the documentation about a page of the console."""
    return GUIDES[_OWN_TOPICS.get(template) or TOPICS.get(section, "tour")]


# What the dialog of shortcuts lists: a title, with descriptions and keys. frontend/source/keys.js obeys them.
SHORTCUTS = (
    (
        "Anywhere",
        (
            ("Search or run a command", "Ctrl K"),
            ("Focus the filter", "/"),
            ("Keyboard shortcuts", "?"),
            ("Switch the theme", "T"),
            ("Switch the density", "D"),
        ),
    ),
    (
        "Go to",
        tuple((entry.label, f"G {entry.shortcut.upper()}") for group in NAVIGATION for entry in group.entries),
    ),
    (
        "Lists",
        (
            ("Next, previous row", "J K"),
            ("Open", "Enter"),
            ("Select", "X"),
            ("Select up to here", "Shift X"),
            ("Clear the selection", "Esc"),
        ),
    ),
    ("Run", (("Resume", "R"), ("Cancel", "C"), ("Compare with the last success", "V"))),
    (
        "Log",
        (
            ("Next, previous failure", "N P"),
            ("Fold or unfold all steps", "F"),
            ("Wrap lines", "Z"),
            ("Follow the end", "End"),
        ),
    ),
    ("Tabs", (("Next, previous tab", "] ["),)),
    ("Instance", (("Run a workflow", "W"), ("Resume the last run", "R"))),
    (
        "Graph",
        (
            ("Move along the bindings", "← ↑ → ↓"),
            ("Zoom", "+ −"),
            ("Show everything", "0"),
            ("Back to the whole graph", "Esc"),
        ),
    ),
)
