"""The files that pages load, and the icons and status glyphs among them."""

import gzip
import re
from collections.abc import Mapping
from enum import StrEnum
from functools import cache, lru_cache
from hashlib import sha256
from importlib import resources
from typing import NamedTuple, Protocol, Self

from markupsafe import Markup
from starlette.responses import Response

from launchbay.model.instance import Health, InstanceStatus, health_of
from launchbay.model.job import JobStatus, is_cancellation

PATH = "/console/static"
NAMES = (
    "icon.svg",
    "icons.svg",
    "passkeys.js",
    "built/bare.css",
    "built/console.css",
    "built/console.js",
    "built/docs.css",
    "built/editor.js",
    "built/inter.woff2",
)
_FOLDER = resources.files("launchbay.console") / "static"
_TYPES = {
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
    ".woff2": "font/woff2",
}
_KEPT = 512  # pieces of pages: each page has some dozens of the same
_FOREVER = "public, max-age=31536000, immutable"


@cache
def content(name: str) -> bytes:
    return (_FOLDER / name).read_bytes()


class Stored(NamedTuple):
    """What stays the same while the server runs: plain, and compressed if smaller."""

    plain: bytes
    packed: bytes
    digest: str

    @classmethod
    def of(cls, data: bytes) -> Self:
        packed = gzip.compress(data, mtime=0)
        return cls(data, packed if len(packed) < len(data) else b"", sha256(data).hexdigest()[:32])

    def answer(self, asked: Mapping[str, str], headers: Mapping[str, str]) -> Response:
        """Return it in an encoding that the client accepts.

        304 if the client has it (RFC 9110 §8.8.3, §12.5.3).
        """
        is_packed = bool(self.packed) and _accepts_gzip(asked.get("accept-encoding", ""))
        tag = f'"{self.digest}{"-gzip" if is_packed else ""}"'
        varies = ", ".join(filter(None, (headers.get("Vary"), "Accept-Encoding")))
        sent = {**headers, "ETag": tag, "Vary": varies}
        known = {each.strip().removeprefix("W/") for each in asked.get("if-none-match", "").split(",")}
        if known & {tag, "*"}:
            return Response(status_code=304, headers=sent)
        return Response(
            self.packed if is_packed else self.plain,
            headers={**sent, **({"Content-Encoding": "gzip"} if is_packed else {})},
        )


def _accepts_gzip(header: str) -> bool:
    for part in header.split(","):
        name, _, weight = part.partition(";")
        if name.strip().lower() == "gzip":
            return re.fullmatch(r"q=0(\.0*)?", weight.strip().lower()) is None
    return False


@cache
def address(name: str) -> str:
    """Return the URL of a file, which changes with its content."""
    return f"{PATH}/{name}?{sha256(content(name)).hexdigest()[:12]}"


def asset(name: str, asked: Mapping[str, str]) -> Response | None:
    """Return a file for a request with these headers, None if it is unknown."""
    if name not in NAMES:
        return None
    kind = _TYPES[name[name.rindex(".") :]]
    return _stored(name).answer(asked, {"Content-Type": kind, "Cache-Control": _FOREVER})


@cache
def _stored(name: str) -> Stored:
    return Stored.of(content(name))


class Glyph(StrEnum):
    """A shape in `static/icons.svg`, and the class of its color."""

    OK = "ok"
    BUSY = "busy"
    WAIT = "wait"
    WARN = "warn"
    FAIL = "fail"
    QUEUED = "queued"
    SKIPPED = "skip-s"
    STOPPED = "stop"
    GONE = "gone"


# What people read for a status of the API, of instances, jobs, steps, deliveries and machines alike.
_SHOWN: dict[str, tuple[Glyph, str]] = {
    "requested": (Glyph.QUEUED, "Queued"),
    "executing": (Glyph.BUSY, "In progress"),
    "running": (Glyph.OK, "Running"),
    "succeeded": (Glyph.OK, "Succeeded"),
    "failed": (Glyph.FAIL, "Failed"),
    "cancelled": (Glyph.STOPPED, "Cancelled"),
    "interrupted": (Glyph.STOPPED, "Interrupted"),
    "skipped": (Glyph.SKIPPED, "Skipped"),
    "ignored": (Glyph.WARN, "Failed, ignored"),
    "waiting": (Glyph.WAIT, "Needs approval"),
    "degraded": (Glyph.WARN, "Degraded"),
    "sleeping": (Glyph.STOPPED, "Sleeping"),
    "ending": (Glyph.WAIT, "To be destroyed"),
    "destroying": (Glyph.BUSY, "Destroying"),
    "destroyed": (Glyph.GONE, "Destroyed"),
    "pending": (Glyph.QUEUED, "Pending"),
    "delivered": (Glyph.OK, "Delivered"),
}
# Amber stands for both: what needs somebody, and what deserves a look.
_COLOR_CLASS = {Glyph.WARN: "wait"}
_SVG = Markup('<svg class="g {}{}" {}><use href="{}#g-{}"/></svg>')
_ICON = Markup('<svg class="i" aria-hidden="true"><use href="{}#i-{}"/></svg>')


def shown_status(status: str) -> tuple[Glyph, str]:
    """Return the glyph and the words for a status of the API.

    A status that is not known here keeps its name.
    """
    return _SHOWN.get(status.lower(), (Glyph.QUEUED, status))


def run_status(status: str, *, has_started: bool, error: str | None, is_asking: bool = False) -> str:
    """Return the status of a run, for `shown_status`.

    It is that of the job, unless people call it something else.
    """
    if is_asking:
        return "waiting"
    if status == JobStatus.EXECUTING and not has_started:
        return "requested"
    return "cancelled" if status == JobStatus.FAILED and is_cancellation(error) else status


class InstanceState(Protocol):
    """What decides how an instance is shown.

    `job_outcome` is that of the job that ended last.
    """

    @property
    def status(self) -> str: ...
    @property
    def job_outcome(self) -> str | None: ...
    @property
    def is_asking(self) -> bool: ...
    @property
    def is_asleep(self) -> bool: ...
    @property
    def is_ending(self) -> bool: ...
    @property
    def is_incomplete(self) -> bool: ...


def instance_status(row: InstanceState) -> str:
    """Return the status of an instance, for `shown_status`.

    It waits while its running job asks for an approval. One that runs is degraded as `health_of` says, waits for a
    destroy that can be taken back, or is asleep.
    """
    if row.is_asking:
        return "waiting"
    health = health_of(InstanceStatus(row.status), row.job_outcome, is_incomplete=row.is_incomplete)
    if health is Health.DEGRADED:
        return "degraded"
    if health is not Health.HEALTHY:
        return row.status
    return "ending" if row.is_ending else "sleeping" if row.is_asleep else row.status


@lru_cache(_KEPT)
def color_class(kind: str) -> str:
    """Return the class with the colors of a glyph and its ground."""
    return _COLOR_CLASS.get(Glyph(kind), kind)


@lru_cache(_KEPT)
def glyph(kind: str, label: str = "") -> Markup:
    """Return a glyph. Without a label, it is decoration."""
    meaning = Markup('role="img" aria-label="{}"').format(label) if label else Markup('aria-hidden="true"')
    turning = " spin" if kind == Glyph.BUSY else ""
    return _SVG.format(color_class(kind), turning, meaning, address("icons.svg"), Glyph(kind))


@lru_cache(_KEPT)
def icon(name: str) -> Markup:
    """Return a line icon of `static/icons.svg`, as decoration."""
    return _ICON.format(address("icons.svg"), name)


@lru_cache(_KEPT)
def status_pill(status: str) -> Markup:
    """Return a status of the API on its soft ground."""
    kind, words = shown_status(status)
    return Markup('<span class="st pill {}">{}{}</span>').format(color_class(kind), glyph(kind), words)


@lru_cache(_KEPT)
def status_line(status: str) -> Markup:
    """Return a status of the API for the cell of a table."""
    kind, words = shown_status(status)
    return Markup('<span class="st plain {}">{}{}</span>').format(color_class(kind), glyph(kind), words)
