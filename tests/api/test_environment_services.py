"""Instances offered as services: found by shape, used, changed, replaced and lost (manifest-language §8)."""

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
    names,
    offer,
    offered,
    refusal,
    until,
)
from tests.support.manifests import SAMPLES
from tests.support.service import Api, accepted, fresh_name, refused


async def test_a_service_and_its_client_of_two_manifests_find_each_other(api: Api) -> None:
    service, where = await offered(api, SAMPLES["lender"].read_text("utf-8"))
    document = await launched(api, SAMPLES["borrower"].read_text("utf-8"), where)
    assert (document["status"], document["returnValues"]["reader.motto"]) == ("Running", "read more")
    assert document["components"][0] == {"name": "branch", "instanceId": service}
    document = await api.run(document["id"], "reader.borrow", title="Emma")
    assert document["returnValues"]["reader.place"] == "shelf of Emma"


async def test_an_offered_instance_gives_its_signals_and_is_shown_behind_the_component(api: Api) -> None:
    service, where = await offered(api, SPEAKER, parameters={"input.first": "aloha"})
    document = await launched(api, NEEDY, where)
    assert document["status"] == "Running", document["errorMessage"]
    assert document["returnValues"] == {"result.word": "aloha", "result.heard": heard("aloha")}
    assert document["components"] == [{"name": "service", "instanceId": service}, {"name": "main"}]


async def test_a_change_inside_a_service_is_seen_at_once_and_triggers_those_who_use_it(api: Api) -> None:
    service, where = await offered(api)
    users = [(await launched(api, NEEDY, where))["id"] for _ in range(2)]
    await api.run(service, "orders.say", word="second")
    for user in users:
        document = await until(api, user, lambda seen: seen["returnValues"]["result.heard"] != heard("first"))
        assert document["returnValues"] == {"result.word": "second", "result.heard": heard("second")}
        assert names(document) == ["hear", "launch"]


async def test_a_workflow_runs_a_command_of_the_service_and_gets_its_results(api: Api) -> None:
    service, where = await offered(api)
    user, onlooker = [(await launched(api, NEEDY, where))["id"] for _ in range(2)]
    await api.run(user, "actions.ask", word="louder")
    for each in (user, onlooker):
        document = await until(api, each, lambda seen: seen["returnValues"]["result.heard"] == heard("louder"))
        assert document["returnValues"].get("result.told") == ("said louder" if each == user else None)
    assert names(await api.document(service)) == ["orders.say", "launch"]


@pytest.mark.slow
async def test_many_who_call_one_service_at_the_same_time_all_get_their_answers(api: Api) -> None:
    service, where = await offered(api)
    users = [(await launched(api, EASY.replace("voice.word: hear", ""), where))["id"] for _ in range(8)]
    answers = await asyncio.gather(*(api.run(user, "actions.ask", word=user) for user in users))
    assert [document["returnValues"]["result.told"] for document in answers] == [f"said {user}" for user in users]
    assert names(await api.document(service)).count("orders.say") == 8


async def test_a_service_outlives_those_who_use_it(api: Api) -> None:
    service, where = await offered(api)
    user = (await launched(api, NEEDY, where))["id"]
    assert (await api.run(user, "destroy"))["status"] == "Destroyed"
    assert (await api.document(service))["status"] == "Running"
    accepted(await api.delete(f"instances/{user}"))
    assert (await api.document(service))["status"] == "Running"


async def test_the_names_of_interfaces_need_not_match(api: Api) -> None:
    renamed = SPEAKER.replace("    voice: {word: bind", "    song: {word: bind").replace(
        "    orders: {say: bind", "    wishes: {say: bind"
    )
    service, where = await offered(api, renamed)
    user = (await launched(api, NEEDY, where))["id"]
    await api.run(user, "actions.ask", word="other")
    document = await until(api, user, lambda seen: seen["returnValues"]["result.heard"] == heard("other"))
    assert document["returnValues"]["result.told"] == "said other"
    await api.run(service, "wishes.say", word="again")
    await until(api, user, lambda seen: seen["returnValues"]["result.heard"] == heard("again"))


async def test_a_workflow_manifest_uses_a_service_and_can_be_one(api: Api) -> None:
    speaker = """
        launch: {steps: [], return: {word: {value: hello}}}
        say: {parameters: [{word: {}}], steps: [], return: {word: {value: "{$.word}"}, said: {value: "so: {$.word}"}}}
        """
    listener = """
        version: "1.1"
        header:
          services:
            words: {word: consume-signal(string)}
            acts: {say: send-command(string word => string said)}
        launch:
          steps:
            - look: {action: getSignals, output: {seen: result}}
            - say:
                action: serviceCall
                precedingPhases: [look]
                parameters: {service: acts, command: say, arguments: {word: "{$.seen.words.word} you"}}
                output: {answer: result}
          return: {told: {value: "{$.answer.said}"}}
        """
    _, where = await offered(api, speaker)
    document = await launched(api, listener, where)
    assert (document["status"], document["errorMessage"]) == ("Running", None)
    assert document["returnValues"] == {"told": "so: hello you"}
    bare = await refusal(api, listener, await environment(api))
    assert "'service words' needs a service with the interface 'words' (word)" in bare
    assert "'service acts' needs a service with the interface 'acts' (say)" in bare


async def test_several_services_that_fit_refuse_the_launch_naming_them(api: Api) -> None:
    first, where = await offered(api)
    second = await api.running(SPEAKER)
    await offer(api, second, where)
    for manifest in (NEEDY, EASY):
        told = await refusal(api, manifest, where)
        assert "several match" in told
        assert first in told
        assert second in told


async def test_a_need_that_nothing_meets_refuses_the_launch_naming_component_and_interfaces(api: Api) -> None:
    mute = SPEAKER.replace("    orders: {say: bind(speaker#orders.say)}\n", "")
    _, where = await offered(api, mute)
    told = await refusal(api, NEEDY, where)
    assert "'service' needs a service with the interfaces 'voice' (word), 'orders' (say)" in told
    assert "the environment has none" in told


async def test_a_need_that_is_not_required_may_be_unmet_and_its_commands_say_so(api: Api) -> None:
    document = await launched(api, EASY, await environment(api))
    assert document["status"] == "Running"
    assert document["returnValues"] == {"result.heard": "heard {}"}
    assert behind(document) is None
    document = await api.run(document["id"], "actions.ask", word="x")
    assert "can't run 'say': the environment offered no service for component" in document["errorMessage"]
    assert "Add one to the environment and reconfigure the instance." in document["errorMessage"]


FAMILY = """
application:
  interfaces:
    result: {heard: bind(child#result.heard)}
  components:
    child:
      type: reference.Submodule
      configuration: {__locator.application-id: LOCATOR}
      interfaces:
        result: {heard: publish-signal(string)}
"""


async def test_submodules_at_every_level_find_their_services_too(api: Api) -> None:
    inner, middle = fresh_name("inner"), fresh_name("middle")
    await api.application(NEEDY, inner)
    await api.application(FAMILY.replace("LOCATOR", inner), middle)
    family = FAMILY.replace("LOCATOR", middle)
    told = await refusal(api, family, await environment(api))
    assert "Submodule child.child: Component 'service' needs a service" in told
    service, where = await offered(api)
    document = await launched(api, family, where)
    assert document["returnValues"] == {"result.heard": heard("first")}
    child = await api.document(str(behind(document, "child")))
    grandchild = await api.document(str(behind(child, "child")))
    assert behind(grandchild) == service
    await api.run(service, "orders.say", word="down there")
    await until(api, document["id"], lambda seen: seen["returnValues"]["result.heard"] == heard("down there"))


SPONSOR = """
application:
  interfaces:
    result: {heard: bind(child#out.heard)}
  bindings: [[child, service]]
  components:
    service:
      type: reference.Service
      interfaces: {voice: {word: publish-signal(string)}}
    child:
      type: reference.Submodule
      configuration: {__locator.application-id: LOCATOR}
      interfaces:
        voice: {word: consume-signal(string)}
        out: {heard: publish-signal(string)}
"""
SPONSORED = """
application:
  interfaces:
    voice: {word: bind(main#voice.word)}
    out: {heard: bind(main#out.heard)}
  components:
    main:
      type: workflow.Instance
      interfaces: {voice: {word: consume-signal(string)}, out: {heard: publish-signal(string)}}
      configuration:
        configuration.triggers: {voice.word: launch}
        configuration.workflows:
          launch:
            steps: [{look: {action: getSignals, output: {seen: result}}}]
            return: {heard: {value: "{$.seen.voice.word}"}}
"""


async def test_a_service_that_a_submodule_is_bound_to_is_required(api: Api) -> None:
    name = fresh_name("sponsored")
    await api.application(SPONSORED, name)
    manifest = SPONSOR.replace("LOCATOR", name).replace("bind(child#out.heard)", "bind(child#out.heard)")
    assert "'voice' (word)" in await refusal(api, manifest, await environment(api))
    service, where = await offered(api)
    document = await launched(api, manifest, where)
    document = await until(api, document["id"], lambda seen: seen["returnValues"].get("result.heard") == "first")
    await api.run(service, "orders.say", word="passed on")
    await until(api, document["id"], lambda seen: seen["returnValues"]["result.heard"] == "passed on")


async def test_an_offered_instance_is_used_without_a_permission_on_it(api: Api) -> None:
    service, where = await offered(api)
    application = await api.application(EASY)
    member = await api.member(
        f"CreateInstance: [/applications/{application}, /environments/{where}]",
        f"RunInstanceWorkflow: [/applications/{application}/*]",
    )
    refused(await member.get(f"instances/{service}"), 403)
    refused(await member.post(f"instances/{service}/orders.say", {"word": "no"}), 403)
    user = accepted(await member.post(f"applications/{application}/launch", {"environmentId": where}))["id"]
    await api.settled(user)
    accepted(await member.post(f"instances/{user}/actions.ask", {"word": "yes"}))
    document = await until(api, user, lambda seen: "result.told" in seen["returnValues"])
    assert document["returnValues"]["result.told"] == "said yes"


async def test_an_offer_that_is_taken_back_is_missed_at_the_next_reconfiguration_only(api: Api) -> None:
    service, where = await offered(api)
    needy, easy = [(await launched(api, manifest, where))["id"] for manifest in (NEEDY, EASY)]
    await offer(api, service)
    for user in (needy, easy):
        await api.run(user, "actions.ask", word=f"still {user}")
        for each in (needy, easy):
            await until(
                api, each, lambda seen, user=user: seen["returnValues"]["result.heard"] == heard(f"still {user}")
            )
    assert (await api.document(easy))["returnValues"]["result.told"] == f"said still {easy}"
    assert "the environment has none" in await refusal(api, NEEDY, where)
    told = refused(await api.put(f"instances/{needy}/configuration", {}), 400, "CannotLaunch")
    assert "Component 'service' needs a service" in told
    assert (await api.document(needy))["returnValues"]["result.word"] == f"still {easy}"
    accepted(await api.put(f"instances/{easy}/configuration", {}))
    document = await api.settled(easy)
    assert (document["status"], behind(document)) == ("Running", None)
    assert "result.word" not in document["returnValues"]


async def test_a_reconfiguration_finds_what_is_offered_now_and_keeps_what_still_fits(api: Api) -> None:
    first, where = await offered(api)
    second = await api.running(SPEAKER, parameters={"input.first": "from the second"})
    user = (await launched(api, NEEDY, where))["id"]
    await offer(api, second, where)
    accepted(await api.put(f"instances/{user}/configuration", {}))
    assert behind(await api.settled(user)) == first, "the one in use still fits"
    await offer(api, first)
    preview = accepted(await api.post(f"instances/{user}/configuration/preview", {}))
    changes = [(part["path"], part["change"]) for part in preview["components"]]
    assert changes == [("service", "stops"), ("service", "starts"), ("main", "keeps")]
    accepted(await api.put(f"instances/{user}/configuration", {}))
    document = await until(api, user, lambda seen: seen["returnValues"].get("result.heard") == heard("from the second"))
    assert behind(document) == second
    assert (await api.document(first))["status"] == "Running"
    await api.run(first, "orders.say", word="nobody listens")
    await api.run(second, "orders.say", word="again")
    heard_again = await until(api, user, lambda seen: seen["returnValues"].get("result.heard") == heard("again"))
    assert names(heard_again) == ["hear", *names(document)]


async def test_what_was_missing_comes_with_a_reconfiguration(api: Api) -> None:
    where = await environment(api)
    user = (await launched(api, EASY, where))["id"]
    service = await api.running(SPEAKER)
    await offer(api, service, where)
    assert behind(await api.document(user)) is None
    accepted(await api.put(f"instances/{user}/configuration", {}))
    document = await until(api, user, lambda seen: seen["returnValues"]["result.heard"] == heard("first"))
    assert behind(document) == service


CHOIR = """
application:
  interfaces:
    result: {heard: bind(choir.singer#result.heard), told: bind(choir.singer#result.told)}
    actions: {ask: bind(choir.singer#actions.ask), grow: bind(choir#scale.set-quantity)}
  components:
    choir:
      type: composite.Scaler
      configuration: {configuration.quantity: 2}
      bindings: [[singer, service]]
      components:
        service:
          type: reference.Service
          interfaces:
            voice: {word: publish-signal(string)}
            orders: {say: receive-command(string word => string said)}
        singer:
          type: workflow.Instance
          required: [voice]
          interfaces:
            voice: {word: consume-signal(string)}
            orders: {say: send-command(string word => string said)}
            actions: {ask: receive-command(string word)}
            result: {heard: publish-signal(string), told: publish-signal(string)}
          configuration:
            configuration.triggers: {voice.word: launch}
            configuration.workflows:
              launch:
                steps: [{look: {action: getSignals, output: {seen: result}}}]
                return: {heard: {value: "{$.seen.voice.word}"}}
              ask:
                steps: [{say: {action: orders.say, parameters: {word: "{$.word}"}, output: {answer: said}}}]
                return: {told: {value: "{$.answer}"}}
"""


async def test_the_members_of_a_scaler_share_the_service_of_their_template(api: Api) -> None:
    service, where = await offered(api)
    document = await launched(api, CHOIR, where)
    assert document["status"] == "Running", document["errorMessage"]
    assert document["returnValues"] == {"result.heard": "first"}
    user = document["id"]
    await api.run(user, "actions.ask", word="tutti")
    document = await until(api, user, lambda seen: seen["returnValues"]["result.heard"] == "tutti")
    assert document["returnValues"]["result.told"] == "said tutti"
    grown = await api.post(f"instances/{user}/actions.grow", {"quantity": "3"})
    while grown.status_code == 409:  # what the new signal started may still run
        await api.settled(user)
        grown = await api.post(f"instances/{user}/actions.grow", {"quantity": "3"})
    accepted(grown)
    await api.settled(user)
    await api.run(service, "orders.say", word="da capo")
    await until(api, user, lambda seen: seen["returnValues"]["result.heard"] == "da capo")


async def test_previews_tell_of_services_that_are_missing(api: Api) -> None:
    application = await api.application(NEEDY)
    body = {"environmentId": await environment(api)}
    preview = accepted(await api.post(f"applications/{application}/launch/preview", body))
    assert ["needs a service" in error for error in preview["errors"]] == [True]


async def test_a_clone_of_an_environment_offers_the_same_instances(api: Api) -> None:
    service, where = await offered(api)
    clone = accepted(await api.post(f"environments/{where}/clone"))["id"]
    document = await launched(api, NEEDY, clone)
    assert behind(document) == service
