"""The graph of components by mouse, by keys and without scripts: folding, search, focus, zoom."""

import re

import pytest
from playwright.sync_api import Page, expect

from tests.support.browser import Site
from tests.support.manifests import many_components

pytestmark = pytest.mark.slow  # they start a browser and launch 60 components


@pytest.fixture(scope="module")
def address(site: Site) -> str:
    """The graph of 60 components in 6 composites."""
    instance = site.launch(site.application(many_components(60, 10)))
    site.settled(instance)
    return f"/console/instances/{instance}/components"


def opened(page: Page, address: str) -> None:
    page.goto(address)
    expect(page.locator("[data-graph]")).to_have_attribute("data-ready", "yes")


def test_groups_open_and_fold(page: Page, address: str) -> None:
    opened(page, address)
    expect(page.locator("a.node")).to_have_count(6)
    page.locator("a.node[data-id=group-2]").click()
    expect(page.locator("a.node[data-id='group-2.part-20']")).to_be_visible()
    expect(page.locator("a.node")).to_have_count(15)
    page.get_by_role("link", name=re.compile("Collapse group-2")).click()
    expect(page.locator("a.node")).to_have_count(6)
    page.get_by_role("link", name="Expand all").click()
    expect(page.locator("a.node")).to_have_count(60)
    page.get_by_role("link", name="Collapse all").click()
    expect(page.locator("a.node")).to_have_count(6)


def test_a_search_marks_while_typing_and_opens_groups_with_enter(page: Page, address: str) -> None:
    opened(page, address)
    page.keyboard.press("/")
    page.keyboard.type("group-4")
    expect(page.locator("a.node.hit")).to_have_count(1)
    page.get_by_role("searchbox").fill("part-33")
    page.keyboard.press("Enter")
    expect(page.locator("a.node.hit")).to_have_attribute("data-id", "group-3.part-33")


def test_arrow_keys_move_between_components_and_show_the_card(page: Page, address: str) -> None:
    opened(page, f"{address}?open=group-0,group-1")
    first = page.locator("a.node[tabindex='0']")
    expect(first).to_have_count(1)
    first.focus()
    page.keyboard.press("ArrowRight")
    here = page.locator("a.node:focus")
    expect(here).to_have_class(re.compile("sel"))
    expect(page.locator("#component")).to_contain_text("Workflow")
    name = here.get_attribute("data-id") or ""
    expect(page.locator("#component")).to_contain_text(name)
    page.keyboard.press("ArrowLeft")
    expect(page.locator("a.node.sel")).not_to_have_attribute("data-id", name)
    page.keyboard.press("Escape")
    expect(page.locator("a.node.sel")).to_have_count(0)


def test_a_map_shows_where_one_is_unless_all_of_the_graph_is_seen(page: Page, address: str) -> None:
    opened(page, f"{address}?open=group-0,group-1")
    overview = page.locator("svg.mini")
    expect(overview).to_be_visible()
    expect(overview.locator("rect:not(.view)")).to_have_count(page.locator("a.node").count())
    page.get_by_role("button", name="Fit the whole graph").click()
    expect(overview).to_be_hidden()


def test_keys_zoom(page: Page, address: str) -> None:
    opened(page, f"{address}?open=group-0")
    stage = page.locator("svg.stage")
    width = "stage => stage.viewBox.baseVal.width"
    before = stage.evaluate(width)
    page.locator("a.node[tabindex='0']").focus()
    page.keyboard.press("+")
    assert stage.evaluate(width) < before
    page.keyboard.press("0")
    page.keyboard.press("-")
    assert stage.evaluate(width) > before


def test_the_list_is_its_equal(page: Page, address: str) -> None:
    opened(page, address)
    page.get_by_role("link", name="As a list").click()
    expect(page.locator("tbody tr")).to_have_count(60)
    page.get_by_label("Find a component").fill("part-59")
    page.keyboard.press("Enter")
    expect(page.locator("tbody tr")).to_have_count(1)
    page.get_by_role("link", name="group-5.part-59").click()
    expect(page.locator("a.node.sel")).to_have_attribute("data-id", "group-5.part-59")


def test_it_folds_and_focuses_without_scripts(page: Page, site: Site, address: str) -> None:
    assert page.context.browser is not None
    plain = page.context.browser.new_context(
        base_url=site.url, java_script_enabled=False, storage_state=page.context.storage_state()
    )
    try:
        still = plain.new_page()
        still.goto(address)
        still.locator("a.node[data-id=group-1]").click()
        still.locator("a.node[data-id='group-1.part-12']").click()
        expect(still.locator("a.node.sel")).to_have_attribute("data-id", "group-1.part-12")
        expect(still.locator("#component")).to_contain_text("group-1.part-12")
        assert still.locator(".edge.hot").count() >= 1
    finally:
        plain.close()


def test_on_a_phone_a_large_graph_gives_way_to_the_list_and_is_shown_on_demand(page: Page, address: str) -> None:
    page.set_viewport_size({"width": 390, "height": 800})
    page.goto(f"{address}?open=group-0,group-1")
    expect(page.locator("#list tr[data-component]")).to_have_count(60)
    expect(page.locator("svg.stage")).to_be_hidden()
    page.get_by_role("searchbox").fill("part-33")
    page.keyboard.press("Enter")
    expect(page.locator("tr[data-component]")).to_have_count(1)
    page.goto(f"{address}?open=group-0,group-1")
    page.get_by_role("link", name="As a graph").click()
    expect(page.locator("svg.stage")).to_be_visible()
    expect(page.locator("tr[data-component]")).to_have_count(0)
    page.get_by_role("link", name="As a list").click()
    expect(page.locator("tr[data-component]")).to_have_count(60)


def test_a_wide_screen_does_not_ask_for_the_list_that_a_phone_gets(page: Page, address: str) -> None:
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url) if "view=list" in request.url else None)
    opened(page, f"{address}?open=group-0,group-1")
    page.wait_for_load_state("networkidle")
    assert asked == []


# For each node: whether it is wholly in the box of the graph, and whether its left edge cuts it.
_SEEN = """svg => {
    const box = svg.getBoundingClientRect();
    return Object.fromEntries([...svg.querySelectorAll(".node")].map(node => {
        const { left, right, top, bottom } = node.querySelector(".box").getBoundingClientRect();
        const isInRow = left >= box.left - 1 && right <= box.right + 1;
        const isWhole = isInRow && top >= box.top - 1 && bottom <= box.bottom + 1;
        return [node.dataset.id, [isWhole, left < box.left - 1 && right > box.left + 1]];
    }));
}"""
_FAILS = {"action": "serialize", "parameters": {"input": 1, "format": "PAPER"}}


@pytest.mark.parametrize("layers", [2, 3, 5])
def test_on_a_phone_a_small_graph_opens_on_the_failure_and_its_left_edge_cuts_no_node(
    page: Page, site: Site, layers: int
) -> None:
    failed = f"part-{layers - 2}"
    instance = site.launch(site.application(many_components(layers, layer_size=1, steps={failed: _FAILS})))
    site.settled(instance)
    page.set_viewport_size({"width": 390, "height": 800})
    opened(page, f"/console/instances/{instance}/components")
    stage = page.locator("svg.stage")
    seen = stage.evaluate(_SEEN)
    assert seen[failed][0], "it opens on the failure"
    assert layers > 2 or all(is_whole for is_whole, _ in seen.values()), "the whole of it fits"
    assert [name for name, (_, is_cut) in seen.items() if is_cut] == []
