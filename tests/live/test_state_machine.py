"""Random lives of random applications of three levels, held against a simple model (`trees.py`).

One service serves all examples; each example makes applications of its own. `LAUNCHBAY_EXAMPLES` says how
many there are.
"""

import asyncio
import os
import threading
import time
from collections.abc import Coroutine, Iterator, Mapping
from operator import not_
from types import MappingProxyType
from typing import Any, TypeVar

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule, run_state_machine_as_test

from tests.support.databases import Databases
from tests.support.eventually import eventually_blocking
from tests.support.families import (
    CHILD_NAMES,
    LEAF_NAMES,
    Node,
    Path,
    Shape,
    component_paths,
    document_of,
    interface,
    launch_changes,
    manifest,
    overlaps,
    paths_below,
)
from tests.support.service import Api, accepted, fresh_name, running_api

EXAMPLES = int(os.environ.get("LAUNCHBAY_EXAMPLES") or 12)
LOAD_EXAMPLES = 300
STEPS = 10
QUIET_S = 6.0
T = TypeVar("T")
SIZES = st.integers(1, 99)
SHAPES = st.lists(st.integers(0, 2), min_size=1, max_size=2).map(tuple)


class Service:
    """A running service in a thread of its own, for tests that are not coroutines."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._loop = asyncio.new_event_loop()
        self._ready = threading.Event()
        self._stop = asyncio.Event()
        self._thread = threading.Thread(target=self._run)
        self.api: Api

    def __enter__(self) -> "Service":
        self._thread.start()
        assert self._ready.wait(30)
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join(30)

    def do(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine in the service's loop and return what it returns."""
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(60)

    def rows(self, statement: str, *given: Any) -> list[tuple[Any, ...]]:
        """Return the rows of a statement."""

        async def ask() -> list[tuple[Any, ...]]:
            async with self.api.database.connection() as connection:
                found = await connection.execute(statement.encode(), given)
                return list(await found.fetchall())

        return self.do(ask())

    def _run(self) -> None:
        self._loop.run_until_complete(self._live())

    async def _live(self) -> None:
        async with running_api(self._url) as self.api:
            self._ready.set()
            await self._stop.wait()


class Families(RuleBasedStateMachine):
    """One family, and an instance that it may share with others."""

    service: Service
    examples = 0
    operations = 0

    def __init__(self) -> None:
        super().__init__()
        type(self).examples += 1
        self.root: Node | None = None
        self.lent: Node | None = None
        self.applications: dict[int, str] = {}  # children by the number of their leaves
        self.versions: list[Shape] = []
        self.former: list[str] = []  # instances that were replaced

    @initialize(shapes=st.lists(SHAPES, min_size=2, max_size=2), want=SIZES, shares=st.booleans())
    def launch(self, shapes: list[Shape], want: int, shares: bool) -> None:
        api = self.service.api
        leaf = self._application(manifest({}))
        self.applications[0] = leaf
        for leaves in (1, 2):
            inner = {name: (leaf, paths_below(0)) for name in LEAF_NAMES[:leaves]}
            self.applications[leaves] = self._application(manifest(inner))
        self.versions = shapes
        self.top = self.service.do(api.application(None, fresh_name("top")))
        for shape in shapes:
            children = {
                name: (self.applications[leaves], paths_below(leaves))
                for name, leaves in zip(CHILD_NAMES, shape, strict=False)
            }
            accepted(self.service.do(api.put_yaml(f"applications/{self.top}/manifest", manifest(children))))
        self._lend(leaf)
        body: dict[str, Any] = {"version": 2, "parameters": {"own.want": want}}
        root = self._fresh(shapes[0])
        root.want = root.size = want
        if shares and shapes[0][0] == 0:
            root.children["a"] = self._lent()
            body["submodules"] = {"a": {"revisionId": self.revision}}
        told = accepted(self.service.do(api.post(f"applications/{self.top}/launch/preview", body)))
        assert told["errors"] == []
        assert {part["path"]: part["change"] for part in told["components"]} == launch_changes(root)
        root.id = self.service.do(api.launch(self.top, **body))
        self.root = root
        self._compare()
        assert set(told["workflows"]) == self._workflows_since(0.0)

    @rule(data=st.data(), by=SIZES)
    def grow(self, data: st.DataObject, by: int) -> None:
        path, node = self._choose(data)
        self._post(f"{interface(path)}.grow", {"by": str(by)})
        node.size = by
        self._compare()

    @rule(data=st.data(), by=SIZES)
    def grow_by_schedule(self, data: st.DataObject, by: int) -> None:
        path, node = self._choose(data)
        self._post(f"{interface(path)}.grow/schedule", {"interval": "20", "parameters": {"by": str(by)}})
        node.size = by
        self._compare()

    @rule(by=SIZES)
    def grow_the_lent_one_by_itself(self, by: int) -> None:
        lent = self._lent()
        accepted(self.service.do(self.service.api.post(f"instances/{lent.id}/own.grow", {"by": str(by)})))
        lent.size = by
        self._compare()

    @rule(data=st.data(), command=st.sampled_from(["crash", "slip"]), word=st.sampled_from(["never", "0"]))
    def crash_or_slip(self, data: st.DataObject, command: str, word: str) -> None:
        path, node = self._choose(data)
        self._post(f"{interface(path)}.{command}", {"word": word})
        if command == "crash":
            node.status = "Failed" if word == "never" else "Running"
        self._compare()

    @rule(by=SIZES)
    def several_at_once(self, by: int) -> None:
        api, root = self.service.api, self._root()

        async def at_once() -> list[int]:
            calls = (api.post(f"instances/{root.id}/own.grow", {"by": str(by)}) for _ in range(3))
            return [answer.status_code for answer in await asyncio.gather(*calls)]

        statuses = self.service.do(at_once())
        assert 200 in statuses
        assert set(statuses) <= {200, 409}
        root.size = by
        self._compare()

    @rule(
        data=st.data(), version=st.integers(0, 1), shares=st.booleans(), wants=st.dictionaries(st.integers(0, 6), SIZES)
    )
    def reconfigure(self, data: st.DataObject, version: int, shares: bool, wants: dict[int, int]) -> None:
        root = self._root()
        shape = self.versions[version]
        after = self._fresh(shape)
        body: dict[str, Any] = {"manifestVersion": version + 2}
        if shares and shape[0] == 0:
            body["submodules"] = {"a": {"revisionId": self.revision}}
            after.children["a"] = self._lent()
        elif shape[0] == 0 and "a" in root.children and root.children["a"].is_shared:
            after.children["a"] = self._lent()
        settable = [(path, node) for path, node in after.walk() if not node.is_shared]
        for number, want in wants.items():
            if number < len(settable):
                settable[number][1].want = want
        body["parameters"] = {f"{interface(path)}.want": node.want for path, node in settable if node.want}
        changes = _reconfigured(root, after)
        told = accepted(self.service.do(self.service.api.post(f"instances/{root.id}/configuration/preview", body)))
        assert told["errors"] == []
        assert sorted((part["path"], part["change"]) for part in told["components"]) == sorted(changes)
        [(begun,)] = self.service.rows("SELECT extract(epoch FROM clock_timestamp())::float8")
        self.former += [node.id for _, node in root.walk() if not node.is_shared and node.id]
        before = {node.id: path for path, node in root.walk() if not node.is_shared}
        after.id = root.id
        assert accepted(self.service.do(self.service.api.put(f"instances/{root.id}/configuration", body))) == {}
        self.root = after
        self._compare()
        ran = self._workflows_since(begun, before)
        assert set(told["workflows"]) == ran

    def teardown(self) -> None:
        if self.root is not None:
            self._destroy()

    def _destroy(self) -> None:
        api, root, lent = self.service.api, self._root(), self._lent()
        instances = [node.id for _, node in root.walk() if not node.is_shared] + self.former
        self._post("destroy", {})
        assert self.service.do(api.settled(root.id))["status"] == "Destroyed"
        for instance in set(instances):
            assert self.service.do(api.settled(instance))["status"] == "Destroyed"
        assert self.service.do(api.settled(lent.id))["status"] == lent.status
        left = self.service.rows(
            "SELECT id, status FROM instances WHERE parent_id = %s AND status <> 'Destroyed'", root.id
        )
        left += self.service.rows("SELECT id FROM schedules WHERE instance_id = ANY(%s)", instances)
        assert left == []
        self._nothing_overlapped([*instances, lent.id])
        accepted(self.service.do(api.delete(f"instances/{root.id}")))
        self.service.do(api.gone(root.id))
        assert self.service.rows("SELECT id FROM instances WHERE id = ANY(%s)", instances) == []
        self._settle_lent()

    def _settle_lent(self) -> None:
        accepted(self.service.do(self.service.api.post(f"instances/{self._lent().id}/destroy", {})))
        assert self.service.do(self.service.api.settled(self._lent().id))["status"] == "Destroyed"

    def _application(self, text: str) -> str:
        name = fresh_name("part")
        self.service.do(self.service.api.application(text, name))
        return name

    def _lend(self, leaf: str) -> None:
        """Launch the instance that others may share, and put it into a catalog."""
        api = self.service.api
        listed = accepted(self.service.do(api.get(f"organizations/{api.organization}/applications")))
        application = next(each["id"] for each in listed if each["name"] == leaf)
        lent = Node(leaf, is_shared=True, id=self.service.do(api.launch(application)))
        assert self.service.do(api.settled(lent.id))["status"] == "Running"
        made = accepted(self.service.do(api.post(f"applications/{application}/revisions", {"name": "r", "version": 2})))
        self.revision, self.lent = made["id"], lent
        catalog = {"configuration.shared-instances": {self.revision: lent.id}}
        body = {"name": fresh_name("catalog"), "typeId": "builtin:shared_instances_catalog", "parameters": catalog}
        service = accepted(self.service.do(api.post(f"organizations/{api.organization}/services", body)))["id"]
        accepted(self.service.do(api.put(f"environments/{api.environment}/services", {"services": [service]})))

    def _fresh(self, shape: Shape) -> Node:
        children = {
            name: Node(self.applications[leaves], {leaf: Node(self.applications[0]) for leaf in LEAF_NAMES[:leaves]})
            for name, leaves in zip(CHILD_NAMES, shape, strict=False)
        }
        return Node(self.top, children)

    def _root(self) -> Node:
        assert self.root is not None
        return self.root

    def _lent(self) -> Node:
        assert self.lent is not None
        return self.lent

    def _choose(self, data: st.DataObject) -> tuple[Path, Node]:
        nodes = list(self._root().walk())
        return nodes[data.draw(st.integers(0, len(nodes) - 1))]

    def _post(self, workflow: str, body: Any) -> None:
        accepted(self.service.do(self.service.api.post(f"instances/{self._root().id}/{workflow}", body)))

    def _compare(self) -> None:
        """Wait until all is quiet and as the model says, and find out the ids of new instances."""
        type(self).operations += 1
        eventually_blocking(self._differences, not_, within_s=QUIET_S)
        self._nothing_overlapped([node.id for _, node in self._root().walk()])

    def _differences(self) -> list[Any]:
        open_nodes = [self._root(), self._lent()]
        different: list[Any] = []
        while open_nodes:
            node = open_nodes.pop()
            document = self.service.do(self.service.api.document(node.id))
            seen = {
                "status": document["status"],
                "returnValues": document["returnValues"],
                "components": sorted(part["name"] for part in document["components"]),
            }
            if seen != document_of(node):
                different.append((seen, document_of(node)))
                continue
            if not node.is_shared and document["version"] != (2 if node is not self._root() else document["version"]):
                different.append(document["version"])
            linked = {part["name"]: part["instanceId"] for part in document["components"] if "instanceId" in part}
            assert linked.keys() == node.children.keys()
            for name, child in node.children.items():
                assert child.id in {"", linked[name]}, "a child that stays keeps its instance"
                child.id = linked[name]
                if not child.is_shared:
                    open_nodes.append(child)
        ids = [node.id for _, node in self._root().walk()]
        busy = self.service.rows("SELECT id, job_id FROM instances WHERE id = ANY(%s) AND job_id IS NOT NULL", ids)
        due = "SELECT id, kind FROM schedules WHERE instance_id = ANY(%s) AND due_at <= now() + interval '1 second'"
        return [*different, *busy, *self.service.rows(due, ids)]

    def _nothing_overlapped(self, instances: list[str]) -> None:
        begin_and_end = "extract(epoch FROM started_at)::float8, extract(epoch FROM finished_at)::float8"
        rows = self.service.rows(
            f"SELECT instance_id, id, {begin_and_end} FROM jobs"
            " WHERE instance_id = ANY(%s) AND finished_at IS NOT NULL",
            list(instances),
        )
        assert overlaps([(row[0], row[1], row[2], row[3]) for row in rows]) == []

    def _workflows_since(self, begun: float, before: Mapping[str, Path] = MappingProxyType({})) -> set[str]:
        """Return which workflows launches, reconfigurations and destroys have run, as a preview names them.

        `before` are the instances that there were then, of which some may be gone.
        """
        found: set[str] = set()
        known = {**before, **{node.id: path for path, node in self._root().walk() if not node.is_shared}}
        for instance, path in self.service.rows(
            "SELECT jobs.instance_id, steps.path FROM jobs JOIN steps ON steps.job_id = jobs.id"
            " WHERE jobs.instance_id = ANY(%s) AND jobs.name IN ('launch', 'reconfigure', 'destroy')"
            " AND extract(epoch FROM jobs.created_at)::float8 >= %s",
            list(known),
            begun,
        ):
            found.add(".".join((*known[instance], path.partition("/")[0])))
        return found


def _reconfigured(before: Node, after: Node) -> list[tuple[str, str]]:
    """Bring `after` to where it is when the reconfiguration has ended, and return what its preview shows."""
    changes: list[tuple[str, str]] = []
    _take_over(before, after, (), changes, has_job=True)
    return changes


def _take_over(before: Node, after: Node, path: Path, changes: list[tuple[str, str]], *, has_job: bool) -> None:
    def named(name: str) -> str:
        return ".".join((*path, name))

    after.id = before.id
    after.size = after.want if after.want != before.want else before.size
    after.status = "Running" if has_job else before.status
    changes.append((named("worker"), "changes" if after.want != before.want else "keeps"))
    if after.children:
        changes.append((named("ear"), "keeps" if before.children else "starts"))
    elif before.children:
        changes.append((named("ear"), "stops"))
    for name, old in before.children.items():
        if name not in after.children or not _stays(old, after.children[name]):
            changes.append((named(name), "stops"))
            if not old.is_shared:
                changes += [(each, "stops") for each in component_paths(old, (*path, name))]
    for name, new in after.children.items():
        old_one = before.children.get(name)
        if old_one is None or not _stays(old_one, new):
            changes.append((named(name), "starts"))
            for below, node in new.walk((*path, name)):
                if not node.is_shared:
                    node.size = node.want
                    changes += [(".".join((*below, each)), "starts") for each in node.components()]
        elif new.is_shared:
            changes.append((named(name), "keeps"))
        else:
            is_changed = _is_changed(old_one, new)
            changes.append((named(name), "changes" if is_changed else "keeps"))
            runs = has_job and (is_changed or old_one.status == "Failed")
            _take_over(old_one, new, (*path, name), changes, has_job=runs)


def _stays(old: Node, new: Node) -> bool:
    return old.is_shared == new.is_shared and (old.is_shared or old.application == new.application)


def _is_changed(old: Node, new: Node) -> bool:
    pairs = zip(old.walk(), new.walk(), strict=True)
    return any(one.want != other.want for (_, one), (_, other) in pairs)


@pytest.fixture(scope="module")
def service(databases: Databases) -> Iterator[Service]:
    url = databases.create()
    with Service(url) as running:
        yield running
    databases.drop(url)


def live(service: Service, examples: int, phases: tuple[Phase, ...]) -> None:
    Families.service = service
    Families.examples = Families.operations = 0
    begun = time.monotonic()
    chosen = settings(
        max_examples=examples,
        stateful_step_count=STEPS,
        deadline=None,
        suppress_health_check=list(HealthCheck),
        print_blob=True,
        database=None,
        phases=phases,
    )
    run_state_machine_as_test(Families, settings=chosen)
    took_s = time.monotonic() - begun
    print(f"\n{Families.examples} examples, {Families.operations} operations in {took_s:.0f} s")


@pytest.mark.slow
@pytest.mark.timeout(200)
def test_random_families_live_as_the_model_says(service: Service) -> None:
    # Shrinking takes minutes; the other test does it.
    live(service, EXAMPLES, (Phase.generate,))


@pytest.mark.load
@pytest.mark.timeout(1800)
def test_many_random_families_live_as_the_model_says(service: Service) -> None:
    live(service, LOAD_EXAMPLES, (Phase.generate, Phase.shrink))
