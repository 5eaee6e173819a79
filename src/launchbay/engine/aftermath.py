"""What follows from a change of an instance's signals: triggered workflows, schedules of its own, news for others."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal

import msgspec

from launchbay.manifest.graph import CompiledManifest
from launchbay.model.instance import Link, LinkKind
from launchbay.model.job import JobKind
from launchbay.model.schedule import next_due
from launchbay.runtime.secrets import Secrets
from launchbay.runtime.signals import Fed, due_triggers, feed_for
from launchbay.runtime.state import InstanceState


@dataclass(frozen=True, slots=True)
class Pending:
    """A workflow of a component that is to run by itself: at once (`due_at` None), or at a time."""

    kind: Literal["trigger", "cron"]
    component: str
    workflow: str
    due_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class Aftermath:
    """What the end of a job brings about, beside the new state. `gone` are components whose schedules end."""

    pending: tuple[Pending, ...] = ()
    gone: tuple[str, ...] = ()
    signals_changed: bool = False
    feeds: Mapping[str, str] = field(default_factory=dict)  # instance of a submodule → what it gets, a JSON text

    def columns(self) -> dict[str, Any]:
        """Return the parameters of the statement that ends a job."""
        return {
            "has_follow_up": bool(self.pending or self.signals_changed or self.feeds),
            "next_kinds": [each.kind for each in self.pending],
            "next_components": [each.component for each in self.pending],
            "next_workflows": [each.workflow for each in self.pending],
            "next_times": [each.due_at for each in self.pending],
            "signals_changed": self.signals_changed,
            "fed_ids": list(self.feeds),
            "fed_signals": list(self.feeds.values()),
        }


NOTHING_FOLLOWS = Aftermath()


@dataclass(frozen=True, slots=True, kw_only=True)
class Moment:
    """An instance at the end of a job, or after a look at the signals of others."""

    manifest: CompiledManifest
    state: InstanceState
    fed: Fed = field(default_factory=dict)
    links: Mapping[str, Link] = field(default_factory=dict)
    values_before: Mapping[str, Any]
    values_now: Mapping[str, Any]
    secrets: Secrets = field(default_factory=Secrets)


def aftermath(moment: Moment, now: datetime, kind: JobKind | None = None, *, failed: bool = False) -> Aftermath:
    """Return what follows from a job of this kind; None is a look without a job."""
    pending = [
        Pending("trigger", component, workflow)
        for component, workflow in due_triggers(moment.manifest, moment.state, moment.fed)
    ]
    pending += _schedules(moment.manifest, _starting(moment, kind, failed=failed), now)
    gone = tuple(moment.state.retired)
    return Aftermath(tuple(pending), gone, moment.values_before != moment.values_now, _feeds(moment))


def _starting(moment: Moment, kind: JobKind | None, *, failed: bool) -> Collection[str]:
    """Return the components whose own schedules start (language §5): all with the instance's life, then new members."""
    launched = [path for path in moment.manifest.order if moment.state.is_launched(path)]
    if kind == "reconfigure" or (kind == "launch" and not failed):
        return launched
    if kind in {"command", "trigger"}:
        return [path for path in launched if not moment.state.was_launched(path)]
    return ()


def _feeds(moment: Moment) -> dict[str, str]:
    feeds: dict[str, str] = {}
    for path, link in moment.links.items():
        if link.kind is LinkKind.OWN and path in moment.manifest.components:
            component = moment.manifest.components[path]
            needs = feed_for(moment.manifest, moment.state, moment.fed, component)
            if needs:
                feeds[link.instance_id] = msgspec.json.encode(moment.secrets.sealed(needs)).decode()
    return feeds


def _schedules(manifest: CompiledManifest, components: Collection[str], now: datetime) -> list[Pending]:
    """Return the next due times of the own schedules of these components."""
    found: list[Pending] = []
    for path in components:
        for workflow, cron in manifest.components[path].schedule.items():
            due_at = next_due(cron, now)
            if due_at is not None:
                found.append(Pending("cron", path, workflow, due_at))
    return found
