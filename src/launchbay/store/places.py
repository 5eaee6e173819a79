"""Places in groups of jobs: what a job needs, takes and waits for."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any, NamedTuple

from launchbay.model.places import Place
from launchbay.store.statements import load

_sql = load("places")


class ScopeRow(NamedTuple):
    """Where the jobs of an instance run. Labels and limits are JSON."""

    application_id: str
    application: str
    environment_id: str
    environment: str
    labels: str
    application_limits: str | None
    environment_limits: str | None


class SettingsRow(NamedTuple):
    """The limits of an application and an environment, as JSON; None without any."""

    application_limits: str | None
    environment_limits: str | None


class HolderRow(NamedTuple):
    """A job that has a place in the group `title`, since it started."""

    title: str
    job_id: str
    number: int
    workflow: str
    since: datetime
    instance_id: str
    instance: str
    application_id: str
    environment_id: str


get_scope_of_instance = _sql.row("get_scope_of_instance", ScopeRow)
get_settings = _sql.row("get_settings", SettingsRow)
get_refusal = _sql.value("get_refusal", str)
take_places = _sql.value("take_places", bool)
list_holders = _sql.rows("list_holders", HolderRow)


def refusal_columns(places: Sequence[Place]) -> dict[str, Any]:
    """Return the parameters of `get_refusal` that describe places."""
    return {
        "buckets": [each.bucket for each in places],
        "titles": [each.title for each in places],
        "mosts": [each.most for each in places],
        "whens": [each.when for each in places],
    }


def place_columns(places: Sequence[Place]) -> dict[str, Any]:
    """Return the parameters of `take_places` that describe places."""
    return {
        **refusal_columns(places),
        "settings_of": [each.setting_of for each in places],
        "keys": [each.key for each in places],
    }
