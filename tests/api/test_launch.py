"""Launching: both forms of the body, its fields, versions, environments, expiry (reference §4, launch)."""

import asyncio
import time
from collections import Counter
from contextvars import ContextVar
from typing import Any
from unittest.mock import patch

import psycopg
import pytest

from launchbay import limits
from launchbay.engine.dispatch import Dispatcher
from launchbay.engine.runner import Runner
from launchbay.ids import is_id
from launchbay.quotas.bounds import Quota, Quotas
from launchbay.store.jobs import ClaimRow
from tests.support.clock import HandClock
from tests.support.databases import Databases
from tests.support.eventually import eventually
from tests.support.manifests import DEMANDING, TYPED, WORKFLOWS
from tests.support.service import UNKNOWN, Api, accepted, refused, running_api
from tests.support.statements import counted, note_statements

HOUR_MS = 3_600_000
BURST = 20
EVENTS = b"""
SELECT concat_ws(' ', kind, CASE WHEN kind = 'status' THEN subject END) FROM instance_events
WHERE instance_id = %s ORDER BY id
"""
# Rows have the number of the transaction that wrote them: the acceptance with the beginning, and the end.
COMMITS = b"""
SELECT count(DISTINCT wrote::text) FROM jobs, LATERAL (
    SELECT audit_entries.xmin AS wrote FROM audit_entries WHERE strpos(after, jobs.id) > 0
    UNION ALL SELECT instance_events.xmin FROM instance_events WHERE instance_events.instance_id = jobs.instance_id
) AS written WHERE jobs.instance_id = %s
"""


async def test_a_launch_answers_the_id_of_the_instance_and_nothing_else(api: Api) -> None:
    application = await api.application()
    answer = accepted(await api.post(f"applications/{application}/launch", {}))
    assert set(answer) == {"id"}
    assert is_id(answer["id"])
    document = await api.document(answer["id"])
    assert (document["applicationId"], document["environmentId"]) == (application, api.environment)


async def test_a_launch_takes_two_commits(api: Api) -> None:
    instance = await api.launch(await api.application("launch:\n  steps: []\n"))
    assert (await api.settled(instance))["status"] == "Running"
    async with api.database.connection() as connection:
        events = await (await connection.execute(EVENTS, [instance])).fetchall()
        [(count,)] = await (await connection.execute(COMMITS, [instance])).fetchall()
    assert [event for (event,) in events] == ["status Executing", "ended", "status Running"]
    assert count == 2


async def test_a_launch_that_begins_at_once_has_the_claim_that_a_later_look_would_find(api: Api) -> None:
    begun: list[ClaimRow | None] = []
    read: list[ClaimRow | None] = []

    def take_begun(dispatcher: Dispatcher, job_id: str) -> None:
        begun.append(take(dispatcher, job_id))

    async def claim(runner: Runner, job_id: str, fence: int | None) -> ClaimRow | None:
        read.append(await look(runner, job_id, fence))
        return read[-1]

    take, look = Dispatcher.take_begun, Runner._claim
    application = await api.application(WORKFLOWS)
    with patch.object(Dispatcher, "take_begun", take_begun), patch.object(Runner, "_claim", claim):
        await api.settled(await api.launch(application, parameters={"size": 3, "label": "new"}, labels={"team": "a"}))
    [kept], [found] = begun, read
    assert kept is not None
    assert found is not None
    assert kept == found._replace(waited_s=0.0, ran_s=0.0)


async def test_a_launch_begins_no_earlier_than_it_was_accepted(api: Api) -> None:
    instance = await api.launch(await api.application("launch:\n  steps: []\n"))
    await api.settled(instance)
    async with api.database.connection() as connection:
        [(is_after,)] = await (
            await connection.execute(b"SELECT started_at >= created_at FROM jobs WHERE instance_id = %s", [instance])
        ).fetchall()
    assert is_after


@pytest.mark.features("lifetimes")
async def test_a_feature_costs_each_launch_of_a_burst_a_statement_only_once_it_is_used(
    databases: Databases, monkeypatch: pytest.MonkeyPatch
) -> None:
    note_statements(monkeypatch)
    # Without an engine: one that is busy could make requests repeat what they share a commit with.
    async with running_api(databases.create(), engine=False) as api:
        application = await api.application("launch:\n  steps: []\n")
        await api.launch(application)  # which reads the grants, and compiles the manifest
        assert await _burst(api, application) == ({"SELECT": 2 * BURST, "WITH": BURST, "INSERT": BURST}, 2 * BURST)
        accepted(await api.put(f"applications/{application}/lifetime", {"greatestMs": 24 * HOUR_MS}))
        sent, _ = await _burst(api, application)
        assert sent["SELECT"] == 3 * BURST


async def _burst(api: Api, application: str) -> tuple[Counter[str], int]:
    """Return how many statements of each kind launches at one moment send, and in how many round trips.

    What begins and ends transactions isn't counted: several may share one.
    """
    with counted() as reads:
        await asyncio.gather(*(api.launch(application) for _ in range(BURST)))
    texts = [each.text for each in reads.statements if b"lock_timeout" not in each.text]
    kinds = Counter(text.decode().split()[0] for text in texts)
    return Counter({kind: count for kind, count in kinds.items() if kind not in {"BEGIN", "COMMIT"}}), len(reads.trips)


@pytest.mark.parametrize("body", [b"", b"{}", b"null", b" \r\n "])
async def test_a_launch_needs_no_body(api: Api, body: bytes) -> None:
    path = f"applications/{await api.application()}/launch"
    if body == b"null":
        refused(await api.send("POST", path, body, content_type="application/json"), 400, "WrongField")
    else:
        accepted(await api.send("POST", path, body, content_type="application/json"))


async def test_null_counts_as_left_out(api: Api) -> None:
    names = ("revisionId", "version", "environmentId", "destroyInterval", "instanceName", "parameters", "submodules")
    document = await api.settled(await api.launch(await api.application(), **dict.fromkeys(names)))
    assert document["status"] == "Running"
    assert document["environmentId"] == api.environment
    assert document["destroyAt"] is not None


async def test_parameters_of_the_current_form_reach_the_instance(api: Api) -> None:
    application = await api.application(WORKFLOWS)
    instance = await api.launch(application, parameters={"size": 3, "label": "new"}, instanceName="current")
    document = await api.settled(instance)
    assert document["name"] == "current"
    assert document["parameters"] == {"size": 3, "label": "new"}
    assert document["returnValues"] == {"shown": "3 of new"}


async def test_the_obsolete_form_has_the_parameters_beside_the_settings(api: Api) -> None:
    body = {"version": 2, "environmentId": api.environment, "destroyInterval": 60_000, "instanceName": "obsolete"}
    document = await api.settled(await api.launch(await api.application(WORKFLOWS), **body, size=4, label="old"))
    assert document["name"] == "obsolete"
    assert document["parameters"] == {"size": 4, "label": "old"}
    assert document["returnValues"] == {"shown": "4 of old"}


async def test_the_obsolete_form_takes_parameters_with_dots(api: Api) -> None:
    document = await api.settled(await api.launch(await api.application(TYPED), **{"input.size": "7"}))
    assert document["parameters"] == {"input.size": 7, "input.tags": []}
    assert document["returnValues"] == {"result.seen": {"size": 7, "tags": []}}


async def test_the_current_form_wins_where_both_are_mixed(api: Api) -> None:
    document = await api.settled(
        await api.launch(await api.application(WORKFLOWS), size=1, parameters={"size": 2, "label": "x"})
    )
    assert document["parameters"] == {"size": 2, "label": "x"}


async def test_texts_become_what_the_manifest_declares(api: Api) -> None:
    parameters = {"input.size": "12", "input.tags": '["a", "b"]'}
    document = await api.settled(await api.launch(await api.application(TYPED), parameters=parameters))
    assert document["returnValues"] == {"result.seen": {"size": 12, "tags": ["a", "b"]}}


async def test_every_parameter_that_does_not_fit_is_named(api: Api) -> None:
    path = f"applications/{await api.application(TYPED)}/launch"
    body = {"parameters": {"input.size": "many", "input.tags": 5, "input.colour": "red"}}
    sentences = refused(await api.post(path, body), 400, "InvalidParameters")
    for name in ("input.size", "input.tags", "input.colour"):
        assert name in sentences


async def test_every_missing_parameter_is_named_and_nothing_is_launched(api: Api) -> None:
    application = await api.application(DEMANDING)
    sentences = refused(await api.post(f"applications/{application}/launch", {}), 400, "InvalidParameters")
    assert "input.port" in sentences
    assert "input.host" in sentences
    assert accepted(await api.get(f"applications/{application}/instances")) == []


async def test_an_undeclared_parameter_is_a_variable_of_a_workflow_manifest(api: Api) -> None:
    instance = await api.launch(await api.application(WORKFLOWS), parameters={"label": "x", "colour": "red"})
    document = await api.settled(instance)
    assert document["status"] == "Running"
    assert document["parameters"] == {"size": 1, "label": "x", "colour": "red"}


async def test_a_version_chooses_the_manifest_and_the_newest_is_the_default(api: Api) -> None:
    application = await api.application(TYPED)
    for version, expected in ((None, 2), (1, 1), (2, 2), ("1", 1), ("2", 2), (2.0, 2)):
        document = await api.document(await api.launch(application, version=version))
        assert document["version"] == expected


@pytest.mark.parametrize("version", [0, -1, 3, "99", 2**31, 2**62, "9" * 18])
async def test_an_unknown_version_is_400_and_tells_the_newest(api: Api, version: object) -> None:
    path = f"applications/{await api.application(TYPED)}/launch"
    assert "the newest is 2" in refused(await api.post(path, {"version": version}), 400, "InvalidManifestVersion")


@pytest.mark.parametrize(
    "field",
    [
        {"version": "one"},
        {"version": 1.5},
        {"version": True},
        {"version": [1]},
        {"version": "9" * 40},
        {"destroyInterval": "soon"},
        {"destroyInterval": False},
        {"destroyInterval": "1e5"},
        {"instanceName": 5},
        {"environmentId": 5},
        {"environmentId": ["x"]},
        {"revisionId": {}},
        {"parameters": "size=1"},
        {"parameters": [1]},
        {"submodules": [1]},
    ],
    ids=str,
)
async def test_a_field_of_another_type_is_400_and_named(api: Api, field: dict[str, object]) -> None:
    path = f"applications/{await api.application()}/launch"
    [name] = field
    assert name in refused(await api.post(path, field), 400, "InvalidField")


async def test_an_instance_without_a_name_gets_one_of_its_own(api: Api) -> None:
    application = await api.application(name="petclinic")
    names = {(await api.document(await api.launch(application, instanceName=name)))["name"] for name in (None, "", " ")}
    assert len(names) == 3
    assert all(name.startswith("petclinic ") for name in names)


async def test_a_name_is_kept_without_the_space_around_it(api: Api) -> None:
    document = await api.document(await api.launch(await api.application(), instanceName="  Ünï 🚀 <b> "))
    assert document["name"] == "Ünï 🚀 <b>"


async def test_an_instance_may_have_a_name_that_another_one_has(api: Api) -> None:
    application = await api.application()
    first, second = [await api.launch(application, instanceName="twin") for _ in range(2)]
    assert first != second


async def test_a_name_that_is_too_long_is_400(api: Api) -> None:
    path = f"applications/{await api.application()}/launch"
    accepted(await api.post(path, {"instanceName": "x" * limits.NAME_CHARS}))
    refused(await api.post(path, {"instanceName": "x" * (limits.NAME_CHARS + 1)}), 400, "InvalidName")


@pytest.mark.parametrize("name", ["\t", "a\nb", "safe\u202egpj.exe", "a\u2028b", "a\x9bb", "\u200b\u200b"])
async def test_a_name_that_breaks_or_turns_its_line_is_400(api: Api, name: str) -> None:
    answer = await api.post(f"applications/{await api.application()}/launch", {"instanceName": name})
    assert refused(answer, 400, "InvalidName").startswith("instanceName ")


async def test_a_parameter_of_the_query_in_the_body_is_told_as_one(api: Api) -> None:
    body = {"ifExists": "fail", "instanceName": "q"}
    launched = accepted(await api.post(f"applications/{await api.application(MANIFEST)}/launch", body))
    hint = "It is a parameter of the query: send POST …/launch?ifExists=fail."
    assert launched["warnings"] == [f"Workflow launch has no parameter ifExists, so it is ignored. {hint}"]
    answer = await api.post(f"applications/{await api.application(TYPED)}/launch", body)
    assert hint in refused(answer, 400, "InvalidParameters")


@pytest.mark.parametrize(
    ("interval", "expected_ms"),
    [(None, HOUR_MS), (120_000, 120_000), ("120000", 120_000), (60_000.0, 60_000), (limits.INTERVAL_LONGEST_MS,) * 2],
)
async def test_the_interval_counts_from_the_request(api: Api, interval: object, expected_ms: int) -> None:
    application = await api.application()
    before_ms = time.time() * 1000
    document = await api.document(await api.launch(application, destroyInterval=interval))
    assert before_ms + expected_ms - 2 <= document["destroyAt"] <= time.time() * 1000 + expected_ms + 2


@pytest.mark.parametrize(
    "interval", [-1, "-1", -1.0, limits.INTERVAL_LONGEST_MS + 1, 2**62, 2**63 - 1, str(2**63 - 1), "9" * 25]
)
async def test_minus_one_and_what_no_date_can_hold_mean_never(api: Api, interval: object) -> None:
    assert (await api.document(await api.launch(await api.application(), destroyInterval=interval)))[
        "destroyAt"
    ] is None


@pytest.mark.parametrize("interval", [0, "0", -2, "-2", -HOUR_MS, -(2**63)])
async def test_any_other_interval_is_400(api: Api, interval: object) -> None:
    application = await api.application()
    path = f"applications/{application}/launch"
    sentences = refused(await api.post(path, {"destroyInterval": interval}), 400, "InvalidDestroyInterval")
    assert "-1" in sentences
    assert accepted(await api.get(f"applications/{application}/instances")) == []


async def test_an_instance_is_destroyed_when_its_interval_has_passed_and_not_earlier(api: Api) -> None:
    instance = await api.launch(await api.application(), destroyInterval=700)
    due_ms = (await api.document(instance))["destroyAt"]
    assert accepted(await api.get(f"instances/{instance}/schedules")) == {"schedules": []}
    document = await api.until(instance, "Destroyed")
    [destroy, launch] = document["workflowHistory"]
    assert (destroy["name"], launch["name"]) == ("destroy", "launch")
    assert destroy["startedAt"] >= due_ms
    assert document["destroyAt"] is None


@pytest.mark.slow
async def test_an_expiry_behind_a_job_waits_for_its_end(api: Api) -> None:
    instance = await api.launch(await api.application(WORKFLOWS), destroyInterval=700, parameters={"label": "x"})
    await api.settled(instance)
    accepted(await api.post(f"instances/{instance}/pause", {"seconds": "1.5"}))
    document = await api.until(instance, "Destroyed")
    [destroy, pause, _] = document["workflowHistory"]
    assert pause["status"] == "Succeeded"
    assert destroy["startedAt"] >= pause["finishedAt"] > document["createdAt"] + 700


async def test_the_environment_can_be_chosen(api: Api) -> None:
    environment = await api.offer()
    document = await api.document(await api.launch(await api.application(), environmentId=environment))
    assert document["environmentId"] == environment


@pytest.mark.parametrize("environment", [UNKNOWN, "default", "x" * 5000, "5" * 23])
async def test_an_unknown_environment_is_400_because_the_application_exists(api: Api, environment: str) -> None:
    path = f"applications/{await api.application()}/launch"
    sentences = refused(await api.post(path, {"environmentId": environment}), 400, "UnknownEnvironment")
    assert "environmentId" in sentences
    assert len(sentences) < 300


async def test_an_environment_of_a_foreign_organization_is_403(api: Api) -> None:
    _, _, foreign = await api.outsider()
    path = f"applications/{await api.application()}/launch"
    assert foreign not in refused(await api.post(path, {"environmentId": foreign}), 403, "NotAllowed")


async def test_an_environment_of_another_own_organization_is_400(api: Api) -> None:
    _, organization, foreign = await api.outsider()
    async with api.database.transaction() as connection:
        statement = (
            "INSERT INTO memberships (organization_id, user_id) SELECT %s, id FROM users WHERE email LIKE 'admin@%%'"
        )
        await connection.execute(statement, [organization])
    path = f"applications/{await api.application()}/launch"
    refused(await api.post(path, {"environmentId": foreign}), 400, "ForeignEnvironment")


async def test_a_role_may_allow_launches_in_one_environment_only(api: Api) -> None:
    environment = await api.offer()
    developer = await api.member(f"CreateInstance: [/applications/*, /environments/{environment}]")
    path = f"applications/{await api.application()}/launch"
    assert is_id(accepted(await developer.post(path, {"environmentId": environment}))["id"])
    refused(await developer.post(path, {"environmentId": api.environment}), 403, "NotAllowed")
    refused(await developer.post(path, {}), 403, "NotAllowed")


async def test_launching_needs_no_other_permission(api: Api) -> None:
    application = await api.application()
    launcher = await api.member(f"CreateInstance: [/applications/{application}]")
    accepted(await launcher.post(f"applications/{application}/launch", {}))
    refused(await launcher.post(f"applications/{await api.application()}/launch", {}), 403, "NotAllowed")
    reader = await api.member("Read: [/*]")
    assert "CreateInstance" in refused(await reader.post(f"applications/{application}/launch", {}), 403, "NotAllowed")


async def test_unmet_markers_and_properties_refuse_the_launch_and_are_all_named(api: Api) -> None:
    application = await api.application(
        """
        application:
          bindings: [[worker, marks], [worker, props]]
          components:
            worker:
              type: workflow.Instance
              required: [gpu, properties]
              interfaces:
                gpu: {gpu: consume-signal(unit)}
                properties: {region: consume-signal(string), quota: consume-signal(int)}
              configuration: {configuration.workflows: {launch: {steps: []}}}
            marks: {type: reference.Service, interfaces: {gpu: {gpu: publish-signal(unit)}}}
            props:
              type: reference.Service
              interfaces: {properties: {region: publish-signal(string), quota: publish-signal(int)}}
        """
    )
    sentences = refused(await api.post(f"applications/{application}/launch", {}), 400)
    for name in ("gpu", "region", "quota"):
        assert name in sentences
    environment = await api.offer(
        ["gpu"],
        [{"name": "region", "value": "eu", "type": "string"}, {"name": "quota", "value": 3, "type": "int"}],
    )
    assert (await api.settled(await api.launch(application, environmentId=environment)))["status"] == "Running"


MANIFEST = "launch: {steps: []}\ngo: {steps: []}"


async def filled(api: Api, application: str) -> str:
    """Launch until the service refuses, and return why."""
    answer = await eventually(
        lambda: api.post(f"applications/{application}/launch", {}), lambda answer: answer.status_code != 200
    )
    assert int(answer.headers["retry-after"]) >= 1
    return refused(answer, 503, "QueueFull")


async def standing(api: Api) -> str:
    """Return an instance that is idle, though nobody runs jobs here."""
    instance = await api.launch(await api.application(MANIFEST))
    async with api.database.transaction() as connection:
        await connection.execute("UPDATE jobs SET status = 'Succeeded', finished_at = now()")
        await connection.execute("UPDATE instances SET status = 'Running', job_id = NULL")
        await connection.execute("DELETE FROM ready")
    return instance


async def test_beyond_the_bound_new_work_is_refused_and_destroying_is_not(databases: Databases) -> None:
    async with running_api(databases.create(), engine=False, queue_limit=3) as api:
        instance = await standing(api)
        sentence = await filled(api, await api.application(MANIFEST))
        assert "3 or more queued jobs" in sentence
        refused(await api.post(f"instances/{instance}/go", {}), 503, "QueueFull")
        refused(await api.put(f"instances/{instance}/configuration", {"parameters": {}}), 503, "QueueFull")
        assert (await api.document(instance))["status"] == "Running"
        accepted(await api.post(f"instances/{instance}/destroy", {}))


@pytest.mark.slow
async def test_another_organization_is_not_kept_out(databases: Databases) -> None:
    async with running_api(databases.create(), engine=False, queue_limit=2) as api:
        await filled(api, await api.application(MANIFEST))
        outsider, organization, _ = await api.outsider()
        created = accepted(await outsider.post(f"organizations/{organization}/applications", {"name": "theirs"}))
        accepted(await outsider.put_yaml(f"applications/{created['id']}/manifest", MANIFEST))
        accepted(await outsider.post(f"applications/{created['id']}/launch", {}))


async def test_work_is_taken_again_when_jobs_have_started(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = HandClock()
    waiting = 5

    async def backlog(_: object, **__: object) -> list[int]:
        return [waiting]

    monkeypatch.setattr("launchbay.store.quotas.count", backlog)
    quotas = Quotas(dict.fromkeys(Quota, 5), clock)
    starting_one = {Quota.QUEUED_JOBS: 0}
    async with api.database.connection() as connection:
        with pytest.raises(Exception, match="5 or more"):
            await quotas.admit(connection, "a", starting_one)
        waiting = 4
        with pytest.raises(Exception, match="5 or more"):  # counted less than a second ago
            await quotas.admit(connection, "a", starting_one)
        clock.advance(1.0)
        await quotas.admit(connection, "a", starting_one)


async def test_a_launch_takes_two_round_trips_and_one_transaction(
    api: Api, exchanges: ContextVar[list[list[bytes]]]
) -> None:
    application = await api.application()
    await api.launch(application)  # compiles the manifest, and reads the grants
    made: list[list[bytes]] = []
    exchanges.set(made)
    await api.launch(application)
    [look_up, acceptance] = made
    # The transaction begins before the id of the instance is made, so that lists know of it.
    assert look_up[0] == b"BEGIN"
    assert b"pg_advisory_xact_lock_shared" in look_up[1]
    assert len(look_up) == 3
    assert [text.split()[:3] for text in acceptance] == [
        [b"WITH", b"instance", b"AS"],
        [b"INSERT", b"INTO", b"audit_entries"],
        [b"COMMIT"],
    ]


async def test_a_launch_into_an_application_deleted_meanwhile_is_refused_and_leaves_nothing(api: Api) -> None:
    application = await api.application()

    async def delete(*_: object) -> None:
        async with await psycopg.AsyncConnection.connect(api.database.url, autocommit=True) as other:
            await other.execute("DELETE FROM applications WHERE id = %s", [application])

    with patch.object(Quotas, "admit", delete):
        answer = await api.post(f"applications/{application}/launch", {})
    refused(answer, 409, "Conflict")
    async with api.database.connection() as connection:
        found = await connection.execute("SELECT count(*) FROM instances WHERE application_id = %s", [application])
        assert await found.fetchone() == (0,)


async def test_labels_of_a_wrong_type_are_refused_unless_they_are_a_parameter(api: Api) -> None:
    application = await api.application("launch: {steps: []}\ndestroy: {steps: []}\n")
    for wrong in (["web"], "web", 5):
        answer = await api.post(f"applications/{application}/launch", {"parameters": {}, "labels": wrong})
        told = refused(answer, 400, "InvalidField")
        assert told.startswith("labels must be an object of strings")
    own = await api.application("launch: {parameters: [{labels: {default: none}}], steps: []}\ndestroy: {steps: []}\n")
    instance = accepted(await api.post(f"applications/{own}/launch", {"labels": ["web"]}))["id"]
    assert (await api.settled(instance))["parameters"] == {"labels": ["web"]}


PLAIN_MANIFEST = "launch: {steps: []}"


async def _launch_as(api: Api, application: str, name: str, query: str = "") -> Any:
    return await api.post(f"applications/{application}/launch{query}", {"instanceName": name})


async def test_a_launch_may_demand_that_its_name_is_free(api: Api) -> None:
    application, other = await api.application(PLAIN_MANIFEST), await api.application(PLAIN_MANIFEST, name="other")
    first = accepted(await _launch_as(api, application, "web", "?ifExists=fail"))["id"]

    answer = await _launch_as(api, application, "web", "?ifExists=fail")
    assert first in refused(answer, 400, "NameExists")
    assert accepted(await _launch_as(api, application, "web", "?ifExists=return"))["id"] == first
    assert accepted(await _launch_as(api, application, "web"))["id"] != first, "the established API allows it"
    assert accepted(await _launch_as(api, other, "web", "?ifExists=fail"))["id"] != first
    preview = await api.post(f"applications/{application}/launch/preview?ifExists=fail", {"instanceName": "web"})
    assert "'web' is the name of a living instance" in accepted(preview)["errors"][0]
    nameless = refused(await api.post(f"applications/{application}/launch?ifExists=fail", {}), 400, "InvalidField")
    assert (
        nameless == "ifExists=fail compares names, and this launch has none. Send instanceName, or leave ifExists out."
    )
    assert "ifExists" in refused(await _launch_as(api, application, "web", "?ifExists=perhaps"), 400)


@pytest.mark.features("lifetimes")
async def test_a_rule_sets_what_launches_do_with_their_name(api: Api) -> None:
    application = await api.application(PLAIN_MANIFEST)
    assert "ifExists" not in accepted(await api.get(f"applications/{application}/lifetime"))
    accepted(await api.put(f"applications/{application}/lifetime", {"ifExists": "fail"}))
    first = accepted(await _launch_as(api, application, "web"))["id"]

    refused(await _launch_as(api, application, "web"), 400, "NameExists")
    assert accepted(await _launch_as(api, application, "web", "?ifExists=return"))["id"] == first
    accepted(await _launch_as(api, application, "web", "?ifExists=allow"))
    for _ in range(2):  # without a name, each launch gets one of its own
        accepted(await api.post(f"applications/{application}/launch", {}))
    assert accepted(await api.get(f"applications/{application}/lifetime"))["ifExists"] == "fail"


async def test_a_launch_that_returns_an_instance_says_so_and_names_no_job_that_has_ended(api: Api) -> None:
    application = await api.application(PLAIN_MANIFEST)
    first = accepted(await _launch_as(api, application, "web"))["id"]
    await api.settled(first)
    told = (
        f"'web' is a living instance already: {first}, Running. Nothing is launched, and the instance stays as it is."
    )

    answer = await _launch_as(api, application, "web", "?ifExists=return")
    assert accepted(answer) == {"id": first, "warnings": [told]}
    assert "Launchbay-Job" not in answer.headers
    assert "Location" not in answer.headers
    preview = await api.post(f"applications/{application}/launch/preview?ifExists=return", {"instanceName": "web"})
    assert (accepted(preview)["components"], accepted(preview)["warnings"]) == ([], [told])


@pytest.mark.features("lifetimes")
async def test_a_rule_for_names_holds_for_renamed_instances_too(api: Api) -> None:
    application = await api.application(PLAIN_MANIFEST)
    for name in ("web", "shop"):
        await api.settled(accepted(await _launch_as(api, application, name))["id"])
    shop = accepted(await _launch_as(api, application, "shop", "?ifExists=return"))["id"]
    to_web, to_own = {"instanceName": "web"}, {"instanceName": "shop"}
    assert accepted(await api.post(f"instances/{shop}/configuration/preview", to_web))["errors"] == []

    accepted(await api.put(f"applications/{application}/lifetime", {"ifExists": "return"}))
    errors = accepted(await api.post(f"instances/{shop}/configuration/preview", to_web))["errors"]
    told = refused(await api.put(f"instances/{shop}/configuration", to_web), 400, "NameExists")
    assert told.startswith("'web' is the name of another living instance of the application in the environment.")
    assert " ".join(errors) == told
    accepted(await api.put(f"instances/{shop}/configuration", to_own))
    await api.settled(shop)

    accepted(await api.put(f"applications/{application}/lifetime", {}))
    accepted(await api.put(f"instances/{shop}/configuration", to_web))


@pytest.mark.features("change_sets")
async def test_a_change_set_that_launches_minds_the_name(api: Api) -> None:
    application = await api.application(PLAIN_MANIFEST)
    act = {"act": "launch", "applicationId": application, "launch": {"instanceName": "web"}}
    at = f"organizations/{api.organization}/change-sets"
    made = accepted(await api.post(at, {**act, "ifExists": "fail"}))["id"]
    first = accepted(await _launch_as(api, application, "web"))["id"]

    for way in ("fail", "return"):
        assert first in refused(await api.post(at, {**act, "ifExists": way}), 400, "NameExists")
    accepted(await api.post(at, act))
    applied = await api.post(f"change-sets/{made}/apply")
    assert "is the name of a living instance" in applied.text


async def test_a_field_of_the_body_with_this_name_is_a_parameter(api: Api) -> None:
    """Old clients send parameters as fields of the body (reference §4, rule 2)."""
    application = await api.application(PLAIN_MANIFEST)
    answer = await api.post(f"applications/{application}/launch", {"ifExists": "fail"})
    accepted(answer)
    assert "has no parameter ifExists" in answer.headers["Launchbay-Warnings"]


@pytest.mark.slow  # two servers on one database
async def test_one_of_many_launches_at_the_same_time_wins_the_name(databases: Databases) -> None:
    url = databases.create()
    async with running_api(url) as api, running_api(url) as other:
        application = await api.application(PLAIN_MANIFEST)
        failing = [_launch_as(each, application, "web", "?ifExists=fail") for each in (api, other) * 20]
        returning = [_launch_as(each, application, "shop", "?ifExists=return") for each in (api, other) * 20]
        answers = await asyncio.gather(*failing)
        returned = await asyncio.gather(*returning)
        renamed = [await api.launch(application, instanceName=f"old {number}") for number in range(8)]
        for each in renamed:
            await api.settled(each)
        to_hut = [
            each.put(f"instances/{old}/configuration", {"instanceName": "hut"})
            for each, old in zip((api, other) * 4, renamed, strict=True)
        ]
        launching = [_launch_as(each, application, "hut", "?ifExists=fail") for each in (api, other) * 4]
        accepted(await api.put(f"applications/{application}/lifetime", {"ifExists": "fail"}))
        named = await asyncio.gather(*to_hut, *launching)

    won = [each for each in answers if each.status_code == 200]
    assert len(won) == 1
    assert all(accepted(won[0])["id"] in refused(each, 400, "NameExists") for each in answers if each is not won[0])
    assert len({accepted(each)["id"] for each in returned}) == 1
    assert [each.status_code for each in named].count(200) == 1, "launches and new names of instances have one order"
    databases.drop(url)
