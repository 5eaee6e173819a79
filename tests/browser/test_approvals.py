"""Approvals that steps wait for, answered by a person."""

from playwright.sync_api import Page, expect

from tests.support.browser import Site

ASKING = """\
launch: {steps: []}
release:
  steps:
    - sign-off: {action: approval, parameters: {text: "Deploy 1.4 to production?"}}
    - deploy: {action: wait, precedingPhases: [sign-off], parameters: {delay: 0}}
"""


def test_a_step_is_approved_on_the_page_of_its_instance_while_one_looks_on(page: Page, site: Site) -> None:
    instance = site.launch(site.application(ASKING))
    site.settled(instance)
    page.goto(f"/console/instances/{instance}")
    expect(page.locator("#side .rows").first.locator("li")).to_have_count(1)
    site.ask("POST", f"instances/{instance}/release", {})
    waiting = page.locator("#approvals")
    expect(waiting).to_contain_text("Deploy 1.4 to production?", timeout=40_000)
    waiting.get_by_label("Comment").fill("Seen in staging.")
    waiting.get_by_role("button", name="Approve").click()
    expect(page.get_by_role("status").filter(has_text="Approved.")).to_be_visible()
    expect(page.locator("#live-job")).to_contain_text("Succeeded", timeout=40_000)
    expect(page.locator("#approvals .approval")).to_have_count(0)


def test_a_step_is_rejected_in_the_list_of_the_organization(page: Page, site: Site) -> None:
    instance = site.launch(site.application(ASKING), instanceName="Waiting for a no")
    site.settled(instance)
    site.ask("POST", f"instances/{instance}/release", {})
    listed = f"/console/organizations/{site.organization}/approvals"
    page.goto(listed)
    card = page.locator(".approval", has_text="Waiting for a no")
    while not card.count():
        page.wait_for_timeout(200)
        page.goto(listed)
    card.get_by_label("Comment").fill("Not on a Friday.")
    card.get_by_role("button", name="Reject").click()
    expect(page.get_by_role("status").filter(has_text="The step fails")).to_be_visible()
    assert "Not on a Friday." in site.settled(instance)["workflowHistory"][0]["errorMessage"]
