"""Tests with public manifests, which are not in the repository: `make test-public DIR=…` says where they are."""

from collections.abc import AsyncIterator

import pytest

from tests.support.databases import Databases
from tests.support.manifests import PUBLIC
from tests.support.public_manifests import ANSWERS
from tests.support.service import Api, on_dry_machines
from tests.support.service import own_service as api

__all__ = ["api"]

collect_ignore_glob = [] if PUBLIC else ["test_*.py"]


@pytest.fixture(scope="module")
async def dry(databases: Databases, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Api]:
    """A service on dry-run machines whose answers suit the manifests."""
    async with on_dry_machines(databases, tmp_path_factory.mktemp("answers"), ANSWERS) as started:
        yield started
