"""Compiled manifests are kept by version, the most recently used ones."""

from pathlib import Path

import pytest

from launchbay.errors import InvalidManifest
from launchbay.manifest.graph import CompiledManifest
from launchbay.planning import CompiledManifests
from tests.engine.bay import Bay
from tests.manifest.compiling import compiled


async def test_a_version_is_compiled_once_and_the_longest_unused_goes_first(database_url: str, tmp_path: Path) -> None:
    async with Bay(database_url, tmp_path) as bay:
        for name in ("a", "b", "c"):
            await bay.instance(f"launch: {{steps: []}}\n{name}: {{steps: []}}\n")
        ids = [row[0] for row in await bay.rows("SELECT application_id FROM instances ORDER BY created_at")]
        done: list[str] = []

        def compile_noted(data: bytes) -> CompiledManifest:
            done.append(data.decode().split("\n")[1][0])
            return compiled(data.decode())

        kept = CompiledManifests(compile_noted, capacity=2)
        async with bay.database.connection() as connection:
            for place in (0, 0, 1, 0, 2, 0, 1):
                await kept.get(connection, ids[place], 1)
        assert done == ["a", "b", "c", "b"]


async def test_a_manifest_that_is_not_accepted_any_more_is_not_kept(database_url: str, tmp_path: Path) -> None:
    async with Bay(database_url, tmp_path) as bay:
        await bay.instance("launch: [")
        [(application,)] = await bay.rows("SELECT application_id FROM instances")
        kept = bay.manifests()
        async with bay.database.connection() as connection:
            with pytest.raises(InvalidManifest):
                await kept.get(connection, application, 1)
            await connection.execute(b"UPDATE manifests SET content = '{}'")
            assert (await kept.get(connection, application, 1)).commands == {}
