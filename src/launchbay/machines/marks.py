"""What a machine carries from the moment it is made, so that it is found again without a record. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Self

from launchbay.machines.contract import Errand

PREFIX = "launchbay."
INSTALLATION = f"{PREFIX}installation"
ORGANIZATION = f"{PREFIX}organization"
INSTANCE = f"{PREFIX}instance"
TAG = f"{PREFIX}tag"
_VALUE_CHARS = 255  # that a tag of EC2 may have


@dataclass(frozen=True, slots=True, kw_only=True)
class Marks:
    """Whose machine it is.

    `installation` tells machines of one installation from those of another that works in the same account. `tag` is the
    errand's, and `number` the machine's place among all of its instance.
    """

    installation: str
    organization: str
    environment: str
    instance: str
    component: str
    role: str
    number: int
    tag: str

    @classmethod
    def of(cls, installation: str, errand: Errand, role: str, number: int) -> Self:
        """Return the marks of a machine that is about to be made."""
        return cls(
            installation=installation,
            organization=errand.organization_id,
            environment=errand.environment_id,
            instance=errand.instance_id,
            component=_cut(errand.component),
            role=_cut(role),
            number=number,
            tag=errand.tag,
        )

    @classmethod
    def read(cls, written: Mapping[str, str]) -> Self | None:
        """Return the marks among a machine's tags, None where it has none of ours or they were changed."""
        values = {name: written.get(f"{PREFIX}{name}") for name in cls.__slots__}
        number = values.pop("number") or ""
        texts = {name: value for name, value in values.items() if value is not None}
        if len(texts) < len(values) or not (number.isascii() and number.isdigit()):
            return None
        return cls(**texts, number=int(number))

    def written(self) -> dict[str, str]:
        """Return the tags."""
        return {f"{PREFIX}{name}": str(getattr(self, name)) for name in self.__slots__}


def _cut(text: str) -> str:
    return text[:_VALUE_CHARS]
