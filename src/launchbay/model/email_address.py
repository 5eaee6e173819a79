"""The one form in which an email address names an account.

Unicode folds case in several ways, and databases and Python choose different ones, so two addresses could be the same
account for one and not for the other. ASCII has one way.
"""

import re

from launchbay.errors import BadRequest
from launchbay.limits import EMAIL_CHARS

# Printable ASCII. A colon would end the address in Basic credentials.
_CANONICAL = re.compile(r"[!-9;-?A-~]+@[!-9;-?A-~]+")


def canonical_email(text: str) -> str:
    """Return the address in lower case, without blanks around it.

    Raises BadRequest for what can't name an account.
    """
    email = text.strip(" ")
    if len(email) > EMAIL_CHARS or _CANONICAL.fullmatch(email) is None:
        raise BadRequest(
            f"Invalid email address {email[:100]!a}.",
            f"Use one @, only printable ASCII characters, no spaces or colons, and at most {EMAIL_CHARS} characters.",
            code="InvalidEmail",
            field="email",
        )
    return email.lower()
