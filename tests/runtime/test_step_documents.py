"""Documents that steps keep beyond their job: what they tell of goes with the instance, once and in any case."""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any

from launchbay.actions.contract import Action, ActionCall, ActionParameter, Document, SupportsTeardown
from launchbay.errors import ActionFailed
from launchbay.model.instance import InstanceStatus
from launchbay.planning.plans import plan_destroy
from launchbay.runtime.contract import DocumentKey, JobRun
from tests.support.runtime import SUCCEEDED, Crashed, Disk, Instance, World, instance, workflows

KEEPING = workflows(
    """
    launch:
      steps:
        - one: {action: keep, parameters: {name: one}}
        - two: {action: keep, parameters: {name: two}}
    """
)


@dataclass
class InMemory:
    """Implements `KeptDocuments`; a crash does not take it away."""

    documents: dict[DocumentKey, Document] = field(default_factory=dict)
    is_away: bool = False

    async def list_by_instance(self, job: JobRun) -> Sequence[DocumentKey]:
        if self.is_away:
            raise ActionFailed("The documents cannot be read.")
        return sorted(self.documents)

    async def read(self, job: JobRun, key: DocumentKey) -> Document | None:
        return self.documents.get(key)

    async def write(self, job: JobRun, key: DocumentKey, document: Document) -> int:
        self.documents[key] = Document(document.data, document.version + 1)
        return document.version + 1

    async def delete(self, job: JobRun, key: DocumentKey) -> None:
        self.documents.pop(key, None)


@dataclass
class Keep:
    """Keeps a document; what it has taken down is told in `gone`."""

    name: str = "keep"
    aliases: tuple[str, ...] = ()
    pure: bool = False
    parameters: Mapping[str, ActionParameter] = field(default_factory=dict)
    outputs: Mapping[str, str] = field(default_factory=dict)
    gone: list[str] = field(default_factory=list)
    refuses: set[str] = field(default_factory=set)

    async def run(self, call: ActionCall) -> Mapping[str, Any]:
        await call.context.documents.write(call.parameters["name"], b"made", 0)
        return {}

    async def teardown(self, call: ActionCall, name: str) -> None:
        if name in self.refuses:
            raise ActionFailed("It is in use.")
        call.context.log("info", f"{name} goes")
        await call.context.sleep(0)
        self.gone.append(name)
        await call.context.documents.delete(name)


class WorldOf(World):
    """A world with one action more."""

    def __init__(self, action: Action) -> None:
        super().__init__()
        self._action = action

    def actions(self) -> list[Action]:
        return [*super().actions(), self._action]


def keeping(text: str = KEEPING) -> tuple[Instance, Keep, InMemory]:
    keep, kept = Keep(), InMemory()
    assert isinstance(keep, SupportsTeardown)
    live = instance(text, WorldOf(keep))
    live.surroundings = replace(live.surroundings, documents=kept)
    return live, keep, kept


async def test_the_end_of_an_instance_takes_down_what_its_documents_tell_of() -> None:
    live, keep, kept = keeping()
    assert await live.launch() == SUCCEEDED
    assert [key.name for key in sorted(kept.documents)] == ["one", "two"]

    assert await live.destroy() == SUCCEEDED

    assert keep.gone == ["one", "two"]
    assert kept.documents == {}
    assert "one goes" in live.disk.texts("info")


async def test_what_cannot_be_taken_down_is_named_and_the_rest_goes() -> None:
    live, keep, kept = keeping()
    await live.launch()
    keep.refuses.add("one")

    error = await live.destroy()

    assert error is not None
    assert "Can't destroy 'one' of keep in component 'workflow': It is in use." in error
    assert keep.gone == ["two"]
    keep.refuses.clear()
    assert await live.destroy() == SUCCEEDED
    assert kept.documents == {}


async def test_an_action_that_is_not_installed_any_more_is_told() -> None:
    live, _, kept = keeping()
    await live.launch()
    kept.documents[DocumentKey("workflow", "vanished", "x")] = Document(b"", 1)

    error = await live.destroy()

    assert error is not None
    assert "The action 'vanished' is no longer installed." in error


async def test_documents_that_cannot_be_read_do_not_pass_for_none() -> None:
    live, _, kept = keeping()
    await live.launch()
    kept.is_away = True

    error = await live.destroy()

    assert error is not None
    assert "The documents cannot be read." in error


async def test_the_document_of_a_component_that_is_gone_is_taken_down_too() -> None:
    live, keep, kept = keeping()
    kept.documents[DocumentKey("former.part", "keep", "x")] = Document(b"", 1)

    assert await live.destroy() == SUCCEEDED

    assert keep.gone == ["x"]


async def test_a_crash_at_any_write_of_the_end_takes_everything_down_and_records_it_once() -> None:
    for cut_after in range(12):
        live, keep, kept = keeping()
        await live.launch()
        disk = Disk()
        plan = plan_destroy(InstanceStatus.RUNNING)
        with suppress(Crashed):
            await live.run(plan, disk=disk, cut_after=cut_after)

        assert await live.run(plan, disk=disk) == SUCCEEDED

        assert set(keep.gone) == {"one", "two"}, cut_after
        assert kept.documents == {}
