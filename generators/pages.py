"""Pages of the reference that follow from the code. What is written by hand in them stands above a mark, and stays."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from generators.api_page import api_pages, places_of_operations
from generators.cli_page import cli_pages
from generators.console_gallery import console_pages
from generators.limits_page import limits_table
from generators.words import ROOT, Schema, table_row
from launchbay.auth.permissions import ALIASES, Permission
from launchbay.cli.exit_codes import MEANINGS
from launchbay.documentation import DocumentedName, entries, plain

REFERENCE = Path("docs/reference")
MARK = "<!-- Below this line `python -m generators` writes. -->"


def pages(document: Schema) -> dict[Path, str]:
    """Return path → text of the pages."""
    places = places_of_operations(document)
    generated = {
        "actions/index.md": "\n".join(_actions()) + "\n",
        "errors.md": "\n".join(_findings()) + "\n",
        "console-pages.md": console_pages(),
        "exit-codes.md": _exit_codes(),
        "limits.md": limits_table(),
        "permissions.md": "\n".join(_permissions(document, places)) + "\n",
    }
    whole: dict[Path, str] = {}
    for folder, found in (("api", api_pages(document)), ("cli", cli_pages(places))):
        for name, (title, text) in found.items():
            if title:
                whole[REFERENCE / folder / f"{name}.md"] = f"# {title}\n\n{MARK}\n\n{text}"
            else:
                generated[f"{folder}/{name}.md"] = text
    return whole | {
        REFERENCE / name: f"{_by_hand(REFERENCE / name)}{MARK}\n\n{text}" for name, text in generated.items()
    }


def _by_hand(path: Path) -> str:
    """Return what stands above the mark of a page."""
    text = (ROOT / path).read_text("utf-8")
    head, mark, _ = text.partition(MARK)
    assert mark, f"{path} has no line that says {MARK}"
    return head


def _actions() -> Iterator[str]:
    """Yield a table of the actions, from the pages about them. Old links to an action on this page find its row."""
    yield "| action | what it does |"
    yield "|---|---|"
    headings: dict[str, list[DocumentedName]] = {}
    for entry in entries():
        if entry.kind == "action":
            headings.setdefault(entry.place.removeprefix("reference/actions/"), []).append(entry)
    for place, named in headings.items():
        page, _, anchor = place.partition("#")
        names = ", ".join(f"`{entry.name}`" for entry in named)
        about = plain(named[0].text.partition("\n\n")[0]).partition(". ")[0].rstrip(".")
        yield table_row(f'<a id="{anchor}"></a>[{names}]({page}.md#{anchor})', f"{about}.")


def _findings() -> Iterator[str]:
    """Yield links to the codes of findings. Old links to a finding on the page of errors arrive here."""
    found = [entry for entry in entries() if entry.kind == "finding"]
    yield ",\n".join(f'<a id="{each.anchor}"></a>[`{each.name}`](findings.md#{each.anchor})' for each in found)


def _exit_codes() -> str:
    lines = ["| code | name | when | what to do |", "|---|---|---|---|"]
    lines += [f"| `{int(code)}` | {code.name} | {when} | {remedy} |" for code, (when, remedy) in MEANINGS.items()]
    return "\n".join(lines) + "\n"


class _Meaning(NamedTuple):
    """What the holder of a permission can do, an entry of a role, and what people expect of it in vain."""

    allows: str
    example: str
    lacks: str


_MEANINGS = {
    Permission.READ: _Meaning(
        "See objects, their settings and manifests, and the jobs and logs of instances.",
        "Read: [/applications/*, /environments/*]",
        "Changes; masked secrets (`RevealSecrets`); the audit log of the organization (`ViewAudit`).",
    ),
    Permission.CREATE_APPLICATION: _Meaning(
        "Create applications.",
        "CreateApplication: [/applications/*]",
        "Uploading a manifest afterwards (`EditApplication`), and launching (`CreateInstance`).",
    ),
    Permission.EDIT_APPLICATION: _Meaning(
        "Rename applications, upload manifests, save revisions, and set the rules and labels of applications.",
        "EditApplication: [/applications/*]",
        "Launching (`CreateInstance`), and changing instances that run (`EditInstance`).",
    ),
    Permission.DELETE_APPLICATION: _Meaning(
        "Delete applications.",
        "DeleteApplication: [/applications/*]",
        "Destroying their instances first (`EditInstance`).",
    ),
    Permission.CREATE_INSTANCE: _Meaning(
        "Launch applications. One entry has to match both the application and the environment.",
        "CreateInstance: [/applications/*, /environments/*]",
        "Seeing the instance (`Read`), running workflows on it (`RunInstanceWorkflow`), and destroying it"
        " (`EditInstance`).",
    ),
    Permission.EDIT_INSTANCE: _Meaning(
        "Reconfigure, roll back, label, offer and destroy instances, and set their end.",
        "EditInstance: [/applications/*]",
        "Launching (`CreateInstance`), running other workflows (`RunInstanceWorkflow`), and deleting the record of a"
        " destroyed instance (`DeleteInstance`).",
    ),
    Permission.DELETE_INSTANCE: _Meaning(
        "Delete instances with their history.",
        "DeleteInstance: [/applications/*]",
        "Destroying them, which releases their machines (`EditInstance`).",
    ),
    Permission.RUN_INSTANCE_WORKFLOW: _Meaning(
        "Run, cancel and resume workflows of instances.",
        "RunInstanceWorkflow: [/applications/*]",
        "The workflow `destroy` (`EditInstance`), running it later (`ScheduleInstanceWorkflow`), and answering its"
        " questions (`ApproveInstanceWorkflow`).",
    ),
    Permission.SCHEDULE_INSTANCE_WORKFLOW: _Meaning(
        "Schedule workflows of instances, once or again and again.",
        "ScheduleInstanceWorkflow: [/applications/*]",
        "The workflow `destroy` (`EditInstance`), and recurring launches (`CreateInstance`).",
    ),
    Permission.APPROVE_INSTANCE_WORKFLOW: _Meaning(
        "Answer the questions of workflows, and approve or reject change sets.",
        "ApproveInstanceWorkflow: [/applications/*]",
        "Running the workflow (`RunInstanceWorkflow`), approving one's own change set, and questions for another role.",
    ),
    Permission.CREATE_ENVIRONMENT: _Meaning(
        "Create environments.",
        "CreateEnvironment: [/environments/*]",
        "Changing them afterwards (`EditEnvironment`).",
    ),
    Permission.EDIT_ENVIRONMENT: _Meaning(
        "Change the name, policies, properties, markers, services, rules and labels of environments.",
        "EditEnvironment: [/environments/*]",
        "Launching in them (`CreateInstance`), and offering a service unless an entry matches it too.",
    ),
    Permission.DELETE_ENVIRONMENT: _Meaning(
        "Delete environments.",
        "DeleteEnvironment: [/environments/*]",
        "Destroying and deleting the instances in them first (`EditInstance`, `DeleteInstance`).",
    ),
    Permission.CREATE_SERVICE: _Meaning(
        "Create services.",
        "CreateService: [/services/*]",
        "Changing them afterwards (`EditService`), and offering them in an environment (`EditEnvironment`).",
    ),
    Permission.EDIT_SERVICE: _Meaning(
        "Change and delete services.",
        "EditService: [/services/*]",
        "Running their commands (`RunServiceCommand`), and seeing their secrets (`RevealSecrets`).",
    ),
    Permission.RUN_SERVICE_COMMAND: _Meaning(
        "Run commands of services, such as storing and reading the secrets of a vault.",
        "RunServiceCommand: [/services/*]",
        "Changing the service (`EditService`).",
    ),
    Permission.MANAGE_ROLES: _Meaning(
        "Create, change and delete roles, and give roles to users and service accounts.",
        "ManageRoles: [/roles/*, /users/*]",
        "Creating users (`ManageUsers`). Rights that the holder lacks.",
    ),
    Permission.MANAGE_USERS: _Meaning(
        "Invite, change and remove users and service accounts, and set the sign-in policy and webhooks.",
        "ManageUsers: [/users/*]",
        "Giving roles (`ManageRoles`).",
    ),
    Permission.VIEW_AUDIT: _Meaning(
        "See who changed what in the whole organization, and when. Needs `/*`: the log isn't split by objects.",
        "ViewAudit: [/*]",
        "Seeing the objects themselves (`Read`).",
    ),
    Permission.REVEAL_SECRETS: _Meaning(
        "See masked values of instances and services, with a reason that the audit log keeps.",
        "RevealSecrets: [/applications/*, /services/*]",
        "Changing them (`EditInstance`, `EditService`).",
    ),
    Permission.OVERRIDE_FREEZE: _Meaning(
        "Change what is [frozen](../howto/stop-the-line.md), with a reason that everybody sees. It is asked for the "
        "environment or application that is frozen.",
        "OverrideFreeze: [/environments/*, /applications/*]",
        "The change itself, which needs its own permission.",
    ),
    Permission.EDIT_RULES: _Meaning(
        "Write [rules](../howto/rules.md) about changes. Those of the organization need `/*`.",
        "EditRules: [/environments/*]",
        "Changing the environment itself (`EditEnvironment`), or passing its rules.",
    ),
    Permission.PROVISION_USERS: _Meaning(
        "Say over [SCIM](../howto/scim.md) who belongs to the organization and to which groups, as a service account. "
        "Needs `/*`.",
        "ProvisionUsers: [/*]",
        "All of the API and the console; mapping roles to groups (`ManageRoles`).",
    ),
}


def _permissions(document: Schema, places: Mapping[str, str]) -> Iterator[str]:
    """Yield a table: each permission with the operations that speak of it."""
    needs = {
        entry["operationId"]: entry.get("description", "")
        for methods in document["paths"].values()
        for entry in methods.values()
    }
    yield "| permission | what it does | example | without | operations that need it, alone or among others |"
    yield "|---|---|---|---|---|"
    spellings = {permission: name for name, permission in ALIASES.items()}
    for permission in Permission:
        words = [name for name, text in needs.items() if permission in text.replace(",", " ").replace(";", " ").split()]
        links = ", ".join(f"[{name}](api/{places[name]})" for name in words)
        also = f", `{spellings[permission]}`" if permission in spellings else ""
        meaning = _MEANINGS[permission]
        facts = f"{meaning.allows} | `- {meaning.example}` | {meaning.lacks}"
        yield f"| `{permission}`{also} | {facts} | {links or '–'} |"
