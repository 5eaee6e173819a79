"""The live part of an instance's page, as server-sent events: ready HTML, made anew after every change."""

import asyncio
from collections.abc import AsyncGenerator
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
    asked = visit.query("line") or "0"
    line = int(asked) if asked.isascii() and asked.isdecimal() and len(asked) < 19 else 0
    people, told = None, ""
    yield f"retry: {_RETRY_MS}\n\n"
    try:
        async with aclosing(watch_instance(visit.desk, visit.actor, instance_id, None)) as happenings:
            async for _ in happenings:
                # The session may have ended meanwhile; the permission is looked at by every look.
                await visit.desk.sessions.authenticate(visit.session, visit.actor.address)
                view = await view_instance(visit, instance_id)
                if people is None:
                    people = await names_of_people(visit, view.record.organization_id)
                state = visit.text("instance_state.html", view=view)
                if state != told:
                    told = state
                    yield _event("state", state)
                may = await visit.may(view.record.organization_id)
                yield _event("live", visit.text("instance_live.html", people=people, may=may, **live_values(view)))
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
