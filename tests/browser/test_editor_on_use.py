"""The editor's script of 430 KB is asked for only where somebody edits."""

from playwright.sync_api import Page, expect

from tests.support.browser import Site, fresh_name
from tests.support.manifests import GREETER

EDITOR = "built/editor.js"


def test_the_editor_comes_with_a_page_that_edits_or_with_the_first_look_at_its_field(page: Page, site: Site) -> None:
    application = site.application(GREETER, fresh_name("Script"))
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    root = f"/console/organizations/{site.organization}"
    [environment, *_] = site.ask("GET", f"organizations/{site.organization}/environments")
    quiet = (
        root,
        f"{root}/instances",
        f"{root}/applications",
        f"{root}/roles",
        f"/console/applications/{application}",
        f"/console/environments/{environment['id']}",
    )
    for path in quiet:
        page.goto(path)
        page.wait_for_load_state("networkidle")
    assert not [url for url in asked if EDITOR in url]
    page.goto(f"{root}/roles")
    with page.expect_request(f"**/{EDITOR}*"):
        page.locator("[data-editor] textarea").focus()
    expect(page.locator("[data-editor]")).to_have_attribute("data-ready", "yes")
    page.keyboard.type("Rea")
    assert "Rea" in page.locator("[data-editor] textarea").input_value(), "the focus moved into the editor"
    with page.expect_request(f"**/{EDITOR}*"):
        page.goto(f"/console/applications/{application}/manifest")
