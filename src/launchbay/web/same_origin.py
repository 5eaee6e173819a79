"""Pages outside the console take forms of their own alone; `auth/cookies.py` decides.

No cookie and no hidden field is needed there: these forms carry a password or a secret link themselves.
"""

from typing import Any

from launchbay.auth.cookies import require_own_form
from launchbay.web.call import Call


def require_same_origin(call: Call[Any, Any]) -> None:
    """Refuse a form that another site sent. Raises NotAllowed."""
    require_own_form(call.headers, call.services.base_url)
