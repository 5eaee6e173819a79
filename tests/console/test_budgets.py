"""What a page may cost: bytes, requests, elements, statements. Times depend on the machine; these figures don't."""

import gzip
import re

import httpx
import pytest

from launchbay.console.assets import content
from tests.support.pages import get
from tests.support.service import Api, accepted, fresh_name
from tests.support.statements import counted, note_statements

KIB = 1024
BYTES = {
    "built/console.css": 12 * KIB,
    "built/bare.css": 2 * KIB,
    "built/console.js": 40 * KIB,
    "built/editor.js": 140 * KIB,
}
FONT_BYTES = 22 * KIB
PAGE_BYTES = 12 * KIB
REQUESTS = 6  # the page itself, a style sheet, the scripts, the font, the icon of the tab, the icons in the page
ELEMENTS = 5_000
ROWS = 100


@pytest.mark.parametrize(("name", "most"), BYTES.items(), ids=BYTES)
def test_a_file_is_small_enough_when_compressed(name: str, most: int) -> None:
    assert len(gzip.compress(content(name), 9)) <= most


def test_the_font_is_small_enough() -> None:
    assert len(content("built/inter.woff2")) <= FONT_BYTES


@pytest.mark.features("documentation")
async def test_a_page_asks_for_few_files_and_no_page_of_a_signed_in_person_for_a_second_style_sheet(
    api: Api, visitor: httpx.AsyncClient
) -> None:
    for path in ("", "/instances", "/approvals", "/schedules", "/bulk", "/environments", "/users"):
        page = (await get(visitor, f"/console/organizations/{api.organization}{path}")).answer.text
        assert len(re.findall(r'rel="stylesheet"', page)) == 1, path
        files = set(re.findall(r'(?:href|src)="(/console/static/[^"#]+)', page))
        assert len(files) + 1 <= REQUESTS, (path, files)


async def test_a_list_of_100_instances_stays_within_its_bytes_and_elements(
    api: Api, visitor: httpx.AsyncClient
) -> None:
    application = await api.application("launch: {steps: []}\n")
    name = fresh_name("barge").replace(" ", "-")
    listed = f"/console/organizations/{api.organization}/instances?q={name}"
    sizes: list[tuple[int, int]] = []
    for number in range(3):
        page = await get(visitor, listed)
        sizes.append((len(page.tags), len(gzip.compress(page.answer.content, 9))))
        await api.launch(application, instanceName=f"{name}-{number}")
    one, two = sizes[1], sizes[2]
    elements = one[0] + (ROWS - 1) * (two[0] - one[0])
    assert elements <= ELEMENTS
    # Rows differ in names and times alone; what is alike costs next to nothing.
    assert one[1] + (ROWS - 1) * (two[1] - one[1]) <= PAGE_BYTES


@pytest.mark.slow
async def test_every_page_stays_within_its_bytes_and_elements(api: Api, visitor: httpx.AsyncClient) -> None:
    instance = await api.launch(await api.application("launch: {steps: []}\n"))
    application = accepted(await api.get(f"instances/{instance}"))["applicationId"]
    [job, *_] = accepted(await api.get(f"instances/{instance}/jobs"))
    home, of_instance = f"/console/organizations/{api.organization}", f"/console/instances/{instance}"
    sections = "instances runs schedules recurring approvals changes bulk applications environments services audit"
    access = "users roles serviceAccounts webhooks usage git-sources"
    tabs = "runs configuration schedules activity settings components run secrets end"
    pages = [
        home,
        *(f"{home}/{each}" for each in (*sections.split(), *access.split())),
        *(
            f"/console/applications/{application}{each}"
            for each in ("", "/versions", "/settings", "/launch", "/manifest")
        ),
        of_instance,
        *(f"{of_instance}/{each}" for each in tabs.split()),
        f"{of_instance}/jobs/{job['id']}",
        "/console/account",
        "/console/organizations",
    ]
    beyond = {}
    for path in pages:
        page = await get(visitor, path)
        assert page.status == 200, path
        size = len(gzip.compress(page.answer.content, 9))
        if size > PAGE_BYTES or len(page.tags) > ELEMENTS:
            beyond[path] = size, len(page.tags)
    assert beyond == {}


async def test_the_palette_takes_as_few_statements_with_many_instances_as_with_one(
    api: Api, visitor: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    application = await api.application("launch: {steps: []}\n")
    name = fresh_name("lighter").replace(" ", "-")
    path = f"/console/organizations/{api.organization}/jump?q={name}"
    note_statements(monkeypatch)
    counts: list[int] = []
    for number in (1, 8):
        for each in range(number):
            await api.launch(application, instanceName=f"{name}-{number}-{each}")
        await visitor.get(path)
        with counted() as reads:
            answer = await visitor.get(path)
        assert answer.text.count('role="option"') >= min(number, 6)
        counts.append(len(reads.statements))
    # With few hits, it also looks inside of names.
    assert counts[1] <= counts[0] <= 30, counts


async def test_the_list_of_schedules_reads_what_is_due_once_as_the_month_does(
    api: Api, visitor: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = f"/console/organizations/{api.organization}/schedules"
    note_statements(monkeypatch)
    counts: list[int] = []
    for view in ("", "?view=list"):
        await visitor.get(path + view)
        with counted() as reads:
            assert (await visitor.get(path + view)).status_code == 200
        counts.append(len(reads.statements))
    assert counts[1] <= counts[0], counts


async def test_the_overview_takes_as_few_statements_with_many_running_jobs_as_with_one(
    api: Api, visitor: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    application = await api.application("launch:\n  steps: [{rest: {action: wait, parameters: {delay: 60}}}]\n")
    path = f"/console/organizations/{api.organization}"
    note_statements(monkeypatch)
    counts: list[int] = []
    for number in (1, 4):
        for _ in range(number):
            await api.launch(application)
        await visitor.get(path)
        with counted() as reads:
            assert (await visitor.get(path)).status_code == 200
        counts.append(len(reads.statements))
    assert counts[0] == counts[1], counts
