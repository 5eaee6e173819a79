"""What the endpoint table alone cannot tell: objects that a request names elsewhere than in its path, and `destroy`."""

import json
from collections.abc import Awaitable, Callable
from functools import partial
from urllib.parse import urlencode

from tests.access.matrix_requests import PREFIX, Sent, standing
from tests.api.changes import Stage
from tests.api.people import person
from tests.api.running import JSON, accepted, fresh_name


async def _launch_environment(stage: Stage, other: Stage) -> Sent:
    path = f"applications/{await stage.api.application()}/launch"
    return _json("POST", path, {"environmentId": other.api.environment})


async def _launch_revision(stage: Stage, other: Stage) -> Sent:
    application = await stage.api.application()
    revision = await _revision_of(stage, other, application)
    return _json("POST", f"applications/{application}/launch", {"revisionId": revision})


async def _revision_environment(stage: Stage, other: Stage) -> Sent:
    path = f"applications/{await stage.api.application()}/revisions"
    return _json("POST", path, {"name": "r", "version": 1, "environmentId": other.api.environment})


async def _revision_instance(stage: Stage, other: Stage) -> Sent:
    application = await stage.api.application()
    instance = await stage.api.launch(application) if stage is other else (await standing(other)).instance
    return _json("POST", f"applications/{application}/revisions", {"name": "r", "instanceId": instance})


async def _default_environment(stage: Stage, other: Stage) -> Sent:
    return _json("PUT", f"{stage.organization}/defaultEnvironment", {"environmentId": await other.environment()})


async def _offered_service(stage: Stage, other: Stage) -> Sent:
    return _json("PUT", f"environments/{await stage.environment()}/services", {"services": [await other.service()]})


async def _explained_user(stage: Stage, other: Stage) -> Sent:
    who = await person(other.api)
    asked = {"permission": "Read", "path": f"/environments/{stage.api.environment}", "user": who.id}
    return Sent("GET", f"{PREFIX}permissions/explain?{urlencode(asked)}")


async def _zone(stage: Stage, other: Stage) -> Sent:
    [zone] = accepted(await other.api.get(f"{other.organization}/zones"))
    body = {"name": fresh_name("vault"), "typeId": "builtin:cobalt_secure_store", "zoneId": zone["id"]}
    return _json("POST", f"{stage.organization}/services", body)


async def _configured_revision(stage: Stage, other: Stage) -> Sent:
    instance = await stage.settled()
    application = accepted(await stage.api.get(f"instances/{instance}"))["applicationId"]
    revision = await _revision_of(stage, other, application)
    return _json("PUT", f"instances/{instance}/configuration", {"revisionId": revision})


async def _offering_environment(stage: Stage, other: Stage) -> Sent:
    body = {"environments": [await other.environment()]}
    return _json("PUT", f"instances/{await stage.settled()}/environments", body)


async def _revision_of(stage: Stage, other: Stage, application: str) -> str:
    if stage is other:
        return await stage.made(f"applications/{application}/revisions", {"name": "r", "version": 1})
    return (await standing(other)).revision


# Objects that a request names elsewhere than in its path: the first stage is that of the path, the second theirs.
NAMED_IN_REQUESTS: dict[str, tuple[str, Callable[[Stage, Stage], Awaitable[Sent]]]] = {
    "environment of a launch": ("launch_application", _launch_environment),
    "revision of a launch": ("launch_application", _launch_revision),
    "instance of a revision": ("create_revision", _revision_instance),
    "environment of a revision": ("create_revision", _revision_environment),
    "default environment": ("set_default_environment", _default_environment),
    "service of an environment": ("replace_environment_services", _offered_service),
    "user of an explanation": ("explain_permission", _explained_user),
    "zone of a service": ("create_service", _zone),
    "revision of a configuration": ("reconfigure_instance", _configured_revision),
    "environment that offers an instance": ("replace_instance_environments", _offering_environment),
}


async def _destroy(stage: Stage) -> Sent:
    return _json("POST", f"instances/{await stage.settled()}/destroy", {})


async def _schedule_destroy(stage: Stage) -> Sent:
    return _json("POST", f"instances/{await stage.settled()}/destroy/schedule", {"interval": "60000"})


async def _reschedule_destroy(by: str, stage: Stage) -> Sent:
    instance = await stage.settled()
    made = await stage.api.post(f"instances/{instance}/destroy/schedule", {"interval": "60000"})
    named = accepted(made)["id"] if by == "id" else "destroy"
    return _json("POST", f"instances/{instance}/{named}/reschedule", {"interval": "0"})


async def _cancel_destroy(stage: Stage) -> Sent:
    instance = await stage.settled()
    accepted(await stage.api.post(f"instances/{instance}/destroy"))
    job = accepted(await stage.api.get(f"instances/{instance}/jobs"))[0]["id"]
    return Sent("DELETE", f"{PREFIX}instances/{instance}/jobs/{job}")


async def _forced_deletion(stage: Stage) -> Sent:
    return Sent("DELETE", f"{PREFIX}instances/{await stage.settled()}?force=1")


# The same endpoint with something in its request that asks for another permission, or for more.
SPECIAL: dict[str, tuple[str, Callable[[Stage], Awaitable[Sent]]]] = {
    "destroy": ("run_workflow", _destroy),
    "destroy, later": ("schedule_workflow", _schedule_destroy),
    "a scheduled destroy by its name": ("reschedule_workflow", partial(_reschedule_destroy, "name")),
    "a scheduled destroy by its id": ("reschedule_workflow", partial(_reschedule_destroy, "id")),
    "the job of destroy": ("cancel_job", _cancel_destroy),
    "an active instance by force": ("delete_instance", _forced_deletion),
}


def _json(method: str, path: str, body: object) -> Sent:
    return Sent(method, PREFIX + path, json.dumps(body).encode(), JSON)
