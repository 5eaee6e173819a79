"""Rollouts in the console, and what a version would change on live instances."""

from collections import Counter
from types import SimpleNamespace
from typing import Any, cast

import httpx
import pytest

from launchbay.features.rollouts.pages import shown_wave
from launchbay.features.rollouts.rows import Rollout
from launchbay.features.rollouts.usecases import RUNNING, STOPPED, Wave
from tests.support.eventually import eventually
from tests.support.pages import ORIGIN, Page, browser, get
from tests.support.service import PERSON_PASSWORD, Api, accepted, person

TIDES = """\
application:
  configuration: {{ input.release: {release} }}
  interfaces:
    input: {{ release: bind(tables#input.release), pace: bind(tables#input.pace) }}
    actions: {{ check: bind(tables#actions.check) }}
  components:
    tables:
      type: workflow.Instance
      interfaces:
        input: {{ release: configuration(int), pace: configuration(int) }}
        actions: {{ check: receive-command() }}
      configuration:
        input.pace: 0
        configuration.triggers: {{ input.release: update }}
        configuration.propagateStatus: [update]
        configuration.workflows:
          launch: {{ steps: [] }}
          update: {{ steps: [ {{ compute: {{ action: wait, parameters: {{ delay: "{{$.pace}}" }} }} }} ] }}
          check: {{ steps: [] }}
"""


@pytest.fixture(scope="module")
def api(working_service: Api) -> Api:
    """The service; its engine runs jobs."""
    return working_service


async def _tides(api: Api, *paces: int) -> tuple[str, list[str]]:
    """Return an application whose newest version no instance has, and its instances."""
    application = await api.application(TIDES.format(release=1))
    instances = [
        await api.launch(application, instanceName=f"Tide {number}", parameters={"input.pace": pace})
        for number, pace in enumerate(paces, 1)
    ]
    for instance in instances:
        await api.settled(instance)
    accepted(await api.put_yaml(f"applications/{application}/manifest", TIDES.format(release=2)))
    return application, instances


async def _sent(visitor: httpx.AsyncClient, path: str, page: Page, **fields: Any) -> httpx.Response:
    form = {"formToken": page.fields["formToken"], **fields}
    return await visitor.post(path, data=form, headers={"Origin": ORIGIN})


async def _until(visitor: httpx.AsyncClient, path: str, words: str) -> Page:
    return await eventually(lambda: get(visitor, path), lambda page: words in page.text)


async def test_the_page_of_a_version_shows_which_instances_it_would_change(
    api: Api, visitor: httpx.AsyncClient
) -> None:
    application, instances = await _tides(api, 0, 0)
    page = await get(visitor, f"/console/applications/{application}/versions/3")
    text = " ".join(page.text.split())
    assert "2 instances change" in text
    assert "version 2 Show difference Starts –Changes tables input.release 1 → 2Stops –Runs now tables#update" in text
    assert f"/console/applications/{application}/versions/3?against=2#h-d" in page.links
    for instance in instances:
        assert f"/console/instances/{instance}" in page.links
    assert f"/console/applications/{application}/rollouts/new?version=3" in page.links
    broken = TIDES.format(release=2).replace(
        "pace: configuration(int) }", "pace: configuration(int), tide: configuration(int) }"
    )
    broken = broken.replace(
        "pace: bind(tables#input.pace)", "pace: bind(tables#input.pace), tide: bind(tables#input.tide)"
    )
    accepted(await api.put_yaml(f"applications/{application}/manifest", broken))
    page = await get(visitor, f"/console/applications/{application}/versions/4")
    assert "2 instances can't get it." in page.text
    assert "input.tide" in page.text


@pytest.mark.slow
async def test_a_rollout_goes_wave_by_wave_and_is_stopped_continued_and_taken_back(
    api: Api, visitor: httpx.AsyncClient
) -> None:
    application, instances = await _tides(api, 0, -1, 0)
    home = f"/console/applications/{application}/rollouts"
    form = await get(visitor, f"{home}/new?version=3&waves=1,1")
    assert "3 instances get version 3, in 3 waves." in " ".join(form.text.split())
    fields = {"version": "3", "q": "", "waves": "1, 1", "pause": "0", "health": "actions.check", "failures": "1"}
    preview = Page(await _sent(visitor, home, form, **fields, do="preview"))
    assert preview.status == 200
    begun = await _sent(visitor, home, form, **fields, comment="Spring tides", do="begin")
    assert begun.status_code == 303, begun.text
    path = begun.headers["location"]
    stopped = await _until(visitor, path, "Stopped in wave 2 of 3")
    assert "1 failed, so it stopped and waits for a decision" in stopped.text
    assert "tables · compute" in stopped.text
    assert "Spring tides" in stopped.text
    assert (await get(visitor, f"{path}?status=Succeeded")).links.keys() >= {f"/console/instances/{instances[0]}"}
    assert path in (await get(visitor, home)).links
    await _sent(visitor, path, stopped, do="continue")
    finished = await _until(visitor, path, "Finished with failures")
    assert (await api.document(instances[2]))["version"] == 3
    await _sent(visitor, path, finished, do="take-back")
    back = await _until(visitor, path, "Taken back")
    back = await eventually(lambda: get(visitor, path), lambda back: "Going back" not in back.text)
    assert "every 3s" not in back.answer.text, "what has ended isn't read again"
    assert "Tide 2 failed:" in back.text
    for instance in instances:
        assert (await api.settled(instance))["version"] == 2
    again = await _sent(visitor, path, back, do="continue")
    assert again.status_code == 409
    assert "so you can't continue it" in Page(again).text


async def test_a_page_is_read_again_while_its_rollout_waits(api: Api, visitor: httpx.AsyncClient) -> None:
    application, _ = await _tides(api, 0, 0)
    home = f"/console/applications/{application}/rollouts"
    form = await get(visitor, f"{home}/new")
    fields = {"version": "3", "q": "", "waves": "1", "pause": "wait"}
    path = (await _sent(visitor, home, form, **fields, do="begin")).headers["location"]
    page = await _until(visitor, path, "Waits before wave 2")
    assert 'hx-trigger="every 3s"' in page.answer.text
    assert "Continue with wave 2" in page.text
    await _sent(visitor, path, page, do="stop")
    assert 'hx-trigger="every 3s"' not in (await get(visitor, path)).answer.text


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"waves": "some"}, "isn't a size"),
        ({"failures": "none"}, "Expected a whole number"),
        ({"q": "odd:thing"}, "odd:thing"),
        ({"pause": "long"}, "Choose the pause"),
        ({"health": "sink"}, "has no command"),
    ],
)
async def test_a_wrong_field_begins_no_rollout(
    api: Api, visitor: httpx.AsyncClient, fields: dict[str, str], message: str
) -> None:
    application, _ = await _tides(api, 0)
    home = f"/console/applications/{application}/rollouts"
    form = await get(visitor, f"{home}/new")
    page = Page(await _sent(visitor, home, form, **{"version": "3", **fields}, do="begin"))
    assert page.status == 400
    assert message in page.text
    assert "No rollouts yet" in (await get(visitor, home)).text


def test_a_stopped_wave_with_instances_that_wait_for_their_check_waits_for_somebody() -> None:
    wave = Wave(2, Counter({"Failed": 1, "Unchecked": 1}))
    stopped = cast("Rollout", SimpleNamespace(status=STOPPED))
    running = cast("Rollout", SimpleNamespace(status=RUNNING))
    assert shown_wave(stopped, wave, is_next=True).words == "Waits for a decision"
    assert shown_wave(running, wave, is_next=False).words == "In progress"


async def test_who_may_change_no_instance_sees_no_form_of_a_rollout(api: Api, visitor: httpx.AsyncClient) -> None:
    application = await api.application("launch: {steps: []}\n")
    path = f"/console/applications/{application}/rollouts/new"
    assert 'id="rollout-form"' in (await get(visitor, path)).answer.text
    reader = await person(api, "Guest")
    async with browser(api) as client:
        await client.post("/console/signIn", data={"email": reader.email, "password": PERSON_PASSWORD})
        page = await get(client, path)
        assert page.status == 200
        assert "you need the permission EditInstance" in page.text
        assert 'id="rollout-form"' not in page.answer.text
        assert path not in (await get(client, f"/console/applications/{application}/rollouts")).links
