"""Which files and functions of the product does one launch run? python -m benchmarks.launch_trace

A launch of three steps, from the request to Running, and one GET of the instance, in the service that tests use: API,
engine and client are in this process; for the GET without the engine. What the engine does beside a launch at regular
times is in it, so that its figures differ by a few from run to run. A launch and a GET go before, so that what is
loaded or compiled once is not.
"""

import argparse
import asyncio
import sys
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import Any

import psycopg

import launchbay
from benchmarks.launches import THREE_STEPS
from tests.support.databases import Databases
from tests.support.service import running_api

SOURCE = f"{Path(launchbay.__file__).parent}/"


@dataclass
class Trace:
    """What ran: the functions, by file. Comprehensions and lambdas belong to the function that they are in."""

    functions: set[tuple[str, str]] = field(default_factory=set)

    def files(self) -> Counter[str]:
        """Return the files with how many of their functions ran."""
        return Counter(file for file, _ in self.functions)

    def note(self, frame: FrameType, event: str, _: Any) -> None:
        """Take a call, as `sys.setprofile` tells it."""
        code = frame.f_code
        if event == "call" and code.co_filename.startswith(SOURCE):
            self.functions.add((code.co_filename.removeprefix(SOURCE), code.co_qualname.partition(".<locals>.<")[0]))


@contextmanager
def traced() -> Iterator[Trace]:
    """Note every call in this thread and in threads that start meanwhile."""
    trace = Trace()
    threading.setprofile(trace.note)
    sys.setprofile(trace.note)
    try:
        yield trace
    finally:
        sys.setprofile(None)
        threading.setprofile(None)


async def running(url: str, instance: str) -> None:
    """Wait for Running without asking the product."""
    statement = "SELECT status FROM instances WHERE id = %s"
    async with await psycopg.AsyncConnection.connect(url, autocommit=True) as connection:
        while await (await connection.execute(statement, [instance])).fetchone() != ("Running",):
            await asyncio.sleep(0.02)


async def measure(url: str) -> dict[str, Trace]:
    """Launch, and read the instance."""
    async with running_api(url) as api:
        application = await api.application(THREE_STEPS.replace("ACTION", "wait").replace("DELAY", "0"))
        for _ in range(2):
            with traced() as launch:
                instance = await api.launch(application)
                await running(url, instance)
    async with running_api(url, engine=False) as api:
        for _ in range(2):
            with traced() as get:
                await api.document(instance)
    return {"launch of three steps": launch, "GET of an instance": get}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--files", action="store_true", help="list the files, with the functions that ran in each")
    arguments = parser.parse_args()
    with Databases.start() as databases:
        traces = asyncio.run(measure(databases.create()))
    for name, trace in traces.items():
        print(f"{name}: {len(trace.files())} files, {len(trace.functions)} functions")
        if arguments.files:
            print("\n".join(f"  {count:3} {file}" for file, count in sorted(trace.files().items())))


if __name__ == "__main__":
    main()
