"""The board of an application, and the form of its order."""

import re
from typing import NamedTuple

from starlette.responses import Response

from launchbay.console.assets import Glyph
from launchbay.console.forms import Form, parse_number
from launchbay.console.request import HOME, PageRequest, Routes
from launchbay.errors import BadRequest, Conflict, LaunchbayError, NotAllowed, TooManyRequests
from launchbay.features.promotion import usecases as promotion
from launchbay.features.promotion.usecases import BoardColumn, Order, PromotionRequest
from launchbay.limits import CHANGE_SET_EXPIRY_MS
from launchbay.model.durations import parse_duration_s
from launchbay.model.expiry import duration
from launchbay.model.promotion import SOAK_MOST_S, STAGES_MOST, Stage
from launchbay.store.applications import Application
from launchbay.usecases.applications import read_application
from launchbay.usecases.environments import list_environments

routes = Routes()
_BLANK_ROWS = 2
_FIELDS = ("environment", "soak", "workflows", "approvals", "automatic")
_IN_API = {"environmentId": "environment", "": "environment"}  # where a problem of a stage is shown
_PLACE = re.compile(r"stages\[(\d+)\](?:\.(\w+))?: (.*)", re.DOTALL)


class StageRow(NamedTuple):
    """An environment of the order in the form. An empty one ends it."""

    environment: str = ""  # its name, or the ID of one that isn't there
    soak: str = ""
    workflows: str = ""
    approvals: str = ""
    automatic: bool = False

    def options(self, names: list[str]) -> list[tuple[str, str]]:
        """Return the choices of an environment, with the row's own."""
        lost = (
            [] if self.environment in {"", *names} else [(self.environment, f"{self.environment} (deleted or hidden)")]
        )
        return [("", "None"), *lost, *((name, name) for name in names)]


class OrderFields(NamedTuple):
    """The form of the order, as it is stored or was sent.

    `scope` is whose order it is: `application`, `organization`, or `inherit` for the application's own to go.
    """

    scope: str
    rows: list[StageRow]

    def shown(self) -> dict[str, str | bool]:
        """Return the fields that tell whether somebody else has saved."""
        found: dict[str, str | bool] = {"scope": self.scope}
        for number, row in enumerate(self.rows):
            found |= {f"{name}-{number}": text for name, text in zip(_FIELDS, row[:-1], strict=False)}
            found[f"automatic-{number}"] = row.automatic
        return found


def _state(column: BoardColumn, *, is_first: bool) -> tuple[Glyph, str]:
    """Return the glyph of an environment, and what it says about what comes next."""
    if column.name is None:
        return Glyph.STOPPED, "Not shown" if column.is_hidden else "Deleted"
    if is_first:
        return Glyph.OK, "Where versions begin"
    if column.candidate is None:
        return Glyph.OK, "Nothing to promote"
    if column.is_open:
        return Glyph.OK, f"Version {column.candidate} can be promoted"
    return Glyph.WAIT, f"Version {column.candidate} is waiting"


@routes.get("/console/applications/{id}/promotion")
async def show(request: PageRequest, problem: LaunchbayError | None = None) -> Response:
    """Show the environments of an application in their order."""
    application = await read_application(request.ctx, request.path("id"))
    values = request.ask(request.deps.tabs.application(request, application, "promotion"))
    board = await promotion.read_board(request.ctx, application.id)
    listed = await list_environments(request.ctx, application.organization_id)
    names = {each.id: each.name for each in listed}
    stored = _fields(board.order, names)
    fields = _sent(request.form) if request.form.has("scope") else stored
    return await request.page(
        "promotion/templates/promotion.html",
        **await values,
        status=None if problem is None else request.deps.status_of(problem),
        problem=problem,
        board=board,
        order=fields,
        order_rows=[*fields.rows, *([StageRow()] * (0 if request.form.has("scope") else _BLANK_ROWS))][:STAGES_MOST],
        order_seen=request.seen("promotion/order", _saved(board.order, names)),
        order_names=[each.name for each in listed],
        columns=[
            (each, former, _state(each, is_first=former is None))
            for each, former in zip(board.columns, (None, *board.columns), strict=False)
        ],
    )


@routes.post("/console/applications/{id}/promotion/order", again=show, refusals=(BadRequest, NotAllowed))
async def save_order(request: PageRequest) -> Response:
    """Set the order of an application, or of its organization."""
    ctx = request.ctx
    application = await read_application(ctx, request.path("id"))
    listed = await list_environments(ctx, application.organization_id)
    names = {each.id: each.name for each in listed}

    async def read() -> dict[str, str | bool]:
        return _saved(await promotion.read_order(ctx, "application", application.id), names)

    async with request.unless_changed("organizations", application.organization_id, read):
        await _replace(request, application, {each.name: each.id for each in listed})
    return request.redirect(f"{HOME}/applications/{application.id}/promotion", "Order saved.")


async def _replace(request: PageRequest, application: Application, ids: dict[str, str]) -> None:
    fields = _sent(request.form)
    filled = [number for number, row in enumerate(fields.rows) if row != StageRow()]
    try:
        stages = [_stage(fields.rows[number], ids, number) for number in filled]
        if fields.scope == "organization":
            await promotion.replace_order(request.ctx, "organization", application.organization_id, stages)
            return
        own = None if fields.scope == "inherit" else stages
        await promotion.replace_order(request.ctx, "application", application.id, own)
    except BadRequest as error:
        found = _PLACE.fullmatch(error.messages[0])
        if found is None or int(found[1]) >= len(filled):
            raise
        name = found[2] or ""
        field = f"{_IN_API.get(name, name)}-{filled[int(found[1])]}"
        raise BadRequest(found[3][:1].upper() + found[3][1:], code=error.code, field=field) from error


def _stage(row: StageRow, ids: dict[str, str], number: int) -> Stage:
    """Return the stage of a row. Raises BadRequest about its field."""
    soak_s, approvals = 0.0, parse_number(row.approvals or "0")
    if row.soak:
        try:
            soak_s = parse_duration_s(row.soak, longest_s=SOAK_MOST_S)
        except ValueError as error:
            raise BadRequest(str(error), code="InvalidPromotion", field=f"soak-{number}") from error
    if approvals is None:
        raise BadRequest("Give a whole number.", code="InvalidPromotion", field=f"approvals-{number}")
    return Stage(
        environment_id=ids.get(row.environment, row.environment),
        soak_s=round(soak_s),
        workflows=tuple(row.workflows.split()),
        approvals=approvals,
        automatic=row.automatic,
    )


def _fields(order: Order, names: dict[str, str]) -> OrderFields:
    rows = [_row(each, names) for each in order.stages]
    return OrderFields("application" if order.is_own else "organization", rows)


def _saved(order: Order, names: dict[str, str]) -> dict[str, str | bool]:
    """Return all orders that the form can replace, hidden ones too."""
    found = _fields(order, names).shown()
    if order.is_own:
        under = [
            " ".join(filter(None, (*_row(each, names)[:-1], "automatic" if each.automatic else None)))
            for each in order.hidden_stages
        ]
        found["order of the organization"] = ", ".join(under)
    return found


def _row(stage: Stage, names: dict[str, str]) -> StageRow:
    return StageRow(
        names.get(stage.environment_id, stage.environment_id),
        duration(stage.soak_s * 1_000).replace(",", "") if stage.soak_s else "",  # as it can be typed
        " ".join(stage.workflows),
        str(stage.approvals) if stage.approvals else "",
        stage.automatic,
    )


def _sent(form: Form) -> OrderFields:
    count = 0
    while count < STAGES_MOST and form.has(f"environment-{count}"):
        count += 1
    rows = []
    for at in range(count):
        environment, soak, workflows, approvals = (form.text(f"{name}-{at}") for name in _FIELDS[:-1])
        rows.append(StageRow(environment, soak, workflows, approvals, automatic=form.has(f"automatic-{at}")))
    return OrderFields(form.text("scope"), rows)


@routes.post(
    "/console/applications/{id}/promotion", again=show, refusals=(BadRequest, Conflict, NotAllowed, TooManyRequests)
)
async def promote(request: PageRequest) -> Response:
    """Make the change set of a promotion, and show it."""
    application = await read_application(request.ctx, request.path("id"))
    wanted = PromotionRequest(
        from_id=request.form.text("from"), to_id=request.form.text("to"), expires_in_ms=CHANGE_SET_EXPIRY_MS
    )
    made = await promotion.promote(request.ctx, application.id, wanted)
    found = made.change_set.change_set
    return request.redirect(
        f"{HOME}/organizations/{application.organization_id}/changes/{found.id}",
        "Change set created." if made.is_new else f"This version has a change set, which is {found.status}.",
    )
