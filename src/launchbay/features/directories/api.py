"""What applying a directory would do."""

from typing import Annotated

import msgspec

from launchbay.features.directories import plans
from launchbay.features.directories.plans import DirectoryPlan, PlannedObject, RuleAnswer
from launchbay.limits import ORGANIZATION_ARCHIVE_BYTES
from launchbay.web.requests import JsonBody, Request
from launchbay.web.routing import Returns, Routes

routes = Routes("Organizations", extension=True)


class DirectoryBody(msgspec.Struct, forbid_unknown_fields=True):
    """The texts of files by their paths in a directory. `prune` deletes other objects."""

    files: dict[str, str]
    prune: bool = False


class DirectoryPreview(msgspec.Struct, kw_only=True):
    """What applying a directory would do, and what rules would say."""

    objects: list[PlannedObject]
    hidden: Annotated[int, msgspec.Meta(description="How many objects the caller may not read.")]
    warnings: list[str]
    rules: Annotated[
        list[RuleAnswer], msgspec.Meta(description="What refuses a change, or warns of it. Empty if all is allowed.")
    ]


_EXAMPLE = {"files": {"applications/shop/manifest.yaml": "launch:\n  steps: []\n"}}


@routes.post(
    "/organizations/{orgId}/directory/preview",
    command="organization preview-directory",
    permission="Read; what its changes need",
    body=JsonBody(example=_EXAMPLE, bytes_max=ORGANIZATION_ARCHIVE_BYTES),
    returns=Returns("What it would do.", type=DirectoryPreview),
    computes=True,  # thousands of files are tried in one transaction
)
async def preview_directory(request: Request[DirectoryBody, None]) -> DirectoryPreview:
    """Show what applying a directory would do, and what rules would refuse."""
    files = {path: text.encode() for path, text in request.body.files.items()}
    plan, shown = await plans.preview_directory(request.ctx, request.path["orgId"], files, prune=request.body.prune)
    return _document(plan, shown)


def _document(plan: DirectoryPlan, shown: list[PlannedObject]) -> DirectoryPreview:
    names = {each.what for each in shown}
    return DirectoryPreview(
        objects=shown,
        hidden=len(plan.entries) - len(shown),
        warnings=plan.warnings,
        rules=[each for each in plan.answers if each.what in names],
    )
