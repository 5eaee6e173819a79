"""The tab of signals: values with secrets masked, who reads them, and what has no value yet."""

import httpx
import pytest

from tests.support.pages import get
from tests.support.service import Api

SECRET = "salty-tide-0451"
MANIFEST = f"""\
application:
  interfaces: {{ result: {{ url: bind(web#result.url) }} }}
  bindings: [[web, store]]
  components:
    store:
      type: workflow.Instance
      interfaces: {{ db: {{ host: publish-signal(string), password: publish-signal(string) }} }}
      configuration:
        configuration.workflows:
          launch: {{ steps: [], return: {{ host: {{ value: db.example }}, password: {{ value: {SECRET} }} }} }}
    web:
      type: workflow.Instance
      required: [db]
      interfaces:
        db: {{ host: consume-signal(string), password: consume-signal(string) }}
        result: {{ url: publish-signal(string), late: publish-signal(int) }}
      configuration:
        configuration.workflows:
          launch: {{ steps: [], return: {{ url: {{ value: "https://web.example/" }} }} }}
"""


@pytest.fixture(scope="module")
def api(working_service: Api) -> Api:
    """The service with an engine, so that workflows return values."""
    return working_service


async def test_signals_show_their_values_and_readers_and_no_secret(api: Api, visitor: httpx.AsyncClient) -> None:
    instance = await api.launch(await api.application(MANIFEST))
    assert (await api.settled(instance))["status"] == "Running"
    here = f"/console/instances/{instance}/signals"
    page = await get(visitor, here)
    rows = {row.partition("<code>")[2].partition("</code>")[0]: row for row in page.answer.text.split("<tr")}
    assert "db.example" in rows["db.host"]
    assert ">web<" in rows["db.host"]
    assert SECRET not in page.answer.text
    assert "********" in rows["db.password"]
    assert "return value <code>result.url</code>" in rows["result.url"]
    assert "No value yet" in rows["result.late"]
    found = await get(visitor, f"{here}?q=late")
    assert "db.host" not in found.text
    assert "No signal matches" in (await get(visitor, f"{here}?q=nothing")).text
    assert here in (await get(visitor, f"/console/instances/{instance}")).links
