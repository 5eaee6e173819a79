"""Operations of the API: description.

Made from the endpoint table by `python -m generators`; a test holds that it is up to date.
"""

from typing import Any

from launchbay.client.call import Call, Row
from launchbay.client.operation import operation


@operation(Row(id="openapi", method="GET", path="/api/1/openapi.json", public=True))
def openapi() -> Call[dict[str, Any]]:
    """Describes this API: an OpenAPI 3.1 document."""
    return Call(dict[str, Any])


@operation(Row(id="browse_api", method="GET", path="/docs", answer="text/html", public=True))
def browse_api() -> Call[str]:
    """Shows this API as a page: calls by family, parameters, answers, and command lines to try."""
    return Call(str)
