"""The main pages in Firefox, where it is installed."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.browser import EMAIL, PASSWORD, Site, fresh_name
from tests.support.firefox import FIREFOX, Firefox, running_firefox

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(180),
    pytest.mark.skipif(FIREFOX is None, reason="Firefox isn't installed, and this system has no package firefox-esr."),
]
CONTROL = "\ue009"


@pytest.fixture(scope="module")
def firefox(site: Site, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Firefox]:
    """Firefox, in which the administrator is signed in."""
    profile: Path = tmp_path_factory.mktemp("firefox")
    with running_firefox(profile) as started:
        started.goto(f"{site.url}/")
        started.type("#email", EMAIL)
        started.type("#password", PASSWORD)
        started.click("button[type=submit]")
        started.until("!!document.querySelector('.side-nav')")
        yield started


def test_the_main_pages_are_drawn_without_errors_and_fit(firefox: Firefox, site: Site) -> None:
    application = site.application("launch: {steps: [{only: {action: wait, parameters: {delay: 0}}}]}\n")
    instance = site.launch(application)
    job = site.settled(instance)["workflowHistory"][0]["id"]
    root = f"/console/organizations/{site.organization}"
    for path in (
        root,
        *(f"{root}/{each}" for each in ("approvals", "instances", "runs", "schedules", "applications", "environments")),
        *(f"{root}/{each}" for each in ("services", "audit", "users", "roles", "webhooks", "usage")),
        *(f"/console/instances/{instance}{each}" for each in ("", "/configuration", "/settings", f"/jobs/{job}")),
        *(f"/console/applications/{application}{each}" for each in ("", "/launch", "/versions")),
        "/console/account",
    ):
        firefox.goto(site.url + path)
        assert firefox.evaluate("document.querySelectorAll('main h1').length") == 1, path
        assert firefox.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0, path
        assert "Inter" in firefox.evaluate("getComputedStyle(document.body).fontFamily"), path
        # Colors by light-dark(), and layers: an old engine would draw black on nothing.
        assert firefox.evaluate("getComputedStyle(document.body).backgroundColor") != "rgba(0, 0, 0, 0)", path
        assert firefox.evaluate("document.fonts.check('14px Inter')"), path


def test_the_editor_checks_while_somebody_types(firefox: Firefox, site: Site) -> None:
    application = site.application("launch: {steps: []}\n")
    firefox.goto(f"{site.url}/console/applications/{application}/manifest")
    firefox.until("!!document.querySelector('[data-editor][data-ready]')")


def test_keys_open_the_palette_and_dialogs(firefox: Firefox, site: Site) -> None:
    name = fresh_name("Fox").replace(" ", "-")
    site.application("launch: {steps: []}\n", name)
    firefox.goto(f"{site.url}/console/organizations/{site.organization}")
    firefox.type("body", f"{CONTROL}k")
    firefox.until("document.querySelector('#palette').open")
    firefox.type("#palette input", name)
    firefox.until(f"document.querySelector('#palette-list').textContent.includes('{name}')")
    firefox.goto(f"{site.url}/console/organizations/{site.organization}/users?do=invite")
    firefox.until("document.querySelector('#invite').matches(':modal')")


def test_a_run_ends_on_its_page_without_a_reload(firefox: Firefox, site: Site) -> None:
    application = site.application("launch: {steps: [{only: {action: wait, parameters: {delay: 6}}}]}\n")
    instance = site.launch(application)
    job = site.ask("GET", f"instances/{instance}")["workflowHistory"][0]["id"]
    firefox.goto(f"{site.url}/console/instances/{instance}/jobs/{job}")
    firefox.evaluate("(window.same = true)")
    firefox.until("document.querySelector('.head [role=status]').textContent.includes('Succeeded')", within_s=60)
    assert firefox.evaluate("window.same")
