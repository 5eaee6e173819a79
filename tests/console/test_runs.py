"""The lists of runs: their query, their rows, paging, and what they stream."""

import csv
import html
import io
import re
from collections.abc import AsyncIterator

import httpx
import pytest

from launchbay.pages import runs
from tests.support.manifests import FAILING_LATE
from tests.support.pages import ORIGIN, Page, get, words_of
from tests.support.service import Api, accepted, fresh_name, served

LINGERS = "launch: {steps: []}\nlinger: {steps: [{rest: {action: wait, parameters: {delay: 600}}}]}\n"


@pytest.fixture(scope="module")
def api(working_service: Api) -> Api:
    """The service; its engine runs jobs."""
    return working_service


def rows(page: Page) -> list[str]:
    """Return the texts of the rows of the list."""
    found = re.findall(r'<tr id="run-\w+".*?</tr>', page.answer.text, re.DOTALL)
    return [words_of(row) for row in found]


async def test_runs_are_found_by_status_workflow_person_and_the_name_of_their_instance(
    api: Api, visitor: httpx.AsyncClient
) -> None:
    name = fresh_name("quay").replace(" ", "-")
    application = await api.application(f"launch: {{steps: []}}\n{FAILING_LATE.replace('launch', 'break')}")
    instance = await api.launch(application, instanceName=name)
    await api.settled(instance)
    await api.run(instance, "break")
    path = f"/console/organizations/{api.organization}/runs"

    shown = rows(await get(visitor, f"{path}?q={name}"))
    assert [row.split(" ")[0] for row in shown] == ["break", "launch"]
    assert "Failed" in shown[0]
    assert "Succeeded" in shown[1]
    assert len(rows(await get(visitor, f"{path}?q={name}+status:failed"))) == 1
    assert len(rows(await get(visitor, f"{path}?q={name}+workflow:launch+by:me+started:<1h"))) == 1
    assert rows(await get(visitor, f"{path}?q={name}+duration:>1h")) == []
    assert len(rows(await get(visitor, f"{path}?q={name}&sort=created"))) == 2
    own = rows(await get(visitor, f"/console/instances/{instance}/runs?q=status:succeeded"))
    assert [row.split(" ")[:2] for row in own] == [["launch", "#1"]]

    odd = await get(visitor, f"{path}?q=status:odd")
    assert "Use one of these: succeeded, failed, cancelled, in-progress." in odd.text
    assert (await get(visitor, f"{path}?after=nonsense")).status == 400


async def test_pages_of_runs_have_each_run_once(
    api: Api, visitor: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runs, "CONSOLE_PAGE_ROWS", 2)
    name = fresh_name("pier").replace(" ", "-")
    instance = await api.launch(await api.application("launch: {steps: []}\nfine: {steps: []}\n"), instanceName=name)
    await api.settled(instance)
    for _ in range(4):
        await api.run(instance, "fine")
    page = await get(visitor, f"/console/organizations/{api.organization}/runs?q={name}")
    numbers = []
    while True:
        numbers += [int(row.split("#")[1].split(" ")[0]) for row in rows(page)]
        following = re.findall(r'rel="next" href="([^"]+)"', page.answer.text)
        if not following:
            break
        page = await get(visitor, html.unescape(following[0]))
    assert numbers == [5, 4, 3, 2, 1]


@pytest.mark.features("bulk")
async def test_equal_failures_of_runs_are_one_line_with_a_way_to_resume_them(
    api: Api, visitor: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    word = fresh_name("quay").rpartition(" ")[2]
    application = await api.application(FAILING_LATE)
    instances = [await api.launch(application, instanceName=f"{word} {each}") for each in ("a", "b")]
    for each in instances:
        await api.settled(each)
    text = FAILING_LATE.replace("launch:", "launch: {steps: []}\nbreak:")
    other = await api.launch(await api.application(text), instanceName=f"{word} c")
    await api.settled(other)
    async with api.database.transaction() as connection:
        await connection.execute(
            "UPDATE jobs SET status = 'Failed', error_message = 'The disk is full.' WHERE instance_id = %s", [other]
        )
    path = f"/console/organizations/{api.organization}/runs"
    each_run = await get(visitor, f"{path}?q={word}+status:failed")
    assert len(rows(each_run)) == 3
    [link] = re.findall(r'href="([^"]+)"[^>]*>Equal failures together', each_run.answer.text)
    page = await get(visitor, html.unescape(link))
    groups = re.findall(r'<li class="r-broken">.*?</form>', page.answer.text, re.DOTALL)
    counts = [re.findall(r"<b class=\"name\">(.*?)</b>", each) for each in groups]
    assert sorted(counts) == [["1 run"], ["2 runs"]]
    [both] = [each for each in groups if "2 runs" in each]
    assert re.search(r"(First .* ago, last )?(just now|ago)", words_of(both))
    assert all(instance in both and other not in both for instance in instances)
    assert "Resume 2 instances" in words_of(both)

    monkeypatch.setattr(runs, "CONSOLE_PAGE_ROWS", 1)
    first = await get(visitor, html.unescape(link))
    [following] = re.findall(r'rel="next" href="([^"]+)"', first.answer.text)
    second = await get(visitor, html.unescape(following))
    names = [re.findall(r'<b class="name">(\d runs?)</b>', each.answer.text) for each in (first, second)]
    assert sorted(names) == [["1 run"], ["2 runs"]]
    assert 'rel="next"' not in second.answer.text
    assert "Equal failures together" not in (await get(visitor, f"{path}?q={word}")).text

    [action] = re.findall(r'action="([^"]+/failures/\w+)"', both)
    form = {"formToken": page.fields["formToken"], "instance": instances[0]}
    sent = await visitor.post(action, data=form, headers={"Sec-Fetch-Site": "same-origin", "Origin": ORIGIN})
    assert sent.status_code == 303
    begun = await get(visitor, sent.headers["location"])
    assert f"{word} a" in begun.text
    assert f"{word} b" not in begun.text


@pytest.mark.features("bulk")
async def test_a_group_of_runs_resumes_those_runs_although_something_else_made_the_instance_failed(
    api: Api, visitor: httpx.AsyncClient
) -> None:
    word = fresh_name("mole").rpartition(" ")[2]
    backup = FAILING_LATE.replace("launch:", "backup:").replace("call:", "save:")
    manifests = (f"{FAILING_LATE}{backup}", f"{FAILING_LATE}{backup}", f"launch: {{steps: []}}\n{backup}")
    instances = [await api.launch(await api.application(each), instanceName=fresh_name(word)) for each in manifests]
    for each in instances:
        await api.settled(each)
    for each in instances:
        await api.run(each, "backup")
    path = f"/console/organizations/{api.organization}/runs?q={word}+status:failed&group=equal"
    page = await get(visitor, path)
    groups = re.findall(r'<li class="r-broken">.*?</form>', page.answer.text, re.DOTALL)
    [saved] = [each for each in groups if "Failed at <b>save</b>" in each]
    assert "Resume 3 instances" in words_of(saved)
    [action] = re.findall(r'action="([^"]+/failures/\w+)"', saved)
    form = {"formToken": page.fields["formToken"], "instance": re.findall(r'name="instance" value="(\w+)"', saved)}
    sent = await visitor.post(action, data=form, headers={"Sec-Fetch-Site": "same-origin", "Origin": ORIGIN})
    assert sent.status_code == 303, words_of(sent.text)
    bulk = sent.headers["location"].rpartition("/")[2]
    rows_of = accepted(await api.get(f"bulk/{bulk}/instances"))
    assert sorted(row["instanceId"] for row in rows_of) == sorted(instances)


@pytest.mark.slow
async def test_a_stream_brings_rows_that_change_and_counts_new_runs(api: Api, visitor: httpx.AsyncClient) -> None:
    name = fresh_name("mole").replace(" ", "-")
    instance = await api.launch(await api.application(LINGERS), instanceName=name)
    await api.settled(instance)
    accepted(await api.post(f"instances/{instance}/linger", {}))
    page = await get(visitor, f"/console/organizations/{api.organization}/runs?q={name}")
    [job, _] = re.findall(r'<tr id="run-(\w+)"', page.answer.text)
    assert re.search(r"In progress|Queued", rows(page)[0])
    [address] = re.findall(r'sse-connect="([^"]+)"', page.answer.text)
    cookies = dict(visitor.cookies)
    async with (
        served(api) as port,
        httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}", cookies=cookies, timeout=30) as client,
        client.stream("GET", html.unescape(address)) as answer,
    ):
        assert answer.headers["content-type"].startswith("text/event-stream")
        lines = answer.aiter_lines()
        accepted(await api.delete(f"instances/{instance}/jobs/{job}"))
        await until(lines, f"event: run-{job}")
        await until(lines, "Cancelled")
        await api.settled(instance)
        accepted(await api.post(f"instances/{instance}/linger", {}))
        await until(lines, "1 new run, show it")
    [job] = [each["id"] for each in (await api.document(instance))["workflowHistory"][:1]]
    accepted(await api.delete(f"instances/{instance}/jobs/{job}"))


async def until(lines: AsyncIterator[str], text: str) -> None:
    """Read on to a line with a text."""
    async for line in lines:
        if text in line:
            return
    raise AssertionError(f"the stream ended before {text!r}")


async def test_the_runs_of_a_query_are_exported(
    api: Api, visitor: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runs, "_EXPORTED_AT_ONCE", 1)
    name = fresh_name("lugger").replace(" ", "-")
    application = await api.application(f"launch: {{steps: []}}\n{FAILING_LATE.replace('launch', 'break')}")
    instance = await api.launch(application, instanceName=name)
    await api.settled(instance)
    await api.run(instance, "break")
    path = f"/console/organizations/{api.organization}/runs"
    found = (await visitor.get(f"{path}/export", params={"q": name, "format": "json"})).json()
    assert [(each["workflow"], each["status"], each["number"]) for each in found] == [
        ("break", "Failed", 2),
        ("launch", "Succeeded", 1),
    ]
    assert found[0]["error"]
    assert found[0]["startedAt"] <= found[0]["finishedAt"]
    only = (await visitor.get(f"{path}/export", params={"q": f"{name} status:failed"})).text
    assert len(list(csv.reader(io.StringIO(only, newline="")))) == 2
    assert f"{path}/export?q={name}" in (await get(visitor, f"{path}?q={name}")).answer.text
