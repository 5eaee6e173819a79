"""The instance behind a component that stands for one (manifest-language §7 and §8)."""

from dataclasses import dataclass
from enum import StrEnum


class LinkKind(StrEnum):
    """Whose the linked instance is."""

    OWN = "own"  # launched as a submodule, and destroyed with its parent
    SHARED = "shared"  # a running instance from the environment's shared-instances catalog
    SERVICE = "service"  # an instance that is offered as a service in the environment


@dataclass(frozen=True, slots=True)
class Link:
    """Where a component leads."""

    instance_id: str
    kind: LinkKind
