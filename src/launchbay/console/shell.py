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


class Entry(NamedTuple):
    """An entry; `key` ends its path, and is the section of its pages."""

    key: str
    label: str
    icon: str
    shortcut: str  # the key after G
    also: tuple[str, ...] = ()  # sections of other pages that belong here


class Group(NamedTuple):
    """A group of entries. The first group has no title."""

    title: str
    entries: tuple[Entry, ...]


NAVIGATION = (
    Group("", (Entry("", "Overview", "home", "o"), Entry("approvals", "Approvals", "check", "a"))),
    Group(
        "Operate",
        (
            Entry("instances", "Instances", "inst", "i"),
            Entry("runs", "Runs", "runs", "r"),
            Entry("schedules", "Schedules", "clock", "s"),
        ),
    ),
    Group(
        "Build",
        (
            Entry("applications", "Applications", "app", "p"),
            Entry("environments", "Environments", "env", "e"),
            Entry("services", "Services", "svc", "v"),
        ),
    ),
    Group(
        "Govern",
        (
            Entry("audit", "Activity", "act", "l"),
            Entry("users", "Access", "users", "u", ("roles", "serviceAccounts")),
            Entry("webhooks", "Webhooks", "hook", "w"),
        ),
    ),
)
# The tabs of Access: key and label.
ACCESS_TABS = (("users", "Users"), ("roles", "Roles"), ("serviceAccounts", "Service accounts"))
# Section → page of the documentation that answers the next question there. Others lead to its start.
DOCUMENTATION = {
    "": "get-started/tour",
    "approvals": "cookbook/ask-for-approval",
    "instances": "get-started/tour",
    "runs": "troubleshooting",
    "schedules": "howto/recurring-schedules",
    "applications": "cookbook/index",
    "environments": "reference/manifest/environments",
    "services": "reference/services",
    "audit": "howto/see-the-past",
    "users": "reference/permissions",
    "roles": "reference/permissions",
    "serviceAccounts": "howto/automation-tokens",
    "webhooks": "howto/webhooks",
    "usage": "reference/settings#quotas",
}
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
            ("Leave, select nothing", "Esc"),
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
            ("Leave the component", "Esc"),
        ),
    ),
)
