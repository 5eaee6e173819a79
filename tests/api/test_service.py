"""The fixture itself: what all other tests of this folder rest on."""

from tests.support.service import UNKNOWN, Api, accepted, refused


async def test_each_administrator_sees_only_the_own_organization(api: Api) -> None:
    outsider, organization, _ = await api.outsider()
    assert [row["id"] for row in accepted(await api.get("organizations"))] == [api.organization]
    assert [row["id"] for row in accepted(await outsider.get("organizations"))] == [organization]


async def test_a_member_has_what_the_role_gives(api: Api) -> None:
    reader = await api.member("Read: [/*]")
    path = f"organizations/{api.organization}/applications"
    accepted(await reader.get(path))
    assert "CreateApplication" in refused(await reader.post(path, {"name": "shop"}), 403, "NotAllowed")


async def test_what_is_not_there_is_404(api: Api) -> None:
    refused(await api.get(f"instances/{UNKNOWN}"), 404, "NotFound")


async def test_a_launch_runs_while_the_engine_works(api: Api) -> None:
    instance = await api.running(None)
    assert (await api.document(instance))["status"] == "Running"
