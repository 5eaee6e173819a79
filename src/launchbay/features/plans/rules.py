"""What a plan says of all its steps. Pure."""

import hashlib
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from fnmatch import fnmatchcase

import msgspec

from launchbay.model.effect import Effect
from launchbay.model.job import outer_paths
from launchbay.model.price import Cost, sum_of

KINDS = ("delete", "create", "change", "run", "unknown")


class PlannedStep(msgspec.Struct, frozen=True, kw_only=True):
    """What one step would do.

    `instance` leads through the submodules, and is empty for the instance itself. With `held`, the step does exactly
    this once it is approved, or stops; `digest` is that of what it needs for that.
    """

    path: str
    component: str
    action: str
    effects: list[Effect]
    instance: str = ""
    warnings: list[str] = []
    digest: str = ""
    held: bool = False

    @property
    def is_open(self) -> bool:
        """Whether the plan doesn't know what the step does."""
        return any(each.kind == "unknown" for each in self.effects)


read_steps = msgspec.json.Decoder(list[PlannedStep]).decode


def count_effects(steps: Iterable[PlannedStep]) -> dict[str, int]:
    """Return the number of effects of each kind, deletions first."""
    found = Counter(effect.kind for step in steps for effect in step.effects)
    return {kind: found[kind] for kind in KINDS}  # type: ignore[index] # a Counter of literals


def deletions(steps: Iterable[PlannedStep]) -> list[str]:
    """Return the addresses of what is deleted, each once."""
    return list(dict.fromkeys(each.address for step in steps for each in step.effects if each.kind == "delete"))


def cost_of(steps: Iterable[PlannedStep]) -> Cost:
    """Return what the machines cost that a plan makes."""
    return sum_of(each.price for step in steps for each in step.effects if each.price is not None)


def not_allowed(addresses: Iterable[str], patterns: Sequence[str]) -> list[str]:
    """Return the addresses that no pattern allows; `*` stands for any text."""
    # What brackets mean in patterns would be in the way: addresses have indexes.
    plain = [pattern.replace("[", "[[]") for pattern in patterns]
    return [each for each in addresses if not any(fnmatchcase(each, pattern) for pattern in plain)]


def digest_of(steps: Sequence[PlannedStep]) -> str:
    """Return the digest of a plan, which covers the artifacts of its steps."""
    return hashlib.sha256(msgspec.json.encode(steps)).hexdigest()


def digest_of_shown(plans: Mapping[int, str]) -> str:
    """Return the digest of plans that somebody sees.

    `plans` are what is shown of each, by place.
    """
    return hashlib.sha256(msgspec.json.encode(sorted(plans.items()))).hexdigest()


def leaves_open(steps: Iterable[PlannedStep], path: str) -> bool:
    """Return whether a plan leaves open what the instance itself runs there."""
    around = {path, *outer_paths(path)}
    return any(step.is_open and not step.instance and step.path in around for step in steps)
