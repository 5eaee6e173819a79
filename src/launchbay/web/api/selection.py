"""Choices of instances, and pages of what became of each."""

from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Annotated, Any, Literal, TypeVar

import msgspec

from launchbay.errors import BadRequest
from launchbay.limits import BULK_INSTANCES
from launchbay.model.labels import read_selector
from launchbay.usecases.fleet import InstanceFilter
from launchbay.usecases.selection import SELECTED_ID_CHARS
from launchbay.web.api.fleet import FleetFilter
from launchbay.web.requests import Request
from launchbay.web.responses import JSONResponse, Pages, Response, next_link

RowT = TypeVar("RowT")


class Selection(FleetFilter, frozen=True, forbid_unknown_fields=True):
    """The filters of the organization's list of instances, or `all` of them."""

    all: Annotated[bool, msgspec.Meta(description="Every instance of the organization, without filters.")] = False
    q: Annotated[
        str | None,
        msgspec.Meta(
            description="Only instances with each of these words in the name or a label's value. A word of"
            f" {SELECTED_ID_CHARS} characters or more may begin the ID instead."
        ),
    ] = None

    def filter(self) -> InstanceFilter:
        """Return what to look for.

        Raises BadRequest, also where an empty text would choose all instances.
        """
        given = {
            name: value
            for name in self.__struct_fields__
            if (value := getattr(self, name)) is not None and value is not False
        }
        if not given:
            raise BadRequest(
                "select has no filter, which would choose every instance of the organization.",
                "Give a filter, or say all: true if you mean every instance.",
                code="NothingChosen",
            )
        if self.all and len(given) > 1:
            others = ", ".join(sorted(given.keys() - {"all"}))
            raise BadRequest(f"select: all goes without {others}. Leave out one of them.", code="InvalidFilter")
        for name, value in given.items():
            if isinstance(value, str) and not value.strip():
                raise BadRequest(f"select: {name} is empty. Leave it out, or give it a value.", code="InvalidFilter")
        if any(not value for _, value in read_selector(self.labels or "").unlike):
            raise BadRequest(
                "select: labels has a term that leaves out an empty value only, so it chooses nearly all instances.",
                "Write `team` for the instances with the label, or `!team` for those without it.",
                code="InvalidFilter",
            )
        return replace(super().filter(), id_chars=SELECTED_ID_CHARS)


class OutcomeQuery(Pages, frozen=True):
    """Paging and filter of the instances of a bulk run."""

    status: Annotated[
        Literal["Waiting", "Running", "Succeeded", "Failed", "Refused", "Cancelled"] | None,
        msgspec.Meta(description="Only instances with this status."),
    ] = None


async def page_of_outcomes(
    request: Request[Any, Any], read: Callable[..., Awaitable[list[RowT]]], shown_as: Callable[[RowT], Any]
) -> Response:
    """Return a page of instances whose IDs are their places, as `place_id` writes them."""
    query: Pages = request.query
    limit = query.most_items
    rows = await read(after=min(int(query.after or "0", 16), BULK_INSTANCES), count=limit + 1)
    shown = [shown_as(row) for row in rows[:limit]]
    return JSONResponse(shown, next_link(request, shown[-1].id) if len(rows) > limit else ())


def place_id(place: int) -> str:
    """Return a place in the order of instances, written as an ID."""
    return f"{place:024x}"
