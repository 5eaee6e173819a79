"""Compiled manifests: the most recently used ones of a process."""

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Collection
from functools import partial
from typing import NamedTuple, TypeVar

from launchbay import limits
from launchbay.errors import Conflict
from launchbay.manifest.graph import (
    CompiledManifest,
)
from launchbay.store import applications
from launchbay.store.database import Connection, on_transaction_end

INLINE_CHARS = 16 * limits.KIB  # compiles in a few milliseconds
# Of the texts that stay compiled, where a short one counts as INLINE_CHARS: 256 manifests of 500 lines, of which each
# takes about 1 MB of memory, or four of the longest ones.
CACHED_CHARS = 256 * INLINE_CHARS
T = TypeVar("T")


class _Kept(NamedTuple):
    """A compiled manifest, with what counts of the length of its text."""

    compiled: CompiledManifest
    chars: int


class CompiledManifests:
    """The most recently used compiled manifests of a process.

    `compiler` names all that decides whether a text compiles: release, plug-ins and bounds.
    """

    def __init__(
        self,
        compile_manifest: Callable[[bytes], CompiledManifest],
        capacity_chars: int = CACHED_CHARS,
        *,
        compiler: str = "",
    ) -> None:
        self.compiler = compiler
        self._compile = compile_manifest
        self._capacity_chars = capacity_chars
        self._by_version: OrderedDict[tuple[str, int], _Kept] = OrderedDict()

    async def get(self, connection: Connection, application_id: str, version: int) -> CompiledManifest:
        """Return a stored manifest version, compiled.

        Raises InvalidManifest for one that this program no longer accepts, and Conflict if the application was deleted
        after the caller looked up the version.
        """
        compiled = self.cached(application_id, version)
        if compiled is None:
            key = (application_id, version)
            content = await applications.get_manifest(connection, application_id=application_id, version=version)
            if content is None:
                raise Conflict("Another request deleted the application.")
            compiled = await off_loop_if_large(self._compile, content)
            self._keep(key, _Kept(compiled, max(len(content), INLINE_CHARS)))
            if connection.in_transaction:
                on_transaction_end(connection, partial(self._forget_unless_committed, key, compiled))
        return compiled

    def _keep(self, key: tuple[str, int], kept: _Kept) -> None:
        """Keep a compiled manifest, whatever its length, and forget what was used longest ago beyond the capacity."""
        self._by_version[key] = kept
        chars = sum(each.chars for each in self._by_version.values())
        while chars > self._capacity_chars and len(self._by_version) > 1:
            _, forgotten = self._by_version.popitem(last=False)
            chars -= forgotten.chars

    def cached(self, application_id: str, version: int) -> CompiledManifest | None:
        """Return a stored manifest version if it is in memory, which needs no connection."""
        key = (application_id, version)
        kept = self._by_version.get(key)
        if kept is None:
            return None
        self._by_version.move_to_end(key)
        return kept.compiled

    def forget(self, application_ids: Collection[str]) -> None:
        """Forget all versions of applications, before a savepoint takes newer ones back."""
        for key in [each for each in self._by_version if each[0] in application_ids]:
            del self._by_version[key]

    def _forget_unless_committed(self, key: tuple[str, int], compiled: CompiledManifest, committed: bool) -> None:  # noqa: FBT001 - a callback's
        """Forget a version that the transaction itself may have made.

        After a rollback, its number gets another text.
        """
        kept = self._by_version.get(key)
        if not committed and kept is not None and kept.compiled is compiled:
            del self._by_version[key]

    async def compile(self, text: str) -> CompiledManifest:
        """Return a manifest that isn't stored, compiled. Raises InvalidManifest."""
        return await off_loop_if_large(self._compile, text)


async def off_loop_if_large(read: Callable[[bytes], T], text: str) -> T:
    """Return `read(text)`; a long text is read in a thread, so that it doesn't block the event loop."""
    return read(text.encode()) if len(text) <= INLINE_CHARS else await asyncio.to_thread(read, text.encode())
