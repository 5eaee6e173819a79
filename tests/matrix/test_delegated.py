"""A member with one application and one environment sees nothing of what runs beside it there."""

import re

import pytest

from launchbay.app.features import ENDPOINTS
from launchbay.auth.permissions import Permission
from tests.support.changes import MANIFEST
from tests.support.matrix import ROWS
from tests.support.service import Caller, accepted
from tests.support.worlds import World

NAME = "quokka"  # of everything that is of others
_OF = re.compile(r"/api/1/(organizations|environments|applications|revisions|instances)/\{\w+\}[^{]*")
READS = [
    row.operation_id
    for row in ENDPOINTS
    if row.method == "GET" and _OF.fullmatch(row.path) and row.operation_id != "watch_instance"  # it doesn't end
]


@pytest.fixture(scope="module")
async def own(world: World) -> dict[str, str]:
    """Fill an environment with an instance of the member and one of others, which runs, schedules and comments name."""
    home, api = world.home, world.home.api
    environment = await home.environment()
    made = {"organizations": api.organization, "environments": environment}
    for name in ("own", NAME):
        application = await api.application(MANIFEST, name=name)
        instance = await api.launch(application, instanceName=name, environmentId=environment)
        accepted(await api.put(f"instances/{instance}/labels", {"team": name}))
        accepted(await api.put_yaml(f"applications/{application}/manifest", MANIFEST + "\n"))
        revision = await home.made(f"applications/{application}/revisions", {"name": name, "version": 1})
        robot = await home.made(f"{home.organization}/serviceAccounts", {"name": name})
        of_instance = {"ids": [instance], "comment": name}
        for kind, body in (
            ("roles", {"name": name, "permissions": f"- Read: [/applications/{application}]\n"}),
            ("change-sets", {"act": "destroy", **of_instance}),
            ("rollouts", {"applicationId": application, "version": 3, **of_instance}),
            ("bulk", {"act": "label", "ids": [instance], "labels": {"team": name}}),
            ("recurring-schedules", {"name": name, "cron": "0 0 1 1 *", "instanceId": instance, "workflow": "greet"}),
            ("webhooks", {"url": f"https://{name}.example.com/", "events": ["signal"]}),
            ("accessTokens", {"owner": robot, "name": name}),
            (
                "git-sources",
                {"name": name, "url": f"https://{name}.example.org/a.git", "paused": True, "accountId": robot},
            ),
        ):
            await home.made(f"{home.organization}/{kind}", body)
        made |= {name: instance} if name == NAME else {}
        made = {"applications": application, "instances": instance, "revisions": revision} | made
    return made


@pytest.fixture(scope="module")
async def member(world: World, own: dict[str, str]) -> Caller:
    """Make a member with every permission for an application and the environment."""
    application, environment = own["applications"], own["environments"]
    paths = f"[/applications/{application}, /applications/{application}/*, /environments/{environment}]"
    return await world.home.api.member(*(f"{permission}: {paths}" for permission in Permission))


@pytest.mark.slow
@pytest.mark.parametrize("name", READS)
async def test_no_read_shows_what_is_of_others_in_the_same_environment(
    world: World, own: dict[str, str], member: Caller, name: str
) -> None:
    row = ROWS[name]
    kind = row.path.removeprefix("/api/1/").partition("/")[0]
    answer = await member.get(re.sub(r"\{\w+\}", own[kind], row.path.removeprefix("/api/1/")))
    assert answer.status_code in {200, 403}, answer.text
    assert NAME not in answer.text
    assert own[NAME] not in answer.text
