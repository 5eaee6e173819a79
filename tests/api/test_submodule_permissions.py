"""Who launches an application launches those inside of it, and needs the permission for each (reference §4)."""

import pytest

from tests.api.running import UNKNOWN, Api, Caller, accepted, fresh_name, refused
from tests.api.test_submodules import CHILD, RELAY, child_of, parent


async def family(api: Api) -> tuple[str, str, str]:
    """Make applications on three levels and return their ids, the outermost first."""
    inner, middle = fresh_name("inner"), fresh_name("middle")
    innermost = await api.application(CHILD, inner)
    between = await api.application(RELAY.replace("LOCATOR", inner), middle)
    return await api.application(parent(middle)), between, innermost


async def launcher(api: Api, *applications: str) -> Caller:
    return await api.member(*(f"CreateInstance: [/applications/{application}]" for application in applications))


@pytest.mark.parametrize("missing", [0, 1, 2])
@pytest.mark.parametrize("path", ["launch", "launch/preview"])
async def test_a_launch_needs_the_permission_for_the_application_of_every_level(
    api: Api, missing: int, path: str
) -> None:
    levels = await family(api)
    somebody = await launcher(api, *(each for number, each in enumerate(levels) if number != missing))
    for body in ({}, {"input.size": 3}, {"parameters": {"input.size": 3}}):
        refused(await somebody.post(f"applications/{levels[0]}/{path}", body), 403, "NotAllowed")
    for application in levels:
        assert accepted(await api.get(f"applications/{application}/instances")) == []


async def test_who_may_launch_every_level_may_launch_them_together(api: Api) -> None:
    levels = await family(api)
    somebody = await launcher(api, *levels)
    instance = accepted(await somebody.post(f"applications/{levels[0]}/launch", {}))["id"]
    assert (await api.settled(instance))["status"] == "Running"


async def test_the_environment_counts_for_the_applications_inside_too(api: Api) -> None:
    levels = await family(api)
    somebody = await api.member(
        f"CreateInstance: [/applications/{levels[0]}]",
        f"CreateInstance: [/applications/{levels[1]}, /environments/{UNKNOWN}]",
        f"CreateInstance: [/applications/{levels[2]}]",
    )
    refused(await somebody.post(f"applications/{levels[0]}/launch", {}), 403, "NotAllowed")


async def test_a_reconfiguration_that_brings_another_application_needs_the_permission_for_it(api: Api) -> None:
    first, second = fresh_name("child"), fresh_name("child")
    await api.application(CHILD, first)
    other = await api.application(CHILD, second)
    application = await api.application(parent(first))
    instance = await api.launch(application)
    child = child_of(await api.settled(instance))
    accepted(await api.put_yaml(f"applications/{application}/manifest", parent(second)))
    editor = await api.member("EditInstance: [/applications/*]", f"CreateInstance: [/applications/{application}]")
    refused(await editor.put(f"instances/{instance}/configuration", {"manifestVersion": 3}), 403, "NotAllowed")
    assert child_of(await api.document(instance)) == child
    allowed = await api.member("EditInstance: [/applications/*]", f"CreateInstance: [/applications/{other}]")
    accepted(await allowed.put(f"instances/{instance}/configuration", {"manifestVersion": 3}))
    assert child_of(await api.settled(instance)) != child
