"""The action `approval`: a step waits for people, who answer through the API."""

from collections.abc import AsyncIterator, Sequence
from datetime import timedelta
from typing import Any

import pytest

from launchbay.clock import SystemClock
from tests.support.databases import Databases
from tests.support.eventually import eventually
from tests.support.network import stream
from tests.support.service import (
    PERSON_PASSWORD,
    UNKNOWN,
    Api,
    Person,
    accepted,
    basic,
    fresh_email,
    fresh_name,
    person,
    refused,
    running_api,
    served,
)

ASKING = """
launch:
  steps:
    - sign-off:
        action: approval
        parameters: {%s}
        output: {by: approvedBy, said: comment, at: approvedAt}
    - deploy:
        action: serialize
        precedingPhases: [sign-off]
        parameters: {input: "{$.by}"}
  return:
    by: {value: "{$.by}"}
    said: {value: "{$.said}"}
    at: {value: "{$.at}"}
destroy: {steps: []}
"""
SIMPLE = 'text: "Deploy 1.4?"'
EVERYTHING = "ApproveInstanceWorkflow: [/*]", "Read: [/*]"


class MovableClock(SystemClock):
    def __init__(self) -> None:
        self.ahead = timedelta()

    def now(self) -> Any:
        return super().now() + self.ahead


@pytest.fixture(scope="module")
def clock() -> MovableClock:
    return MovableClock()


@pytest.fixture(scope="module")
async def api(databases: Databases, clock: MovableClock) -> AsyncIterator[Api]:
    url = databases.create()
    with pytest.MonkeyPatch.context() as quickly:
        quickly.setattr("launchbay.app.build.APPROVALS_S", 0.05)
        async with running_api(url, clock, engine_concurrency=5) as api:
            yield api
    databases.drop(url)


@pytest.fixture(autouse=True)
def today(clock: MovableClock) -> None:
    clock.ahead = timedelta()


async def asked(api: Api, instance: str) -> Any:
    """Wait until the instance asks for something, and return that."""
    path = f"instances/{instance}/approvals"
    rows = await eventually(lambda: api.read(path), lambda found: "pending" in [each["status"] for each in found])
    return next(each for each in rows if each["status"] == "pending")


async def asked_by(api: Api, application: str) -> Any:
    """Wait until an instance of the application asks for something."""
    path = f"organizations/{api.organization}/approvals"
    rows = await eventually(
        lambda: api.read(path), lambda found: application in [each["applicationId"] for each in found]
    )
    return next(each for each in rows if each["applicationId"] == application)


async def asking(api: Api, parameters: str = SIMPLE) -> tuple[str, Any]:
    instance = await api.launch(await api.application(ASKING % parameters))
    return instance, await asked(api, instance)


async def approver(api: Api, *roles: str) -> Person:
    """Somebody who may approve everything; and holds these roles besides."""
    return await with_role(api, *EVERYTHING, roles=roles)


async def with_role(api: Api, *entries: str, roles: Sequence[str] = ()) -> Person:
    """Somebody with a role of these entries; and these roles besides."""
    name = fresh_name("approvers")
    text = "".join(f"- {entry}\n" for entry in entries)
    accepted(await api.post(f"organizations/{api.organization}/roles", {"name": name, "permissions": text}))
    return await person(api, name, *roles)


async def test_a_step_goes_on_when_somebody_has_approved_and_knows_who_it_was(api: Api) -> None:
    instance, approval = await asking(api)
    document = await api.document(instance)
    assert document["status"] == "Executing"
    assert document["waitingFor"] == "Waiting for approval by any user who may approve: Deploy 1.4?"
    ann = await approver(api)

    answered = accepted(await ann.post(f"approvals/{approval['id']}/approve", {"comment": "Seen in staging."}))

    assert answered["status"] == "approved"
    assert [(each["email"], each["approves"]) for each in answered["answers"]] == [(ann.email, True)]
    document = await api.settled(instance)
    assert document["status"] == "Running", document["errorMessage"]
    assert document["returnValues"]["by"] == ann.email
    assert document["returnValues"]["said"] == "Seen in staging."
    assert document["returnValues"]["at"].startswith("20")
    assert "waitingFor" not in document


async def test_a_refusal_fails_the_step_for_good_and_says_why(api: Api) -> None:
    instance, approval = await asking(api, SIMPLE + ", retryCount: 3")
    ann = await approver(api)

    accepted(await ann.post(f"approvals/{approval['id']}/reject", {"comment": "Not on a Friday."}))

    document = await api.settled(instance)
    assert document["status"] == "Failed"
    assert f"Rejected by {ann.email}: Not on a Friday." in document["errorMessage"]
    assert len(accepted(await api.get(f"instances/{instance}/approvals"))) == 1


async def test_several_people_have_to_approve_where_the_manifest_says_so(api: Api) -> None:
    instance, approval = await asking(api, SIMPLE + ", approvals: 2")
    ann, ben = await approver(api), await approver(api)

    first = accepted(await ann.post(f"approvals/{approval['id']}/approve"))
    again = accepted(await ann.post(f"approvals/{approval['id']}/approve", {"comment": "twice"}))

    assert first == again, "the same person counts once"
    assert first["status"] == "pending"
    assert "2 approvals (1 given)" in (await api.document(instance))["waitingFor"]
    accepted(await ben.post(f"approvals/{approval['id']}/approve"))
    assert (await api.settled(instance))["returnValues"]["by"] == f"{ann.email}, {ben.email}"


async def test_an_answer_can_be_changed_until_it_is_decided_and_not_after(api: Api) -> None:
    instance, approval = await asking(api, SIMPLE + ", approvals: 2")
    ann, ben = await approver(api), await approver(api)
    accepted(await ann.post(f"approvals/{approval['id']}/approve"))

    assert accepted(await ann.post(f"approvals/{approval['id']}/reject"))["status"] == "rejected"

    refused(await ben.post(f"approvals/{approval['id']}/approve"), 409, "ApprovalDecided")
    refused(await ann.post(f"approvals/{approval['id']}/approve"), 409, "ApprovalDecided")
    assert accepted(await ann.post(f"approvals/{approval['id']}/reject"))["status"] == "rejected"
    assert (await api.settled(instance))["status"] == "Failed"


async def test_who_may_answer_needs_the_permission_for_the_workflow(api: Api) -> None:
    _, approval = await asking(api)
    runner = await api.member("Read: [/*]", "RunInstanceWorkflow: [/*]", "EditInstance: [/*]")
    elsewhere = await api.member("Read: [/*]", "ApproveInstanceWorkflow: [/applications/*, /environments/other]")
    stranger, _, _ = await api.outsider()

    for who in (runner, elsewhere, stranger):
        refused(await who.post(f"approvals/{approval['id']}/approve"), 403, "NotAllowed")
        refused(await who.post(f"approvals/{approval['id']}/reject"), 403, "NotAllowed")
    refused(await api.post(f"approvals/{UNKNOWN}/approve"), 404, "NotFound")
    assert accepted(await api.get(f"instances/{approval['instanceId']}/approvals"))[0]["answers"] == []


async def test_a_step_may_ask_for_a_role_or_a_permission_besides(api: Api) -> None:
    role = fresh_name("release managers")
    accepted(await api.post(f"organizations/{api.organization}/roles", {"name": role, "permissions": ""}))
    instance, for_role = await asking(api, f'{SIMPLE}, who: "{role}"')
    _, for_permission = await asking(api, SIMPLE + ", who: ManageUsers")
    ann = await approver(api)
    ben = await approver(api, role)

    assert for_role["who"] == f"a user with role '{role}'"
    assert role in refused(await ann.post(f"approvals/{for_role['id']}/approve"), 403)
    refused(await api.post(f"approvals/{for_role['id']}/approve"), 403)  # the administrator does not hold it either
    assert "ManageUsers" in refused(await ann.post(f"approvals/{for_permission['id']}/approve"), 403)
    accepted(await ben.post(f"approvals/{for_role['id']}/approve"))
    accepted(await api.post(f"approvals/{for_permission['id']}/approve"))
    assert (await api.settled(instance))["status"] == "Running"


async def test_who_asked_for_it_may_be_kept_from_answering(api: Api) -> None:
    instance, approval = await asking(api, SIMPLE + ", notByRequester: true")

    refused(await api.post(f"approvals/{approval['id']}/approve"), 403, "ApprovalByRequester")

    accepted(await (await approver(api)).post(f"approvals/{approval['id']}/approve"))
    assert (await api.settled(instance))["status"] == "Running"


async def test_who_chose_the_password_of_another_cannot_approve_in_their_name(api: Api) -> None:
    """Programs whose accounts were made with a password work with it. An approval names a person."""
    instance, approval = await asking(api, SIMPLE + ", notByRequester: true")
    role = {"name": fresh_name("approvers"), "permissions": "".join(f"- {entry}\n" for entry in EVERYTHING)}
    accepted(await api.post(f"organizations/{api.organization}/roles", role))
    email, own = fresh_email(), "thirteen quiet ferries"
    olga = {"email": email, "name": "Olga", "password": PERSON_PASSWORD, "roles": [role["name"]]}
    accepted(await api.post(f"organizations/{api.organization}/users", olga))
    given = api.caller(basic(email, PERSON_PASSWORD))

    assert accepted(await given.get(f"approvals/{approval['id']}"))["status"] == "pending"
    for answer in ("approve", "reject"):
        refused(await given.post(f"approvals/{approval['id']}/{answer}"), 403, "PasswordChangeRequired")

    change = {"currentPassword": PERSON_PASSWORD, "newPassword": own}
    accepted(await given.put("users/me/password", change))
    accepted(await api.caller(basic(email, own)).post(f"approvals/{approval['id']}/approve"))
    assert (await api.settled(instance))["status"] == "Running"


async def test_who_asked_first_is_kept_from_answering_when_somebody_else_resumes(api: Api) -> None:
    manifest = ASKING % (SIMPLE + ", notByRequester: true")
    instance = await api.launch(await api.application(manifest))
    accepted(await (await approver(api)).post(f"approvals/{(await asked(api, instance))['id']}/reject"))
    job = (await api.settled(instance))["workflowHistory"][0]["id"]
    ben = await api.member("Read: [/*]", "RunInstanceWorkflow: [/*]", "ApproveInstanceWorkflow: [/*]")

    accepted(await ben.post(f"instances/{instance}/jobs/{job}/resume"))

    approval = await asked(api, instance)
    assert len(approval["requesters"]) == 2
    for who in (api, ben):
        refused(await who.post(f"approvals/{approval['id']}/approve"), 403, "ApprovalByRequester")
    accepted(await (await approver(api)).post(f"approvals/{approval['id']}/approve"))
    assert (await api.settled(instance))["status"] == "Running"


async def test_who_asked_is_known_in_a_submodule_too(api: Api) -> None:
    name = fresh_name("child")
    child = await api.application(ASKING % (SIMPLE + ", notByRequester: true"), name=name)
    component = f'{{type: reference.Submodule, configuration: {{__locator.application-id: "{name}"}}}}'
    parent = await api.launch(await api.application(f"application: {{components: {{inner: {component}}}}}\n"))

    approval = await asked_by(api, child)

    refused(await api.post(f"approvals/{approval['id']}/approve"), 403, "ApprovalByRequester")
    accepted(await (await approver(api)).post(f"approvals/{approval['id']}/approve"))
    assert (await api.settled(parent))["status"] == "Running"


async def test_nobody_in_time_fails_the_step(api: Api, clock: MovableClock) -> None:
    instance, approval = await asking(api, SIMPLE + ", timeout: 2 days")
    assert 2 * 86_400_000 - 60_000 < approval["expiresAt"] - approval["createdAt"] <= 2 * 86_400_000

    clock.ahead = timedelta(days=3)

    document = await api.settled(instance)
    assert document["status"] == "Failed"
    assert "The approval expired" in document["errorMessage"]
    refused(await api.post(f"approvals/{approval['id']}/approve"), 409, "ApprovalDecided")


async def test_cancelling_the_job_withdraws_the_question(api: Api) -> None:
    instance, approval = await asking(api)

    accepted(await api.delete(f"instances/{instance}/jobs/{approval['jobId']}"))

    assert (await api.settled(instance))["status"] == "Failed"
    [withdrawn] = accepted(await api.get(f"instances/{instance}/approvals"))
    assert withdrawn["status"] == "withdrawn"
    refused(await api.post(f"approvals/{approval['id']}/approve"), 409, "ApprovalDecided")


@pytest.mark.parametrize(
    ("parameters", "said"),
    [
        ("who: nobody", "'text' is missing"),
        (SIMPLE + ", who: No such role", "is not a permission or a role"),
        (SIMPLE + ", approvals: 0", "'approvals' is wrong"),
        (SIMPLE + ", timeout: 91 days", "'timeout' is wrong"),
        (SIMPLE + ", notByRequester: perhaps", "'notByRequester' is wrong"),
    ],
)
async def test_a_wrong_parameter_fails_the_step_and_says_what_was_expected(
    api: Api, parameters: str, said: str
) -> None:
    instance = await api.launch(await api.application(ASKING % parameters))

    document = await api.settled(instance)

    assert document["status"] == "Failed"
    assert said in document["errorMessage"]
    assert accepted(await api.get(f"instances/{instance}/approvals")) == []


async def test_the_list_has_what_the_caller_may_read_page_by_page(api: Api) -> None:
    [(_, first), (_, second)] = [await asking(api), await asking(api)]
    path = f"organizations/{api.organization}/approvals"
    reader = await api.member(f"Read: [/applications/{first['applicationId']}/*, /environments/*]")
    nobody = await api.member()

    everything = [each["id"] for each in accepted(await api.get(path))]
    assert everything == sorted(everything)
    assert {first["id"], second["id"]} <= set(everything)
    assert [each["id"] for each in accepted(await reader.get(path))] == [first["id"]]
    assert accepted(await nobody.get(path)) == []
    page = await api.get(path, limit=1)
    assert [each["id"] for each in accepted(page)] == everything[:1]
    assert 'rel="next"' in page.headers["link"]
    assert [each["id"] for each in accepted(await api.get(path, after=everything[0]))] == everything[1:]


async def test_who_may_approve_sees_the_question_without_permission_to_read_the_instance(api: Api) -> None:
    instance, asked_for = await asking(api)
    application = accepted(await api.get(f"instances/{instance}"))["applicationId"]
    home = f"organizations/{api.organization}/approvals"
    by_id = await with_role(api, f"ApproveInstanceWorkflow: [/applications/{application}/instances/{instance}/*]")
    other = await with_role(api, "ApproveInstanceWorkflow: [/applications/1/*]")
    assert [each["id"] for each in accepted(await by_id.get(home))] == [asked_for["id"]]
    assert accepted(await other.get(home)) == []
    assert accepted(await by_id.get(f"approvals/{asked_for['id']}"))["id"] == asked_for["id"]
    refused(await other.get(f"approvals/{asked_for['id']}"), 403)
    accepted(await by_id.post(f"approvals/{asked_for['id']}/approve", {}))
    assert asked_for["id"] in [each["id"] for each in accepted(await by_id.get(home, status="decided"))]
    assert accepted(await other.get(home, status="decided")) == []


async def test_the_same_key_answers_once(api: Api) -> None:
    _, approval = await asking(api, SIMPLE + ", approvals: 2")
    ann = await approver(api)
    path = f"approvals/{approval['id']}/approve"

    answers = [await ann.client.post(path, json={}, headers={"Idempotency-Key": "one"}) for _ in range(2)]

    assert answers[0].content == answers[1].content
    assert answers[1].headers["Idempotency-Replayed"] == "true"


async def test_the_event_stream_tells_of_question_and_answer(api: Api) -> None:
    instance, approval = await asking(api)
    async with served(api) as port, stream(port, instance) as events:
        await events.until("approval", approval=approval["id"], status="pending", text="Deploy 1.4?")

        accepted(await api.post(f"approvals/{approval['id']}/approve"))

        await events.until("approval", approval=approval["id"], status="approved")


async def test_a_secret_in_the_text_is_covered(api: Api) -> None:
    manifest = """
    launch:
      parameters: [{password: {default: ""}}]
      steps:
        - ask: {action: approval, parameters: {text: "Use {$.password}?"}}
    """
    instance = await api.launch(await api.application(manifest), parameters={"password": "correct-horse"})

    approval = await asked(api, instance)

    assert "correct-horse" not in approval["text"]
    assert "correct-horse" not in (await api.document(instance))["waitingFor"]


@pytest.mark.slow
async def test_many_that_wait_keep_nobody_else_from_running(api: Api) -> None:
    """The engine of this file runs five jobs at a time."""
    application = await api.application(ASKING % (SIMPLE + ", timeout: 1 hour"))
    instances = [await api.launch(application) for _ in range(30)]
    approvals = [await asked(api, instance) for instance in instances]

    assert await api.running("launch: {steps: [{rest: {action: wait, parameters: {delay: 1}}}]}\n")

    ann = await approver(api)
    for approval in approvals:
        accepted(await ann.post(f"approvals/{approval['id']}/approve"))
    for instance in instances:
        assert (await api.settled(instance))["status"] == "Running"
