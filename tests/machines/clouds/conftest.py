"""An EC2 endpoint for the tests here, and a gate before it."""

from collections.abc import Iterator

import pytest

from tests.machines.clouds import moto
from tests.machines.clouds.gate import Gate, standing_before


@pytest.fixture(scope="session")
def moto_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    if not moto.PROGRAM.exists():
        pytest.skip(moto.MISSING)
    with moto.started(tmp_path_factory.mktemp("moto") / "log") as url:
        yield url


@pytest.fixture
def gate(moto_url: str) -> Iterator[Gate]:
    moto.reset(moto_url)
    with standing_before(moto_url) as standing:
        yield standing
