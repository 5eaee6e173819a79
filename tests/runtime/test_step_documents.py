"""Documents that steps keep beyond their job: what they tell of goes with the instance, once and in any case."""

from contextlib import suppress
from dataclasses import replace

from launchbay.actions.contract import Document, SupportsTeardown
from launchbay.model.instance import InstanceStatus
from launchbay.planning.plans import plan_destroy
from launchbay.runtime.contract import DocumentKey
from tests.support.kept_documents import KEEPING, InMemory, Keep, WorldOf
from tests.support.runtime import SUCCEEDED, Crashed, Disk, Instance, instance


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
