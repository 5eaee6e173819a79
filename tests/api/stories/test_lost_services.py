"""Services that are gone, broken, late or asked for in a circle: those who use them hear it, and nothing hangs."""

import asyncio

import pytest

from tests.support.applications import (
    EASY,
    NEEDY,
    SPEAKER,
    behind,
    environment,
    heard,
    launched,
    offer,
    offered,
    refusal,
    until,
)
from tests.support.service import Api, accepted, refused


@pytest.mark.slow
@pytest.mark.parametrize("is_deleted", [False, True])
async def test_a_service_that_is_gone_is_told_where_it_is_needed_and_nowhere_else(api: Api, is_deleted: bool) -> None:
    service, where = await offered(api)
    user = (await launched(api, NEEDY, where))["id"]
    if is_deleted:
        accepted(await api.delete(f"instances/{service}?force=1"))
        await api.gone(service)
    else:
        await api.run(service, "destroy", force=True)
    document = await api.run(user, "actions.wait")
    assert document["returnValues"] == {
        "result.word": "first",
        "result.heard": heard("first"),
        "result.told": "waited",
    }
    document = await api.run(user, "actions.ask", word="anybody?")
    assert document["workflowHistory"][0]["status"] == "Failed"
    assert ("no longer exists" if is_deleted else "in status Destroyed") in document["errorMessage"]
    told = await refusal(api, NEEDY, where)
    assert "has none" in told
    assert ("that is Destroyed" in told) is not is_deleted
    assert "has none" in refused(await api.put(f"instances/{user}/configuration", {}), 400)
    assert (await api.run(user, "destroy"))["status"] == "Destroyed"


async def test_a_command_that_a_service_has_lost_fails_the_step_and_not_the_job(api: Api) -> None:
    service, where = await offered(api)
    careful = EASY.replace("parameters: {word: ", "parameters: {ignoreFail: true, word: ")
    user = (await launched(api, careful, where))["id"]
    application = accepted(await api.get(f"instances/{service}"))["applicationId"]
    mute = SPEAKER.replace("    orders: {say: bind(speaker#orders.say)}\n", "")
    version = accepted(await api.put_yaml(f"applications/{application}/manifest", mute))["version"]
    accepted(await api.put(f"instances/{service}/configuration", {"manifestVersion": version}))
    await api.settled(service)
    document = await api.run(user, "actions.ask", word="x")
    assert document["workflowHistory"][0]["status"] == "Succeeded"
    log = accepted(await api.get(f"instances/{user}/log"))
    assert "Command is not supported: orders.say" in str(log)


async def test_a_launch_waits_for_a_service_that_is_just_being_launched_where_it_is_required(api: Api) -> None:
    slow = SPEAKER.replace("launch: {steps: [],", "launch: {steps: [{rest: {action: wait, parameters: {delay: 0.7}}}],")
    service = await api.launch(await api.application(slow))
    where = await environment(api)
    await offer(api, service, where)
    easy = await launched(api, EASY, where)
    assert (easy["status"], easy["returnValues"]) == ("Running", {"result.heard": "heard {}"})
    document = await launched(api, NEEDY, where)
    assert document["returnValues"].get("result.word") == "first", document["errorMessage"]
    await until(api, easy["id"], lambda seen: seen["returnValues"]["result.heard"] == heard("first"))


async def test_a_service_that_failed_before_it_had_values_fails_a_launch_that_requires_them(api: Api) -> None:
    broken = SPEAKER.replace(
        "launch: {steps: [],", "launch: {steps: [{stop: {action: wait, parameters: {delay: never}}}],"
    )
    service = await api.launch(await api.application(broken))
    assert (await api.settled(service))["status"] == "Failed"
    where = await environment(api)
    await offer(api, service, where)
    needy = await launched(api, NEEDY, where)
    assert needy["status"] == "Failed"
    assert "is Failed and has no value for voice.word" in needy["errorMessage"]
    assert (await launched(api, EASY, where))["status"] == "Running"


BOTH = """
application:
  interfaces:
    voice: {word: bind(main#voice.word)}
    orders: {say: bind(main#orders.say)}
  components:
    service:
      type: reference.Service
      interfaces: {voice: {word: publish-signal(string)}}
    main:
      type: workflow.Instance
      REQUIRED
      interfaces:
        heard: {word: consume-signal(string)}
        voice: {word: publish-signal(string)}
        orders: {say: receive-command(string word => string said)}
      configuration:
        configuration.workflows:
          launch: {steps: [], return: {word: {value: echo}}}
          say: {steps: [], return: {word: {value: "{$.word}"}, said: {value: "{$.word}"}}}
  bindings: [["main#heard", service]]
"""


async def test_an_instance_is_no_service_of_itself_nor_of_what_it_stands_on(api: Api) -> None:
    where = await environment(api)
    optional = BOTH.replace("REQUIRED", "required: []")
    first = (await launched(api, optional, where))["id"]
    await offer(api, first, where)
    accepted(await api.put(f"instances/{first}/configuration", {}))
    document = await api.settled(first)
    assert (document["status"], behind(document)) == ("Running", None)
    second = await launched(api, optional, where)
    assert behind(second) == first
    elsewhere = await environment(api)
    await offer(api, first, elsewhere)
    await offer(api, second["id"], where)
    preview = accepted(await api.post(f"instances/{first}/configuration/preview", {}))
    assert preview["errors"] == []
    accepted(await api.put(f"instances/{first}/configuration", {}))
    assert behind(await api.settled(first)) is None, "the second one depends on it"
    application = accepted(await api.get(f"instances/{first}"))["applicationId"]
    needy = BOTH.replace("REQUIRED", "required: [heard]")
    version = accepted(await api.put_yaml(f"applications/{application}/manifest", needy))["version"]
    body = {"manifestVersion": version}
    told = refused(await api.put(f"instances/{first}/configuration", body), 400, "CannotLaunch")
    assert f"({second['id']}), but that depends on this instance itself" in told


async def test_two_reconfigurations_at_the_same_moment_close_no_circle(api: Api) -> None:
    where = await environment(api)
    optional = BOTH.replace("REQUIRED", "required: []")
    pair = [(await launched(api, optional, where))["id"] for _ in range(2)]
    for instance in pair:
        await offer(api, instance, where)
    answers = await asyncio.gather(*(api.put(f"instances/{each}/configuration", {}) for each in pair))
    assert [answer.status_code for answer in answers] == [200, 200]
    links = {instance: behind(await api.settled(instance)) for instance in pair}
    assert links in ({pair[0]: pair[1], pair[1]: None}, {pair[0]: None, pair[1]: pair[0]})


@pytest.mark.parametrize("is_deleted", [False, True])
async def test_a_service_serves_on_when_who_called_it_is_taken_away(api: Api, is_deleted: bool) -> None:
    slow = SPEAKER.replace("say: {steps: [],", "say: {steps: [{rest: {action: wait, parameters: {delay: 60}}}],")
    service, where = await offered(api, slow)
    user = (await launched(api, EASY, where))["id"]
    accepted(await api.post(f"instances/{user}/actions.ask", {"word": "x"}))
    await api.until(service, "Executing")
    if is_deleted:
        accepted(await api.delete(f"instances/{user}?force=1"))
        await api.gone(user)
    else:
        [job] = [each for each in accepted(await api.get(f"instances/{user}/jobs")) if each["status"] == "Executing"]
        accepted(await api.delete(f"instances/{user}/jobs/{job['id']}"))
        await api.settled(user)
    document = await api.settled(service)
    assert document["status"] == "Running"
    assert document["workflowHistory"][0]["status"] == "Failed"
    assert document["errorMessage"]
