import os
import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.nats_server import Dispatch, dispatch_settings, nats_servers
from tests.support.servers import fault_directory


@pytest.fixture
def tmp_path() -> Iterator[Path]:
    """A directory outside of pytest's own: every pytest that starts closes that to PostgreSQL's account."""
    with fault_directory() as directory:
        yield directory


@pytest.fixture
def seed() -> int:
    """What a campaign's chances follow from; it is in the figures, and LAUNCHBAY_FAULT_SEED repeats it."""
    return int(os.environ.get("LAUNCHBAY_FAULT_SEED") or random.SystemRandom().randrange(1_000_000))


@pytest.fixture(params=["postgresql", "jetstream"])
def dispatch(request: pytest.FixtureRequest) -> Iterator[Dispatch]:
    """PostgreSQL's announcements, and NATS JetStream."""
    if request.param == "postgresql":
        yield Dispatch()
        return
    with nats_servers() as running:
        yield Dispatch(" with JetStream", dispatch_settings(running))
