"""The files of a directory have each setting that an object has, with the same default, or it would be lost."""

from dataclasses import fields
from typing import Any

import msgspec
import pytest

from launchbay.features.bulk.usecases import Act
from launchbay.features.directories.contents import Bulk, GitSource, Previews, Select
from launchbay.features.git_sources.usecases import GitSettings, PreviewSettings
from launchbay.usecases.fleet import InstanceFilter

# Names instead of IDs, and a duration as the API calls it.
RENAMED = {
    "environment_id": "environment",
    "environment_ids": "environments",
    "application_ids": "applications",
    "owner_id": "owner",
    "expires_in_ms": "expires_in",
    "is_degraded": "degraded",
    "is_drifted": "drifted",
    "is_observed": "observed",
    "has_changed_secrets": "secrets_changed",
}


def defaults(kind: Any) -> dict[str, object]:
    if issubclass(kind, msgspec.Struct):
        found: list[Any] = list(msgspec.structs.fields(kind))
        without = msgspec.NODEFAULT
        return {each.name: each.default_factory if each.default is without else each.default for each in found}
    return {each.name: each.default for each in fields(kind)}


@pytest.mark.parametrize(
    ("file", "stored", "only_in_file", "only_stored"),
    [
        (GitSource, GitSettings, {"account", "application", "paused"}, set()),
        (Previews, PreviewSettings, set(), set()),
        # Versions are numbers of one organization: `export` names schedules that have one.
        (Bulk, Act, {"select", "max_parallel", "stop_after_failures"}, {"version", "declared_only"}),
        (Select, InstanceFilter, {"all"}, {"ids", "version", "id_chars", "job_outcomes", "name_prefix"}),
    ],
)
def test_a_file_has_all_settings(file: type, stored: type, only_in_file: set[str], only_stored: set[str]) -> None:
    in_file, in_store = defaults(file), {RENAMED.get(name, name): each for name, each in defaults(stored).items()}
    assert in_file.keys() - in_store.keys() == only_in_file
    assert in_store.keys() - in_file.keys() == only_stored
    both = in_file.keys() & in_store.keys() - {"previews"}
    assert {name: in_file[name] for name in both} == {name: in_store[name] for name in both}
