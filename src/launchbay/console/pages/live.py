"""The live part of an instance's page, as server-sent events: ready HTML, made anew after every change."""

import asyncio
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing

from starlette.responses import Response, StreamingResponse

from launchbay.console.instance_view import view_instance
from launchbay.console.page import Page
from launchbay.console.pages.instances import live_values
from launchbay.console.people import names_of_people
from launchbay.console.rendering import HEADERS
from launchbay.console.visit import Visit
from launchbay.errors import LaunchbayError
from launchbay.usecases.browsing import read_instance_record
from launchbay.usecases.events import log_of, watch_instance
from launchbay.usecases.sign_in import caller_of_session

_PAUSE_S = 0.2  # between two renewals: nobody reads faster
_LINES_AT_ONCE = 500
_RETRY_MS = 2_000


async def watch(visit: Visit) -> Response:
    """Stream the live part and new lines of the log, for as long as the browser listens."""
    await read_instance_record(visit.desk, visit.actor, visit.path("id"))  # refusals are answers, not streams
    return StreamingResponse(
        _events(visit), media_type="text/event-stream", headers={**HEADERS, "X-Accel-Buffering": "no"}
    )


async def _events(visit: Visit) -> AsyncGenerator[str, None]:
    instance_id = visit.path("id")
    first = visit.query("line") or "0"
    line = int(first) if first.isascii() and first.isdecimal() and len(first) < 19 else 0
    people: Mapping[str, str] | None = None
    told: dict[str, str] = {}
    yield f"retry: {_RETRY_MS}\n\n"
    try:
        async with aclosing(watch_instance(visit.desk, visit.actor, instance_id, None)) as happenings:
            async for _ in happenings:
                # The session may have ended meanwhile; the permission is looked at by every look.
                await caller_of_session(visit.desk, visit.session, visit.actor.address)
                view = await view_instance(visit, instance_id)
                if people is None:
                    people = await names_of_people(visit, view.record.organization_id)
                may = await visit.may(view.record.organization_id)
                shown = {"people": people, "may": may, "caller": visit.actor, **live_values(view)}
                for name in ("state", "approvals", "live"):
                    # Only what differs: whoever writes a comment to an approval is not to lose it.
                    text = visit.text(f"instance_{name}.html", **shown)
                    if told.get(name) != text:
                        told[name] = text
                        yield _event(name, text)
                async for rows in log_of(
                    visit.desk, visit.actor, instance_id, job_id=None, step=None, after=line, limit=_LINES_AT_ONCE
                ):
                    if rows:
                        line = rows[-1].id
                        yield _event("log", visit.text("log_lines.html", lines=rows))
                await asyncio.sleep(_PAUSE_S)
    except LaunchbayError as error:
        yield _event("over", visit.text("live_over.html", sentences=error.sentences))


def _event(name: str, text: str) -> str:
    """Return an event; every line of its text is a line of data, whatever ends it."""
    lines = "".join(f"data: {line}\n" for line in text.splitlines())
    return f"event: {name}\n" + (lines or "data:\n") + "\n"


PAGES = (Page("GET", "/console/instances/{id}/events", watch),)
