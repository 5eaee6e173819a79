"""Services of a service type behind the components of an instance (manifest-language §8)."""

from collections.abc import AsyncIterator

import pytest

from launchbay.service_types import registry
from tests.support.applications import environment, launched, refusal
from tests.support.databases import Databases
from tests.support.service import Api, accepted, fresh_name, refused, running_api
from tests.support.services import BEACON, POOLED, service


@pytest.fixture(scope="module")
async def api(databases: Databases) -> AsyncIterator[Api]:
    """A running service that knows one more type, as an installed package would bring it."""
    url = databases.create()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(registry, "BUILT_IN", (*registry.BUILT_IN, BEACON))
        async with running_api(url) as api:
            yield api
    databases.drop(url)


async def test_a_workflow_takes_and_gives_back_what_a_resource_pool_has(api: Api) -> None:
    where = await environment(api)
    await service(api, "builtin:static_resource_pool", {"configuration.resources": ["only"]}, where=where)
    first = await launched(api, POOLED, where)
    assert (first["status"], first["returnValues"]) == ("Running", {"result.has": "only"}), first["errorMessage"]
    second = await launched(api, POOLED, where)
    assert second["status"] == "Failed"
    assert "rejected 'acquire'" in second["errorMessage"]
    document = await api.run(first["id"], "actions.give")
    assert document["returnValues"] == {"result.has": "released: true"}
    document = await api.run(second["id"], "launch")
    assert (document["status"], document["returnValues"]) == ("Running", {"result.has": "only"})


async def test_a_command_of_a_service_is_reached_through_the_interfaces_of_the_application(api: Api) -> None:
    where = await environment(api)
    await service(api, "builtin:static_resource_pool", {"configuration.resources": ["only"]}, where=where)
    user = (await launched(api, POOLED, where))["id"]
    document = await api.run(user, "actions.list")
    assert document["workflowHistory"][0]["status"] == "Succeeded"


async def test_a_service_is_no_instance_and_is_shown_without_one(api: Api) -> None:
    where = await environment(api)
    await service(api, "builtin:static_resource_pool", {"configuration.resources": ["only"]}, where=where)
    document = await launched(api, POOLED, where)
    assert document["components"] == [{"name": "pool"}, {"name": "main"}]


async def test_two_services_of_one_shape_refuse_the_launch_naming_both(api: Api) -> None:
    where = await environment(api)
    made = []
    for _ in range(2):
        made.append(await service(api, "builtin:static_resource_pool", {"configuration.resources": []}, where=where))
    accepted(await api.put(f"environments/{where}/services", {"services": made}))
    told = await refusal(api, POOLED, where)
    assert all(each in told for each in made)


LIT = """
application:
  interfaces:
    result: {place: bind(beacon#beacon.place), seen: bind(main#result.seen), moved: bind(main#result.moved)}
    actions: {light: bind(main#actions.light), fail: bind(main#actions.fail)}
  bindings: [[main, beacon]]
  components:
    beacon:
      type: reference.Service
      interfaces:
        beacon: {place: publish-signal(string), light: "receive-command( => string glow => string seen)"}
    main:
      type: workflow.Instance
      required: [beacon]
      interfaces:
        beacon: {place: consume-signal(string), light: "send-command( => string glow => string seen)"}
        actions: {light: receive-command(), fail: receive-command(string delay)}
        result: {seen: publish-signal(string), moved: publish-signal(string)}
      configuration:
        configuration.triggers: {beacon.place: move}
        configuration.workflows:
          launch: {steps: []}
          move:
            steps: [{look: {action: getSignals, output: {seen: result}}}]
            return: {moved: {value: "to {$.seen.beacon.place}"}}
          light: &light
            steps: [{light: {action: beacon.light, output: {seen: seen}}}]
            return: {seen: {value: "{$.seen}"}}
          fail:
            steps:
              - light: {action: beacon.light, output: {seen: seen}}
              - stop: {action: wait, precedingPhases: [light], parameters: {delay: "{$.delay}"}}
            return: {seen: {value: "{$.seen}"}}
"""


async def test_a_changed_service_is_seen_after_the_next_reconfiguration(api: Api) -> None:
    where = await environment(api)
    beacon = await service(api, "test:beacon", {"place": "Ida", "code": "four"}, where=where)
    user = (await launched(api, LIT, where))["id"]
    document = await api.run(user, "actions.light")
    assert document["returnValues"] == {"result.place": "Ida", "result.seen": "Ida 4"}
    accepted(await api.put(f"services/{beacon}", {"parameters": {"place": "Athos", "code": "fiftyfive"}}))
    document = await api.run(user, "actions.light")
    assert document["returnValues"] == {"result.place": "Ida", "result.seen": "Ida 4"}
    accepted(await api.put(f"instances/{user}/configuration", {}))
    await api.settled(user)
    document = await api.run(user, "actions.light")
    assert document["returnValues"] == {
        "result.place": "Athos",
        "result.seen": "Athos 9",
        "result.moved": "to Athos",
    }


async def test_children_see_a_changed_service_with_the_reconfiguration_of_their_parent(api: Api) -> None:
    where = await environment(api)
    beacon = await service(api, "test:beacon", {"place": "Ida"}, where=where)
    name = fresh_name("lit")
    await api.application(LIT, name)
    parent = f"""
        application:
          interfaces: {{result: {{place: bind(child#result.place)}}}}
          components:
            child:
              type: reference.Submodule
              configuration: {{__locator.application-id: {name}}}
              interfaces: {{result: {{place: publish-signal(string)}}}}
        """
    user = (await launched(api, parent, where))["id"]
    accepted(await api.put(f"services/{beacon}", {"parameters": {"place": "Athos"}}))
    accepted(await api.put(f"instances/{user}/configuration", {}))
    assert (await api.settled(user))["returnValues"] == {"result.place": "Athos"}


async def test_no_secret_of_a_service_is_readable_in_what_an_instance_keeps(api: Api) -> None:
    where = await environment(api)
    beacon = await service(api, "test:beacon", {"place": "Ida", "code": "unspeakable"}, where=where)
    user = (await launched(api, LIT, where))["id"]
    async with api.database.connection() as connection:
        rows = await (
            await connection.execute("SELECT binding FROM instance_links WHERE instance_id = %s", [user])
        ).fetchall()
        assert "unspeakable" not in str(rows)
        assert "Ida" in str(rows)
        accepted(await api.delete(f"services/{beacon}"))
        left = await (
            await connection.execute("SELECT binding FROM instance_links WHERE instance_id = %s", [user])
        ).fetchall()
    assert left == [(None,)]


async def test_a_service_that_was_deleted_is_told_where_it_is_needed(api: Api) -> None:
    where = await environment(api)
    beacon = await service(api, "test:beacon", {"place": "Ida"}, where=where)
    user = (await launched(api, LIT, where))["id"]
    accepted(await api.delete(f"services/{beacon}"))
    document = await api.run(user, "actions.light")
    assert "Can't run 'light'" in document["errorMessage"]
    assert document["returnValues"] == {"result.place": "Ida"}
    told = refused(await api.put(f"instances/{user}/configuration", {}), 400, "CannotLaunch")
    assert "'beacon' (place, light)" in told
    assert (await api.run(user, "destroy"))["status"] == "Destroyed"


async def test_a_service_that_cannot_tell_its_signals_refuses_the_launch(api: Api) -> None:
    where = await environment(api)
    await service(api, "test:beacon", {"place": "nowhere"}, where=where)
    assert "can't publish its signals: ValueError: no such place" in await refusal(api, LIT, where)


async def test_a_command_that_was_done_is_not_done_again_when_the_job_is_resumed(api: Api) -> None:
    where = await environment(api)
    await service(api, "test:beacon", {"place": "Ida"}, where=where)
    user = (await launched(api, LIT, where))["id"]
    before = len(BEACON.keys)
    document = await api.run(user, "actions.fail", delay="never")
    [failed] = [job["id"] for job in document["workflowHistory"] if job["status"] == "Failed"]
    assert len(BEACON.keys) == before + 1
    accepted(await api.post(f"instances/{user}/jobs/{failed}/resume", {"parameters": {"delay": "0"}}))
    document = await api.settled(user)
    assert document["workflowHistory"][0]["status"] == "Succeeded", document["errorMessage"]
    assert document["returnValues"]["result.seen"] == "Ida 0"
    assert len(BEACON.keys) == before + 1
    assert BEACON.keys[-1] is not None


KEYS = """
application:
  interfaces: {actions: {fetch: bind(main#actions.fetch)}}
  bindings: [[main, store]]
  components:
    store:
      type: reference.Service
      interfaces: {keypair-store: {get-keypair: receive-command(string id => object privateKey)}}
    main:
      type: workflow.Instance
      required: [keystore]
      interfaces:
        keystore: {get-keypair: send-command(string id => object privateKey)}
        actions: {fetch: receive-command()}
      configuration:
        configuration.workflows:
          launch: {steps: []}
          fetch: {steps: [{get: {action: keystore.get-keypair, parameters: {id: web}}}]}
"""


async def test_what_requires_the_credentials_service_launches_and_hears_which_key_pair_is_missing(api: Api) -> None:
    document = await launched(api, KEYS, api.environment)
    assert document["status"] == "Running", document["errorMessage"]
    document = await api.run(document["id"], "actions.fetch")
    assert "no key pair 'web'" in document["errorMessage"]
    assert "needs a service" in await refusal(api, KEYS, await environment(api))


@pytest.mark.features("impact")
async def test_secrets_and_signals_that_a_service_would_change_are_named_and_not_shown(api: Api) -> None:
    where = await environment(api)
    beacon = await service(api, "test:beacon", {"place": "north", "code": "hush-hush"}, where=where)
    user = (await launched(api, LIT, where))["id"]
    path = f"services/{beacon}/parameters/impact"
    assert accepted(await api.get(path))["present"] == 1
    answer = await api.post(path, {"parameters": {"place": "south", "code": "psst-psst"}})
    [group] = accepted(answer)["groups"]
    assert [(each["kind"], each["name"]) for each in group["settings"]] == [
        ("parameter", "place"),
        ("secret", "code"),
        ("signal", "beacon.place"),
    ]
    assert "hush" not in answer.text
    assert "psst" not in answer.text
    same = accepted(await api.post(path, {"parameters": {"code": "hush-hush"}}))
    assert (same["present"], same["groups"]) == (1, [])
    broken = accepted(await api.post(path, {"parameters": {"place": "nowhere"}}))
    assert broken["fails"] == 1
    assert "no such place" in broken["groups"][0]["errors"][0]
    assert [each["id"] for each in broken["groups"][0]["instances"]] == [user]
