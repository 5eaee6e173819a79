"""The pages of the console with their pictures. `python -m tests.browser.screenshots` takes the pictures anew."""

from typing import NamedTuple

FOLDER = "images/console"
SCHEMES = ("light", "dark")
WIDTHS = ("wide", "narrow")


class Shown(NamedTuple):
    """A page: the name of its pictures, its row in the console's table of pages, its heading, and what it is for."""

    name: str
    path: str
    heading: str
    sentence: str


GALLERY = (
    Shown("sign-in", "/console/signIn", "Sign in", "By password, or through the identity provider where there is one."),
    Shown(
        "organizations",
        "/console/organizations",
        "Organizations",
        "Those that you belong to. Who belongs to one alone begins on its page.",
    ),
    Shown(
        "organization",
        "/console/organizations/{id}",
        "An organization",
        "What failed, what was launched last, and what there is to launch.",
    ),
    Shown(
        "applications",
        "/console/organizations/{id}/applications",
        "Applications",
        "Each with its page, its manifest, and a launch.",
    ),
    Shown(
        "application",
        "/console/applications/{id}",
        "An application",
        "The graph of its components, its instances, revisions and manifest versions.",
    ),
    Shown(
        "manifest",
        "/console/applications/{id}/manifest",
        "The manifest editor",
        "Errors and warnings stand at their lines while the text is written; Ctrl-Space completes.",
    ),
    Shown(
        "launch",
        "/console/applications/{id}/launch",
        "The launch form",
        "Fields from the manifest's parameters, those of submodules in groups of their own, and a preview.",
    ),
    Shown(
        "delete-application",
        "/console/applications/{id}/delete",
        "Deleting an application",
        "What takes something away for good asks first.",
    ),
    Shown(
        "instances",
        "/console/organizations/{id}/instances",
        "Instances",
        "By name, status, application and environment.",
    ),
    Shown(
        "instance",
        "/console/instances/{id}",
        "An instance",
        "Status, workflows, return values, the job under way, graph, schedules, user data, log; it follows by itself.",
    ),
    Shown(
        "job",
        "/console/instances/{id}/jobs/{job}",
        "A job",
        "Its steps with attempts, times and outputs. One that failed goes on from its failed step.",
    ),
    Shown(
        "configuration",
        "/console/instances/{id}/configuration",
        "Reconfigure",
        "First the difference, then its application.",
    ),
    Shown(
        "end",
        "/console/instances/{id}/end",
        "Extend or destroy",
        "How long an instance lives, its destruction, and the deletion of its records.",
    ),
    Shown(
        "approvals",
        "/console/organizations/{id}/approvals",
        "Approvals",
        "What steps of workflows wait for people to approve.",
    ),
    Shown(
        "environments",
        "/console/organizations/{id}/environments",
        "Environments",
        "The default one takes the launches that name none.",
    ),
    Shown(
        "environment",
        "/console/environments/{id}",
        "An environment",
        "Policies, markers, properties, services, and the instances that it offers as services.",
    ),
    Shown(
        "delete-environment",
        "/console/environments/{id}/delete",
        "Deleting an environment",
        "Services stay; what belongs to the environment alone goes.",
    ),
    Shown(
        "services",
        "/console/organizations/{id}/services",
        "Services",
        "Of the types that are installed, each with the fields that it takes.",
    ),
    Shown("service", "/console/services/{id}", "A service", "Its parameters, with secrets covered, and its commands."),
    Shown(
        "roles",
        "/console/organizations/{id}/roles",
        "Roles",
        "And the question why something is allowed, or not.",
    ),
    Shown("role", "/console/roles/{id}", "A role", "Its text: each entry a permission with the paths it is for."),
    Shown(
        "users",
        "/console/organizations/{id}/users",
        "Users",
        "A new one gets a password, or an invitation link that is shown once.",
    ),
    Shown(
        "user",
        "/console/organizations/{id}/users/{user}",
        "A user",
        "The roles held here; disabling the account, and removal.",
    ),
    Shown(
        "webhooks",
        "/console/organizations/{id}/webhooks",
        "Webhooks",
        "Programs that are told what happens to instances.",
    ),
    Shown(
        "webhook",
        "/console/organizations/{id}/webhooks/{webhook}",
        "A webhook",
        "Its events, and the log of its deliveries.",
    ),
    Shown(
        "audit", "/console/organizations/{id}/audit", "The audit log", "Who did what, when, from where, and the change."
    ),
    Shown("account", "/console/account", "Your account", "Refresh tokens to revoke, and the password."),
    Shown(
        "refresh-token",
        "/refreshToken",
        "A new refresh token",
        "For programs; it asks for the password again, and shows the token once.",
    ),
    Shown("refusal", "/console/{anything}", "A refusal", "What was wrong, and the id by which the log tells more."),
)


def file_name(shown: Shown, scheme: str, width: str) -> str:
    """Return the name of a picture."""
    return f"{shown.name}-{scheme}-{width}.png"


def console_pages() -> str:
    """Return the sections of the page that shows them all."""
    lines: list[str] = []
    for shown in GALLERY:
        lines += [f"## {shown.heading}", "", shown.sentence, "", "| | wide | on a phone |", "|---|---|---|"]
        for scheme in SCHEMES:
            cells = [
                f"![{shown.heading}, {scheme}, {width}](../{FOLDER}/{file_name(shown, scheme, width)})"
                for width in WIDTHS
            ]
            lines.append(f"| {scheme} | {' | '.join(cells)} |")
        lines.append("")
    return "\n".join(lines)
