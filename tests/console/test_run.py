"""The page of a run over HTTP: what happened and why, its log, resumption, comparison, thousands of steps."""

import html
import json
import re
import time
from typing import Any

import httpx
import psycopg
import pytest

from launchbay.usecases import job_log
from tests.support.eventually import eventually
from tests.support.pages import Page, get
from tests.support.second_factors import post
from tests.support.service import Api, accepted, fresh_name

MANIFEST = """
application:
  interfaces:
    actions: {fall: bind(web#actions.fall), fine: bind(web#actions.fine), ask: bind(web#actions.ask),
      pause: bind(web#actions.pause)}
  components:
    web:
      type: workflow.Instance
      interfaces:
        actions:
          fall: "receive-command(string format, string password)"
          fine: "receive-command(string size => string size)"
          ask: receive-command()
          pause: receive-command()
      configuration:
        configuration.workflows:
          launch: {steps: []}
          fall:
            parameters: [{format: {}}, {password: {default: "topsecret"}}]
            steps:
              - prepare: {action: wait, parameters: {delay: 0}}
              - convert: {action: serialize, precedingPhases: [prepare], parameters: {input: 1, format: "{$.format}"}}
              - store: {action: wait, precedingPhases: [convert], parameters: {delay: 0}}
          fine:
            parameters: [{size: {default: "1"}}]
            steps: [{only: {action: wait, parameters: {delay: 0}}}]
            return: {size: {value: "{$.size}"}}
          ask: {steps: [{sign-off: {action: approval, parameters: {text: "Go on?"}}}]}
          pause: {steps: [{rest: {action: wait, parameters: {delay: 3600}}}]}
"""
LENIENT = """
launch:
  steps:
    - alone: {action: serialize, parameters: {input: 1, format: XLS, ignoreFail: true}}
    - call: {action: .inner, precedingPhases: [alone], parameters: {ignoreFail: true}}
.inner: {steps: [{convert: {action: serialize, parameters: {input: 1, format: XLS}}}]}
"""
RESUMED = """
launch:
  steps:
    - alone: {action: serialize, parameters: {input: 1, format: XLS, ignoreFail: true}}
    - convert: {action: serialize, precedingPhases: [alone], parameters: {input: 1, format: XLS}}
    - store: {action: wait, precedingPhases: [convert], parameters: {delay: 0}}
"""


@pytest.fixture(scope="module")
def api(working_service: Api) -> Api:
    """The service; its engine runs jobs."""
    return working_service


@pytest.fixture(scope="module")
async def instance(api: Api) -> str:
    return await api.running(MANIFEST)


async def newest(api: Api, instance: str) -> str:
    """Return the path of the page of the newest run."""
    return f"/console/instances/{instance}/jobs/{(await api.document(instance))['workflowHistory'][0]['id']}"


async def asked(visitor: httpx.AsyncClient, path: str) -> None:
    """Wait until the run asks for an approval."""
    await eventually(lambda: get(visitor, path), lambda found: "Needs approval" in found.text)


def words(page: Page) -> str:
    return " ".join(page.text.split())


def pairs(text: str) -> dict[str, str]:
    """Return the names and values of the lists in a part of a page."""
    found = re.findall(r"<dt>(.*?)</dt>\s*<dd>(.*?)</dd>", text, re.DOTALL)
    return {name: re.sub("<[^>]*>", "", value) for name, value in found}


async def failed(api: Api, instance: str, **parameters: Any) -> str:
    await api.run(instance, "actions.fall", **{"format": "XLS", "password": "swordfish-9", **parameters})
    return await newest(api, instance)


@pytest.mark.slow
async def test_a_failed_run_says_where_why_and_leads_to_the_line(
    api: Api, visitor: httpx.AsyncClient, instance: str
) -> None:
    path = await failed(api, instance)
    page = await get(visitor, path)
    assert "web · convert failed: The parameter 'format' is wrong: expected JSON, YAML or CSV." in words(page)
    assert "/docs/codes/ActionFailed" in page.links
    assert "1 step was not run. Resuming keeps the step that is done." in words(page)
    [target] = [link for link in page.links if "?line=" in link]
    number = target.rpartition("#L")[2]
    line = re.search(rf'<li id="L{number}" data-l="error".*?</li>', (await get(visitor, target)).answer.text)
    assert line is not None
    assert "expected JSON" in line[0]
    assert "swordfish-9" not in page.answer.text
    inputs = re.search(r'<details class="card" open><summary>Inputs.*?</details>', page.answer.text, re.DOTALL)
    assert inputs is not None, "they are open, below the error"
    assert pairs(inputs[0]) == {"input": "1", "format": "XLS"}
    prepared = await get(visitor, f"{path}?step=web%23fall%2Fprepare")
    assert re.search(r'<details class="card"><summary>Inputs<span[^>]*>as sent, secrets masked', prepared.answer.text)
    assert "Resume from convert" in page.text
    parameters = await get(visitor, f"{path}?tab=parameters")
    assert "XLS" in parameters.text
    assert "swordfish-9" not in parameters.answer.text


async def test_a_run_is_resumed_with_other_parameters(api: Api, visitor: httpx.AsyncClient, instance: str) -> None:
    path = await failed(api, instance)
    refused = await post(visitor, f"{path}/resume", **{"argument:format": "XLS", "argument:password": ""})
    assert isinstance(refused, httpx.Response)  # unchanged ones are no obstacle
    await api.settled(instance)
    path = await newest(api, instance)
    answer = await post(visitor, f"{path}/resume", **{"argument:format": "JSON", "argument:password": ""})
    assert isinstance(answer, httpx.Response)
    assert answer.status_code == 303
    assert (await api.settled(instance))["status"] == "Running"
    page = await get(visitor, answer.headers["location"])
    assert "Succeeded" in page.text
    assert "1 kept" in page.text
    assert "Attempt 3" in page.text
    first = await visitor.get(f"{answer.headers['location']}?attempt=1")
    assert first.status_code == 303
    assert first.headers["location"] != answer.headers["location"]
    assert "Resume from" not in (await get(visitor, path)).text


async def test_the_dialog_of_a_resumption_keeps_a_step_whose_failure_is_ignored(
    api: Api, visitor: httpx.AsyncClient
) -> None:
    instance = await api.launch(await api.application(RESUMED))
    await api.settled(instance)
    path = await newest(api, instance)
    assert "Resuming keeps the step that is done." in words(await get(visitor, path))
    dialog = words(await get(visitor, f"{path}?do=resume")).partition("What will happen")[2]
    assert "1 step keeps its result, 1 of them failed and ignored" in dialog
    assert "workflow · alone" not in dialog
    assert "workflow · convert" in dialog
    answer = await post(visitor, f"{path}/resume")
    assert isinstance(answer, httpx.Response)
    await api.settled(instance)
    log = accepted(await api.get(f"instances/{instance}/log"))
    assert any(line["text"].endswith("not repeated: 1, 1 of them failed and ignored.") for line in log)
    assert "1 kept" in words(await get(visitor, answer.headers["location"]))


async def test_a_step_that_waits_for_its_time_needs_nobody(api: Api, visitor: httpx.AsyncClient, instance: str) -> None:
    accepted(await api.post(f"instances/{instance}/actions.pause", {}))
    path = await newest(api, instance)
    page = await eventually(lambda: get(visitor, path), lambda page: "The next pause ends at" in page.text)
    assert 'class="why busy"' in page.answer.text
    assert "web · rest is running." in words(page)
    await post(visitor, f"{path}/cancel")
    await api.settled(instance)


async def test_a_run_waits_for_an_approval_and_is_cancelled(
    api: Api, visitor: httpx.AsyncClient, instance: str
) -> None:
    accepted(await api.post(f"instances/{instance}/actions.ask", {}))
    path = await newest(api, instance)
    await asked(visitor, path)
    page = await get(visitor, path)
    assert "Needs approval" in page.text
    assert "Go on?" in page.text
    ends = "What ends it: The approval of any user who may approve, or its expiry."
    assert re.search(rf"Since \d\d:\d\d:\d\d, until \d+ \w+ \d\d:\d\d\. {ends}", words(page))
    assert 'class="hatch"' in page.answer.text
    assert "Cancel run" in (await get(visitor, f"{path}?do=cancel")).text
    answer = await post(visitor, f"{path}/cancel")
    assert isinstance(answer, httpx.Response)
    await api.settled(instance)
    page = await get(visitor, path)
    assert "Cancelled by" in page.text


async def test_the_next_failure_is_offered_where_there_is_one(
    api: Api, visitor: httpx.AsyncClient, instance: str
) -> None:
    """The style hides `if-fault` until the log that grows on the page has an error."""
    link = r'<a class="([^"]*)" href="[^"]*" data-next-fault>'
    broken = (await get(visitor, await failed(api, instance))).answer.text
    assert re.findall(link, broken) == ["btn s"]
    await api.run(instance, "actions.fine", size="1")
    fine = (await get(visitor, await newest(api, instance))).answer.text
    assert re.findall(link, fine) == ["btn s if-fault"]
    lenient = await api.running(LENIENT)
    ignored = (await get(visitor, await newest(api, lenient))).answer.text
    assert re.findall(link, ignored) == ["btn s if-fault"], "the only failures were ignored, also inside a call"
    assert 'data-l="error"' not in ignored
    lines = accepted(await api.get(f"instances/{lenient}/log"))
    told = [line["level"] for line in lines if "expected JSON" in line["text"] or "Ignored" in line["text"]]
    assert told == ["warning"] * 5, "of each step, that inside the call too, and that two were ignored"


async def test_runs_are_compared(api: Api, visitor: httpx.AsyncClient, instance: str) -> None:
    paths = []
    for size in ("1", "2"):
        await api.run(instance, "actions.fine", size=size)
        paths.append(await newest(api, instance))
    answer = await visitor.get(f"{paths[1]}/compare")
    assert answer.headers["location"] == f"{paths[0]}/compare/{paths[1].rpartition('/')[2]}"
    page = await get(visitor, answer.headers["location"])
    assert re.search(r"<del>1</del> <ins>2</ins>", page.answer.text)
    assert "of 1 differ" in words(page)
    assert "web · only" in (await get(visitor, f"{answer.headers['location']}?show=all")).text
    assert (await visitor.get(f"{paths[0]}/compare?with=nothing")).headers["location"] == paths[0]


async def test_two_runs_show_which_inputs_and_parameters_differ(
    api: Api, visitor: httpx.AsyncClient, instance: str
) -> None:
    older, newer = [await failed(api, instance, format=each) for each in ("XLS", "ODS")]
    page = await get(visitor, f"{older}/compare/{newer.rpartition('/')[2]}")
    assert "Input format" in page.text
    assert page.answer.text.count("<del>XLS</del> <ins>ODS</ins>") == 2  # the parameter of the run and of its step
    assert "swordfish-9" not in page.answer.text
    assert "Can't be compared, since they are secret or cut: password." in words(page)


async def test_values_of_steps_that_cannot_be_compared_are_named(api: Api, visitor: httpx.AsyncClient) -> None:
    text = """
log-in:
  parameters: [{password: {}}]
  steps: [{pack: {action: serialize, parameters: {input: {user: Ann, password: "{$.password}"}}}}]
launch: {steps: []}
"""
    instance = await api.running(text)
    paths = []
    for number in (1, 2):
        await api.run(instance, "log-in", password=f"swordfish-{number}")
        await api.settled(instance)
        paths.append(await newest(api, instance))
    page = await get(visitor, f"{paths[0]}/compare/{paths[1].rpartition('/')[2]}?show=all")
    assert "1 step has values that can't be compared" in words(page)
    assert "Input input.password: can't be compared" in words(page)
    ids = [path.rpartition("/")[2] for path in paths]
    found = accepted(await api.get(f"jobs/{ids[0]}/compare/{ids[1]}", everyStep="true"))
    assert (found["uncertain"], found["stepsUncertain"]) == (["parameters.password"], 1)
    [step] = found["steps"]
    assert "inputs.input.password" in step["uncertain"]
    assert "swordfish" not in str(found)


async def test_a_launch_shows_what_it_took_and_an_older_one_that_it_is_not_recorded(
    api: Api, visitor: httpx.AsyncClient
) -> None:
    text = """
application:
  interfaces: {input: {size: bind(web#input.size)}, result: {size: bind(web#result.size)}}
  components:
    web:
      type: workflow.Instance
      interfaces: {input: {size: configuration(int)}, result: {size: publish-signal(int)}}
      configuration:
        input.size: 1
        configuration.workflows: {launch: {steps: [], return: {size: {value: "{$.size}"}}}}
"""
    instance = await api.running(text, parameters={"input.size": 7})
    path = await newest(api, instance)
    assert pairs((await get(visitor, f"{path}?tab=parameters")).answer.text) == {"input.size": "7"}
    assert pairs((await get(visitor, f"{path}?tab=results")).answer.text) == {"result.size": "7"}
    accepted(await api.put(f"instances/{instance}/configuration", {"parameters": {"input.size": 8}}))
    await api.settled(instance)
    changed = await newest(api, instance)
    compared = f"{path}/compare/{changed.rpartition('/')[2]}"
    assert (await get(visitor, compared)).answer.text.count("<del>7</del> <ins>8</ins>") == 1
    async with api.database.connection() as connection:
        await connection.execute("UPDATE jobs SET shown_parameters = NULL WHERE instance_id = %s", [instance])
    assert "Not recorded: an earlier version" in words(await get(visitor, f"{path}?tab=parameters"))
    assert "Not recorded for #1 and #2" in words(await get(visitor, compared))


async def test_two_runs_that_are_selected_in_the_list_are_compared_the_older_one_first(
    api: Api, visitor: httpx.AsyncClient, instance: str
) -> None:
    older, newer = [
        (await api.run(instance, "actions.fine", size=size), (await newest(api, instance)).rpartition("/")[2])[1]
        for size in ("3", "4")
    ]
    listed = f"/console/instances/{instance}/runs"
    page = (await get(visitor, listed)).answer.text
    assert [f'type="checkbox" name="id" value="{each}"' in page for each in (older, newer)] == [True, True]
    answer = await visitor.get(f"{listed}/compare?id={newer}&id={older}")
    assert answer.headers["location"] == f"/console/instances/{instance}/jobs/{older}/compare/{newer}"
    assert (await visitor.get(answer.headers["location"])).status_code == 200
    for few in ("", f"?id={older}", f"?id={older}&id=../{newer}"):
        answer = await visitor.get(f"{listed}/compare{few}")
        assert (answer.status_code, answer.headers["location"]) == (303, listed)


def add_lines(url: str, path: str, count: int) -> None:
    """Write lines into the log of a run, every tenth of them a warning."""
    _, _, _, instance, _, job = path.split("/")
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(
            "INSERT INTO log_lines (instance_id, job_id, step, level, text, at) SELECT %s, %s, 'web#actions.fine/only',"
            " CASE WHEN number %% 10 = 0 THEN 'warning' ELSE 'info' END, 'row ' || number, now()"
            " FROM generate_series(1, %s) AS number",
            [instance, job, count],
        )


def numbers(page: Page) -> list[int]:
    return [int(each) for each in re.findall(r'<li id="L(\d+)"', page.answer.text)]


async def test_a_long_log_comes_in_windows_with_numbers_searched_and_by_line(
    api: Api, visitor: httpx.AsyncClient, instance: str
) -> None:
    await api.run(instance, "actions.fine")
    path = await newest(api, instance)
    before = numbers(await get(visitor, path))
    assert before == list(range(1, len(before) + 1))
    add_lines(api.database.url, path, 3_000)
    page = await get(visitor, path)
    assert sorted(numbers(page)) == list(range(1, job_log.WINDOW_LINES + 1))
    assert f"{len(before) + 3_000:,} lines" in page.text
    [more] = re.findall(r'hx-get="([^"]+/log\?[^"]*after=[^"]+)"', page.answer.text)
    following = await get(visitor, html.unescape(more))
    assert min(numbers(following)) == job_log.WINDOW_LINES + 1
    middle = await get(visitor, f"{path}?line=2000")
    assert 2_000 in numbers(middle)
    assert min(numbers(middle)) > job_log.WINDOW_LINES
    found = await get(visitor, f"{path}/log?q=ROW+2999")
    assert [each - len(before) for each in numbers(found)] == [2_999]
    assert "<mark>row 2999</mark>" in found.answer.text
    warnings = await get(visitor, f"{path}/log?level=warning")
    assert len(numbers(warnings)) == 300
    end = await get(visitor, f"{path}?line=999999999")
    assert max(numbers(end)) == len(before) + 3_000
    text = await visitor.get(f"{path}/log/text")
    assert text.text.count("\n") == len(before) + 3_000
    nothing = await visitor.get(f"{path}/log/failure?after=0")
    assert nothing.headers["location"] == f"{path}#log"


async def test_a_failure_in_the_log_is_found_from_anywhere(api: Api, visitor: httpx.AsyncClient, instance: str) -> None:
    path = await failed(api, instance)
    answer = await visitor.get(f"{path}/log/failure?after=0")
    first = int(answer.headers["location"].rpartition("#L")[2])
    page = await get(visitor, answer.headers["location"])
    ids = dict(re.findall(r'<li id="L(\d+)"[^>]* data-id="(\d+)"', page.answer.text))
    following = await visitor.get(f"{path}/log/failure?after={ids[str(first)]}")
    second = int(following.headers["location"].rpartition("#L")[2])
    assert second > first
    back = await visitor.get(f"{path}/log/failure?before={ids[str(second)]}")
    assert back.headers["location"] == answer.headers["location"]


def make_long(url: str, path: str, steps: int) -> None:
    """Make a run one of so many steps, as the engine would have written it."""
    job = path.rpartition("/")[2]
    planned = [[f"svc-{n // 50}#launch/step-{n}", f"step-{n}", "Succeeded", 100] for n in range(steps)]
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("UPDATE jobs SET steps = %s WHERE id = %s", [json.dumps(planned), job])
        connection.execute(
            "INSERT INTO steps (job_id, path, name, status, percent, is_record, attempt, outputs, started_at,"
            " finished_at) SELECT %s, format('svc-%%s#launch/step-%%s', n / 50, n), format('step-%%s', n), 'Succeeded',"
            " 100, true, 1, '{\"value\": \"some\"}', now() - interval '1 s', now() FROM generate_series(0, %s) AS n",
            [job, steps - 1],
        )


@pytest.mark.slow
async def test_a_run_of_five_thousand_steps_has_a_small_page_in_little_time(
    api: Api, visitor: httpx.AsyncClient
) -> None:
    instance = await api.launch(await api.application("launch: {steps: []}\n"), instanceName=fresh_name("long"))
    await api.settled(instance)
    path = await newest(api, instance)
    took = {}
    for steps in (0, 5_000):
        if steps:
            make_long(api.database.url, path, steps)
        best = []
        for _ in range(3):
            began = time.process_time()
            page = await get(visitor, path)
            best.append(time.process_time() - began)
        took[steps] = min(best)
    assert "5000 steps in 100 components" in words(page)
    assert len(page.tags) <= 5_000
    assert took[5_000] - took[0] < 1.0, took
    lane = await get(visitor, f"{path}?lane=svc-7")
    assert "step-350" in lane.text
    assert "step-400" not in lane.text


async def test_a_run_is_repeated_with_its_parameters_except_for_secrets(
    api: Api, visitor: httpx.AsyncClient, instance: str
) -> None:
    path = await failed(api, instance, format="XLS", password="sesame-42")
    text = (await visitor.get(path)).text
    link = re.search(r'href="([^"]+/run\?[^"]+)"[^>]*>(?:(?!</a>).)*Run again', text)
    assert link is not None
    form = await get(visitor, html.unescape(link[1]))
    assert form.fields["argument:actions.fall:format"] == "XLS"
    assert form.fields["argument:actions.fall:password"] == ""
    assert "sesame-42" not in form.answer.text


async def test_a_run_is_exported_with_its_steps_and_its_log_and_without_secrets(
    api: Api, visitor: httpx.AsyncClient, instance: str
) -> None:
    path = await failed(api, instance, format="ODT", password="sesame-43")
    answer = await visitor.get(f"{path}/export")
    assert answer.headers["content-disposition"].endswith('.json"')
    record = json.loads(answer.text)
    assert (record["workflow"], record["status"]) == ("actions.fall", "Failed")
    assert record["parameters"] == {"format": "ODT", "password": "********"}
    assert [step["path"].rpartition("/")[2] for step in record["steps"]][:2] == ["prepare", "convert"]
    assert any(line["level"] == "error" and line["step"] for line in record["log"])
    assert "sesame-43" not in answer.text


async def test_the_plan_names_the_action_of_each_step_and_what_it_waits_for(
    api: Api, visitor: httpx.AsyncClient, instance: str
) -> None:
    path = await failed(api, instance, format="ODS", password="x")
    page = await get(visitor, f"{path}?tab=plan")
    rows = re.findall(r"<tr>.*?</tr>", page.answer.text.partition('aria-label="Plan"')[2], re.DOTALL)[1:]
    cells = [[re.sub(r"<[^>]+>", "", each) for each in re.findall(r"<td.*?</td>", row, re.DOTALL)] for row in rows]
    assert [each[1:3] for each in cells] == [["wait", "–"], ["serialize", "prepare"], ["wait", "convert"]]
