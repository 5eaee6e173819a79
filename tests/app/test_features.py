"""What features register is composed once, and the kernel works without any of them."""

import pytest

from launchbay.app.features import ENDPOINTS, FEATURES
from launchbay.feature import Feature, Features
from launchbay.runtime.contract import NullNotifier
from launchbay.web.endpoints import IN_ORDER
from launchbay.web.requests import Request
from launchbay.web.routing import Endpoint, Routes
from tests.support.databases import Databases
from tests.support.service import accepted, running_api

APP = """
launch: {steps: [pause: {action: wait, parameters: {delay: 0 s}}]}
tell: {steps: [say: {action: notify, parameters: {webhook: true, subject: up}}]}
destroy: {steps: []}
"""


def routes_at(*paths: str) -> Routes:
    routes = Routes("Kites", prefix="")
    for path in paths:

        @routes.get(path, public=True)
        async def fly(_: Request[None, None]) -> None:
            """Fly."""

    return routes


def paths(rows: tuple[Endpoint, ...]) -> list[str]:
    return [row.path for row in rows]


def test_endpoints_stand_where_the_order_names_their_feature_and_others_come_last() -> None:
    placed, new = (Feature(name=name, routes=(routes_at(f"/{name}"),)) for name in ("kites", "new"))
    rows = Features((new, placed)).endpoints((routes_at("/a"), "kites", routes_at("/b"), "gone"))
    assert paths(rows) == ["/a", "/kites", "/b", "/new"]


def test_each_feature_with_endpoints_has_its_place_in_the_order() -> None:
    assert {each for each in IN_ORDER if isinstance(each, str)} == {each.name for each in FEATURES.all if each.routes}


@pytest.mark.parametrize(
    "twice",
    [
        (Feature(name="kites"), Feature(name="kites")),
        (Feature(name="a", routes=(routes_at("/k"),)), Feature(name="b", routes=(routes_at("/k"),))),
        tuple(Feature(name=name, notifier=lambda _: NullNotifier()) for name in "ab"),
        tuple(Feature(name=name, locks=FEATURES.locks({})) for name in "ab"),
        tuple(Feature(name=name, pages=(FEATURES.pages(),)) for name in "ab"),
        tuple(Feature(name=name, ports=FEATURES.ports()) for name in "ab"),
    ],
    ids=["name", "endpoint", "notifier", "lock", "page", "port"],
)
def test_what_only_one_may_have_is_refused_to_two(twice: tuple[Feature, ...]) -> None:
    with pytest.raises(ValueError, match="two declare the"):
        Features(twice)


async def test_a_server_without_features_launches_and_destroys(databases: Databases) -> None:
    url = databases.create()
    async with running_api(url, features=Features(())) as api:
        instance = await api.launch(await api.application(APP))
        launched = await api.settled(instance)
        assert (launched["status"], launched["errorMessage"]) == ("Running", None)
        told = (await api.run(instance, "tell"))["errorMessage"]
        assert "No enabled webhook of the organization subscribes" in told, "nobody hears it, and the step says so"
        accepted(await api.post(f"instances/{instance}/destroy"))
        assert (await api.settled(instance))["status"] == "Destroyed"
        of_features = {row.operation_id for row in ENDPOINTS} & {"create_rollout", "create_bulk"}
        assert len(of_features) == 2
        for path in (f"organizations/{api.organization}/rollouts", f"organizations/{api.organization}/bulk"):
            assert (await api.get(path)).status_code == 404
        assert {task.name for task in api.parts.engine.periodic_tasks} >= {"retention", "cleaner"}
    databases.drop(url)
