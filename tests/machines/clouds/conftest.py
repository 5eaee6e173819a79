"""An EC2 endpoint for the tests here, and a gate before it."""

from collections.abc import Iterator

import pytest

from tests.support import clouds
from tests.support.clouds import Gate, standing_before


@pytest.fixture(scope="session")
def moto_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    if not clouds.PROGRAM.exists():
        pytest.skip(clouds.MISSING)
    with clouds.started(tmp_path_factory.mktemp("moto") / "log") as url:
        yield url


@pytest.fixture
def gate(moto_url: str) -> Iterator[Gate]:
    clouds.reset(moto_url)
    with standing_before(moto_url) as standing:
        yield standing
