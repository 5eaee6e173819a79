"""Keeps the state of OpenTofu while it works: whenever the program writes its file, the file goes into the database.

The program writes its state after every resource, so what is lost when this server dies is at most what was made since
the last look.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import msgspec

from launchbay.actions.contract import Documents
from launchbay.actions.tofu_module import KeptModule

LOOK_S = 0.5


class StateKeeper:
    """Writes one kept document, over the version that was read."""

    def __init__(self, documents: Documents, name: str, module: KeptModule, version: int) -> None:
        self._documents = documents
        self._name = name
        self._module = module
        self._version = version
        self._written: str | None = None
        self._writing = asyncio.Lock()  # a look that is broken off goes on writing, and the last one waits for it

    @asynccontextmanager
    async def following(self, state: Path) -> AsyncIterator[None]:
        """Keep the module before anything is made, then its state as it changes, and at the end however that comes."""
        await self._keep(self._module.state)
        looking = asyncio.create_task(self._look(state))
        try:
            yield
        finally:
            looking.cancel()
            with suppress(asyncio.CancelledError):
                await looking
            await asyncio.shield(self._keep_file(state))

    async def forget(self) -> None:
        """Drop the document: nothing is left of what it tells."""
        await self._documents.forget(self._name)

    async def _look(self, state: Path) -> None:
        while True:
            await asyncio.sleep(LOOK_S)
            await asyncio.shield(self._keep_file(state))

    async def _keep_file(self, state: Path) -> None:
        async with self._writing:
            text = await asyncio.to_thread(_whole_state, state)
            if text is not None and text != self._written:
                await self._keep(text)

    async def _keep(self, text: str) -> None:
        kept = msgspec.structs.replace(self._module, state=text)
        self._version = await self._documents.write(self._name, kept.encoded(), self._version)
        self._written = text


def _whole_state(state: Path) -> str | None:
    """Return the file's text, None where there is none or it is being written just now."""
    try:
        text = state.read_text("utf-8")
        msgspec.json.decode(text)
    except (OSError, UnicodeDecodeError, msgspec.DecodeError):
        return None
    return text
