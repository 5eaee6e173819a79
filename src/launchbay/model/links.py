"""What stands behind a component that stands for something outside of its instance (manifest-language §7 and §8)."""

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

import msgspec


class LinkKind(StrEnum):
    """What the component leads to, and whose it is."""

    OWN = "own"  # an instance, launched as a submodule, and destroyed with its parent
    SHARED = "shared"  # a running instance from the environment's shared-instances catalog
    SERVICE = "service"  # an instance that is offered as a service in the environment
    SERVICE_INSTANCE = "service-instance"  # a service of the environment, of some service type; no instance


class BoundService(msgspec.Struct, frozen=True):
    """A service as an instance sees it: as it was at launch or at the last reconfiguration (language §8).

    `secrets` are sealed; `signals` are what its type publishes of it, by `interface.pin`.
    """

    name: str
    type_id: str
    parameters: dict[str, Any] = {}
    secrets: dict[str, bytes] = {}
    signals: dict[str, Any] = {}


class Binding(msgspec.Struct, frozen=True):
    """How a component is connected to a service: its pins, each with the service's name for it."""

    pins: dict[str, str] = {}
    service: BoundService | None = None  # of links of the kind SERVICE_INSTANCE


@dataclass(frozen=True, slots=True)
class Link:
    """Where a component leads. Two links are equal when they lead to the same thing."""

    instance_id: str  # of an instance, or of a service
    kind: LinkKind
    binding: Binding = field(default=Binding(), compare=False)

    @property
    def is_instance(self) -> bool:
        """Tell whether an instance stands there."""
        return self.kind is not LinkKind.SERVICE_INSTANCE

    def key(self, pin: str) -> str | None:
        """Return the other side's name for a pin `interface.pin` of the component, None where it has none."""
        is_service = self.kind in {LinkKind.SERVICE, LinkKind.SERVICE_INSTANCE}
        return self.binding.pins.get(pin) if is_service else pin

    def is_same(self, other: "Link | None") -> bool:
        """Tell whether the other link is equal and connected in the same way."""
        return other is not None and self == other and self.binding == other.binding

    def binding_text(self) -> str | None:
        """Return the stored form of the binding, None for an empty one."""
        return None if self.binding == Binding() else msgspec.json.encode(self.binding).decode()


def read_link(instance_id: str, kind: str, binding: str | None) -> Link:
    """Return a link from its stored form."""
    return Link(instance_id, LinkKind(kind), Binding() if binding is None else _decoder.decode(binding))


_decoder = msgspec.json.Decoder(Binding)
