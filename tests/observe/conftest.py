"""The running service of the API tests, one for each file."""

from tests.api.conftest import api

__all__ = ["api"]
