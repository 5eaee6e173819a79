"""The running service of the API tests, one for each file."""

from tests.support.service import own_service as api

__all__ = ["api"]
