"""The identity of a job: for whom, and what it says (decision 0195).

A token names what runs, never what it may do: that is for those who accept it. Conditions belong on IDs, which are
never given twice. The names are for people who read logs.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from launchbay.errors import BadRequest
from launchbay.limits import IDENTITY_AUDIENCE_CHARS, IDENTITY_AUDIENCES
from launchbay.model.job import Origin

AUDIENCE = "audience"
_AUDIENCE = re.compile(rf"[!-~]{{1,{IDENTITY_AUDIENCE_CHARS}}}")  # URLs, ARNs and plain names


def identity_problem(value: object) -> str | None:
    """Return what is wrong with the value of a step's `identity`, or None."""
    if not isinstance(value, dict) or set(value) != {AUDIENCE}:
        return f"expected a map with the key '{AUDIENCE}' alone, such as {{audience: vault}}"
    return audience_problem(value[AUDIENCE])


def audience_problem(audience: object) -> str | None:
    """Return why no token can be for this audience, or None."""
    if isinstance(audience, str) and _AUDIENCE.fullmatch(audience):
        return None
    return f"'{AUDIENCE}' must have 1 to {IDENTITY_AUDIENCE_CHARS} printable ASCII characters without spaces"


def check_audiences(audiences: Sequence[str]) -> list[str]:
    """Return the audiences of an environment, each once. Raises BadRequest."""
    wanted = list(dict.fromkeys(audiences))
    if len(wanted) > IDENTITY_AUDIENCES:
        raise BadRequest(f"An environment has at most {IDENTITY_AUDIENCES} audiences.", code="InvalidAudience")
    for audience in wanted:
        problem = audience_problem(audience)
        if problem is not None:
            raise BadRequest(f"audiences: {problem}, not {audience[:80]!r}.", code="InvalidAudience")
    return wanted


@dataclass(frozen=True, slots=True, kw_only=True)
class JobFacts:
    """What a token says of a step. `origin` None: a person began the job."""

    organization_id: str
    organization: str
    environment_id: str
    environment: str
    application_id: str
    application: str
    manifest_version: int
    revision_id: str | None
    instance_id: str
    instance: str
    job_id: str
    workflow: str
    component: str
    step: str
    actor_id: str
    origin: Origin | None

    @property
    def subject(self) -> str:
        """Return the claim `sub`. Google Cloud takes at most 127 characters."""
        return (
            f"organization:{self.organization_id}:environment:{self.environment_id}:application:{self.application_id}"
        )

    def claims(self) -> dict[str, str]:
        """Return the claims of the job. All are strings, which every receiver can compare."""
        credential = "person" if self.origin is None else self.origin.kind
        claims = {
            "sub": self.subject,
            "organization_id": self.organization_id,
            "organization": self.organization,
            "environment_id": self.environment_id,
            "environment": self.environment,
            "application_id": self.application_id,
            "application": self.application,
            "manifest_version": str(self.manifest_version),
            "instance_id": self.instance_id,
            "instance": self.instance,
            "job_id": self.job_id,
            "workflow": self.workflow,
            "component": self.component,
            "step": self.step,
            "actor_id": self.actor_id,
            "credential": credential,
        }
        if self.revision_id is not None:
            claims["revision_id"] = self.revision_id
        if self.origin is not None and credential in _NAMED_BY_ID:
            claims[f"{credential}_id"] = self.origin.id
        return claims


_NAMED_BY_ID = frozenset({"token", "schedule"})
