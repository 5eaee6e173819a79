"""Who looks at a population: somebody who may see everything of an organization, and somebody who may see little."""

import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager

import structlog

from tests.support.pages import browser
from tests.support.service import EMAIL, PASSWORD, Caller, served
from tests.support.truth.agreement import Agreement
from tests.support.truth.comparisons import View
from tests.support.truth.oracle import Oracle, read_tables
from tests.support.truth.population import Population
from tests.support.truth.recording import Record, Recorded
from tests.support.truth.surfaces import Console


@contextmanager
def logs_apart() -> Iterator[None]:
    """Keep what the server logs out of what commands print.

    Both run in this process, in two threads, and a command takes `sys.stdout` for itself. Lines of the log that were
    left out afterwards were now and then in the middle of a document. (structlog's usual logger prints to what
    `sys.stdout` is at that moment, even if it is given a file.)
    """
    former = structlog.get_config()["logger_factory"]
    structlog.configure(logger_factory=structlog.WriteLoggerFactory(sys.__stdout__))
    try:
        yield
    finally:
        structlog.configure(logger_factory=former)


@asynccontextmanager
async def viewers(population: Population) -> AsyncIterator[list[View]]:
    """Give an administrator, and a member who may see one environment."""
    tables = read_tables(population.url)
    now, member = population.clock.now(), population.member
    people: list[tuple[str, Caller, tuple[str, str], Oracle]] = [
        ("administrator", population.administrator, (EMAIL, PASSWORD), Oracle(tables, now, population.organization)),
        (
            "member",
            member,
            (member.email, member.password),
            Oracle(tables, now, population.organization, population.environments["staging"]),
        ),
    ]
    async with AsyncExitStack() as stack:
        stack.enter_context(logs_apart())
        url = f"http://127.0.0.1:{await stack.enter_async_context(served(population.api))}"
        found = []
        for name, caller, (email, password), oracle in people:
            record = Record(check=Agreement(oracle).of)
            client = await stack.enter_async_context(browser(population.api))
            answer = await client.post("/console/signIn", data={"email": email, "password": password})
            assert answer.status_code == 303, answer.text
            transports = [Recorded(each._transport, record) for each in (client, caller.client)]
            client._transport, caller.client._transport = transports
            found.append(View(name, caller, Console(client), oracle, url, email, password, record, transports))
        yield found
