"""What the pages show of an instance that was adopted and never ran anything."""

import pytest
from playwright.sync_api import Page, expect

from tests.support.adoption import STEADY, state_text
from tests.support.browser import Site, fresh_name
from tests.support.drift import boxes
from tests.support.manifests import GREETER


@pytest.fixture(scope="module")
def adopted(site: Site) -> str:
    application = site.application(boxes(STEADY))
    states = [{"component": "web", "state": state_text(fresh_name("lineage"))}]
    return str(site.ask("POST", f"applications/{application}/adoptions", {"states": states})["instanceId"])


def test_a_log_without_lines_has_no_heading_until_there_is_one(page: Page, site: Site, adopted: str) -> None:
    heading = page.get_by_role("heading", name="Latest log lines")
    page.goto(f"/console/instances/{adopted}")
    expect(page.get_by_role("heading", name="Components")).to_be_visible()
    expect(heading).to_have_count(0)

    launched = site.launch(site.application(GREETER), parameters={"input.times": 1})
    site.settled(launched)
    page.goto(f"/console/instances/{launched}")

    expect(heading).to_be_visible()
