"""Jobs as the API shows them (`queries/job_views.sql`)."""

from datetime import datetime
from typing import NamedTuple

import msgspec

from launchbay.store.instances import JobRow
from launchbay.store.statements import load


class StepView(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """What the journal has of a step, its times in ms since the Unix epoch.

    `outputs` is JSON text; None with `has_outputs` means that they were left out because all together are too many.
    """

    path: str
    name: str
    status: str
    percent: int
    attempt: int
    error_message: str | None
    started_at_ms: int | None
    finished_at_ms: int | None
    outputs: str | None
    has_outputs: bool


class JobView(NamedTuple):
    """A job in detail. `steps` are the planned ones, `journal` is what became of them and of those inside of them."""

    id: str
    name: str
    status: str
    owner_id: str
    error_message: str | None
    plan: str
    steps: str
    created_at: datetime
    started_at: datetime | None
    finished_at: datetime | None
    parameters: str
    environment_view: str
    journal: str

    def planned(self) -> list[tuple[str, str, str, int]]:
        """Return the planned steps in the manifest's order: path, name, status and percent."""
        return _planned.decode(self.steps)

    def recorded(self) -> list[StepView]:
        """Return what the journal has, in the order in which the steps started."""
        return _recorded.decode(self.journal)


def read_page(text: str) -> list[JobRow]:
    """Return the jobs of a page."""
    return _page.decode(text)


_page = msgspec.json.Decoder(list[JobRow])
_planned = msgspec.json.Decoder(list[tuple[str, str, str, int]])
_recorded = msgspec.json.Decoder(list[StepView])
_sql = load("job_views")
page = _sql.value("page", str)
one = _sql.row("one", JobView)
