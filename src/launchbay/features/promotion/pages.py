"""The board of an application: which version is in which environment, and what keeps it there."""

from starlette.responses import Response

from launchbay.console.assets import Glyph
from launchbay.console.request import HOME, PageRequest, Routes
from launchbay.errors import BadRequest, Conflict, LaunchbayError, NotAllowed, TooManyRequests
from launchbay.features.promotion import usecases as promotion
from launchbay.features.promotion.usecases import BoardColumn, PromotionRequest
from launchbay.limits import CHANGE_SET_EXPIRY_MS
from launchbay.usecases.applications import read_application

routes = Routes()


def _state(column: BoardColumn, *, is_first: bool) -> tuple[Glyph, str]:
    """Return the glyph of an environment, and what it says about what comes next."""
    if column.name is None:
        return Glyph.STOPPED, "Not shown" if column.is_hidden else "Deleted"
    if is_first:
        return Glyph.OK, "Where versions begin"
    if column.candidate is None:
        return Glyph.OK, "Nothing to promote"
    if column.is_open:
        return Glyph.OK, f"Version {column.candidate} can come"
    return Glyph.WAIT, f"Version {column.candidate} has to wait"


@routes.get("/console/applications/{id}/promotion")
async def show(request: PageRequest, problem: LaunchbayError | None = None) -> Response:
    """Show the environments of an application in their order."""
    application = await read_application(request.ctx, request.path("id"))
    values = request.ask(request.deps.tabs.application(request, application, "promotion"))
    board = await promotion.read_board(request.ctx, application.id)
    return await request.page(
        "promotion/templates/promotion.html",
        **await values,
        status=None if problem is None else request.deps.status_of(problem),
        problem=problem,
        board=board,
        columns=[
            (each, former, _state(each, is_first=former is None))
            for each, former in zip(board.columns, (None, *board.columns), strict=False)
        ],
    )


@routes.post("/console/applications/{id}/promotion")
async def promote(request: PageRequest) -> Response:
    """Make the change set of a promotion, and show it."""
    application = await read_application(request.ctx, request.path("id"))
    wanted = PromotionRequest(
        from_id=request.form.text("from"), to_id=request.form.text("to"), expires_in_ms=CHANGE_SET_EXPIRY_MS
    )
    try:
        made = await promotion.promote(request.ctx, application.id, wanted)
    except (BadRequest, Conflict, NotAllowed, TooManyRequests) as error:
        return await show(request, error)
    return request.redirect(
        f"{HOME}/organizations/{application.organization_id}/changes/{made.change_set.change_set.id}",
        "Change set created." if made.is_new else "This version is promoted already.",
    )
