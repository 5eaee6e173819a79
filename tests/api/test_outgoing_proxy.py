"""A server whose settings name an outgoing proxy sends through it what people and workflows ask for."""

from pathlib import Path

import pytest

from tests.support.databases import Databases
from tests.support.eventually import eventually
from tests.support.network import loopback_server
from tests.support.outgoing_proxies import outgoing_proxy, squid
from tests.support.service import accepted, running_api

pytestmark = [pytest.mark.anyio, pytest.mark.slow]  # starts a real proxy
MANIFEST = """
application:
  components:
    web:
      type: workflow.Instance
      configuration:
        configuration.workflows:
          launch:
            steps:
              - call: { action: restcall, parameters: { command: "%s" } }
"""


async def test_manifests_webhooks_and_steps_go_through_the_proxy(databases: Databases, tmp_path: Path) -> None:
    credentials = tmp_path / "credentials"
    credentials.write_text("ops:pass-w0rd\n")
    url = databases.create()
    with outgoing_proxy(squid, credentials="ops:pass-w0rd", refused=["refused.launchbay.test"]) as proxy:
        async with (
            loopback_server() as server,
            running_api(
                url,
                outgoing_proxy=proxy.url,
                outgoing_proxy_credentials_file=str(credentials),
                outgoing_allow="http://hooks.launchbay.test",
            ) as api,
        ):
            hook = server.url("/hook", host="hooks.launchbay.test")
            body = {"url": hook, "events": ["job"]}
            accepted(await api.post(f"organizations/{api.organization}/webhooks", body))
            call = server.url("/call", host="api.launchbay.test")
            await api.running(MANIFEST % call)

            await eventually(lambda: {each.target for each in server.received} == {"/hook", "/call"})
            carried = proxy.carried()
            assert f"POST {hook} ops" in carried
            assert f"GET {call} ops" in carried
    databases.drop(url)
