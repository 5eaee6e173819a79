"""Applications: what is completed in the editor, and what their pages show."""

import re

import pytest
from playwright.sync_api import Page, expect

from tests.support.browser import Site, fresh_name, paste, ready
from tests.support.manifests import FAMILY, GREETER

PINNED = """\
application:
  components:
    web:
      type: workflow.Instance
      interfaces:
        input:
          size: configuration(int)
  interfaces:
    input:
      size: bind("""


@pytest.mark.parametrize(
    ("before", "typed", "offered"),
    [
        ("application:\n  components:\n    web:\n      type: ", "work", "workflow.Instance"),
        ("launch:\n  steps:\n    - one:\n        action: ", "rest", "restcall"),
        (
            PINNED,
            "web#",
            "web#input.size",
        ),
    ],
)
def test_the_editor_completes_types_actions_and_pins(
    page: Page, site: Site, before: str, typed: str, offered: str
) -> None:
    page.goto(f"/console/applications/{site.application()}/manifest")
    ready(page)
    paste(page, before)
    page.keyboard.type(typed)
    expect(page.locator(".cm-tooltip-autocomplete li", has_text=offered).first).to_be_visible()


def test_warnings_are_shown_and_do_not_keep_from_saving(page: Page, site: Site) -> None:
    application = site.application()
    page.goto(f"/console/applications/{application}/manifest")
    ready(page)
    paste(page, "launch:\n  steps:\n    - a: {action: wait, parameters: {delay: '{$.nothing}'}}\n")
    expect(page.locator("#findings li.warning")).to_contain_text("nothing")
    page.get_by_role("button", name="Save version 2").click()
    expect(page.get_by_role("status")).to_contain_text("Version 2")


def test_the_manifest_can_be_written_without_scripts(page: Page, site: Site) -> None:
    application = site.application()
    assert page.context.browser is not None
    plain = page.context.browser.new_context(
        base_url=site.url, java_script_enabled=False, storage_state=page.context.storage_state()
    )
    try:
        written = plain.new_page()
        written.goto(f"/console/applications/{application}/manifest")
        written.get_by_label("Manifest text").fill("launch: {steps: [{a: {action: weit}}]}")
        written.get_by_role("button", name="Save version 2").click()
        expect(written.locator("#findings li.error")).to_contain_text("Line 1")
        written.get_by_label("Manifest text").fill("launch: {steps: [{a: {action: wait, parameters: {delay: 0}}}]}")
        written.get_by_role("button", name="Save version 2").click()
        expect(written.get_by_role("status")).to_contain_text("Version 2")
    finally:
        plain.close()


def test_the_page_of_an_application_shows_its_components_as_graph_and_in_words(page: Page, site: Site) -> None:
    name = fresh_name("Greeter")
    application = site.application(GREETER, name)
    page.goto(f"/console/applications/{application}")
    expect(page.locator("[data-graph]")).to_have_attribute("data-ready", "yes")
    expect(page.locator("[data-graph] a.node")).to_have_attribute("aria-label", "greeter, Workflow")
    page.locator("summary", has_text="List (").click()
    words = page.get_by_role("region", name="List of components")
    expect(words).to_contain_text("workflow.Instance")
    expect(words).to_contain_text("settings: configuration(object)")


def test_a_revision_is_kept_and_launched(page: Page, site: Site) -> None:
    application = site.application(GREETER)
    page.goto(f"/console/applications/{application}/revisions")
    page.get_by_role("link", name="New revision").click()
    page.get_by_label("Name").fill("spring")
    page.get_by_label("input.times").fill("many")
    page.get_by_role("button", name="Save revision").click()
    expect(page.get_by_role("alert")).to_contain_text("Fix the ")
    page.get_by_label("input.times").fill("4")
    page.locator("[id='parameter:input.who']").fill("bay")
    page.get_by_role("button", name="Save revision").click()
    page.get_by_role("link", name="Launch spring").click()
    expect(page.get_by_label("input.times")).to_have_value("4")
    page.get_by_role("button", name="Launch").click()
    page.wait_for_url("**/console/instances/*")
    instance = site.settled(page.url.rpartition("/")[2])
    assert instance["returnValues"]["result.greeting"] == "Hello, bay!"


def test_an_application_in_use_is_not_deleted_and_says_why(page: Page, site: Site) -> None:
    name = fresh_name("Greeter")
    application = site.application(GREETER, name)
    site.settled(site.launch(application, parameters={"input.times": 1}))
    page.goto(f"/console/applications/{application}/delete")
    page.get_by_role("button", name=f"Delete {name}").click()
    expect(page.get_by_role("alert")).to_contain_text("instances that are not destroyed")


def test_a_submodule_is_opened_in_the_graph(page: Page, site: Site) -> None:
    child = fresh_name("Child")
    site.application(GREETER.replace("times: configuration(int)", "times: { type: configuration(int) }"), child)
    parent = site.application(FAMILY % child)
    page.goto(f"/console/applications/{parent}/launch")
    expect(page.locator("summary", has_text=child)).to_be_visible()
    page.locator("[id='submodule:child:']").get_by_label("input.times").fill("2")
    page.get_by_role("button", name="Launch").click()
    page.wait_for_url("**/console/instances/*")
    expect(page.locator("#state")).to_contain_text("Running", timeout=40_000)
    page.goto(f"{page.url}/components")
    graph = page.locator("[data-graph]")
    expect(graph).to_have_attribute("data-ready", "yes")
    graph.locator("a.node[data-id=child]").click()
    page.get_by_role("link", name="Show its components").click()
    expect(page.locator("[data-graph] a.node[data-id='child/greeter']")).to_have_attribute(
        "aria-label", "greeter, Workflow, Running"
    )
    page.get_by_role("link", name=re.compile("Collapse child")).click()
    expect(page.locator("[data-graph] a.node[data-id=child]")).to_be_visible()


def test_components_of_an_instance_have_live_statuses(page: Page, site: Site) -> None:
    manifest = """\
application:
  components:
    quick: { type: workflow.Instance, configuration: { configuration.workflows: { launch: { steps: [] } } } }
    slow:
      type: workflow.Instance
      configuration:
        configuration.workflows: { launch: { steps: [ { rest: { action: wait, parameters: { delay: 600 } } } ] } }
"""
    instance = site.launch(site.application(manifest))
    page.goto(f"/console/instances/{instance}")
    slow = page.locator("a.node[data-id=slow]")
    expect(slow).to_have_class(re.compile("busy"))
    expect(slow.locator("use")).to_have_attribute("href", re.compile("#g-busy$"))
    history = site.ask("GET", f"instances/{instance}")["workflowHistory"]
    site.ask("DELETE", f"instances/{instance}/jobs/{history[0]['id']}")
    expect(slow).to_have_class(re.compile("stop"))
    expect(slow).to_have_attribute("aria-label", "slow, rest, Interrupted")
    expect(slow.locator("use")).to_have_attribute("href", re.compile("#g-stop$"))
    expect(slow.locator(".t2")).to_have_text("rest")
