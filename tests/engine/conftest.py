from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from launchbay.actions.registry import Registry
from launchbay.app import build
from launchbay.engine.worker import Engine
from tests.support.engine import Bay, no_migration


@pytest.fixture
async def bay(database_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Bay]:
    """An organization on a fresh database, and what runs jobs in it."""
    async with Bay(database_url, tmp_path) as made:
        monkeypatch.setattr(Registry, "load", made.actions)
        monkeypatch.setattr(build, "upgrade", no_migration)
        yield made


@pytest.fixture
async def engine(bay: Bay) -> Engine:
    """The engine of one process, not running by itself."""
    return await bay.engine()


@pytest.fixture
async def other_engine(bay: Bay) -> Engine:
    """The engine of a second process."""
    return await bay.engine()
