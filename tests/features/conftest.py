"""The services for the tests of features: `visitor` and its services as in `tests/console`, and `api`.

The files share the service of `api`, and each has an organization of its own in it (decision 0259).
"""

from tests.support.pages import idle_service, visitor, working_service
from tests.support.service import api, own_service, shared_service
from tests.support.statements import exchanges

__all__ = ["api", "exchanges", "idle_service", "own_service", "shared_service", "visitor", "working_service"]
