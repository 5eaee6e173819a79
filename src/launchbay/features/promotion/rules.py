"""The gates that a version passes on its way through environments."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Literal, NamedTuple

from launchbay.model.durations import duration_words
from launchbay.model.instance import InstanceStatus
from launchbay.model.promotion import Stage

GateKind = Literal["version", "instances", "soak", "workflow", "approvals", "rules"]


class Placed(NamedTuple):
    """An instance in an environment, with the version that it has since a time.

    The time is None if no launch or reconfiguration to the version has succeeded. `ran` are the newest runs of
    workflows since then, whether each succeeded.
    """

    status: InstanceStatus
    version: int
    since: datetime | None
    ran: Mapping[str, bool]


class Gate(NamedTuple):
    """One condition of a promotion. A closed one may say when it opens."""

    kind: GateKind
    sentence: str
    is_open: bool
    opens_at: datetime | None = None


def stage_before(stages: Sequence[Stage], environment_id: str) -> tuple[Stage | None, Stage | None]:
    """Return the stage of an environment and the one before, if there are any."""
    for index, each in enumerate(stages):
        if each.environment_id == environment_id:
            return each, stages[index - 1] if index else None
    return None, None


def version_in(placed: Iterable[Placed]) -> int | None:
    """Return the version that all instances have; None without instances, or with several."""
    versions = {each.version for each in placed}
    return versions.pop() if len(versions) == 1 else None


def gates_of(stage: Stage, former: str, version: int, placed: Sequence[Placed], now: datetime) -> list[Gate]:
    """Return the gates in front of a version.

    It comes from the environment with the name `former`. `placed` are the instances there. Approvals aren't among them:
    a change set has them.
    """
    having = [each for each in placed if each.version == version]
    if not having:
        return [Gate("version", f"Version {version} isn't in {former!r}.", is_open=False)]
    gates = [Gate("version", f"Version {version} is in {former!r}.", is_open=True)]
    bad = sorted({each.status for each in having} - {InstanceStatus.RUNNING})
    is_well = not bad and all(each.since is not None for each in having)
    state = f"is {bad[0]}" if bad else "isn't Running with it"
    sentence = f"All instances with it in {former!r} are Running." if is_well else f"An instance in {former!r} {state}."
    gates.append(Gate("instances", sentence, is_open=is_well))
    if stage.soak_s:
        gates.append(_soak(stage, former, version, having, now))
    gates.extend(_workflow(name, former, version, having) for name in stage.workflows)
    return gates


def _iso(moment: datetime) -> str:
    return f"{moment.astimezone(UTC):%Y-%m-%dT%H:%M:%SZ}"


def _soak(stage: Stage, former: str, version: int, having: Sequence[Placed], now: datetime) -> Gate:
    wanted = duration_words(stage.soak_s * 1_000)
    times = [each.since for each in having if each.since is not None]
    if len(times) < len(having):
        return Gate(
            "soak", f"Version {version} must run in {former!r} for {wanted}, and doesn't run yet.", is_open=False
        )
    since = max(times)
    opens_at = since + timedelta(seconds=stage.soak_s)
    if now < opens_at:
        sentence = f"Version {version} must run in {former!r} for {wanted}: until {_iso(opens_at)}."
        return Gate("soak", sentence, is_open=False, opens_at=opens_at)
    return Gate("soak", f"Version {version} has been running in {former!r} since {_iso(since)}.", is_open=True)


def _workflow(name: str, former: str, version: int, having: Sequence[Placed]) -> Gate:
    at = f"in {former!r} with version {version}"
    if not all(name in each.ran for each in having):
        return Gate("workflow", f"The workflow {name!r} must run on each instance {at}, and hasn't yet.", is_open=False)
    if not all(each.ran[name] for each in having):
        return Gate("workflow", f"The last run of the workflow {name!r} {at} failed.", is_open=False)
    return Gate("workflow", f"The workflow {name!r} succeeded {at}.", is_open=True)


def closed(gates: Iterable[Gate]) -> list[Gate]:
    return [each for each in gates if not each.is_open]


def opens_at(gates: Iterable[Gate]) -> datetime | None:
    """Return when all closed gates open by themselves; None if somebody must do something."""
    times = [each.opens_at for each in closed(gates)]
    known = [each for each in times if each is not None]
    return max(known) if known and len(known) == len(times) else None
