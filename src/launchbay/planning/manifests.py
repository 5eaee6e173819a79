"""Compiled manifests by version. A version never changes, so a process compiles it once and keeps it."""

import asyncio
from collections import OrderedDict
from collections.abc import Callable
from typing import TypeVar

from launchbay.errors import Conflict
from launchbay.limits import KIB
from launchbay.manifest.graph import CompiledManifest
from launchbay.store import applications
from launchbay.store.database import Connection

KEPT = 256  # a compiled manifest of 500 lines takes about 1 MB
INLINE_CHARS = 16 * KIB  # takes a few milliseconds

T = TypeVar("T")


class CompiledManifests:
    """The most recently used compiled manifests of a process."""

    def __init__(self, compile_manifest: Callable[[bytes], CompiledManifest], kept: int = KEPT) -> None:
        self._compile = compile_manifest
        self._kept = kept
        self._by_version: OrderedDict[tuple[str, int], CompiledManifest] = OrderedDict()

    async def get(self, connection: Connection, application_id: str, version: int) -> CompiledManifest:
        """Return a stored manifest version, compiled.

        Raises InvalidManifest for one that this program does not accept any more. The version exists: callers have
        looked it up together with the application, and only its deletion meanwhile is Conflict.
        """
        key = (application_id, version)
        compiled = self._by_version.get(key)
        if compiled is None:
            content = await applications.content(connection, application_id=application_id, version=version)
            if content is None:
                raise Conflict("The application was deleted at the same moment.")
            compiled = self._by_version[key] = await unhurried(self._compile, content)
            if len(self._by_version) > self._kept:
                self._by_version.popitem(last=False)
        self._by_version.move_to_end(key)
        return compiled


async def unhurried(read: Callable[[bytes], T], text: str) -> T:
    """Return what `read` makes of a manifest text; a long one is read in a thread, so that nobody else waits for it."""
    return read(text.encode()) if len(text) <= INLINE_CHARS else await asyncio.to_thread(read, text.encode())
