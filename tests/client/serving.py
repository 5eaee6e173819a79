"""A whole service on a loopback port, run by a thread, for clients and commands that block."""

import re
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from textwrap import dedent

from anyio.from_thread import start_blocking_portal

from launchbay.client import Basic, Client
from tests.api.running import EMAIL, PASSWORD, Api, running_api, served
from tests.databases import Databases

GREETER = """
application:
  configuration:
    input.who: world
  interfaces:
    input:  { who: bind(greeter#input.who) }
    result: { greeting: bind(greeter#result.greeting) }
  components:
    greeter:
      type: workflow.Instance
      interfaces:
        input:  { who: configuration(string) }
        result: { greeting: publish-signal(string) }
      configuration:
        configuration.workflows:
          launch:
            steps:
              - breathe: { action: wait, parameters: { delay: 0 } }
            return:
              greeting: { value: "Hello, {$.who}!" }
"""
SLOW = """
launch:
  steps:
    - think: { action: wait, parameters: { delay: 1 } }
"""
FAILING = """
launch:
  steps:
    - call: { action: restcall, parameters: { command: "http://127.0.0.1:1/nothing" } }
"""


@dataclass(frozen=True)
class Server:
    """A running service: where it is, and its administrator's client."""

    url: str
    client: Client
    organization: str
    environment: str

    def application(self, name: str, manifest: str) -> str:
        """Make an application and return its id."""
        created = self.client.create_application(self.organization, name=name)
        self.client.replace_manifest(created.id, dedent(manifest))
        return created.id

    def refresh_token(self) -> str:
        """Generate a refresh token of the administrator."""
        page = self.client.generate_token(email=EMAIL, password=PASSWORD, label="tests")
        found = re.search(r"lbr_[\w-]+", page)
        assert found is not None, page
        return found[0]


@contextmanager
def serving(databases: Databases) -> Iterator[Server]:
    """Start a service and stop it after use."""
    url = databases.create()
    with (
        start_blocking_portal("asyncio") as portal,
        portal.wrap_async_context_manager(_running(url)) as (api, port),
        Client(f"http://127.0.0.1:{port}", Basic(EMAIL, PASSWORD)) as client,
    ):
        yield Server(f"http://127.0.0.1:{port}", client, api.organization, api.environment)
    databases.drop(url)


@asynccontextmanager
async def _running(url: str) -> AsyncIterator[tuple[Api, int]]:
    async with running_api(url) as api, served(api) as port:
        yield api, port
