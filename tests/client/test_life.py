"""Both clients lead a real service through the life of an application."""

import re
from concurrent.futures import ThreadPoolExecutor

import anyio
import anyio.to_thread
import httpx
import pytest

from launchbay.client import (
    AsyncClient,
    BadRequest,
    Basic,
    Client,
    Conflict,
    InstanceFailed,
    JobFailed,
    NotAuthenticated,
    NotFound,
    Operations,
    RefreshToken,
    Session,
    SessionToken,
    WaitTimedOut,
)
from launchbay.client.types import Marker, Markers
from tests.support.eventually import eventually_blocking
from tests.support.service import EMAIL, FAILING, GREETER, PASSWORD, SLOW, UNKNOWN, Server, basic


def test_an_application_lives_from_upload_to_destruction(server: Server) -> None:
    client = server.client
    application = server.application("greeter", GREETER)
    instance = client.launch_application(application, parameters={"input.who": "harbour"})
    assert client.wait(instance.id, timeout_s=30).return_values == {"result.greeting": "Hello, harbour!"}
    assert [each.id for each in client.list_application_instances(application)] == [instance.id]
    client.run_workflow(instance.id, "destroy")
    assert client.wait(instance.id, until="Destroyed", timeout_s=30).status == "Destroyed"
    client.delete_instance(instance.id)
    with pytest.raises(NotFound):
        client.read_instance(instance.id)


async def test_the_asynchronous_client_does_the_same(server: Server) -> None:
    application = server.application("awaited", GREETER)
    async with AsyncClient(server.url, Basic(EMAIL, PASSWORD)) as client:
        instance = await client.launch_application(application)
        assert (await client.wait(instance.id, timeout_s=30)).status == "Running"
        found = [each.id async for each in client.list_application_instances.each(application, limit=1)]
        statuses = []
        async for event in client.watch_instance(instance.id):
            if event.name == "status":
                statuses.append(event.data["status"])
                break
    assert (found, statuses) == ([instance.id], ["Running"])


def test_lists_are_the_same_whole_arriving_and_in_pages(server: Server) -> None:
    for number in range(5):
        server.client.create_application(server.organization, name=f"many {number}")
    listing = server.client.list_applications
    whole = {each.id for each in listing(server.organization)}
    assert whole == {each.id for each in listing.each(server.organization)}
    assert whole == {each.id for each in listing.each(server.organization, limit=2)}
    assert len(listing(server.organization, limit=2)) == 2


def test_a_failed_launch_tells_why(server: Server) -> None:
    instance = server.client.launch_application(server.application("failing", FAILING))
    with pytest.raises(InstanceFailed, match="step 'call' failed") as caught:
        server.client.wait(instance.id, timeout_s=30)
    assert caught.value.status == "Failed"
    assert server.client.wait(instance.id, until={"Failed"}).status == "Failed"
    shown = server.client.read_instance(instance.id)
    assert shown.last_failure is not None
    assert (shown.last_failure.workflow, shown.last_failure.message) == ("launch", shown.error_message)
    assert shown.last_failure.job_id == server.client.list_jobs(instance.id)[0].id


def test_an_upload_answers_its_warnings(server: Server) -> None:
    application = server.application("warned", GREETER)
    text = "launch: {steps: [{one: {action: wait, parameters: {dealy: 1, delay: 0}}}]}"
    stored = server.client.replace_manifest(application, text)
    assert [each.code for each in stored.warnings] == ["UnknownStepParameter"]
    assert server.client.replace_manifest(application, "launch: {steps: []}").warnings == []


def test_waiting_has_a_time_limit(server: Server) -> None:
    instance = server.client.launch_application(server.application("slow", SLOW))
    with pytest.raises(WaitTimedOut):
        server.client.wait(instance.id, timeout_s=0.1)
    assert server.client.wait(instance.id, timeout_s=30).status == "Running"


def test_waiting_for_an_unknown_status_is_refused_at_once(server: Server) -> None:
    with pytest.raises(ValueError, match="unknown status 'Nope'; valid: Requested, "):
        server.client.wait("0" * 24, until="Nope")


def test_a_page_of_the_server_that_reports_an_error_is_the_message(server: Server) -> None:
    with pytest.raises(NotAuthenticated, match="The email address or the password is wrong"):
        server.client.generate_token(email="nobody@example.org", password="y")


class NoStreams(httpx.HTTPTransport):
    """Connections on which streams of events do not come about."""

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        if request.url.path.endswith("/events"):
            raise httpx.ReadError("no streams here")
        return super().handle_request(request)


@pytest.mark.slow
def test_waiting_asks_again_and_again_where_no_events_can_be_had(server: Server) -> None:
    instance = server.client.launch_application(server.application("asked", SLOW))
    with Client(server.url, Basic(EMAIL, PASSWORD), transport=NoStreams()) as client:
        assert client.wait(instance.id, timeout_s=30).status == "Running"


def test_a_refresh_token_is_exchanged_once_and_its_session_used_by_others(server: Server) -> None:
    sessions: list[Session] = []
    token = server.refresh_token()
    with Client(server.url, RefreshToken(token, renewed=sessions.append)) as client:
        assert client.list_organizations() == client.list_organizations()
    (session,) = sessions
    with Client(server.url, SessionToken(session.token)) as client:
        assert client.list_organizations()
    with Client(server.url, RefreshToken("spent", session)) as client:
        assert client.list_organizations()


async def test_many_tasks_share_one_exchange(server: Server) -> None:
    sessions: list[Session] = []
    token = await anyio.to_thread.run_sync(server.refresh_token)
    async with (
        AsyncClient(server.url, RefreshToken(token, renewed=sessions.append)) as client,
        anyio.create_task_group() as tasks,
    ):
        for _ in range(20):
            tasks.start_soon(client.list_organizations)
    assert len(sessions) == 1


def test_many_threads_share_one_exchange(server: Server) -> None:
    sessions: list[Session] = []
    with (
        Client(server.url, RefreshToken(server.refresh_token(), renewed=sessions.append)) as client,
        ThreadPoolExecutor(10) as pool,
    ):
        found = list(pool.map(lambda _: client.list_organizations(), range(20)))
    assert len(found) == 20
    assert len(sessions) == 1


def test_refusals_have_code_sentences_request_id_and_findings(server: Server) -> None:
    application = server.application("refused", GREETER)
    with pytest.raises(BadRequest) as caught:
        server.client.replace_manifest(application, "launch:\n  steps:\n    - a: {action: nothing}\n")
    assert caught.value.code == "InvalidManifest"
    assert caught.value.findings[0]["line"] == 3
    assert caught.value.messages
    assert re.fullmatch(r"[0-9a-f-]+", caught.value.request_id)
    with Client(server.url, Basic(EMAIL, "wrong")) as client, pytest.raises(NotAuthenticated):
        client.list_organizations()
    with pytest.raises(NotFound, match="There is no service"):
        server.client.read_service(UNKNOWN)


def test_errors_of_services_are_told_by_field(server: Server) -> None:
    service = server.client.list_services(server.organization)[0]
    with pytest.raises(BadRequest) as caught:
        server.client.update_service(service.id, name="")
    assert set(caught.value.fields) == {"name"}


def test_what_is_sent_in_lists_is_what_was_answered_in_them(server: Server) -> None:
    environment = server.client.create_environment(server.organization, name="marked").id
    server.client.replace_markers(environment, markers=[Marker(name="blue")])
    assert server.client.read_markers(environment) == Markers(markers=[Marker(name="blue")])


def test_no_secret_is_shown_by_what_holds_it() -> None:
    held: list[object] = [
        Basic("ann@example.org", "secret"),
        RefreshToken("secret"),
        SessionToken("secret"),
        Session("secret", 1.0),
    ]
    assert "secret" not in repr(held)
    assert Basic("ann@example.org", "secret").header == basic("ann@example.org", "secret")


@pytest.mark.parametrize("address", ["launchbay.example.org", "ftp://x", "", "http://"])
def test_an_address_that_is_none_is_refused_at_once(address: str) -> None:
    with pytest.raises(ValueError, match="address of a server"):
        Client(address)


@pytest.mark.parametrize("value", ["", ".", ".."])
def test_a_part_of_a_path_cannot_lead_elsewhere(server: Server, value: str) -> None:
    with pytest.raises(ValueError, match="can't be a path segment"):
        server.client.read_instance(value)


COMMAND = """
launch: {steps: []}
echo:
  parameters: {text: {type: string}}
  steps: [{rest: {action: wait, parameters: {delay: "{$.text}"}}}]
  return: {text: {value: "{$.text}"}}
"""


def test_a_job_of_its_own_handle_waits_and_returns_results_and_log(server: Server) -> None:
    client = server.client
    launch = client.start(Operations.launch_application.call(server.application("handled", COMMAND)))
    assert launch.wait(timeout_s=30).number == 1
    job = client.run(launch.instance_id, "echo", {"text": "200 ms"})
    following = list(job.log(follow=True))
    assert (following[0], following[-1].partition(" after ")[0]) == (
        *("Job 2, 'echo', started.", "Job 2, 'echo', succeeded"),
    )
    assert (job.wait(timeout_s=30).status, job.results) == ("Succeeded", {"text": "200 ms"})
    assert list(job.log()) == following


def test_a_failed_job_is_raised_with_its_error(server: Server) -> None:
    client = server.client
    instance = client.launch_application(server.application("failing handle", COMMAND)).id
    client.wait(instance, timeout_s=30)
    job = client.run(instance, "echo", {"text": "whenever"})
    with pytest.raises(JobFailed, match=r"Job 'echo' failed: .*step 'rest' failed") as failed:
        job.wait(timeout_s=30)
    assert (failed.value.job_id, failed.value.instance_id) == (job.id, instance)
    slow = client.run(instance, "echo", {"text": "10 minutes"})
    with pytest.raises(WaitTimedOut, match=r"still running after 0\.1 s"):
        slow.wait(timeout_s=0.1)
    assert slow.status() == "Executing"
    eventually_blocking(lambda: slow.steps()[0].status == "Executing")  # its record, which a cancellation keeps
    slow.cancel()
    with pytest.raises(JobFailed, match="Cancelled by"):
        slow.wait(timeout_s=30)
    assert (slow.status(), slow.read().name) == ("Failed", "echo")
    assert [(step.name, step.status) for step in slow.steps()] == [("rest", "Failed")]
    with pytest.raises(Conflict, match="The job has ended"):
        slow.cancel()
    with pytest.raises(ValueError, match="began no job"):
        client.start(Operations.read_instance.call(instance))


async def test_the_asynchronous_client_has_handles_too(server: Server) -> None:
    application = server.application("awaited handle", COMMAND)
    async with AsyncClient(server.url, Basic(EMAIL, PASSWORD)) as client:
        launch = await client.start(Operations.launch_application.call(application))
        await launch.wait(timeout_s=30)
        job = await client.run(launch.instance_id, "echo", {"text": "0"})
        texts = [text async for text in job.log(follow=True)]
        assert texts[0] == "Job 2, 'echo', started."
        assert (await job.wait(timeout_s=30)).results == job.results == {"text": "0"}
        slow = await client.run(launch.instance_id, "echo", {"text": "10 minutes"})
        await slow.cancel()
        with pytest.raises(JobFailed, match="Cancelled by"):
            await slow.wait(timeout_s=30)
        assert await slow.status() == (await slow.read()).status == "Failed"
        assert [step.name for step in await slow.steps()] == ["rest"]
