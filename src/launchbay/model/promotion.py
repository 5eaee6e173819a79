"""Orders of environments, and what a version needs to come from one to the next."""

from collections.abc import Iterator, Sequence
from typing import Literal, NamedTuple

import msgspec

from launchbay.errors import BadRequest

STAGES_MOST = 20
SOAK_MOST_S = 365 * 24 * 3_600
WORKFLOWS_MOST = 20
APPROVALS_MOST = 20
OrderOwner = Literal["organization", "application"]


class Stage(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An environment of an order, and what a version needs to come there."""

    environment_id: str
    soak_s: int = 0
    workflows: tuple[str, ...] = ()
    approvals: int = 0
    automatic: bool = False

    @property
    def has_gates(self) -> bool:
        return bool(self.soak_s or self.workflows or self.approvals)


read_stages = msgspec.json.Decoder(tuple[Stage, ...]).decode


class StageProblem(NamedTuple):
    """What is wrong with an order.

    Without the place of a stage it is about all of them, and without a field about the whole stage.
    """

    place: int | None
    field: str
    message: str


def stage_problems(stages: Sequence[Stage]) -> Iterator[StageProblem]:
    """Yield what is wrong with an order. The field `environmentId` is the environment."""
    if len(stages) > STAGES_MOST:
        yield StageProblem(None, "", f"at most {STAGES_MOST} environments; this has {len(stages)}.")
    seen: set[str] = set()
    for index, each in enumerate(stages):
        if each.environment_id in seen:
            yield StageProblem(index, "environmentId", "the environment is in the order already; name it once.")
        seen.add(each.environment_id)
        if index == 0 and (each.has_gates or each.automatic):
            yield StageProblem(index, "", "nothing is promoted to the first environment, so it has no gates.")
        if not 0 <= each.soak_s <= SOAK_MOST_S:
            yield StageProblem(index, "soak", f"from 0 to {SOAK_MOST_S} s.")
        if not 0 <= each.approvals <= APPROVALS_MOST:
            yield StageProblem(index, "approvals", f"from 0 to {APPROVALS_MOST}.")
        if len(each.workflows) > WORKFLOWS_MOST or len(set(each.workflows)) < len(each.workflows):
            yield StageProblem(index, "workflows", f"at most {WORKFLOWS_MOST} names, each once.")
        if any(not name.strip() or len(name) > 200 for name in each.workflows):
            yield StageProblem(index, "workflows", "give names of 1 to 200 characters.")


def check_stages(stages: Sequence[Stage]) -> None:
    """Raise BadRequest for an order that can't be."""
    problems = []
    for place, field, message in stage_problems(stages):
        where = "stages" if place is None else f"stages[{place}]"
        problems.append(f"{where}.{field}: {message}" if field else f"{where}: {message}")
    if problems:
        raise BadRequest(*problems, code="InvalidPromotion")
