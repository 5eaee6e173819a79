"""A Podman for the tests here; without one they are skipped with the precise reason."""

import tempfile
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from launchbay.machines.containers.engine_api import EngineApi
from tests.support import containers
from tests.support.containers import NoPodman, Podman


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Whatever starts containers is slow."""
    for item in items:
        if "engine_of_session" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.slow)


@pytest.fixture(scope="session")
def engine_of_session() -> Iterator[Podman]:
    # A short path: that of a socket has 107 characters at most.
    with tempfile.TemporaryDirectory(prefix="lb-podman-", ignore_cleanup_errors=True) as directory:
        try:
            with containers.started(Path(directory)) as started:
                yield started
        except NoPodman as reason:
            pytest.skip(f"containers cannot be run on this machine: {reason}")


@pytest.fixture
async def engine(engine_of_session: Podman) -> AsyncIterator[EngineApi]:
    api = EngineApi(str(engine_of_session.socket))
    yield api
    for known in await api.labelled({}):
        await api.remove(known.id)
    await api.aclose()
