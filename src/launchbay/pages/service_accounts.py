"""Service accounts, and access tokens of service accounts and of the user."""

from starlette.responses import Response

from launchbay.console.forms import Form
from launchbay.console.request import HOME, PageRequest, Routes
from launchbay.errors import BadRequest, LaunchbayError
from launchbay.store.access_tokens import ServiceAccountRow
from launchbay.usecases import access_tokens, organizations, roles, service_accounts
from launchbay.usecases.access_tokens import NewToken

routes = Routes()


@routes.get("/console/organizations/{id}/serviceAccounts", query=("do",))
async def list_all(request: PageRequest, problem: LaunchbayError | None = None) -> Response:
    organization_id = request.path("id")
    request.ask_frame(organization_id)
    return await request.page(
        "service_accounts.html",
        section="serviceAccounts",
        organization_id=organization_id,
        problem=problem,
        rows=request.ask(service_accounts.list_service_accounts(request.ctx, organization_id)),
        tokens=request.ask(access_tokens.list_access_tokens(request.ctx, organization_id)),
        opened=problem is not None or request.query("do") == "create",
        roles=request.ask(roles.list_roles(request.ctx, organization_id)),
        name=request.form.text("name"),
        description=request.form.text("description"),
        selected=request.form.all("role"),
    )


@routes.post("/console/organizations/{id}/serviceAccounts", again=list_all)
async def create(request: PageRequest) -> Response:
    form, organization_id = request.form, request.path("id")
    row = await service_accounts.create_service_account(
        request.ctx,
        organization_id,
        name=form.text("name"),
        description=form.text("description"),
        role_names=form.all("role"),
    )
    return request.redirect(f"{HOME}/organizations/{organization_id}/serviceAccounts/{row.id}", f"{row.name} created.")


@routes.get("/console/organizations/{id}/serviceAccounts/{account}")
async def show(
    request: PageRequest, problem: LaunchbayError | None = None, *, created: NewToken | None = None
) -> Response:
    organization_id, account_id = request.path("id"), request.path("account")
    request.ask_frame(organization_id)
    row = await service_accounts.read_service_account(request.ctx, organization_id, account_id)
    tokens = await access_tokens.list_access_tokens(request.ctx, organization_id, account_id)
    return await request.page(
        "service_account.html",
        section="serviceAccounts",
        organization_id=organization_id,
        problem=problem,
        row=row,
        seen=request.seen(f"/{row.id}", _stored(row)),
        roles=request.ask(roles.list_roles(request.ctx, organization_id)),
        tokens=tokens,
        created=created,
        given=_given(request, problem),
    )


@routes.post("/console/organizations/{id}/serviceAccounts/{account}", again=show)
async def update(request: PageRequest) -> Response:
    form = request.form

    async def read() -> dict[str, str]:
        account = await service_accounts.read_service_account(request.ctx, request.path("id"), request.path("account"))
        return _stored(account)

    async with request.unless_changed("users", request.path("account"), read):
        await service_accounts.update_service_account(
            request.ctx,
            request.path("id"),
            request.path("account"),
            name=form.text("name"),
            description=form.text("description"),
            enabled=None,
        )
    return request.redirect(_path(request), "Saved.")


@routes.post("/console/organizations/{id}/serviceAccounts/{account}/enabled", again=show)
async def enable(request: PageRequest) -> Response:
    enabled = request.form.text("do") == "enable"
    await service_accounts.update_service_account(
        request.ctx, request.path("id"), request.path("account"), name=None, description=None, enabled=enabled
    )
    return request.redirect(_path(request), "Enabled." if enabled else "Disabled. Its tokens are revoked.")


@routes.post("/console/organizations/{id}/serviceAccounts/{account}/delete", again=show)
async def delete(request: PageRequest) -> Response:
    organization_id = request.path("id")
    await service_accounts.delete_service_account(request.ctx, organization_id, request.path("account"))
    return request.redirect(f"{HOME}/organizations/{organization_id}/serviceAccounts", "Service account deleted.")


@routes.post("/console/organizations/{id}/serviceAccounts/{account}/accessTokens", again=show)
async def create_token(request: PageRequest) -> Response:
    """Create a token. The response is the page itself, which shows it once."""
    created = await _created(request, request.path("id"), request.path("account"))
    return await show(request, created=created)


@routes.post("/console/organizations/{id}/serviceAccounts/{account}/accessTokens/{token}/revoke", again=show)
async def revoke_token(request: PageRequest) -> Response:
    await access_tokens.revoke_access_token(request.ctx, request.path("id"), request.path("token"))
    return request.redirect(_path(request), "Token revoked.")


@routes.get("/console/account/accessTokens")
async def show_own(
    request: PageRequest, problem: LaunchbayError | None = None, *, created: NewToken | None = None
) -> Response:
    """Show the user's own tokens, in all organizations."""
    return await request.page(
        "access_tokens.html",
        problem=problem,
        organizations=request.ask(organizations.list_organizations(request.ctx)),
        tokens=request.ask(access_tokens.list_own(request.ctx)),
        created=created,
        given=_given(request, problem),
    )


@routes.post("/console/account/accessTokens", again=show_own)
async def create_own_token(request: PageRequest) -> Response:
    """Create a token. The response is the page itself, which shows it once."""
    return await show_own(request, created=await _created(request, request.form.text("organization"), None))


@routes.post("/console/account/accessTokens/{organization}/{token}/revoke", again=show_own)
async def revoke_own_token(request: PageRequest) -> Response:
    await access_tokens.revoke_access_token(request.ctx, request.path("organization"), request.path("token"))
    return request.redirect(f"{HOME}/account/accessTokens", "Token revoked.")


async def _created(request: PageRequest, organization_id: str, owner_id: str | None) -> NewToken:
    form = request.form
    days = form.text("days")
    if not days.isdecimal() or len(days) > 4:
        raise BadRequest("Days must be a whole number, such as 90.", field="days")
    entries = [line.strip().removeprefix("- ") for line in form.raw("scope").splitlines() if line.strip()]
    return await access_tokens.create_access_token(
        request.ctx,
        organization_id,
        name=form.text("tokenName"),
        scope=entries or None,
        days=int(days),
        owner_id=owner_id,
    )


def _given(request: PageRequest, problem: LaunchbayError | None) -> dict[str, str]:
    """Return the fields of a new token: after a mistake as they were sent."""
    form = request.form if problem else Form()
    return {
        "organization": form.text("organization"),
        "name": form.text("tokenName"),
        "scope": form.raw("scope"),
        "days": form.text("days", "90"),
    }


def _stored(row: ServiceAccountRow) -> dict[str, str]:
    return {"name": row.name, "description": row.description}


def _path(request: PageRequest) -> str:
    return f"{HOME}/organizations/{request.path('id')}/serviceAccounts/{request.path('account')}"
