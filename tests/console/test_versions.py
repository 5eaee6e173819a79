"""The versions of a manifest: the difference of two, restoring one."""

import httpx
import pytest

from launchbay.console.line_difference import compare
from tests.support.applications import picky
from tests.support.pages import ORIGIN, get
from tests.support.service import Api, accepted

ONE = """\
launch: {steps: []}
back-up: {steps: []}
"""
TWO = """\
launch: {steps: []}
report: {steps: []}
"""


async def _application(api: Api) -> tuple[str, int, int]:
    application = await api.application(ONE)
    first = max(each["version"] for each in accepted(await api.get(f"applications/{application}/manifests")))
    accepted(await api.put_yaml(f"applications/{application}/manifest", TWO))
    return application, first, first + 1


async def test_a_version_is_shown_against_the_one_before_by_meaning_and_by_line(
    api: Api, visitor: httpx.AsyncClient
) -> None:
    application, first, second = await _application(api)
    page = await get(visitor, f"/console/applications/{application}/versions")
    assert f"Version {first} → {second}" in page.text
    assert "<del>back-up</del>" in page.answer.text
    assert "<ins>report</ins>" in page.answer.text
    assert '<div class="ln del">' in page.answer.text
    assert '<div class="ln add">' in page.answer.text
    back = await get(visitor, f"/console/applications/{application}/versions/{first}?against={second}")
    assert f"Version {second} → {first}" in back.text
    same = await get(visitor, f"/console/applications/{application}/versions/{second}?against={second}")
    assert "The texts are the same." in same.text
    for wrong in (f"/versions/{second + 7}", "/versions/x", f"/versions/{second}?against=99"):
        assert (await get(visitor, f"/console/applications/{application}{wrong}")).status == 400


async def test_the_steps_that_differ_are_shown_with_their_lines(api: Api, visitor: httpx.AsyncClient) -> None:
    application = await api.application(picky())
    await api.launch(application)
    text = picky().replace('delay: "{$.size}"', 'delay: "{$.size + 0.1}"')
    accepted(await api.put_yaml(f"applications/{application}/manifest", text))
    page = await get(visitor, f"/console/applications/{application}/versions")
    assert "workflow resize (step check)" in page.text
    assert "+ - check: " not in page.text  # flow style: the whole list is one line
    assert "0 instances change" not in page.text
    assert "1 instance changes" in page.text
    same = picky().replace("launch:", "# a remark\n          launch:")
    for each in (picky(), same):
        accepted(await api.put_yaml(f"applications/{application}/manifest", each))
    again = await get(visitor, f"/console/applications/{application}/versions")
    assert "changed: " not in again.text
    assert "workflow resize" not in again.text


async def test_an_old_version_is_restored_as_the_newest(api: Api, visitor: httpx.AsyncClient) -> None:
    application, first, second = await _application(api)
    page = await get(visitor, f"/console/applications/{application}/versions/{first}")
    assert f"Restore as version {second + 1}" in page.text
    path = f"/console/applications/{application}/versions/{first}/restore"
    form = {"formToken": page.fields["formToken"]}
    answer = await visitor.post(path, data=form, headers={"Origin": ORIGIN})
    assert answer.status_code == 303
    assert answer.headers["location"].endswith(f"/versions/{second + 1}?against={first}")
    restored = await api.get(f"applications/{application}/manifest")
    assert restored.text.strip() == ONE.strip()
    assert "The texts are the same." in (await get(visitor, answer.headers["location"])).text


@pytest.mark.parametrize("tab", ["revisions", "settings", "versions", ""])
async def test_an_application_without_a_manifest_has_all_its_tabs(
    api: Api, visitor: httpx.AsyncClient, tab: str
) -> None:
    application = await api.application(None)
    page = await get(visitor, f"/console/applications/{application}/{tab}".rstrip("/"))
    assert page.status == 200
    assert f"/console/applications/{application}/versions" in page.links


async def test_the_first_version_is_compared_with_nothing(api: Api, visitor: httpx.AsyncClient) -> None:
    application = await api.application("launch: {steps: []}\n")
    page = await get(visitor, f"/console/applications/{application}/versions/1")
    assert '<select id="against" name="against"><option value="" selected>Nothing</option>' in page.answer.text


def test_a_difference_has_lines_around_it_and_gaps_between() -> None:
    old = "\n".join(str(each) for each in range(40))
    new = old.replace("\n5\n", "\nfive\n").replace("\n30\n", "\n")
    lines = compare(old, new)
    assert lines is not None
    assert [line.text for line in lines if line.sign] == ["5", "five", "30"]
    assert [line.number for line in lines].count(None) == 1
    assert lines[0].text == "2"


def test_texts_that_are_too_long_are_not_compared() -> None:
    assert compare("a\n" * 3_001, "b\n" * 3_000) is None
