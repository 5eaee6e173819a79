"""What a page must never do: break, run what somebody stored, or try what the content security policy forbids."""

import itertools
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from textwrap import dedent
from typing import Any

import httpx
from playwright.sync_api import BrowserContext, Page, Response, expect

from tests.support.eventually import eventually_blocking, line_of
from tests.support.servers import prepare


def ready(page: Page) -> None:
    """Wait until the editor stands in the place of its text area, which it does on use where it isn't all of a page."""
    for area in page.locator("[data-script] textarea").all()[:1]:
        area.focus()
    expect(page.locator("[data-editor]").first).to_have_attribute("data-ready", "yes")


WALK_S = 600  # over more than 70 pages, on a machine that is busy with other things too


def opened(page: Page, path: str) -> Response | None:
    """Open a page, wait until its scripts have done their work, and return how it was sent if it is another one."""
    answer = page.goto(path)
    page.wait_for_load_state("load")
    for host in page.locator("[data-editor]:not([data-script]), [data-graph]").all():
        host.and_(page.locator("[data-ready]")).wait_for(state="attached")
    return answer


def paste(page: Page, text: str) -> None:
    """Replace the whole text by pasting another one, as users do."""
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    page.locator(".cm-content").click()
    page.keyboard.press("Control+a")
    page.evaluate("text => navigator.clipboard.writeText(text)", text)
    page.keyboard.press("Control+v")


EMAIL = "admin@launchbay.local"
PASSWORD = "correct horse battery staple"
BUSY = {"Requested", "Executing", "Destroying"}
START_WITHIN_S = 90.0
_ANSWERS_AT = "Launchbay is listening at "
_numbers = itertools.count(1)


@dataclass
class Site:
    """The running server, called by the administrator of its first organization."""

    url: str
    api: httpx.Client
    organization: str = ""

    def ask(self, method: str, path: str, body: Any = None) -> Any:
        """Make an API call that must succeed, and return its document."""
        answer = self.api.request(method, path, json=body)
        assert answer.status_code == 200, (method, path, answer.status_code, answer.text)
        return answer.json()

    def add_user(self, email: str, name: str, password: str, roles: list[str]) -> str:
        """Add a user who has replaced the password that they were given with this one; return the ID."""
        given = {"email": email, "name": name, "password": f"given: {password}", "roles": roles}
        created: str = self.ask("POST", f"organizations/{self.organization}/users", given)["id"]
        own = {"currentPassword": given["password"], "newPassword": password}
        auth = httpx.BasicAuth(email, f"given: {password}")
        assert self.api.put("users/me/password", json=own, auth=auth).status_code == 200
        return created

    def application(self, manifest: str | None = None, name: str = "") -> str:
        """Create an application, with this manifest unless it is None, and return its id."""
        name = name or fresh_name("application")
        created: str = self.ask("POST", f"organizations/{self.organization}/applications", {"name": name})["id"]
        if manifest is not None:
            self.replace_manifest(created, manifest)
        return created

    def replace_manifest(self, application: str, manifest: str) -> None:
        """Store a manifest."""
        answer = self.api.put(
            f"applications/{application}/manifest",
            content=dedent(manifest).encode(),
            headers={"Content-Type": "application/x-yaml"},
        )
        assert answer.status_code == 200, answer.text

    def launch(self, application: str, **body: Any) -> str:
        """Launch an application and return the instance's id."""
        launched: str = self.ask("POST", f"applications/{application}/launch", body)["id"]
        return launched

    def settled(self, instance: str, within_s: float = 40.0) -> Any:
        """Wait until no job is under way and return the instance in detail."""
        return eventually_blocking(
            lambda: self.ask("GET", f"instances/{instance}"),
            lambda document: document["status"] not in BUSY,
            within_s=within_s,
        )


def fresh_name(noun: str) -> str:
    """Return a name that nothing in this session has."""
    return f"{noun} {next(_numbers)}"


@contextmanager
def running_site(directory: Path, **settings: str) -> Iterator[Site]:
    """Start a server on an embedded database of its own, and stop it."""
    prepare(directory)
    inherited = {name: text for name, text in os.environ.items() if not name.startswith("LAUNCHBAY_")}
    chosen = {
        "ADMIN_EMAIL": EMAIL,
        "ADMIN_PASSWORD": PASSWORD,
        "MACHINES": "dry-run",
        "OUTGOING_ALLOW": "127.0.0.1",
        "LOG_LEVEL": "warning",
        **settings,
    }
    command = [sys.executable, "-m", "launchbay.cli.main", "serve", "--port", "0", "--data-dir", str(directory)]
    log = directory / "server.log"
    with log.open("wb") as output:
        process = subprocess.Popen(
            command,
            stdout=output,
            stderr=output,
            env={**inherited, "PYTHONUNBUFFERED": "1", **{f"LAUNCHBAY_{name}": text for name, text in chosen.items()}},
        )
    try:
        url = _address(process, log)
        with httpx.Client(base_url=f"{url}/api/1/", auth=(EMAIL, PASSWORD), timeout=30, trust_env=False) as client:
            site = Site(url, client)
            site.organization = site.ask("GET", "organizations")[0]["id"]
            yield site
    finally:
        process.terminate()
        process.wait(30)


def _address(process: "subprocess.Popen[bytes]", log: Path) -> str:
    return line_of(log, process, _ANSWERS_AT, within_s=START_WITHIN_S)


CHROMIUM = shutil.which("chromium")
FLAGS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]


def sign_in(page: Page, email: str = EMAIL, password: str = PASSWORD) -> None:
    """Sign in as somebody does who comes for the first time."""
    page.goto("/")
    page.get_by_label("Email address").fill(email)
    page.get_by_label("Password").fill(password)
    page.get_by_role("button", name="Sign in", exact=True).click()
    page.wait_for_url(lambda url: "/console" in url and "/signIn" not in url)


AXE = Path(__file__).parents[2] / "frontend/node_modules/axe-core/axe.min.js"
# Rules of WCAG 2.2 A and AA, and axe's own good practices.
RUN_AXE = """async options => {
    const found = await axe.run(document, {resultTypes: ['violations'], ...options});
    return found.violations.map(each => ({rule: each.id, nodes: each.nodes.slice(0, 4).map(node => node.html + ' ' +
        node.failureSummary)}));
}"""

_LISTEN = """
document.addEventListener('securitypolicyviolation', event =>
    window.__violated(`${event.violatedDirective}: ${event.blockedURI} ${event.sourceFile}:${event.lineNumber} ` +
        `${event.target.outerHTML?.slice(0, 200)} on ${location.pathname}`));
"""


@dataclass
class Watched:
    """What was seen so far."""

    violations: list[str] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)
    dialogs: list[str] = field(default_factory=list)

    def assert_quiet(self) -> None:
        """Fail where anything was seen."""
        assert (self.violations, self.errors, self.dialogs) == ([], [], [])


def watch(context: BrowserContext) -> Watched:
    """Watch every page of a profile."""
    seen = Watched()

    def violated(text: str) -> None:
        seen.violations.append(text)

    context.expose_function("__violated", violated)
    context.add_init_script(_LISTEN)
    context.on("weberror", lambda error: seen.errors.append(str(error.error)))

    def note(dialog: object) -> None:
        seen.dialogs.append(str(dialog))
        dialog.dismiss()  # type: ignore[attr-defined]  # playwright's own Dialog

    context.on("dialog", note)
    return seen
