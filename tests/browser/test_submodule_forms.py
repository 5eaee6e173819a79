"""Submodules on the form of a launch, as somebody fills it in."""

from playwright.sync_api import Page, expect

from tests.support.browser import Site
from tests.support.manifests import DEPOT, SHELF, SHOP


def test_the_fields_of_submodules_follow_the_version_that_is_chosen(page: Page, site: Site) -> None:
    shelf = site.application(SHELF)
    site.replace_manifest(shelf, SHELF.replace("label", "caption"))
    shop = site.application(SHOP % site.application(DEPOT % shelf))
    page.goto(f"/console/applications/{shop}/launch")
    page.locator("[id='parameter:input.shelves']").fill("3")
    inner = page.locator("[id='submodule:depot/shelf:']")
    expect(inner.get_by_label("input.caption")).to_be_visible()
    inner.get_by_label("The wood").fill("pine")
    inner.get_by_label("Manifest version").select_option("2")
    expect(inner.get_by_label("input.label")).to_be_visible()
    expect(inner.get_by_label("input.caption")).to_have_count(0)
    # What was typed stays, and nothing is marked before anybody has sent the form.
    expect(inner.get_by_label("The wood")).to_have_value("pine")
    expect(page.locator(".field-error")).to_have_count(0)
    page.get_by_role("button", name="Launch", exact=True).click()
    expect(inner.locator(".field-error")).to_contain_text("Missing required parameter")
    inner.get_by_label("input.label").fill("Tea")
    page.get_by_role("button", name="Launch", exact=True).click()
    page.wait_for_url("**/console/instances/*")
    expect(page.locator("#results")).to_contain_text("Tea: 3 of pine", timeout=40_000)
