"""Versions pass environments in an order: what is where, what keeps it, and the change set that brings it on."""

import asyncio

import pytest

from tests.support.promotion import NEW, OLD, Way, way
from tests.support.service import Api, accepted, fresh_name, own_service, refused

api = own_service  # whose administrator administers the server


async def applied(api: Api, change_set: str, instance: str) -> None:
    accepted(await api.post(f"change-sets/{change_set}/apply"))
    assert (await api.settled(instance))["status"] == "Running"


async def test_a_version_comes_to_the_next_environment_with_the_parameters_there(api: Api) -> None:
    found = await way(api)
    await found.order()
    await found.release()
    first, second = await found.board()
    assert (first["version"], second["version"], second["candidate"]) == (NEW, OLD, NEW)
    assert second["open"]
    made = accepted(await found.propose())
    assert (made["version"], made["isNew"]) == (NEW, True)
    assert made["changeSet"]["status"] == "Ready"
    await applied(api, made["changeSet"]["id"], found.instances[1])
    document = await api.document(found.instances[1])
    assert document["parameters"]["size"] == 2, "the parameter of the environment stays"
    first, second = await found.board()
    assert (second["version"], second["candidate"]) == (NEW, None)
    (placed,) = second["instances"]
    assert placed["changeSetId"] == made["changeSet"]["id"]
    assert placed["byEmail"] is not None
    assert placed["since"] is not None
    assert refused(await found.propose(), 400, "NothingToPromote")


async def test_a_dry_run_shows_the_plan_and_keeps_nothing(api: Api) -> None:
    found = await way(api)
    await found.order()
    await found.release()
    made = accepted(await found.propose(dryRun=True))
    assert [(each["fromVersion"], each["toVersion"]) for each in made["changeSet"]["plan"]] == [(OLD, NEW)]
    refused(await api.get(f"change-sets/{made['changeSet']['id']}"), 404)
    assert (await found.board())[1]["changeSetId"] is None


async def test_the_board_says_what_neighbours_differ_in(api: Api) -> None:
    found = await way(api)
    await found.order()
    accepted(await api.put(f"environments/{found.environments[1]}/markers", {"markers": [{"name": "hardened"}]}))
    await found.release()
    _, second = await found.board()
    differences = second["differences"]
    assert differences["parameters"] == ["size"]
    assert differences["markers"] == ["hardened"]
    (default,) = differences["manifest"]["defaults"]
    assert (default["pin"], default["from"], default["to"]) == ("input.release", 1, NEW)


async def test_a_version_must_soak_and_the_refusal_says_until_when(api: Api) -> None:
    found = await way(api)
    await found.order({"soak": 3_600_000})
    await found.release()
    made = accepted(await found.propose())["changeSet"]["id"]
    sentence = refused(await api.post(f"change-sets/{made}/apply"), 403, "PromotionGate")
    assert "must run in" in sentence
    assert "until 20" in sentence
    _, second = await found.board()
    (gate,) = [each for each in second["gates"] if each["kind"] == "soak"]
    assert (gate["open"], second["open"]) == (False, False)
    assert gate["opensAt"] is not None
    await found.soaked()
    await applied(api, made, found.instances[1])


async def test_a_gate_holds_for_every_way_to_bring_a_version(api: Api) -> None:
    found = await way(api)
    await found.order({"soak": 3_600_000})
    await found.release()
    body = {"manifestVersion": NEW}
    refused(await api.put(f"instances/{found.instances[1]}/configuration", body), 403, "PromotionGate")
    launch = {"environmentId": found.environments[1], "version": NEW}
    refused(await api.post(f"applications/{found.application}/launch", launch), 403, "PromotionGate")
    refused(await api.post(f"applications/{found.application}/launch", {**launch, "version": 99}), 400)
    # What the environment has already is no promotion, in either direction.
    await api.launch(found.application, environmentId=found.environments[1], version=OLD)
    accepted(await api.put(f"instances/{found.instances[1]}/configuration", {"parameters": {"size": 9}}))


async def test_a_version_that_is_nowhere_before_is_refused(api: Api) -> None:
    found = await way(api)
    await found.order({"soak": 1_000})
    await found.release()
    await found.bring(found.instances[0], OLD)
    sentence = refused(
        await api.put(f"instances/{found.instances[1]}/configuration", {"manifestVersion": NEW}), 403, "PromotionGate"
    )
    assert f"Version {NEW} isn't in" in sentence


async def test_nothing_keeps_an_environment_from_going_back(api: Api) -> None:
    found = await way(api)
    await found.order()
    await found.release()
    await applied(api, accepted(await found.propose())["changeSet"]["id"], found.instances[1])
    await found.order({"soak": 360_000_000, "workflows": ["smoke"], "approvals": 1})
    await found.bring(found.instances[1], OLD)
    assert (await api.document(found.instances[1]))["version"] == OLD


async def test_a_workflow_must_have_succeeded_since_the_version_came(api: Api) -> None:
    found = await way(api)
    await found.order({"workflows": ["smoke"]})
    accepted(await api.post(f"instances/{found.instances[0]}/smoke", {}))
    await api.settled(found.instances[0])
    await found.release()
    made = accepted(await found.propose())["changeSet"]["id"]
    assert "hasn't yet" in refused(await api.post(f"change-sets/{made}/apply"), 403, "PromotionGate")
    accepted(await api.post(f"instances/{found.instances[0]}/smoke", {}))
    await api.settled(found.instances[0])
    await applied(api, made, found.instances[1])


async def test_a_promotion_needs_the_approvals_of_its_gate(api: Api) -> None:
    found = await way(api)
    await found.order({"approvals": 1})
    await found.release()
    direct = await api.put(f"instances/{found.instances[1]}/configuration", {"manifestVersion": NEW})
    assert "by a change set with 1 approval" in refused(direct, 403, "PromotionGate")
    made = accepted(await found.propose())["changeSet"]
    assert (made["status"], made["needed"]) == ("Pending", 1)
    other = await api.member("Read: [/*]", "ApproveInstanceWorkflow: [/*]")
    accepted(await other.post(f"change-sets/{made['id']}/approve"))
    assert [each["open"] for each in (await found.board())[1]["gates"] if each["kind"] == "approvals"] == [True]
    await applied(api, made["id"], found.instances[1])


async def test_a_change_set_with_too_few_approvals_for_the_order_is_made_again(api: Api) -> None:
    found = await way(api)
    await found.order({"soak": 1})
    await found.release()
    await found.soaked()
    old = accepted(await found.propose())["changeSet"]
    assert (old["status"], (await found.board())[1]["open"]) == ("Ready", True)
    await found.order({"soak": 1, "approvals": 1})
    _, second = await found.board()
    (gate,) = [each for each in second["gates"] if each["kind"] == "approvals"]
    assert (gate["open"], second["open"]) == (False, False)
    made = accepted(await found.propose())
    assert (made["isNew"], made["changeSet"]["status"], made["changeSet"]["needed"]) == (True, "Pending", 1)
    assert accepted(await api.get(f"change-sets/{old['id']}"))["status"] == "Expired"
    assert not accepted(await found.propose())["isNew"]


async def test_a_change_set_of_an_instance_that_has_changed_is_made_again(api: Api) -> None:
    found = await way(api)
    await found.order()
    await found.release()
    old = accepted(await found.propose())["changeSet"]["id"]
    accepted(await api.put(f"instances/{found.instances[1]}/configuration", {"parameters": {"size": 9}}))
    await api.settled(found.instances[1])
    refused(await api.post(f"change-sets/{old}/apply"), 409, "StaleChangeSet")
    made = accepted(await found.propose())
    assert made["isNew"]
    assert accepted(await api.get(f"change-sets/{old}"))["status"] == "Expired"
    await applied(api, made["changeSet"]["id"], found.instances[1])
    assert (await api.document(found.instances[1]))["parameters"]["size"] == 9


async def test_approvals_are_needed_also_if_another_gate_was_closed_when_it_was_made(api: Api) -> None:
    found = await way(api)
    await found.order({"approvals": 1, "soak": 3_600_000})
    await found.release()
    body = {"act": "version", "ids": [found.instances[1]], "version": NEW}
    made = accepted(await api.post(f"organizations/{api.organization}/change-sets", body))
    assert made["needed"] == 1


async def test_two_promotions_at_once_are_one_change_set(api: Api) -> None:
    found = await way(api)
    await found.order()
    await found.release()
    made = [accepted(each) for each in await asyncio.gather(*(found.propose() for _ in range(4)))]
    assert len({each["changeSet"]["id"] for each in made}) == 1
    assert sorted(each["isNew"] for each in made) == [False, False, False, True]
    listed = accepted(await api.get(f"organizations/{api.organization}/change-sets"))
    comment = made[0]["changeSet"]["comment"]
    assert len([each for each in listed if each["comment"] == comment]) == 1


async def test_an_environment_that_is_deleted_closes_the_gate_behind_it(api: Api) -> None:
    found = await way(api, 3)
    await found.order({}, {"soak": 1_000})
    await found.release()
    accepted(await api.post(f"instances/{found.instances[1]}/destroy", {}))
    await api.until(found.instances[1], "Destroyed")
    accepted(await api.delete(f"instances/{found.instances[1]}"))
    accepted(await api.delete(f"environments/{found.environments[1]}"))
    board = await found.board()
    assert [each["name"] is None for each in board] == [False, True, False]
    answer = await api.put(f"instances/{found.instances[2]}/configuration", {"manifestVersion": NEW})
    assert "was deleted. Set the order again" in refused(answer, 403, "PromotionGate")
    # Who sets it again names what is there.
    stages = [{"environmentId": found.environments[0]}, {"environmentId": found.environments[2]}]
    accepted(await api.put(f"applications/{found.application}/promotion-order", {"stages": stages}))
    await found.bring(found.instances[2], NEW)


async def test_an_environment_that_is_renamed_stays_in_the_order(api: Api) -> None:
    found = await way(api)
    await found.order()
    name = fresh_name("renamed")
    accepted(await api.put(f"environments/{found.environments[1]}/name", {"name": name}))
    assert (await found.board())[1]["name"] == name


async def test_a_revision_that_is_deleted_leaves_the_version_to_promote(api: Api) -> None:
    found = await way(api)
    await found.order()
    await found.release()
    body = {"name": fresh_name("revision"), "version": NEW, "parameters": {}}
    made = accepted(await api.post(f"applications/{found.application}/revisions", body))["id"]
    configured = {"revisionId": made}
    accepted(await api.put(f"instances/{found.instances[0]}/configuration", configured))
    await api.settled(found.instances[0])
    accepted(await api.delete(f"revisions/{made}"))
    assert (await found.board())[0]["instances"][0]["revision"] is None
    assert accepted(await found.propose())["version"] == NEW


async def test_an_instance_that_failed_after_its_promotion_closes_the_next_gate(api: Api) -> None:
    found = await way(api, 3)
    await found.order({}, {"soak": 1_000})
    await found.release()
    await applied(api, accepted(await found.propose())["changeSet"]["id"], found.instances[1])
    await found.soaked()
    async with api.database.transaction() as connection:
        await connection.execute("UPDATE instances SET status = 'Failed' WHERE id = %s", (found.instances[1],))
    made = accepted(await found.propose(1))["changeSet"]["id"]
    assert "is Failed" in refused(await api.post(f"change-sets/{made}/apply"), 403, "PromotionGate")


async def test_the_order_of_the_organization_holds_until_an_application_has_its_own(api: Api) -> None:
    found = await way(api)
    path = f"organizations/{api.organization}/promotion-order"
    stages = [{"environmentId": each} for each in found.environments]
    accepted(await api.put(path, {"stages": stages}))
    order = accepted(await api.get(f"applications/{found.application}/promotion-order"))
    assert ([each["environmentId"] for each in order["stages"]], order["own"]) == (list(found.environments), False)
    own = f"applications/{found.application}/promotion-order"
    accepted(await api.put(own, {"stages": []}))
    assert await found.board() == []
    accepted(await api.put(own, {"stages": None}))
    assert len(await found.board()) == 2
    accepted(await api.put(path, {"stages": []}))
    assert await found.board() == []


@pytest.mark.parametrize(
    ("stages", "problem"),
    [
        ([0, 0], "is in the order already"),
        ([{"soak": 1_000}, 1], "has no gates"),
        ([0, {"workflows": ["a", "a"]}], "each once"),
        ([0, {"workflows": [" "]}], "1 to 200 characters"),
        (["5a" * 12], "stages[0].environmentId"),
    ],
)
async def test_an_order_that_cannot_be_is_refused(api: Api, stages: list[object], problem: str) -> None:
    found = await way(api)
    given = []
    for index, each in enumerate(stages):
        stage = each if isinstance(each, dict) else {}
        place = each if isinstance(each, str) else found.environments[each if isinstance(each, int) else index]
        given.append({"environmentId": place, **stage})
    answer = await api.put(f"applications/{found.application}/promotion-order", {"stages": given})
    assert problem in refused(answer, 400)


async def test_who_sets_an_order_may_edit_all_that_it_names(api: Api) -> None:
    found = await way(api)
    await found.order()
    one = f"/environments/{found.environments[0]}"
    for permissions in (
        ("Read: [/*]", "EditApplication: [/*]", f"EditEnvironment: [{one}]"),
        ("Read: [/*]", "EditEnvironment: [/*]"),
    ):
        someone = await api.member(*permissions)
        body = {"stages": [{"environmentId": each} for each in found.environments]}
        refused(await someone.put(f"applications/{found.application}/promotion-order", body), 403)
    partly = await api.member("Read: [/*]", "EditApplication: [/*]", f"EditEnvironment: [{one}]")
    answer = await partly.put(f"applications/{found.application}/promotion-order", {"stages": []})
    refused(answer, 403)


async def test_who_may_not_edit_the_instance_or_read_its_environment_promotes_nothing(api: Api) -> None:
    found = await way(api)
    await found.order()
    await found.release()
    reader = await api.member("Read: [/*]")
    refused(await found.propose(caller=reader), 403)
    one = found.environments[0]
    part = await api.member(f"Read: [/applications/*, /environments/{one}]", "EditInstance: [/*]")
    refused(await found.propose(caller=part), 403)
    first, second = await found.board(part)
    assert first["name"] is not None
    assert (second["name"], second["version"], second["instances"], second["gates"]) == (None, None, [], [])


async def test_another_organization_sees_and_changes_nothing(api: Api) -> None:
    found = await way(api)
    await found.order()
    organization = accepted(await api.post("organizations", {"name": fresh_name("other")}))["id"]
    stranger = await api.member("Read: [/*]", "EditInstance: [/*]", "EditEnvironment: [/*]", organization=organization)
    path = f"applications/{found.application}/promotion"
    refused(await stranger.get(path), 403)
    refused(await stranger.get(f"{path}-order"), 403)
    refused(await stranger.put(f"{path}-order", {"stages": []}), 403)
    refused(await found.propose(caller=stranger), 403)
    stages = [{"environmentId": found.environments[0]}]
    refused(await stranger.put(f"organizations/{organization}/promotion-order", {"stages": stages}), 403)


async def test_a_freeze_is_a_gate_of_the_board(api: Api) -> None:
    found: Way = await way(api)
    await found.order()
    await found.release()
    accepted(await api.put(f"environments/{found.environments[1]}/freeze", {"reason": "Incident 12."}))
    _, second = await found.board()
    (gate,) = [each for each in second["gates"] if each["kind"] == "rules"]
    assert (gate["open"], second["open"]) == (False, False)
    assert "Incident 12." in gate["sentence"]


async def rules_gates(found: Way) -> list[str]:
    return [each["sentence"] for each in (await found.board())[1]["gates"] if each["kind"] == "rules"]


async def test_the_board_asks_rules_about_an_instance_that_would_change(api: Api) -> None:
    found = await way(api)
    await api.settled(await api.launch(found.application, environmentId=found.environments[1], version=OLD))
    await found.order()
    await found.release()
    await found.bring(found.instances[1], NEW)  # of the other one, the version is to change
    rules = f"- name: no\n  when: $.instance.version == {OLD} && $.kind == 'reconfigure'\n  deny: Not while we move.\n"
    accepted(await api.put(f"environments/{found.environments[1]}/change-rules", {"rules": rules}))
    assert await rules_gates(found) == ["Not while we move."]


async def test_the_board_says_nothing_about_rules_while_another_gate_refuses(api: Api) -> None:
    found = await way(api)
    await found.order({"soak": 3_600_000})
    await found.release()
    assert await rules_gates(found) == []
    await found.soaked()
    assert await rules_gates(found) == ["No rule or freeze is against it."]


async def test_the_board_shows_no_closed_gate_that_refuses_nothing(api: Api) -> None:
    found = await way(api)
    await found.order()
    await found.release()
    await found.bring(found.instances[1], NEW)
    await found.bring(found.instances[1], OLD)
    await found.order({"soak": 360_000_000})
    _, second = await found.board()
    assert (second["candidate"], second["open"]) == (NEW, True), "it has had the version"
    await found.order()
    async with api.database.transaction() as connection:
        await connection.execute("UPDATE instances SET status = 'Failed' WHERE id = %s", (found.instances[0],))
    _, second = await found.board()
    assert (second["candidate"], second["open"]) == (NEW, True), "its stage has no gates"
    await applied(api, accepted(await found.propose())["changeSet"]["id"], found.instances[1])


async def test_a_newer_version_ends_the_change_set_of_an_older_one(api: Api) -> None:
    found = await way(api)
    await found.order({"soak": 3_600_000})
    await found.release()
    older = accepted(await found.propose())["changeSet"]
    await found.release(NEW + 1)
    accepted(await found.propose(dryRun=True))
    assert accepted(await api.get(f"change-sets/{older['id']}"))["status"] == "Ready"
    newer = accepted(await found.propose())["changeSet"]
    ended = accepted(await api.get(f"change-sets/{older['id']}"))
    assert ended["status"] == "Expired"
    assert f"Superseded by the promotion of version {NEW + 1}." in ended["comment"]
    assert newer["status"] == "Ready"


async def test_who_may_not_edit_environments_keeps_the_order_of_the_organization_in_force(api: Api) -> None:
    found = await way(api)
    path = f"organizations/{api.organization}/promotion-order"
    stages = [{"environmentId": found.environments[0]}, {"environmentId": found.environments[1], "soak": 3_600_000}]
    accepted(await api.put(path, {"stages": stages}))
    await found.release()
    mine = await api.offer()
    rights = ("Read: [/*]", "EditApplication: [/*]", "EditInstance: [/*]", f"EditEnvironment: [/environments/{mine}]")
    someone = await api.member(*rights)
    own = f"applications/{found.application}/promotion-order"
    for given in ([], [{"environmentId": mine}]):
        refused(await someone.put(own, {"stages": given}), 403)
    body = {"manifestVersion": NEW}
    refused(await someone.put(f"instances/{found.instances[1]}/configuration", body), 403, "PromotionGate")
    accepted(await api.put(path, {"stages": []}))


async def test_an_environment_id_in_capitals_is_the_same_environment(api: Api) -> None:
    found = await way(api)
    own = f"applications/{found.application}/promotion-order"
    first, second = found.environments
    stages = [{"environmentId": first.upper()}, {"environmentId": second.upper(), "soak": 3_600_000}]
    accepted(await api.put(own, {"stages": stages}))
    listed = accepted(await api.get(own))["stages"]
    assert [each["environmentId"] for each in listed] == [first, second]
    await found.release()
    body = {"manifestVersion": NEW}
    refused(await api.put(f"instances/{found.instances[1]}/configuration", body), 403, "PromotionGate")
    twice = [{"environmentId": first}, {"environmentId": first.upper()}]
    assert "in the order already" in refused(await api.put(own, {"stages": twice}), 400, "InvalidPromotion")


async def around(api: Api, application: str) -> str:
    """Make an application that has this one as a submodule."""
    return await api.application(
        f"""
application:
  components:
    shop:
      type: reference.Submodule
      configuration: {{__locator.application-id: {application}}}
      interfaces: {{}}
"""
    )


async def test_a_manifest_around_an_application_leads_around_no_gate(api: Api) -> None:
    found = await way(api)
    await found.order({"soak": 3_600_000, "approvals": 1})
    outer = await around(api, found.application)
    second = found.environments[1]
    before = await api.launch(outer, environmentId=second)  # with the version that is there already
    await api.settled(before)
    await found.release()
    answer = await api.post(f"applications/{outer}/launch", {"environmentId": second})
    assert "Its submodule 'shop' has version 3. A gate" in refused(answer, 403, "PromotionGate")
    accepted(await api.put(f"instances/{before}/configuration", {}))  # the submodule keeps its version
    await api.settled(before)
    await found.soaked()
    answer = await api.post(f"applications/{outer}/launch", {"environmentId": second})
    assert "a change set with 1 approval" in refused(answer, 403, "PromotionGate")


async def test_a_submodule_passes_where_the_environment_before_has_it_as_a_submodule(api: Api) -> None:
    first, second = await api.offer(), await api.offer()
    inner = await api.application("launch: {steps: []}\ndestroy: {steps: []}")

    async def order(soak: int) -> None:
        stages = [{"environmentId": first}, {"environmentId": second, "soak": soak}]
        accepted(await api.put(f"applications/{inner}/promotion-order", {"stages": stages}))

    await order(3_600_000)
    outermost = await around(api, await around(api, inner))
    launch = {"environmentId": second}
    answer = await api.post(f"applications/{outermost}/launch", launch)
    assert "Its submodule 'shop/shop' has version 2." in refused(answer, 403, "PromotionGate")
    there = await api.launch(outermost, environmentId=first)
    await api.settled(there)
    answer = await api.post(f"applications/{outermost}/launch", launch)
    assert "must run in" in refused(answer, 403, "PromotionGate")
    async with api.database.transaction() as connection:
        await connection.execute(
            "UPDATE generations SET created_at = created_at - interval '1 day' WHERE instance_id = %s", (there,)
        )
    await api.settled(await api.launch(outermost, **launch))
    await order(10**9)
    await api.settled(await api.launch(outermost, **launch))  # the environment has had it


async def test_environments_that_do_not_follow_each_other_are_refused_with_what_to_do(api: Api) -> None:
    found = await way(api, 3)
    await found.order()
    name = accepted(await api.get(f"applications/{found.application}"))["name"]
    ids = {"fromId": found.environments[0], "toId": found.environments[2]}
    said = refused(await api.post(f"applications/{found.application}/promotions", ids), 400, "NotInOrder")
    assert f"launchbay application promotion-order {name}. Promote to the next environment in it" in said
    assert "EditEnvironment" in said


async def test_who_may_read_a_promotion_and_not_make_it_gets_the_open_one(api: Api) -> None:
    found = await way(api)
    await found.order()
    await found.release()
    made = accepted(await found.propose())["changeSet"]["id"]
    reader = await api.member("Read: [/*]")
    again = accepted(await found.propose(caller=reader))
    assert (again["changeSet"]["id"], again["isNew"]) == (made, False)
    refused(await reader.post(f"change-sets/{made}/apply"), 403)
