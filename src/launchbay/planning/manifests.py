"""Compiled manifests by version. A version never changes, so a process compiles it once and keeps it."""

from collections import OrderedDict
from collections.abc import Callable

from launchbay.manifest.graph import CompiledManifest
from launchbay.store import manifests
from launchbay.store.pool import Connection

KEPT = 256  # a compiled manifest of 500 lines takes about 1 MB


class CompiledManifests:
    """The most recently used compiled manifests of a process."""

    def __init__(self, compile_manifest: Callable[[bytes], CompiledManifest], kept: int = KEPT) -> None:
        self._compile = compile_manifest
        self._kept = kept
        self._by_version: OrderedDict[tuple[str, int], CompiledManifest] = OrderedDict()

    async def get(self, connection: Connection, application_id: str, version: int) -> CompiledManifest:
        """Return a stored manifest version, compiled.

        Raises InvalidManifest for one that this program does not accept any more. The version must exist: callers have
        looked it up together with the application.
        """
        key = (application_id, version)
        compiled = self._by_version.get(key)
        if compiled is None:
            content = await manifests.content(connection, application_id=application_id, version=version)
            assert content is not None, f"manifest version {version} of application {application_id} exists"
            compiled = self._by_version[key] = self._compile(content.encode())
            if len(self._by_version) > self._kept:
                self._by_version.popitem(last=False)
        self._by_version.move_to_end(key)
        return compiled
