"""The API browser at `/docs`: the OpenAPI document as a page, without scripts and without anything from elsewhere.

Why it is not one of the script-driven browsers is in docs/decisions/0031-api-browser-without-scripts.md.
"""

import json
from typing import Any

from launchbay.web.answers import Html
from launchbay.web.html import page


def api_page(described: dict[str, Any]) -> Html:
    """Return the page for an OpenAPI document."""
    families: dict[str, list[dict[str, Any]]] = {}
    for path, methods in described["paths"].items():
        for method, operation in methods.items():
            call = {
                "method": method.upper(),
                "path": path,
                "operation": operation,
                "curl": _curl(method.upper(), path, operation),
            }
            families.setdefault(operation["tags"][0], []).append(call)
    return page("api.html", described=described, families=families)


def _curl(method: str, path: str, operation: dict[str, Any]) -> str:
    """Return a command line that makes the call, with the example of its body."""
    words = ["curl"]
    if operation.get("security") != []:
        words += ["-u", "EMAIL:PASSWORD"]
    if method != "GET":
        words += ["-X", method]
    for media_type, body in operation.get("requestBody", {}).get("content", {}).items():
        example = body.get("example")
        text = example if isinstance(example, str) else json.dumps({} if example is None else example)
        quoted = text.replace("'", "'\\''")
        words += ["-H", f"'Content-Type: {media_type}'", "--data-binary", f"'{quoted}'"]
    return " ".join([*words, f'"$LAUNCHBAY{path}"'])
