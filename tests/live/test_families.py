"""What becomes of parents and children when something fails, takes too long, or is asked for twice."""

import asyncio
from typing import Any

from tests.support.databases import Databases
from tests.support.families import CHILD, child_application, links, parent, reconfigured
from tests.support.service import Api, accepted, fresh_name, running_api

NEVER = "never"  # no duration: a step that waits for it fails


async def test_a_destroy_that_failed_is_run_again_where_other_children_are_gone(api: Api) -> None:
    child = await child_application(api)
    given = {"one.end": NEVER}
    instance = await api.launch(await api.application(parent({"one": child, "two": child})), parameters=given)
    children = links(await api.settled(instance))
    document = await api.run(instance, "destroy")
    assert document["status"] == "Failed"
    assert [(await api.document(children[name]))["status"] for name in ("one", "two")] == ["Failed", "Destroyed"]
    assert (await reconfigured(api, instance, parameters={}))["status"] == "Running"
    document = await api.run(instance, "destroy")
    assert document["status"] == "Destroyed", document["errorMessage"]


async def test_a_destroy_is_run_again_after_a_child_is_gone_and_the_other_one_is_still_there(api: Api) -> None:
    child = await child_application(api)
    given = {"one.end": NEVER}
    instance = await api.launch(await api.application(parent({"one": child, "two": child})), parameters=given)
    await api.settled(instance)
    await api.run(instance, "destroy")
    document = await api.run(instance, "destroy")
    assert document["status"] == "Failed"
    assert "'one'" in document["errorMessage"]
    assert "'two'" not in document["errorMessage"]


CALLER = """
    main:
      type: workflow.Instance
      interfaces:
        actions: {hold: send-command(string seconds => int size), ask: receive-command()}
        out: {got: publish-signal(int)}
      configuration:
        configuration.workflows:
          ask:
            steps:
              - long: {action: actions.hold, parameters: {seconds: "60", commandCallTimeout: 0.3, ignoreFail: true}}
              - short: {action: actions.hold, precedingPhases: [long], parameters: {seconds: "0"}, output: {got: size}}
            return: {got: {value: "{$.got}"}}
"""


async def test_a_call_that_took_too_long_leaves_the_child_free_for_the_next_one(api: Api) -> None:
    child = await child_application(api)
    text = parent(
        {"one": child},
        CALLER,
        "    actions: {ask: bind(main#actions.ask)}\n    out: {got: bind(main#out.got)}\n",
        "[[main, one]]",
    )
    instance = await api.running(text)
    document = await api.run(instance, "actions.ask")
    assert document["status"] == "Running", document["errorMessage"]
    assert document["returnValues"]["out.got"] == 99
    history = (await api.document(links(document)["one"]))["workflowHistory"]
    assert [(job["name"], job["status"]) for job in history[:2]] == [
        ("actions.hold", "Succeeded"),
        ("actions.hold", "Failed"),
    ]


async def test_a_child_whose_reconfiguration_failed_gets_another_chance_with_the_next_one(api: Api) -> None:
    child = await child_application(api)
    instance = await api.running(parent({"one": child, "two": child}))
    children = links(await api.document(instance))
    document = await reconfigured(api, instance, parameters={"one.delay": NEVER, "two.wanted": 2})
    assert document["status"] == "Failed"
    assert (await api.document(children["one"]))["status"] == "Failed"
    document = await reconfigured(api, instance, parameters={"one.delay": "0", "two.wanted": 3})
    assert document["status"] == "Running", document["errorMessage"]
    assert [(await api.document(each))["status"] for each in children.values()] == ["Running", "Running"]
    assert document["returnValues"]["two.size"] == 3


async def test_a_failed_child_does_not_hide_behind_a_reconfiguration_that_changes_nothing_of_it(api: Api) -> None:
    child = await child_application(api)
    instance = await api.running(parent({"one": child}))
    await reconfigured(api, instance, parameters={"one.delay": NEVER})
    document = await reconfigured(api, instance, parameters={"one.delay": NEVER})
    one = await api.document(links(document)["one"])
    assert (document["status"], one["status"]) in {("Failed", "Failed"), ("Running", "Running")}


async def test_a_child_that_was_never_launched_takes_over_what_its_parent_was_reconfigured_to(api: Api) -> None:
    child = await child_application(api)
    first = parent({"one": child, "two": child})
    # `two` waits for `one`, which fails: it is never launched.
    waiting = """
    main:
      type: workflow.Instance
      required: [actions]
      interfaces: {actions: {hold: send-command(string seconds => int size)}}
      configuration: {configuration.workflows: {launch: {steps: []}}}
"""
    application = await api.application(parent({"one": child, "two": child}, waiting, "", "[[main, one]]"))
    assert first
    instance = await api.launch(application, parameters={"one.delay": NEVER, "two.wanted": 2})
    document = await api.settled(instance)
    assert document["status"] == "Failed"
    document = await reconfigured(api, instance, parameters={"two.wanted": 7})
    assert document["status"] == "Running", document["errorMessage"]
    assert document["returnValues"] == {"one.size": 1, "two.size": 7}
    assert await leftover_configurations(api) == 0


async def leftover_configurations(api: Api) -> int:
    async with api.database.connection() as connection:
        found = await connection.execute(
            "SELECT count(*) FROM instances WHERE before IS NOT NULL AND status <> 'Destroyed'"
        )
        [count] = await found.fetchone() or [0]
    return int(count)


async def test_a_child_that_could_not_be_taken_down_goes_with_its_parent(api: Api) -> None:
    child = await child_application(api)
    application = await api.application(parent({"one": child, "two": child}))
    instance = await api.launch(application, parameters={"one.end": "{$.nothing}"})
    children = links(await api.settled(instance))
    version = accepted(await api.put_yaml(f"applications/{application}/manifest", parent({"two": child})))["version"]
    document = await reconfigured(api, instance, manifestVersion=version)
    assert (document["status"], "'one'" in document["errorMessage"]) == ("Failed", True)
    document = await reconfigured(api, instance, manifestVersion=version)
    assert document["status"] == "Failed", "the child is still there"
    await api.run(instance, "destroy")
    assert (await api.document(children["one"]))["status"] == "Failed"
    assert (await api.document(instance))["status"] == "Failed"
    accepted(await api.delete(f"instances/{instance}?force=1"))
    await api.gone(instance)
    await api.gone(children["one"])


CLOCKED = """
application:
  configuration: {input.pace: "0"}
  interfaces: {input: {pace: bind(clock#input.pace)}}
  components:
    clock:
      type: workflow.Instance
      interfaces: {input: {pace: configuration(string)}}
      configuration:
        configuration.schedule: {tick: "0 0 0 1 1 ? 2190"}
        configuration.triggers: {input.pace: change}
        configuration.workflows:
          tick: {steps: []}
          change: {steps: [{pause: {action: wait, parameters: {delay: "{$.pace}"}}}]}
"""


async def test_schedules_of_the_manifest_outlive_a_reconfiguration_whose_trigger_fails(api: Api) -> None:
    instance = await api.running(CLOCKED)
    document = await reconfigured(api, instance, parameters={"input.pace": NEVER})
    assert document["status"] == "Running"
    listed = accepted(await api.get(f"instances/{instance}/schedules"))["schedules"]
    assert [entry["name"] for entry in listed] == ["tick"]


async def test_a_preview_tells_that_what_never_came_up_will_start(api: Api) -> None:
    child = await child_application(api)
    instance = await api.launch(await api.application(parent({"one": child})), parameters={"one.delay": NEVER})
    assert (await api.settled(instance))["status"] == "Failed"
    body = {"parameters": {"one.delay": "0"}}
    told = accepted(await api.post(f"instances/{instance}/configuration/preview", body))
    assert {part["path"]: part["change"] for part in told["components"]} == {"one": "starts", "one.worker": "starts"}
    assert told["workflows"] == ["one.worker#launch"]
    document = await reconfigured(api, instance, **body)
    assert document["status"] == "Running", document["errorMessage"]
    jobs = accepted(await api.get(f"instances/{links(document)['one']}/jobs"))
    assert [step["name"] for step in jobs[0]["steps"]] == ["pause"]


async def test_a_parent_whose_launch_failed_is_launched_again_with_its_children(api: Api) -> None:
    child = await child_application(api, CHILD)
    main = """
    main:
      type: workflow.Instance
      interfaces: {input: {wanted: configuration(string)}}
      configuration:
        input.wanted: "never"
        configuration.workflows: {launch: {steps: [{pause: {action: wait, parameters: {delay: "{$.wanted}"}}}]}}
"""
    application = await api.application(parent({"one": child}, main, "    input: {wanted: bind(main#input.wanted)}\n"))
    instance = await api.launch(application)
    document = await api.settled(instance)
    assert (document["status"], (await api.document(links(document)["one"]))["status"]) == ("Failed", "Running")
    document = await api.run(instance, "launch")
    assert document["status"] == "Failed"
    one = await api.document(links(document)["one"])
    assert [job["name"] for job in one["workflowHistory"]] == ["launch", "launch"]
    document = await reconfigured(api, instance, parameters={"input.wanted": "0"})
    assert document["status"] == "Running", document["errorMessage"]


TRIGGERING = CHILD.replace(
    "configuration.workflows:",
    "configuration.workflows:\n          hear: {steps: [{pause: {action: wait, parameters: {delay: 0.05}}}]}",
).replace(
    "result: {size: publish-signal(int)}",
    "result: {size: publish-signal(int)}\n        in: {size: consume-signal(int)}",
)


async def test_children_whose_own_work_waits_for_a_place_do_not_stop_those_that_hold_all_places(
    databases: Databases,
) -> None:
    url = databases.create()
    ear = """
    ear:
      type: workflow.Instance
      interfaces: {result: {size: consume-signal(int)}}
      configuration:
        configuration.triggers: {result.size: hear}
        configuration.workflows: {hear: {steps: [{pause: {action: wait, parameters: {delay: 0.05}}}]}}
"""
    hearing = CHILD.replace("  components:", "  bindings: [[ear, worker]]\n  components:") + ear
    caller = CALLER.replace("60", "0").replace("0.3", "20").replace("hold", "grow").replace("string seconds", "int by")
    caller = caller.replace('seconds: "0"', "by: SIZE").replace("SIZE", "5", 1).replace("SIZE", "6")
    async with running_api(url, engine_concurrency=1) as api:
        child = await child_application(api, hearing)
        text = parent({"one": child}, caller, "    actions: {ask: bind(main#actions.ask)}\n", "[[main, one]]")
        instance = await api.running(text)
        document = await api.run(instance, "actions.ask")
        assert document["status"] == "Running", document["errorMessage"]
        assert document["workflowHistory"][0]["status"] == "Succeeded", document["errorMessage"]
    databases.drop(url)


async def shared(api: Api, instance: str, application: str) -> str:
    """Put an instance into the catalog of the default environment, and return the revision that stands for it."""
    made = accepted(
        await api.post(f"applications/{application}/revisions", {"name": fresh_name("shared"), "version": 2})
    )
    catalog = {"configuration.shared-instances": {made["id"]: instance}}
    body = {"name": f"catalog {made['id']}", "typeId": "builtin:shared_instances_catalog", "parameters": catalog}
    service = accepted(await api.post(f"organizations/{api.organization}/services", body))["id"]
    listed = accepted(await api.get(f"environments/{api.environment}/services"))["services"]
    ids = [*(each["id"] for each in listed), service]
    accepted(await api.put(f"environments/{api.environment}/services", {"services": ids}))
    return str(made["id"])


async def test_a_launch_waits_for_a_shared_instance_that_is_busy(api: Api) -> None:
    child = await child_application(api)
    application = await api.application(CHILD)
    lent = await api.launch(application)
    await api.settled(lent)
    revision = await shared(api, lent, application)
    accepted(await api.post(f"instances/{lent}/actions.hold", {"seconds": "0.6"}))
    using = await api.application(parent({"one": child}))
    user = await api.launch(using, submodules={"one": {"revisionId": revision}})
    document = await api.settled(user)
    assert document["status"] == "Running", document["errorMessage"]
    assert links(document) == {"one": lent}
    made = accepted(await api.post(f"applications/{using}/revisions", {"name": "as it is", "instanceId": user}))["id"]
    assert accepted(await api.get(f"revisions/{made}"))["submodules"] == {"one": {"revisionId": revision}}
    assert (await api.run(user, "destroy"))["status"] == "Destroyed"
    assert (await api.document(lent))["status"] == "Running"


async def test_an_instance_cannot_be_its_own_shared_child(api: Api) -> None:
    child = await child_application(api)
    application = await api.application(parent({"one": child}))
    instance = await api.launch(application)
    await api.settled(instance)
    made = await shared(api, instance, application)
    answer = await api.put(f"instances/{instance}/configuration", {"submodules": {"one": {"revisionId": made}}})
    assert answer.status_code == 400, answer.text
    assert (await api.document(instance))["status"] == "Running"


BARE = """
application:
  components:
    one: {type: reference.Submodule, configuration: {__locator.application-id: LOCATOR}, interfaces: {}}
"""


async def test_shared_instances_do_not_stand_on_each_other_in_a_circle(api: Api) -> None:
    application = await api.application(BARE.replace("LOCATOR", await child_application(api)))
    three = [await api.launch(application) for _ in range(3)]
    revisions: list[str] = []
    for instance in three:
        await api.settled(instance)
        revisions.append(await shared(api, instance, application))

    def bodies(revision: str) -> dict[str, dict[str, dict[str, str]]]:
        return {"submodules": {"one": {"revisionId": revision}}}

    for place, other in ((0, 1), (1, 2)):
        accepted(await api.put(f"instances/{three[place]}/configuration", bodies(revisions[other])))
        document = await api.settled(three[place])
        assert (document["status"], links(document)) == ("Running", {"one": three[other]})
    for revision in revisions:  # its own, one that stands on it, one that stands on such a one
        answer = await api.put(f"instances/{three[2]}/configuration", bodies(revision))
        assert (answer.status_code, answer.json()["code"]) == (400, "EndlessSubmodules")
    accepted(await api.put(f"instances/{three[0]}/configuration", bodies(revisions[1])))  # as it is
    assert (await api.settled(three[0]))["status"] == "Running"


async def test_two_configurations_at_the_same_moment_close_no_circle_of_shared_instances(api: Api) -> None:
    application = await api.application(BARE.replace("LOCATOR", await child_application(api)))
    pair = [await api.launch(application) for _ in range(2)]
    revisions: list[str] = []
    for instance in pair:
        await api.settled(instance)
        revisions.append(await shared(api, instance, application))
    wanted = zip(pair, reversed(revisions), strict=True)
    answers = await asyncio.gather(
        *(
            api.put(f"instances/{instance}/configuration", {"submodules": {"one": {"revisionId": revision}}})
            for instance, revision in wanted
        )
    )
    assert sorted(answer.status_code for answer in answers) == [200, 400]


async def test_configurations_that_come_at_once_leave_one_child(api: Api) -> None:
    child, other = await child_application(api), await child_application(api)
    application = await api.application(parent({"one": child}))
    instance = await api.launch(application)
    await api.settled(instance)
    accepted(await api.put_yaml(f"applications/{application}/manifest", parent({"one": other})))
    for version in (3, 2, 3):
        body = {"manifestVersion": version}
        path = f"instances/{instance}/configuration"
        answers = await asyncio.gather(*(api.put(path, body) for _ in range(6)))
        assert {answer.status_code for answer in answers} <= {200, 409}
        await api.settled(instance)
    document = await api.settled(instance)
    async with api.database.connection() as connection:
        found = await connection.execute(
            "SELECT id FROM instances WHERE parent_id = %s AND status <> 'Destroyed'", [instance]
        )
        alive = [row[0] for row in await found.fetchall()]
    assert alive == list(links(document).values())


async def test_another_locator_replaces_a_shared_instance_too(api: Api) -> None:
    first, second = await child_application(api), await child_application(api)
    applications = accepted(await api.get(f"organizations/{api.organization}/applications"))
    lender = next(each["id"] for each in applications if each["name"] == first)
    lent = await api.launch(lender)
    await api.settled(lent)
    revision = await shared(api, lent, lender)
    application = await api.application(parent({"one": first}))
    instance = await api.launch(application, submodules={"one": {"revisionId": revision}})
    assert links(await api.settled(instance)) == {"one": lent}
    assert links(await reconfigured(api, instance)) == {"one": lent}, "nobody asked for another one"
    accepted(await api.put_yaml(f"applications/{application}/manifest", parent({"one": second})))
    document = await reconfigured(api, instance, manifestVersion=3)
    assert document["status"] == "Running", document["errorMessage"]
    assert links(document)["one"] != lent
    assert (await api.document(lent))["status"] == "Running"


async def exchangeable(api: Api) -> tuple[str, str, str, str]:
    """Return an application with a child, a revision that stands for a shared instance, that, and the child's name."""
    name = fresh_name("child")
    lender = await api.application(CHILD, name)
    lent = await api.launch(lender)
    await api.settled(lent)
    return await api.application(parent({"one": name})), await shared(api, lent, lender), lent, name


async def told(api: Api, instance: str, **body: Any) -> list[tuple[str, str, str | None, str | None]]:
    """Return what a preview says of every component: path, change, kind and instance."""
    preview = accepted(await api.post(f"instances/{instance}/configuration/preview", body))
    assert preview["errors"] == []
    return [(each["path"], each["change"], each["link"], each["instanceId"]) for each in preview["components"]]


async def test_own_and_shared_children_are_exchanged_both_ways_as_the_preview_shows(api: Api) -> None:
    application, revision, lent, _ = await exchangeable(api)
    instance = await api.launch(application)
    first = links(await api.settled(instance))["one"]
    to_shared = {"submodules": {"one": {"revisionId": revision}}}
    assert await told(api, instance, **to_shared) == [
        ("one", "stops", "own", first),
        ("one", "starts", "shared", lent),
        ("one.worker", "stops", None, None),
    ]
    assert links(await reconfigured(api, instance, **to_shared)) == {"one": lent}
    assert (await api.document(first))["status"] == "Destroyed"
    bodies: list[dict[str, Any]] = [{}, {"submodules": {"one": {}}}, {"submodules": {}}]
    for unchanged in bodies:
        assert await told(api, instance, **unchanged) == [("one", "keeps", "shared", lent)]
        assert links(await reconfigured(api, instance, **unchanged)) == {"one": lent}
    to_own = {"submodules": {"one": {"revisionId": None}}}
    assert await told(api, instance, **to_own) == [
        ("one", "stops", "shared", lent),
        ("one", "starts", "own", None),
        ("one.worker", "starts", None, None),
    ]
    document = await reconfigured(api, instance, **to_own)
    second = links(document)["one"]
    assert second not in (first, lent)
    assert [(await api.document(each))["status"] for each in (second, lent)] == ["Running", "Running"]
    assert links(await reconfigured(api, instance, **to_own)) == {"one": second}, "it is an own one already"


async def test_a_root_revision_brings_the_submodules_as_it_records_them(api: Api) -> None:
    application, revision, lent, _ = await exchangeable(api)
    instance = await api.launch(application)
    await api.settled(instance)

    async def recorded() -> str:
        body = {"name": fresh_name("recorded"), "instanceId": instance}
        return str(accepted(await api.post(f"applications/{application}/revisions", body))["id"])

    with_own = await recorded()
    await reconfigured(api, instance, submodules={"one": {"revisionId": revision}})
    with_shared = await recorded()
    assert [part[:3] for part in await told(api, instance, revisionId=with_own)] == [
        ("one", "stops", "shared"),
        ("one", "starts", "own"),
        ("one.worker", "starts", None),
    ]
    own = links(await reconfigured(api, instance, revisionId=with_own))["one"]
    assert own != lent
    assert links(await reconfigured(api, instance, revisionId=with_own)) == {"one": own}, "it stays the same one"
    assert links(await reconfigured(api, instance, revisionId=with_shared)) == {"one": lent}
    given = {"one": {"revisionId": None}}
    document = await reconfigured(api, instance, revisionId=with_shared, submodules=given)
    assert links(document)["one"] not in (own, lent), "what is given wins"
    assert (await api.document(lent))["status"] == "Running"


async def test_a_revision_of_a_submodule_brings_those_inside_as_it_records_them(api: Api) -> None:
    middle, revision, lent, _ = await exchangeable(api)
    plain = {"name": "plain", "version": 2, "submodules": {"one": {"manifestVersion": 2}}}
    without = accepted(await api.post(f"applications/{middle}/revisions", plain))["id"]
    application = await api.application(BARE.replace("LOCATOR", middle))
    inside = {"one": {"submodules": {"one": {"revisionId": revision}}}}
    instance = await api.launch(application, submodules=inside)
    child = links(await api.settled(instance))["one"]
    assert links(await api.document(child)) == {"one": lent}
    assert links(await reconfigured(api, instance, submodules={"one": {"manifestVersion": 2}}))["one"] == child
    assert links(await api.document(child)) == {"one": lent}, "left out means unchanged"
    document = await reconfigured(api, instance, submodules={"one": {"revisionId": without}})
    assert links(document)["one"] == child
    grandchild = links(await api.document(child))["one"]
    assert grandchild != lent
    assert (await api.document(grandchild))["status"] == "Running"


async def test_a_launch_may_ask_for_an_own_child_where_its_revision_has_a_shared_one(api: Api) -> None:
    application, revision, lent, _ = await exchangeable(api)
    content = {"name": "sharing", "version": 2, "submodules": {"one": {"revisionId": revision}}}
    sharing = accepted(await api.post(f"applications/{application}/revisions", content))["id"]
    taken = await api.settled(await api.launch(application, revisionId=sharing))
    assert links(taken) == {"one": lent}
    asked = {"one": {"revisionId": None}}
    own = await api.settled(await api.launch(application, revisionId=sharing, submodules=asked))
    assert own["status"] == "Running", own["errorMessage"]
    assert links(own)["one"] != lent
