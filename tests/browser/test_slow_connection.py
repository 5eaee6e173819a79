"""A slow connection, and one that breaks: what is shown stays true, and nothing is lost or sent twice."""

import re

import pytest
from playwright.sync_api import CDPSession, Page, Route, expect

from tests.support.browser import Site, fresh_name, ready
from tests.support.manifests import GREETER

pytestmark = [pytest.mark.slow, pytest.mark.timeout(180)]
# As the developer tools of browsers know "Slow 3G".
SLOW = {"offline": False, "latency": 400, "downloadThroughput": 50_000, "uploadThroughput": 50_000}
LINGERS = """\
launch: { steps: [ { wait: { action: approval, parameters: { text: "Go on?" } } } ] }
sail: { steps: [] }
"""


def throttled(page: Page, **conditions: object) -> CDPSession:
    """Slow a page down, or cut its connection."""
    session = page.context.new_cdp_session(page)
    session.send("Network.enable")
    session.send("Network.emulateNetworkConditions", {**SLOW, **conditions})
    return session


def test_a_page_works_over_a_slow_connection(page: Page, site: Site) -> None:
    instance = site.launch(site.application(LINGERS))
    throttled(page)
    page.goto(f"/console/instances/{instance}")
    expect(page.get_by_role("heading", level=1)).to_be_visible()
    expect(page.locator("#state")).to_contain_text("Needs approval")
    site.ask("POST", f"approvals/{_asked(page, site, instance)}/approve", {})
    expect(page.locator("#state")).to_contain_text("Running", timeout=60_000)
    page.keyboard.press("Control+k")
    page.keyboard.type("instances")
    expect(page.get_by_role("option", name="Instances")).to_be_visible(timeout=30_000)


def _asked(page: Page, site: Site, instance: str) -> str:
    expect(page.locator("#approvals")).to_contain_text("Go on?", timeout=60_000)
    return str(site.ask("GET", f"instances/{instance}/approvals")[0]["id"])


def _cut_streams(page: Page) -> list[Route]:
    """End the open streams, and refuse new ones until `**/events**` is unrouted. Return those that were refused."""
    streams: list[Route] = []

    def refuse(route: Route) -> None:
        streams.append(route)
        route.abort("connectionreset")

    page.route("**/events**", refuse)
    # The stream that is open ends with its server side: what comes next doesn't get through.
    page.evaluate(
        "document.querySelectorAll('[sse-connect]').forEach(each => each['htmx-internal-data'].sseEventSource.close())"
    )
    page.evaluate(
        """document.querySelectorAll('[sse-connect]').forEach(
            each => each['htmx-internal-data'].sseEventSource.dispatchEvent(new Event('error')))"""
    )
    return streams


def test_a_log_that_is_followed_has_each_line_once_after_the_connection_was_cut(page: Page, site: Site) -> None:
    instance = site.launch(site.application(LINGERS))
    [job] = site.ask("GET", f"organizations/{site.organization}/jobs?instance={instance}")
    page.goto(f"/console/instances/{instance}/jobs/{job['id']}")
    page.evaluate("window.stillTheSamePage = true")
    expect(page.locator(".live")).to_have_text("Live")
    expect(page.locator("h1 + span")).to_contain_text("Needs approval")
    asked = site.ask("GET", f"instances/{instance}/approvals")[0]["id"]
    streams = _cut_streams(page)
    expect(page.locator("[data-lost]")).to_contain_text("Connection lost. You see the state of", timeout=30_000)
    before = page.locator("[data-log] li").count()
    site.ask("POST", f"approvals/{asked}/approve", {})
    site.settled(instance)
    written = [each["text"] for each in site.ask("GET", f"instances/{instance}/log")]
    assert len(written) > before, "the run wrote lines that the page can't know"
    expect(page.locator("[data-log] li")).to_have_count(before)
    expect(page.locator("h1 + span")).to_contain_text("Needs approval")
    page.unroute("**/events**")
    expect(page.locator("h1 + span")).to_contain_text("Succeeded", timeout=60_000)
    expect(page.locator("[data-log] li")).to_have_count(len(written))
    ids = page.locator("[data-log] li").evaluate_all("lines => lines.map(line => line.id)")
    assert len(ids) == len(set(ids))
    expect(page.locator("[data-lost]")).to_be_hidden()
    assert streams, "the page tried again"
    assert page.evaluate("window.stillTheSamePage") is True


def _log_event(first: int, last: int) -> str:
    """Return lines of a step as the stream of a run brings them."""
    lines = "".join(
        f'<li id="L{number}" data-l="info" data-id="{number}"><a href="#L{number}">{number}</a><time>10:00:00</time>'
        f"<span>line {number}</span></li>"
        for number in range(first, last + 1)
    )
    summary = "<summary>web · write<span data-count></span></summary>"
    return f'event: log\ndata: <details data-step="write">{summary}<ol>{lines}</ol></details>\n\n'


def test_a_long_log_keeps_its_order_after_the_connection_was_lost(page: Page, site: Site) -> None:
    instance = site.launch(site.application(LINGERS))
    [job] = site.ask("GET", f"organizations/{site.organization}/jobs?instance={instance}")
    page.goto(f"/console/instances/{instance}")
    _asked(page, site, instance)
    # More lines than the page keeps. Each connection begins where the page did, as those of the server do.
    sent = "".join(_log_event(first, first + 199) for first in range(101, 1901, 200))
    bodies = [f"retry: 100\n\n{sent}", f"retry: 60000\n\n{sent}{_log_event(1901, 1905)}"]
    page.route(
        "**/events**",
        lambda route: route.fulfill(content_type="text/event-stream", body=bodies.pop(0)) if bodies else route.abort(),
    )
    page.goto(f"/console/instances/{instance}/jobs/{job['id']}")
    expect(page.locator("[data-total]")).to_have_text("1,905 lines")
    numbers = page.locator("[data-log] details[data-step=write] li").evaluate_all(
        "lines => lines.map(line => Number(line.id.slice(1)))"
    )
    assert numbers == list(range(1905 - len(numbers) + 1, 1906))
    assert page.locator("[data-log] li").count() == 1500


def test_a_form_whose_answer_is_lost_is_not_sent_again_and_its_page_shows_what_was_saved(
    page: Page, site: Site
) -> None:
    name = fresh_name("Cut off shop")
    path = f"/console/organizations/{site.organization}/applications"
    page.goto(path)
    sent: list[Route] = []

    def lose_the_answer(route: Route) -> None:
        if route.request.method != "POST":
            return route.fallback()
        sent.append(route)
        route.fetch(max_redirects=0)
        return route.abort("connectionreset")

    page.route(f"**{path}", lose_the_answer)
    page.get_by_label("Name").fill(name)
    with page.expect_event("requestfailed"):
        page.get_by_role("button", name="Create application").click()
    # The browser says that the connection was reset; no page of Launchbay claims an outcome.
    expect(page.locator("[data-toast]")).to_have_count(0)
    page.unroute(f"**{path}")
    page.goto(path)
    expect(page.get_by_role("link", name=name, exact=True)).to_have_count(1)
    assert len(sent) == 1, "neither the page nor the browser sent it again"
    rows = site.ask("GET", f"organizations/{site.organization}/applications")
    assert [row["name"] for row in rows].count(name) == 1


def test_live_updates_come_back_after_the_connection_was_cut_and_a_banner_says_how_old_the_page_is(
    page: Page, site: Site
) -> None:
    instance = site.launch(site.application(LINGERS))
    page.goto(f"/console/instances/{instance}")
    page.evaluate("window.stillTheSamePage = true")
    expect(page.locator(".live")).to_have_text("Live")
    asked = _asked(page, site, instance)
    streams = _cut_streams(page)
    banner = page.locator("[data-lost]")
    expect(banner).to_contain_text("Connection lost. You see the state of", timeout=30_000)
    expect(page.locator(".live")).to_have_text("Offline")
    site.ask("POST", f"approvals/{asked}/approve", {})
    site.settled(instance)
    expect(page.locator("#state")).to_contain_text("Needs approval")
    page.unroute("**/events**")
    expect(page.locator("#state")).to_contain_text("Running", timeout=60_000)
    expect(banner).to_be_hidden()
    assert streams, "the page tried again"
    assert page.evaluate("window.stillTheSamePage") is True


def test_a_form_is_sent_once_however_often_somebody_clicks_while_it_is_on_its_way(page: Page, site: Site) -> None:
    name = fresh_name("Slow shop")
    page.goto(f"/console/organizations/{site.organization}/applications")
    sent: list[str] = []
    page.on("request", lambda request: sent.append(request.url) if request.url.endswith("/applications") else None)
    throttled(page, latency=1500)
    page.get_by_label("Name").fill(name)
    sent.clear()
    button = page.get_by_role("button", name="Create application")
    button.evaluate("button => { for (let time = 0; time < 3; time += 1) button.click(); }")
    page.wait_for_url(re.compile("/manifest"), timeout=60_000)
    assert len(sent) == 1, sent
    rows = site.ask("GET", f"organizations/{site.organization}/applications")
    assert [row["name"] for row in rows].count(name) == 1


def test_the_editor_keeps_what_was_written_when_the_connection_is_gone(page: Page, site: Site) -> None:
    application = site.application(GREETER)
    path = f"/console/applications/{application}/manifest"
    page.goto(path)
    ready(page)
    page.locator(".cm-content").focus()
    page.keyboard.press("Control+Home")
    page.keyboard.type("# written without a connection\n")
    session = throttled(page, offline=True)
    with page.expect_event("requestfailed"):
        page.get_by_role("button", name=re.compile("^Save version")).click()
    session.send("Network.emulateNetworkConditions", SLOW)
    # The browser says that it is offline. Whoever opens the editor again finds what was sent.
    page.goto(path)
    ready(page)
    expect(page.locator(".cm-content")).to_contain_text("# written without a connection", timeout=60_000)
    expect(page.get_by_text("sent but not saved")).to_be_visible()
    page.get_by_role("button", name=re.compile("^Save version")).click()
    expect(page.locator("[data-toast]")).to_contain_text(re.compile(r"Version \d+ saved"), timeout=60_000)
    answer = site.api.get(f"applications/{application}/manifest")
    assert "# written without a connection" in answer.text
