"""The manifest editor: messages of versions, conflicts, and what saving would mean for instances."""

import httpx
import pytest

from tests.support.pages import get
from tests.support.second_factors import post, shown
from tests.support.service import Api, accepted, refused

EMPTY = "launch: {steps: []}\n"
NEEDY = """\
application:
  interfaces: { input: { size: bind(web#input.size) } }
  components:
    web:
      type: workflow.Instance
      interfaces: { input: { size: configuration(int) } }
      configuration: { configuration.workflows: { launch: { steps: [] } } }
"""


@pytest.fixture(scope="module")
def api(working_service: Api) -> Api:
    """The service with an engine, since an impact is one on instances that run."""
    return working_service


async def test_the_message_of_a_version_is_kept_and_listed(api: Api, visitor: httpx.AsyncClient) -> None:
    application = await api.application(EMPTY)
    path = f"/console/applications/{application}"
    page = await get(visitor, f"{path}/manifest")
    sent = {**page.fields, "text": EMPTY + "# more\n", "message": "Says more, password=hidden-in-it"}
    answer = await post(visitor, f"{path}/manifest", **sent)
    assert isinstance(answer, httpx.Response)
    [newest, *older] = accepted(await api.get(f"applications/{application}/manifests"))
    assert newest["message"].startswith("Says more, password=")
    assert "hidden-in-it" not in newest["message"]
    assert [each["message"] for each in older] == [None] * len(older)
    listed = await get(visitor, f"{path}/versions")
    assert "Says more" in listed.text
    assert "hidden-in-it" not in listed.text


async def test_programs_give_a_message_too_and_one_that_is_too_long_is_refused(api: Api) -> None:
    application = await api.application(EMPTY)
    accepted(await api.put_yaml(f"applications/{application}/manifest?message=Pin+PostgreSQL", EMPTY))
    [newest, *_] = accepted(await api.get(f"applications/{application}/manifests"))
    assert newest["message"] == "Pin PostgreSQL"
    long = await api.put_yaml(f"applications/{application}/manifest?message={'x' * 501}", EMPTY)
    assert "more than 500 characters" in refused(long, 400, "InvalidField")


async def test_a_version_that_someone_saved_meanwhile_is_shown_and_not_replaced(
    api: Api, visitor: httpx.AsyncClient
) -> None:
    application = await api.application(EMPTY)
    path = f"/console/applications/{application}/manifest"
    page = await get(visitor, path)
    accepted(await api.put_yaml(f"applications/{application}/manifest", "launch: {steps: []}\n# theirs\n"))
    own = {**page.fields, "text": "launch: {steps: []}\n# mine\n", "message": "Mine"}
    conflict = await shown(visitor, path, **own)
    assert conflict.status == 409
    assert "Someone saved version 3 in the meantime." in conflict.text
    assert "# theirs" in conflict.text
    assert "# mine" in conflict.text
    assert conflict.fields["message"] == "Mine"
    assert len(accepted(await api.get(f"applications/{application}/manifests"))) == 3
    answer = await post(visitor, path, **{**own, **conflict.fields})
    assert isinstance(answer, httpx.Response), "who has seen the difference saves on top of it"
    assert len(accepted(await api.get(f"applications/{application}/manifests"))) == 4


async def test_the_impact_of_a_text_is_counted_before_it_is_saved(api: Api, visitor: httpx.AsyncClient) -> None:
    application = await api.application(EMPTY)
    path = f"/console/applications/{application}/manifest/impact"
    assert "has no instances" in (await shown(visitor, path, text=EMPTY)).text
    instance = await api.launch(application, instanceName="The only one")
    await api.settled(instance)
    assert "Would stay1" in (await shown(visitor, path, text=EMPTY + "# the same\n")).text.replace("\n", "")
    refusing = await shown(visitor, path, text=NEEDY)
    assert "1 refused" in refusing.text
    assert "The only one" in refusing.text
    assert "input.size" in refusing.text
    assert "Fix the errors first." in (await shown(visitor, path, text="launch: [")).text
