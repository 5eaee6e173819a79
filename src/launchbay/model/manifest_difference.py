"""What two manifests differ in, and which components a version would change."""

from typing import Any

import msgspec

from launchbay.model.code_change import CodeChange


class NameChanges(msgspec.Struct, frozen=True):
    """What is added, removed and changed among things with a name."""

    added: list[str] = []
    removed: list[str] = []
    changed: list[str] = []

    def __bool__(self) -> bool:
        return bool(self.added or self.removed or self.changed)


class DefaultChange(msgspec.Struct, frozen=True, rename={"from_": "from"}):
    """The default of a configuration pin that isn't the same.

    It is `added`, `removed` or `changed`. Without one it is null, which is also a default.
    """

    component: str
    pin: str
    from_: Any
    to: Any
    change: str = "changed"


class ManifestDifference(msgspec.Struct, frozen=True):
    """All that two manifests differ in, apart from how they are written.

    `parameters`, `results`, `commands` and `needs` are those of the application; a parameter changes also if it need
    no longer be given. `checks` says that instances are checked at other times. `kind` says that one is a component
    manifest and the other a workflow manifest. `defaults` and `code` are about components that both have; values that
    instances give themselves aren't in a manifest.
    """

    components: NameChanges
    parameters: NameChanges
    results: NameChanges
    commands: NameChanges
    needs: NameChanges
    concurrency: bool
    checks: bool
    kind: bool
    defaults: list[DefaultChange]
    code: list[CodeChange]

    def __bool__(self) -> bool:
        return self != NO_DIFFERENCE


_NONE = NameChanges()
NO_DIFFERENCE = ManifestDifference(
    _NONE, _NONE, _NONE, _NONE, _NONE, concurrency=False, checks=False, kind=False, defaults=[], code=[]
)


class ComponentChange(msgspec.Struct, frozen=True):
    """A component that is `added`, `removed` or `changed` by another version.

    `workflows` are those that differ. `other` says that something else does: its pins, their defaults, its bindings.
    """

    path: str
    change: str
    workflows: list[str] = []
    other: bool = False
