"""The pages of revisions: the list, the form of a new one, a change with what it means, and the end of one."""

import httpx
import pytest

from tests.support.pages import Page, get
from tests.support.second_factors import post, shown
from tests.support.service import Api, accepted, fresh_name

MANIFEST = """\
application:
  interfaces:
    input: {size: bind(worker#input.size), password: bind(worker#input.password)}
  components:
    worker:
      type: workflow.Instance
      interfaces: {input: {size: configuration(int), password: configuration(string)}}
      configuration:
        input.size: 1
        input.password: ""
        configuration.triggers: {input.size: resize}
        configuration.workflows: {launch: {steps: []}, resize: {steps: []}}
"""
VERSION = 2  # the first one is empty


async def _application(api: Api) -> str:
    return await api.application(MANIFEST)


async def _revision(api: Api, application: str, **settings: object) -> str:
    body = {"name": fresh_name("spring"), "version": VERSION, **settings}
    return str(accepted(await api.post(f"applications/{application}/revisions", body))["id"])


async def test_a_revision_is_made_from_the_fields_of_a_version_and_secrets_stay_masked(
    api: Api, visitor: httpx.AsyncClient
) -> None:
    application = await _application(api)
    base = f"/console/applications/{application}/revisions"
    assert "No revisions yet" in (await get(visitor, base)).text
    form = await get(visitor, f"{base}/new")
    assert {"parameter:input.size", "parameter:input.password"} <= set(form.fields)
    wrong = await shown(visitor, base, name="big", version=str(VERSION), **{"parameter:input.size": "huge"})
    assert wrong.status == 400
    assert "Fix the highlighted field: " in wrong.text
    given = {"parameter:input.size": "4", "parameter:input.password": "salty-tide"}
    saved = await post(visitor, base, name="big", version=str(VERSION), **given)
    assert isinstance(saved, httpx.Response), saved.text
    page = await get(visitor, base)
    assert "salty-tide" not in page.answer.text
    assert "<code>input.size</code> 4" in page.answer.text
    taken = await shown(visitor, base, name="big", version=str(VERSION))
    assert taken.status == 400


async def test_a_changed_revision_keeps_the_secrets_that_the_form_does_not_show(
    api: Api, visitor: httpx.AsyncClient
) -> None:
    application = await _application(api)
    revision = await _revision(api, application, parameters={"input.size": 2, "input.password": "salty-tide"})
    page = await get(visitor, f"/console/revisions/{revision}")
    assert page.fields["parameter:input.size"] == "2"
    assert "salty-tide" not in page.answer.text
    sent = {"name": "wide", "version": str(VERSION), "parameter:input.size": "", "seen": page.fields["seen"]}
    assert isinstance(await post(visitor, f"/console/revisions/{revision}", **sent), httpx.Response)
    found = accepted(await api.get(f"revisions/{revision}"))
    assert (found["name"], found["parameters"]) == ("wide", {"input.password": "salty-tide"})
    # The form that was open meanwhile changes nothing.
    late = await shown(visitor, f"/console/revisions/{revision}", **sent)
    assert late.status == 412
    assert "Someone else has changed this" in late.text


async def test_a_change_says_first_what_it_means_for_the_instances_of_the_revision(
    api: Api, visitor: httpx.AsyncClient
) -> None:
    application = await _application(api)
    revision = await _revision(api, application, parameters={"input.size": 2})
    here = f"/console/revisions/{revision}"
    sent = {"name": "small", "version": str(VERSION), "parameter:input.size": "7", "do": "preview"}
    assert "No live instance has this revision." in (await shown(visitor, here, **sent)).text
    instance = await api.launch(application, revisionId=revision)
    preview = await shown(visitor, here, **sent)
    assert "1 instance changes" in preview.text
    assert f'href="/console/instances/{instance}"' in preview.answer.text
    assert accepted(await api.get(f"revisions/{revision}"))["parameters"] == {"input.size": 2}


async def test_a_revision_is_deleted_after_a_question(api: Api, visitor: httpx.AsyncClient) -> None:
    application = await _application(api)
    revision = await _revision(api, application)
    question = await get(visitor, f"/console/revisions/{revision}/delete")
    assert "Instances that were launched from it stay" in question.text
    answer = await post(visitor, f"/console/revisions/{revision}/delete")
    assert isinstance(answer, httpx.Response)
    assert (await api.get(f"revisions/{revision}")).status_code == 404


@pytest.mark.features("rollouts")
async def test_the_tabs_count_instances_and_revisions_and_versions_those_that_use_them(
    api: Api, visitor: httpx.AsyncClient
) -> None:
    application = await _application(api)
    await _revision(api, application)
    await api.launch(application)
    await api.launch(application)
    page = await get(visitor, f"/console/applications/{application}/versions")
    assert 'Instances <span class="count">2</span>' in page.answer.text
    assert 'Revisions <span class="count">1</span>' in page.answer.text
    assert "2 in use" in page.text
    for tab in ("", "/rollouts", "/revisions", "/settings"):
        other: Page = await get(visitor, f"/console/applications/{application}{tab}")
        assert 'Instances <span class="count">2</span>' in other.answer.text, tab
