"""The masked values of a service or an instance, and revealing one."""

from typing import Any

from starlette.responses import Response

from launchbay.console.request import HOME, PageRequest, Routes
from launchbay.errors import LaunchbayError
from launchbay.store.services import Service
from launchbay.usecases import secrets
from launchbay.usecases.secrets import SecretKind, Secrets

routes = Routes()
SHOWN_S = 30
_KEPT = "secret"  # kept by a vault


@routes.get("/console/services/{id}/secrets", query=("kind", "name"))
async def show_of_service(
    request: PageRequest, problem: LaunchbayError | None = None, *, value: tuple[str, Any] | None = None
) -> Response:
    """Show a service's secret parameters by name."""
    return await _page(request, await secrets.list_service_secrets(request.ctx, request.path("id")), problem, value)


@routes.post("/console/services/{id}/secrets", again=show_of_service)
async def reveal_of_service(request: PageRequest) -> Response:
    name = request.form.text("name")
    value = await secrets.reveal_service_secret(request.ctx, request.path("id"), name, request.form.text("reason"))
    return await show_of_service(request, value=(name, value))


@routes.get("/console/instances/{id}/secrets", query=("kind", "name"))
async def show_of_instance(
    request: PageRequest, problem: LaunchbayError | None = None, *, value: tuple[str, Any] | None = None
) -> Response:
    """Show an instance's masked values by name."""
    return await _page(request, await secrets.list_instance_secrets(request.ctx, request.path("id")), problem, value)


@routes.post("/console/instances/{id}/secrets", again=show_of_instance)
async def reveal_of_instance(request: PageRequest) -> Response:
    form = request.form
    name = form.text("name")
    kind = SecretKind.RETURN_VALUES if form.text("kind") == SecretKind.RETURN_VALUES else SecretKind.PARAMETERS
    value = await secrets.reveal_instance_secret(request.ctx, request.path("id"), kind, name, form.text("reason"))
    return await show_of_instance(request, value=(name, value))


async def _page(
    request: PageRequest, found: Secrets, problem: LaunchbayError | None, value: tuple[str, Any] | None
) -> Response:
    owner = found.owner
    noun = "services" if isinstance(owner, Service) else "instances"
    permissions = await request.permissions(owner.organization_id)
    is_service = isinstance(owner, Service)
    allowed = permissions.reveal_service(owner.id) if isinstance(owner, Service) else permissions.reveal_instance(owner)
    base = f"{HOME}/{noun}/{owner.id}"
    response = await request.page(
        "secrets.html",
        section=noun,
        organization_id=owner.organization_id,
        problem=problem,
        owner=owner,
        base=base,
        is_service=is_service,
        rows=[
            *((kind.value, name) for kind, names in found.names.items() for name in names),
            *((_KEPT, row.name) for row in found.secrets),
        ],
        allowed=allowed,
        asked=(request.form.text("kind") or request.query("kind"), request.form.text("name") or request.query("name")),
        revealed=value,
        shown_s=SHOWN_S,
    )
    if value is not None:
        # Without scripts too: the page without the value comes after a while.
        response.headers["Refresh"] = f"{SHOWN_S}; url={base}/secrets"
    return response
