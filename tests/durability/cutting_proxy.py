"""A way to PostgreSQL that breaks: it passes on what a client sends, and may close before the answer comes back.

So a COMMIT is carried out and its answer is lost, the one case in which nobody can know at once what has happened.

Or it falls silent: connections stay open, new ones are taken, and nothing gets through, until it speaks again and what
was held back arrives late.
"""

import asyncio
import contextlib
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

_SOCKET = ".s.PGSQL.5432"


@dataclass
class CuttingProxy:
    """Cuts with this chance each time that a client has sent something; `cuts` counts. Silent while not `flowing`."""

    target: Path
    directory: Path
    chance: random.Random
    share: float = 0.0
    cuts: int = 0
    flowing: asyncio.Event = field(default_factory=asyncio.Event)
    _open: set[asyncio.Task[None]] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.flowing.set()

    @property
    def url(self) -> str:
        return f"postgresql://launchbay@/launchbay?host={self.directory}&port=5432"

    async def accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Carry one connection until an end closes it or it is cut."""
        task = asyncio.current_task()
        assert task is not None
        self._open.add(task)
        try:
            await self.flowing.wait()
            there, back = await asyncio.open_unix_connection(self.target / _SOCKET)
        except (OSError, asyncio.CancelledError):
            writer.close()
            self._open.discard(task)
            return
        answering = asyncio.create_task(self._answer(there, writer))
        try:
            while (data := await reader.read(65_536)) and not answering.done():
                if self.chance.random() < self.share:
                    self.cuts += 1
                    answering.cancel()  # before it is sent, so that nothing of the answer can slip through
                    back.write(data)
                    await back.drain()
                    await asyncio.sleep(0.05)  # the statement is carried out; a closed connection would end it
                    break
                await self.flowing.wait()
                back.write(data)
                await back.drain()
        except (OSError, asyncio.CancelledError):
            pass
        finally:
            answering.cancel()
            writer.transport.abort()
            back.close()
            self._open.discard(task)

    async def end(self) -> None:
        """Close what is open."""
        for task in list(self._open):
            task.cancel()
        await asyncio.gather(*self._open, return_exceptions=True)

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError):
            while data := await reader.read(65_536):
                await self.flowing.wait()
                writer.write(data)
                await writer.drain()
            writer.close()


@asynccontextmanager
async def cutting_proxy(target: Path, directory: Path, seed: int) -> AsyncIterator[CuttingProxy]:
    """Listen in a directory for the PostgreSQL whose socket is in `target`."""
    directory.mkdir(parents=True, exist_ok=True)
    proxy = CuttingProxy(target, directory, random.Random(seed))
    server = await asyncio.start_unix_server(proxy.accept, directory / _SOCKET)
    try:
        yield proxy
    finally:
        server.close()
        await proxy.end()
