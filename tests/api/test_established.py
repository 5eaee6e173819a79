"""The established API, field by field: what `tests/golden/established.yaml` says, and no field more.

A service is brought into every state that has ever added a field, and each endpoint is called there as old clients
call it.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml

from launchbay.web.openapi import document
from launchbay.web.routing import is_id_parameter
from tests.support.eventually import eventually
from tests.support.manifests import EXTENDED, HOURLY
from tests.support.pages import browser, send
from tests.support.served import ENDPOINTS, IS_KERNEL
from tests.support.service import PERSON_PASSWORD, Api, accepted, fresh_name, person

TABLE: dict[str, Any] = yaml.safe_load((Path(__file__).parents[1] / "golden" / "established.yaml").read_text("utf-8"))
JSON_ANSWERS = [name for name, entry in TABLE.items() if entry["answer"] != "page"]
DAY_MS = 86_400_000
HOUR_MS = 3_600_000


@dataclass
class Shape:
    """The fields of each object of a document, by its way from the top."""

    fields: defaultdict[str, set[str]] = field(default_factory=lambda: defaultdict(set))
    required: defaultdict[str, set[str]] = field(default_factory=lambda: defaultdict(set))
    open: set[str] = field(default_factory=set)  # objects with names of users

    def add(self, text: str, *, required: bool) -> None:
        """Add the fields of a line of the table."""
        for name in text.split():
            if name == "{}":
                continue
            path, is_required = name.removesuffix("?"), required and not name.endswith("?")
            if path.endswith("{}"):
                path = path.removesuffix("{}")
                self.open.add(path)
            while path := path.rstrip("[]"):
                parent, _, last = path.rpartition(".")
                self.fields[parent].add(last)
                if is_required:
                    self.required[parent].add(last)
                path = parent

    def differences(self, value: Any, path: str = "") -> Iterator[str]:
        """Yield what a document has too much and too little."""
        if path in self.open:
            return
        if isinstance(value, dict):
            below = f"{path}." if path else ""
            yield from (f"{below}{name} is an addition" for name in sorted(value.keys() - self.fields[path]))
            yield from (f"{below}{name} is missing" for name in sorted(self.required[path] - value.keys()))
            for name, each in value.items():
                yield from self.differences(each, f"{below}{name}")
        elif isinstance(value, list):
            for each in value:
                yield from self.differences(each, f"{path}[]")


def answer(entry: Mapping[str, Any], *, asked: bool = False) -> Shape:
    """Return what an answer has; with `asked`, what a query can bring too."""
    shape = Shape()
    shape.add(entry["answer"], required=True)
    for part in entry.get("added", ()):
        shape.add(part["fields"], required=True)
    if asked:
        shape.add(entry.get("asked", ""), required=False)
    return shape


def request(entry: Mapping[str, Any]) -> Shape:
    """Return what a request has."""
    shape = Shape()
    shape.add(entry.get("request", ""), required=False)
    for part in entry.get("takes", ()):
        shape.add(part["fields"], required=False)
    return shape


def test_the_table_has_every_endpoint_of_the_reference_and_no_other() -> None:
    calls = {row.operation_id: f"{row.method} {row.path}" for row in ENDPOINTS if not row.extension}
    assert {name: entry["call"] for name, entry in TABLE.items()} == calls


def test_every_addition_says_why_it_harms_no_client() -> None:
    for name, entry in TABLE.items():
        for part in (*entry.get("added", ()), *entry.get("takes", ())):
            assert part.keys() == {"fields", "why"}, name
            assert part["why"].endswith("."), name


# What the endpoints declare.

DOCUMENT = document(ENDPOINTS)


def declared(schema: Any, shape: Shape, opened: set[str], path: str = "") -> Iterator[str]:
    """Yield where a schema of the description has other fields than the table."""
    if path in opened:
        return
    if "$ref" in schema:
        schema = DOCUMENT["components"]["schemas"][schema["$ref"].rpartition("/")[2]]
    for each in schema.get("anyOf", ()):
        yield from declared(each, shape, opened, path)
    if "items" in schema:
        yield from declared(schema["items"], shape, opened, f"{path}[]")
    if "properties" in schema:
        names, wanted = set(schema["properties"]), shape.fields[path]
        below = f"{path}." if path else ""
        yield from (f"{below}{name} is an addition" for name in sorted(names - wanted))
        yield from (f"{below}{name} is missing" for name in sorted(wanted - names))
        for name, each in schema["properties"].items():
            yield from declared(each, shape, opened, f"{below}{name}")


def operation(name: str) -> Any:
    method, path = TABLE[name]["call"].split()
    return DOCUMENT["paths"][path][method.lower()]


@pytest.mark.parametrize("name", JSON_ANSWERS)
def test_an_answer_declares_no_other_field(name: str) -> None:
    content = operation(name)["responses"]["200"]["content"]["application/json"]
    shape = answer(TABLE[name], asked=True)
    assert list(declared(content["schema"], shape, shape.open)) == []


@pytest.mark.parametrize("name", [name for name, entry in TABLE.items() if "request" in entry])
def test_a_request_declares_no_other_field(name: str) -> None:
    content = operation(name)["requestBody"]["content"]["application/json"]
    shape = request(TABLE[name])
    assert list(declared(content["schema"], shape, shape.open)) == []


# What they answer.


class World:
    """A service with all that adds something somewhere, and the answers of every endpoint in it."""

    def __init__(self, api: Api) -> None:
        self.api = api
        self.answers: dict[str, list[Any]] = {name: [] for name in TABLE}
        self.asked: dict[str, list[Any]] = {name: [] for name in TABLE}

    def keep(self, name: str, response: httpx.Response) -> Any:
        """Keep the answer to an old client."""
        found = accepted(response)
        self.answers[name].append(found)
        return found

    def keep_asked(self, name: str, response: httpx.Response) -> Any:
        """Keep the answer to a client that asked for more, and check that the header says the same."""
        found = accepted(response)
        self.asked[name].append(found)
        return found

    async def fill(self) -> None:
        await self._people()
        await self._places()
        await self._services()
        await self._instances()

    async def _people(self) -> None:
        api, of = self.api, f"organizations/{self.api.organization}"
        self.keep("list_organizations", await api.get("organizations"))
        text = "- Read: ['/*']\n"
        name = fresh_name("role")
        made = self.keep("create_role", await api.post(f"{of}/roles", {"name": name, "permissions": text, "odd": 1}))
        self.keep("list_roles", await api.get(f"{of}/roles"))
        self.keep("read_role", await api.get(f"roles/{made['id']}"))
        self.keep("update_role", await api.put(f"roles/{made['id']}", {"name": name, "permissions": text, "odd": 1}))
        who = await person(api)
        accepted(await api.post(f"{of}/users", {"email": "invited@example.org", "name": "Invited"}))
        self.keep("list_users", await api.get(f"{of}/users"))
        self.keep("assign_roles", await api.put(f"{of}/users/{who.id}/roles", [name]))
        self.keep("revoke_roles", await api.delete(f"{of}/users/{who.id}/roles", [name]))
        self.keep("delete_role", await api.delete(f"roles/{made['id']}"))
        async with browser(api) as visitor:
            token = (await send(visitor, "/refreshToken", email=who.email, password=PERSON_PASSWORD)).token
            session = await visitor.post("/refreshToken/jwtBearer", json={"refreshToken": token, "odd": 1})
            self.keep("exchange_token", session)

    async def _places(self) -> None:
        """Make an environment with rules that extensions have brought."""
        api, of = self.api, f"organizations/{self.api.organization}"
        self.environment = accepted(await api.post(f"{of}/environments", {"name": fresh_name("environment")}))["id"]
        at = f"environments/{self.environment}"
        accepted(await api.put(f"{at}/labels", {"team": "web"}))
        if not IS_KERNEL:
            accepted(await api.put(f"{at}/lifetime", {"graceMs": HOUR_MS, "greatestMs": DAY_MS, "idleMs": DAY_MS}))
            windows = [{"sleepAt": "20:00", "wakeAt": "07:00", "days": ["MON"], "zone": "Europe/Berlin"}]
            accepted(await api.put(f"{at}/sleep", {"windows": windows}))
        self.keep("replace_policies", await api.put_yaml(at, "policies: {machines.provider: dry-run, a.b: true}"))
        self.keep("replace_markers", await api.put(f"{at}/markers", {"markers": [{"name": "m", "odd": 1}], "odd": 1}))
        self.keep("read_markers", await api.get(f"{at}/markers"))
        properties = [
            {"name": "size", "type": "int", "value": 3},
            {"name": "tags", "type": "map<string,int>", "value": {"a": 1}},
        ]
        self.keep("replace_properties", await api.put(f"{at}/properties", {"properties": properties, "odd": 1}))
        self.keep("read_properties", await api.get(f"{at}/properties"))
        self.keep("clone_environment", await api.post(f"{at}/clone", {"name": fresh_name("clone"), "odd": 1}))
        self.keep("list_environments", await api.get(f"{of}/environments"))

    async def _services(self) -> None:
        api, of = self.api, f"organizations/{self.api.organization}"
        pool = {"name": fresh_name(), "typeId": "builtin:static_resource_pool"}
        given = {**pool, "parameters": {"configuration.resources": ["a", {"id": "b", "size": 1}]}}
        service = accepted(await api.post(f"{of}/services", given))["id"]
        self.keep("read_service", await api.get(f"services/{service}"))
        self.keep("update_service", await api.put(f"services/{service}", {"name": fresh_name()}))
        command = {"arguments": {}, "includeIntermediate": True, "odd": 1}
        self.keep("run_service_command", await api.post(f"services/{service}/list", command))

    async def _instances(self) -> None:
        api, of = self.api, f"organizations/{self.api.organization}"
        body = {"name": fresh_name("app"), "odd": 1}
        application = self.keep("create_application", await api.post(f"{of}/applications", body))["id"]
        at = f"applications/{application}"
        accepted(await api.put(f"{at}/labels", {"team": "web"}))
        self.keep("replace_manifest", await api.put_yaml(f"{at}/manifest", EXTENDED))
        self.keep_asked("replace_manifest", await api.put_yaml(f"{at}/manifest?include=warnings", EXTENDED))
        revision = accepted(await api.post(f"{at}/revisions", {"name": "stable", "version": 3}))["id"]
        self.keep("list_revisions", await api.get(f"{at}/revisions"))
        self.keep("list_applications", await api.get(f"{of}/applications"))
        launch: dict[str, Any] = {"environmentId": self.environment, "revisionId": revision, "submodules": {}}
        launch |= {"labels": {"team": "web"}, "parameters": {"size": "2", "undeclared": "x"}}
        first, second, third, fourth = [
            self.keep("launch_application", await api.post(f"{at}/launch", launch))["id"] for _ in range(4)
        ]
        for each in (first, second, third, fourth):
            await api.settled(each)
        await self._workflows(first)
        await self._schedules(fourth)
        if not IS_KERNEL:  # the grace time is a rule of lifetimes
            await self._destroy_later(fourth, second)
        # Two places: one holds, one waits for people, and one for a place.
        await self._run(first, "hold", {})
        await self._run(second, "ask", {})
        waiting = await self._run(third, "hold", {"undeclared": "x"})
        await self._wait_for_place(third, waiting)
        document = accepted(await api.get(f"instances/{third}"))
        assert "waitingFor" in document
        last_at = accepted(await api.get(f"instances/{fourth}"))["createdAt"]
        for each in (first, second, third, fourth):
            self.keep("read_instance", await api.get(f"instances/{each}"))
            if not IS_KERNEL:  # the past is kept by the history
                self.keep_asked("read_instance", await api.get(f"instances/{each}?at={last_at}"))
        for kind, owner in (("environment", self.environment), ("application", application), ("revision", revision)):
            listed = await api.get(f"{kind}s/{owner}/instances")
            assert len(self.keep(f"list_{kind}_instances", listed)) == 4
        for each in (first, second, third, fourth):
            self.keep("delete_instance", await api.delete(f"instances/{each}?force=1"))

    async def _destroy_later(self, instance: str, other: str) -> None:
        """Destroy two instances with a grace time, which runs `stop`; one as a client that asks for more."""
        api = self.api
        self.keep("run_workflow", await api.post(f"instances/{instance}/destroy", {}))
        query = "include=destroyAt,warnings"
        asked = self.keep_asked("run_workflow", await api.post(f"instances/{other}/destroy?{query}", {}))
        assert "destroyAt" in asked
        for each in (instance, other):
            await api.settled(each)

    async def _run(self, instance: str, workflow: str, body: Any) -> str:
        response = await self.api.post(f"instances/{instance}/{workflow}", body)
        self.keep("run_workflow", response)
        return str(response.headers["Launchbay-Job"])

    async def _wait_for_place(self, instance: str, job: str) -> None:
        await eventually(lambda: self.api.read(f"instances/{instance}/jobs/{job}"), lambda found: found["waitingFor"])

    async def _workflows(self, instance: str) -> None:
        """Run what old clients run, also workflows that are named like operations of today."""
        api, at = self.api, f"instances/{instance}"
        for workflow in ("greet", "rollback", "extend"):
            await self._run(instance, workflow, {"undeclared": "x"})
            await api.settled(instance)
        asked = self.keep_asked("run_workflow", await api.post(f"{at}/greet?include=warnings", {"undeclared": "x"}))
        assert asked["warnings"]
        await api.settled(instance)
        self.keep("put_user_data", await api.put(f"{at}/userData", {"ticket": {"a": [1]}}))
        for query, keep in (("", self.keep), ("?include=warnings", self.keep_asked)):
            body = {"parameters": {"size": "3"}, "submodules": {}, "odd": 1}
            keep("reconfigure_instance", await api.put(f"{at}/configuration{query}", body))
            await api.settled(instance)
        await self._run(instance, "break", {})
        assert (await api.settled(instance))["lastFailure"] is not None

    async def _schedules(self, instance: str) -> None:
        api, at = self.api, f"instances/{instance}"
        for query, keep in (("", self.keep), ("?include=warnings", self.keep_asked)):
            body = {"interval": "3600000", "parameters": {"undeclared": "x"}, "odd": 1}
            schedule = keep("schedule_workflow", await api.post(f"{at}/greet/schedule{query}", body))["id"]
            moved = {"interval": "7200000", "odd": 1}
            keep("reschedule_workflow", await api.post(f"{at}/{schedule}/reschedule{query}", moved))
            self.keep("list_schedules", await api.get(f"{at}/schedules"))
            cancelled = await api.post(f"{at}/{schedule}/reschedule{query}", {"interval": "0", "odd": 1})
            keep("reschedule_workflow", cancelled)
            now = {"interval": "0", "parameters": {"undeclared": "x"}, "odd": 1}
            keep("schedule_workflow", await api.post(f"{at}/greet/schedule{query}", now))
            await api.settled(instance)
        recurring = await api.running(HOURLY)
        accepted(await api.post(f"instances/{recurring}/tick/reschedule", {"interval": "0"}))
        self.keep("list_schedules", await api.get(f"instances/{recurring}/schedules"))
        self.keep("read_instance", await api.get(f"instances/{recurring}"))


@pytest.fixture(scope="module")
async def world(api: Api) -> World:
    """A service in which every endpoint was called."""
    found = World(api)
    await found.fill()
    return found


@pytest.mark.parametrize("name", JSON_ANSWERS)
async def test_an_old_client_gets_the_fields_of_the_reference_and_no_other(world: World, name: str) -> None:
    assert world.answers[name], "it was not called"
    shape = answer(TABLE[name])
    assert [difference for each in world.answers[name] for difference in shape.differences(each)] == []
    if TABLE[name]["answer"].startswith("["):
        assert all(world.answers[name]), "an empty list shows no fields"


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=pytest.mark.features("history") if name == "read_instance" else ())
        for name, entry in TABLE.items()
        if "asked" in entry
    ],
)
async def test_who_asks_gets_what_the_table_says_in_addition(world: World, name: str) -> None:
    assert world.asked[name]
    shape, plain = answer(TABLE[name], asked=True), answer(TABLE[name])
    assert [difference for each in world.asked[name] for difference in shape.differences(each)] == []
    assert all(any(plain.differences(each)) for each in world.asked[name]), "it brings nothing"


async def test_every_state_that_adds_something_was_reached(world: World) -> None:
    seen = {name for each in world.answers["read_instance"] for name in each}
    optional = {"workflow", "waitingFor", "dryRun", "labels"}
    assert optional <= seen
    assert any(each["lastFailure"] for each in world.answers["read_instance"])
    assert any(each.get("warnings") for each in world.answers["launch_application"])


def test_the_comparison_finds_additions_at_every_level() -> None:
    shape = answer(TABLE["read_instance"])
    step = {"name": "x", "status": "Executing", "percentComplete": 1, "extra": 1}
    differences = set(shape.differences({"extra": 1, "workflowHistory": [{"steps": [step]}], "parameters": {"x": 1}}))
    assert {"extra is an addition", "workflowHistory[].steps[].extra is an addition"} <= differences
    assert "workflowHistory[].name is missing" in differences
    assert not any("parameters" in each for each in differences)


# What their paths allow.


def segments(path: str) -> list[str]:
    return path.strip("/").split("/")


def is_free(segment: str) -> bool:
    return segment.startswith("{") and not is_id_parameter(segment[1:-1])


def may_be(one: str, other: str) -> bool:
    """Tell whether two segments of paths match the same value: a parameter matches all, one of an ID only IDs."""
    if one.startswith("{") and other.startswith("{"):
        return True
    literal, parameter = sorted((one, other), key=lambda each: each.startswith("{"))
    return parameter == literal or is_free(parameter)


def intruders(rows: Sequence[tuple[str, str, str]]) -> list[str]:
    """Return the routes that match a value which a free segment of an established path allows.

    `rows` are method, path and name; established ones have a name of the table.
    """
    established = [row for row in rows if row[2] in TABLE and any(map(is_free, segments(row[1])))]
    return [
        f"{name} ({method} {path}) takes values of {known[2]} ({known[0]} {known[1]})"
        for known in established
        for method, path, name in rows
        if name != known[2] and method == known[0] and len(segments(path)) == len(segments(known[1]))
        if all(map(may_be, segments(path), segments(known[1])))
    ]


ROWS = [(row.method, row.path, row.operation_id) for row in ENDPOINTS]


def test_no_route_takes_a_value_that_a_free_segment_of_an_established_path_allows() -> None:
    assert sum(any(map(is_free, segments(path))) for _, path, name in ROWS if name in TABLE) == 4
    assert intruders(ROWS) == []


@pytest.mark.parametrize(
    ("method", "path", "taken"),
    [
        ("POST", "/api/1/instances/{id}/rollback", ["run_workflow"]),
        ("POST", "/api/1/instances/{id}/extend", ["run_workflow"]),
        ("POST", "/api/1/instances/{id}/jobs/schedule", ["schedule_workflow"]),
        ("POST", "/api/1/instances/{id}/{job}/reschedule", ["reschedule_workflow"]),
        ("POST", "/api/1/services/{id}/reveal", ["run_service_command"]),
        ("GET", "/api/1/instances/{id}/rollback", []),
        ("POST", "/api/1/instances/all/rollback", []),
        ("POST", "/api/1/instances/{id}/configuration/rollback", []),
    ],
)
def test_an_intruder_is_found(method: str, path: str, taken: list[str]) -> None:
    found = intruders([*ROWS, (method, path, "intruder")])
    assert [each.split(" takes values of ")[1].split()[0] for each in found] == taken
    assert all(each.startswith(f"intruder ({method} {path})") for each in found)


async def test_every_word_of_a_path_is_a_workflow_if_a_manifest_has_it(api: Api) -> None:
    words = {word for _, path, _ in ROWS for word in segments(path) if not word.startswith("{")} - {"launch", "destroy"}
    called = ("rollback", "extend", "schedule", "reschedule", "jobs", "configuration", "lifetime", "preview")
    commands = "\n".join(f"{word}: {{steps: []}}" for word in sorted({*words, *called}) if word.isidentifier())
    instance = await api.running(f"launch: {{steps: []}}\ndestroy: {{steps: []}}\n{commands}")
    for word in called:
        assert accepted(await api.post(f"instances/{instance}/{word}", {})) == {"id": instance}
        document = await api.settled(instance)
        assert (document["status"], document["workflowHistory"][0]["name"]) == ("Running", word)
        scheduled = accepted(await api.post(f"instances/{instance}/{word}/schedule", {"interval": "3600000"}))
        moved = accepted(await api.post(f"instances/{instance}/{word}/reschedule", {"interval": "7200000"}))
        assert moved == scheduled
