"""Equal failures of an organization's instances (conformance.md, "Beyond the reference")."""

from typing import Annotated

import msgspec

from launchbay.limits import BULK_INSTANCES, LIST_LIMIT_MAX, PAGE_ROWS_MAX
from launchbay.model.failures import FailureGroup
from launchbay.model.instance import InstanceStatus
from launchbay.store.fleet import FleetRow
from launchbay.usecases import failures
from launchbay.usecases.fleet import InstanceFilter
from launchbay.web.api.fleet import id_values, text_values
from launchbay.web.requests import Request
from launchbay.web.responses import Headers, JSONResponse, Response, next_link, optional_ms, warning_headers
from launchbay.web.routing import Returns, Routes

routes = Routes("Failures", extension=True)

_OF_EACH = 20  # instances of a failure that an answer has by default


def _about(text: str) -> msgspec.Meta:
    return msgspec.Meta(description=text)


class FailureFilter(msgspec.Struct, frozen=True):
    """Whose failures. Lists are separated by commas."""

    workflow: Annotated[str | None, _about("Only instances whose last job was one of these workflows.")] = None
    application: Annotated[str | None, _about("Only instances of applications with these IDs.")] = None
    environment: Annotated[str | None, _about("Only instances in environments with these IDs.")] = None
    owner: Annotated[str | None, _about("Only instances of the user with this ID.")] = None
    instance: Annotated[str | None, _about("Only instances with these IDs.")] = None
    labels: Annotated[str | None, _about("A selector of labels, such as `team=web,tier!=db`.")] = None
    q: Annotated[
        str | None,
        _about("Only instances with each of these words in the name, a label's value or at the start of the ID."),
    ] = None

    def filter(self) -> InstanceFilter:
        """Return what to look for. Raises BadRequest."""
        return InstanceFilter(
            ids=id_values("instance", self.instance),
            workflows=text_values("workflow", self.workflow),
            application_ids=id_values("application", self.application),
            environment_ids=id_values("environment", self.environment),
            owner_id=self.owner,
            labels=self.labels,
            search=self.q,
        )


class FailureQuery(FailureFilter, frozen=True):
    """Paging and filters of a list of failures."""

    limit: (
        Annotated[int, msgspec.Meta(ge=1, le=LIST_LIMIT_MAX, description="Maximum number of items. Default: all.")]
        | None
    ) = None
    after: Annotated[str | None, _about("Where the page begins: from the `Link` of the page before.")] = None
    instances: Annotated[
        int, msgspec.Meta(ge=0, le=PAGE_ROWS_MAX, description="How many instances of each failure the answer has.")
    ] = _OF_EACH


class FailedInstance(msgspec.Struct, kw_only=True):
    """An instance with the failure.

    `workflow`, `jobId` and `number` are those of its last job. `failedAt` is when the failure was, which an earlier one
    may have.
    """

    id: str
    name: str
    status: str
    environmentName: str
    jobId: str | None
    number: int | None
    workflow: str | None
    failedAt: int | None


class Failure(msgspec.Struct, kw_only=True):
    """Equal failures of instances. Times are in milliseconds since the Unix epoch.

    `count` is the number of all its instances; `instances` are the latest ones. `failed` of them are Failed; the others
    run. In `reason`, `…` is in place of names and IDs, and `#` of numbers; `message` is the latest one in full.
    """

    id: str
    count: int
    failed: int
    place: Annotated[str, _about("Where it failed: component and step; empty if unknown.")]
    reason: str
    message: str
    firstAt: int | None
    lastAt: int | None
    instances: list[FailedInstance]


@routes.get(
    "/organizations/{orgId}/failures",
    command="organization failures",
    permission="Read on each instance returned",
    returns=Returns("The failures: those of failed instances first, then the latest.", type=list[Failure]),
)
async def list_failures(request: Request[None, FailureQuery]) -> Response:
    """List the failures of an organization's instances, equal ones together."""
    query = request.query
    groups, is_whole = await failures.list_failures(
        request.ctx, request.path["orgId"], query.filter(), most=BULK_INSTANCES
    )
    page = failures.page_of_failures(groups, query.after, query.limit, comes_later=failures.is_degraded)
    link: Headers = () if page.next_after is None else next_link(request, page.next_after.to_text())
    shown = [_failure(each, query.instances) for each in page.groups]
    return JSONResponse(shown, (*link, *warning_headers([] if is_whole else [_CUT])), is_cut=not is_whole)


_CUT = f"Only the latest {BULK_INSTANCES:,} failed and {BULK_INSTANCES:,} degraded instances are counted. Use a filter."


def _failure(group: FailureGroup[FleetRow], most: int) -> Failure:
    return Failure(
        id=group.id,
        count=group.count,
        failed=sum(row.status == InstanceStatus.FAILED for row in group.items),
        place=group.reason.place,
        reason=group.reason.text,
        message=group.example,
        firstAt=optional_ms(group.first),
        lastAt=optional_ms(group.last),
        instances=[_instance(row) for row in group.items[:most]],
    )


def _instance(row: FleetRow) -> FailedInstance:
    return FailedInstance(
        id=row.id or "",
        name=row.name,
        status=row.status,
        environmentName=row.environment,
        jobId=row.job_id,
        number=row.job_number,
        workflow=row.job_name,
        failedAt=optional_ms(failures.failed_at(row)),
    )
