"""What type checkers must find in the published client: `test_typing.py` runs them over it. It never runs itself."""

from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from typing import Any, assert_type

from launchbay.client import AsyncClient, Basic, Client, Event, Operations
from launchbay.client.core import Call
from launchbay.client.types import InstanceDocument, InstanceSummary, LaunchAnswer, Named


def at_once(client: Client, application: str) -> None:
    """Methods of the synchronous client return answers."""
    created = client.launch_application(application, instance_name="demo", parameters={"input.size": 2})
    assert_type(created, LaunchAnswer)
    assert_type(client.read_instance(created.id), InstanceDocument)
    assert_type(client.list_applications(application), list[Named])
    assert_type(client.list_application_instances.each(application, limit=100), Iterator[InstanceSummary])
    assert_type(client.read_manifest(application), str)
    assert_type(client.replace_manifest(application, "launch: {}").version, int)
    assert_type(client.watch_instance(created.id), Iterator[Event])
    assert_type(client.wait(created.id, until="Running", timeout_s=60), InstanceDocument)
    assert_type(Operations.read_instance.call(created.id), Call[InstanceDocument])
    assert_type(client.send(Operations.read_instance.call(created.id)), InstanceDocument)
    client.rename_application(application, name="other")


async def awaited(client: AsyncClient, application: str) -> None:
    """Methods of the asynchronous client return what is awaited."""
    coming: Coroutine[Any, Any, LaunchAnswer] = client.launch_application(application)
    created = await coming
    assert_type(created, LaunchAnswer)
    assert_type(await client.read_instance(created.id), InstanceDocument)
    assert_type(await client.list_applications(application), list[Named])
    assert_type(client.list_application_instances.each(application), AsyncIterator[InstanceSummary])
    assert_type(client.watch_instance(created.id), AsyncIterator[Event])
    assert_type(await client.wait(created.id, until={"Running"}), InstanceDocument)
    assert_type(await client.send(Operations.read_instance.call(created.id)), InstanceDocument)
    async for summary in client.list_application_instances.each(application):
        assert_type(summary.status, str)


def made() -> Callable[[], Client]:
    """The constructors take what they say."""
    return lambda: Client("https://launchbay.example.org", Basic("ann@example.org", "secret"), timeout_s=5)
