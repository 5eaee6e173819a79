"""For whom steps in an environment may get tokens, and what a token says.

Audiences are a JSON list in a row of the environment.
"""

from typing import NamedTuple

import msgspec

from launchbay.store.statements import load

_sql = load("features.identities")


class FactsRow(NamedTuple):
    """What a token says of a job. `audiences` is JSON, None for none."""

    organization: str
    application_id: str
    application: str
    environment: str
    version: int
    revision_id: str | None
    instance: str
    owner_id: str
    audiences: str | None


def allows(stored: str | None, audience: str) -> bool:
    """Tell whether steps in an environment may get tokens for this audience."""
    return audience in read_audiences(stored)


def read_audiences(stored: str | None) -> list[str]:
    """Return the stored audiences of an environment; no row means no audience."""
    return [] if stored is None else _decode(stored)


_decode = msgspec.json.Decoder(list[str]).decode
get_audiences = _sql.value("get_audiences", str)
set_audiences = _sql.change("set_audiences")
remove_audiences = _sql.change("remove_audiences")
get_facts = _sql.row("get_facts", FactsRow)
