"""An action whose document outlives its job, in memory."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from launchbay.actions.contract import Action, ActionCall, ActionParameter, Document
from launchbay.errors import ActionFailed
from launchbay.runtime.contract import DocumentKey, JobRun
from tests.support.runtime import World, workflows

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
