"""The style sheet and the built scripts: served from the package, with their content's sum in their address."""

from functools import cache
from hashlib import sha256
from importlib import resources

from starlette.responses import Response

PATH = "/console/static"
_FOLDER = resources.files("launchbay.console") / "static"
_TYPES = {".css": "text/css; charset=utf-8", ".js": "text/javascript; charset=utf-8", ".svg": "image/svg+xml"}
_FOREVER = "public, max-age=31536000, immutable"
NAMES = ("console.css", "icon.svg", "built/console.js", "built/editor.js", "built/graph.js")


@cache
def _content(name: str) -> bytes:
    return (_FOLDER / name).read_bytes()


@cache
def address(name: str) -> str:
    """Return where a file is found; another content has another address, so browsers may keep it for ever."""
    return f"{PATH}/{name}?{sha256(_content(name)).hexdigest()[:12]}"


def asset(name: str) -> Response | None:
    """Return a file of the console, or None where there is none of this name."""
    if name not in NAMES:
        return None
    kind = _TYPES[name[name.rindex(".") :]]
    return Response(_content(name), headers={"Content-Type": kind, "Cache-Control": _FOREVER})
