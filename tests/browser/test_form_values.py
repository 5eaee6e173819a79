"""Chromium sends of forms what `tests/support/forms.py` takes for granted: line ends, and the first one of an area."""

from urllib.parse import parse_qsl

import httpx
import pytest
from playwright.sync_api import Page

from tests.support.browser import Site, fresh_name
from tests.support.forms import form_to

MANIFEST = """\
application:
  interfaces:
    input: {text: bind(worker#input.text), any: bind(worker#input.any)}
  components:
    worker:
      type: workflow.Instance
      interfaces: {input: {text: configuration(string), any: configuration(object)}}
      configuration: {input.text: "", input.any: {}, configuration.workflows: {launch: {steps: []}}}
"""
VALUES = ["1.10", "  both sides  ", "\n\nfirst line empty", "one\ntwo\n", "\u05e9\u05dc\u05d5\u05dd </textarea> &amp;"]


def _sent_as_assumed(page: Page, path: str, action: str) -> None:
    """Save a form without a change, and check that the browser sends what the tests without one send."""
    answer = page.goto(path)
    assert answer is not None
    form = form_to(httpx.Response(200, content=answer.body()), action)
    with page.expect_request(lambda request: request.method == "POST" and request.url.endswith(action)) as asked:
        page.evaluate(
            "action => [...document.forms].find(form => form.getAttribute('action') === action).submit()", action
        )
    body = asked.value.post_data or ""
    assert parse_qsl(body, keep_blank_values=True) == form.entries


@pytest.mark.parametrize("value", VALUES)
def test_forms_are_sent_as_the_tests_without_a_browser_assume(page: Page, site: Site, value: str) -> None:
    application = site.application(MANIFEST)
    body = {"name": fresh_name("spring"), "version": 2, "parameters": {"input.text": value, "input.any": value}}
    revision = site.ask("POST", f"applications/{application}/revisions", body)["id"]
    before = site.ask("GET", f"revisions/{revision}")
    _sent_as_assumed(page, f"/console/revisions/{revision}", f"/console/revisions/{revision}")
    page.wait_for_url("**/revisions")
    assert site.ask("GET", f"revisions/{revision}") == before
    environments = f"organizations/{site.organization}/environments"
    made = site.ask("POST", environments, {"name": fresh_name("Quay")})["id"]
    properties = {"properties": [{"name": "text", "type": "string", "value": value}]}
    site.ask("PUT", f"environments/{made}/properties", properties)
    _sent_as_assumed(page, f"/console/environments/{made}", f"/console/environments/{made}/properties")
    page.wait_for_url(f"**/console/environments/{made}#properties")
    assert site.ask("GET", f"environments/{made}/properties") == properties
    instance = site.launch(application)
    site.settled(instance)
    site.ask("PUT", f"instances/{instance}/userData", {"text": value})
    _sent_as_assumed(page, f"/console/instances/{instance}/settings", f"/console/instances/{instance}/userData")
    page.wait_for_url("**/settings#notes")
    assert site.ask("GET", f"instances/{instance}")["userData"] == {"text": value}
