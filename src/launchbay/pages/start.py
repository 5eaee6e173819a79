"""The first start: three steps from an organization to a running application."""

from importlib import resources
from typing import NamedTuple

from starlette.responses import Response

from launchbay.console.request import HOME, PageRequest, Routes
from launchbay.errors import BadRequest, Conflict, InvalidManifest, LaunchbayError
from launchbay.usecases.applications import create_application, list_applications
from launchbay.usecases.environments import list_environments
from launchbay.usecases.fleet import InstanceFilter, list_instances
from launchbay.usecases.manifests import replace_manifest

routes = Routes()
_SHOWN = 5  # applications


class Choice(NamedTuple):
    """What an application can be made from. `manifest` is a file in `samples`."""

    key: str
    title: str
    text: str
    manifest: str = ""


CHOICES = (
    Choice(
        "shop",
        "Sample shop",
        "4 components, waits and an approval. Runs inside Launchbay: no machine, no cloud. About 10 seconds.",
        "shop.yaml",
    ),
    Choice("machine", "One machine", "A command on a machine that you name, over SSH.", "machine.yaml"),
    Choice("repository", "From a repository", "A branch with a YAML manifest. Launchbay follows its commits."),
    Choice("empty", "Empty manifest", "Write your own; errors appear while you type."),
)


@routes.get("/console/organizations/{id}/start")
async def show(request: PageRequest, problem: LaunchbayError | None = None) -> Response:
    """Show the steps: which are done, and the form of the present one."""
    organization_id = request.path("id")
    request.ask_frame(organization_id)
    ask, ctx = request.ask, request.ctx
    asked, listed = ask(list_applications(ctx, organization_id)), ask(list_environments(ctx, organization_id))
    instances = await list_instances(ctx, organization_id, InstanceFilter(), sort="-created", after=None, count=1)
    applications, places = await asked, await listed
    return await request.page(
        "start.html",
        organization_id=organization_id,
        problem=problem,
        applications=applications[:_SHOWN],
        instance=instances.rows[0] if instances.rows else None,
        place=next((row for row in places if row.is_default), None),
        choices=CHOICES,
        chosen=request.form.text("choice") or CHOICES[0].key,
    )


@routes.post("/console/organizations/{id}/start", again=show, refusals=(BadRequest, Conflict, InvalidManifest))
async def choose(request: PageRequest) -> Response:
    """Create an application from the choice, and open its next page."""
    organization_id = request.path("id")
    choice = next((each for each in CHOICES if each.key == request.form.text("choice")), None)
    if choice is None:
        raise BadRequest("Choose what to begin with.")
    if choice.key == "repository":
        return request.redirect(f"{HOME}/organizations/{organization_id}/git-sources/new")
    application_id = await create_application(request.ctx, organization_id, await _name(request, choice))
    page = f"{HOME}/applications/{application_id}"
    if not choice.manifest:
        return request.redirect(f"{page}/manifest", "Application created. Now write its manifest.")
    text = (resources.files("launchbay.console") / "samples" / choice.manifest).read_text("utf-8")
    await replace_manifest(request.ctx, application_id, text, message=f"From the sample {choice.title}")
    if choice.key == "machine":
        return request.redirect(f"{page}/manifest", "Application created. Set the address of your machine.")
    return request.redirect(f"{page}/launch", "Application created. All its parameters have defaults.")


async def _name(request: PageRequest, choice: Choice) -> str:
    """Return a name that no application has yet."""
    base = choice.title if choice.manifest else "My application"
    taken = {row.name for row in await list_applications(request.ctx, request.path("id"))}
    return next(name for name in (base, *(f"{base} {number}" for number in range(2, 1_000))) if name not in taken)
