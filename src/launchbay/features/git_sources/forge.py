"""Forges: their signed events, and the statuses that they show at commits.

The forms are those of GitHub, GitLab and Gitea (which Forgejo has too).
"""

import base64
import hashlib
import hmac
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Literal
from urllib.parse import quote

from launchbay.features.directories.contents import ForgeName

Outcome = Literal["pending", "success", "failure", "error"]
_CONTEXT = "launchbay"
_SIGNED_BY = "whsec_"  # what signing tokens of GitLab begin with; the rest is the key in base64
_DESCRIPTION_CHARS = 140  # GitHub's limit
_FORMS = ("%Y-%m-%dT%H:%M:%S%z", "%Y-%m-%dT%H:%M:%S.%f%z", "%Y-%m-%d %H:%M:%S %Z", "%Y-%m-%d %H:%M:%S %z")


@dataclass(frozen=True, slots=True)
class Push:
    """A branch has another commit."""

    branch: str


@dataclass(frozen=True, slots=True)
class PullRequest:
    """A pull request was opened, got another commit, or was closed.

    `is_foreign` says that its commits are in another repository, so strangers may have made them.
    """

    number: int
    branch: str
    target: str
    commit: str
    is_open: bool
    is_foreign: bool
    changed_at: datetime


Event = Push | PullRequest


@dataclass(frozen=True, slots=True)
class ForgeRequest:
    """A request to the API of a forge."""

    url: str
    headers: Mapping[str, str]
    body: Mapping[str, str] = field(default_factory=dict)


def is_signed(forge: ForgeName, secret: str, headers: Mapping[str, str], body: bytes) -> bool:
    """Return whether an event has the signature of a secret, compared in constant time.

    With a signing token, GitLab signs as Standard Webhooks says. With a secret token, it sends the token itself. A
    request may have both. Header names are lower-case.
    """
    if forge == "gitlab" and secret.startswith(_SIGNED_BY) and "webhook-signature" in headers:
        return _has_standard_signature(secret.removeprefix(_SIGNED_BY), headers, body)
    if forge == "gitlab":
        expected, given = secret, headers.get("x-gitlab-token", "")
    else:
        expected = hmac.new(secret.encode(), body, hashlib.sha256).hexdigest()
        name = "x-hub-signature-256" if forge == "github" else "x-gitea-signature"
        given = headers.get(name, "").removeprefix("sha256=")
    return bool(secret) and _is_same(expected, given)


def _has_standard_signature(key: str, headers: Mapping[str, str], body: bytes) -> bool:
    """Check one of the signatures `v1,BASE64`: while a token is replaced, there are two."""
    try:
        raw_key = base64.b64decode(key + "=" * (-len(key) % 4), validate=True)
    except ValueError:
        return False
    signed = f"{headers.get('webhook-id', '')}.{headers.get('webhook-timestamp', '')}.".encode() + body
    expected = "v1," + base64.b64encode(hmac.new(raw_key, signed, hashlib.sha256).digest()).decode()
    # All are compared, so that the time doesn't say which one is right.
    found = [_is_same(expected, given) for given in headers["webhook-signature"].split()]
    return bool(raw_key) and any(found)


def _is_same(expected: str, given: str) -> bool:
    return hmac.compare_digest(expected.encode(), given.encode("utf-8", "replace"))


def read_event(forge: ForgeName, headers: Mapping[str, str], document: Any) -> Event | None:
    """Return an event, or None for one of no interest.

    Raises ValueError for a wrong form.
    """
    try:
        if forge == "gitlab":
            return _gitlab_event(headers.get("x-gitlab-event", ""), document)
        return _github_event(headers.get(f"x-{forge}-event", ""), document)
    except KeyError as error:
        raise ValueError(f"the event lacks {error}") from error
    except (TypeError, AttributeError) as error:
        raise ValueError("the event doesn't have the form that the forge documents") from error


def _github_event(kind: str, document: Any) -> Event | None:
    if kind == "push":
        return _push(document)
    if kind != "pull_request":
        return None
    found = document["pull_request"]
    head, base = found["head"], found["base"]
    source, target = head.get("repo") or {}, base["repo"]
    return PullRequest(
        number=int(document["number"]),
        branch=str(head["ref"]),
        target=str(base["ref"]),
        commit=str(head["sha"]),
        is_open=found["state"] == "open",
        is_foreign=source.get("full_name") != target["full_name"],
        changed_at=_time(found["updated_at"]),
    )


def _gitlab_event(kind: str, document: Any) -> Event | None:
    if kind == "Push Hook":
        return _push(document)
    if kind != "Merge Request Hook":
        return None
    found = document["object_attributes"]
    return PullRequest(
        number=int(found["iid"]),
        branch=str(found["source_branch"]),
        target=str(found["target_branch"]),
        commit=str(found["last_commit"]["id"]),
        is_open=found["state"] == "opened",
        is_foreign=found["source_project_id"] != found["target_project_id"],
        changed_at=_time(found["updated_at"]),
    )


def _push(document: Any) -> Push | None:
    ref = str(document["ref"])
    is_deleted = set(str(document.get("after", ""))) == {"0"}
    return None if is_deleted or not ref.startswith("refs/heads/") else Push(ref.removeprefix("refs/heads/"))


def _time(text: Any) -> datetime:
    for form in _FORMS:
        try:
            found = datetime.strptime(str(text), form)  # noqa: DTZ007 - all forms have a zone
        except ValueError:
            continue
        return found if found.tzinfo is not None else found.replace(tzinfo=UTC)
    raise ValueError(f"{str(text)[:40]!r} is no time")


def default_api(forge: ForgeName, host: str) -> str:
    """Return where the API of a forge is, without a slash at the end."""
    if forge == "github":
        return "https://api.github.com" if host == "github.com" else f"https://{host}/api/v3"
    return f"https://{host}/api/{'v4' if forge == 'gitlab' else 'v1'}"


def status_request(
    forge: ForgeName, api: str, repository: str, token: str, commit: str, outcome: Outcome, text: str, link: str | None
) -> ForgeRequest:
    """Return the request for a commit's status; `repository` is a path at the forge."""
    path = repository.removesuffix(".git")
    linked = {} if link is None else {"target_url": link}
    description = text if len(text) <= _DESCRIPTION_CHARS else text[: _DESCRIPTION_CHARS - 1] + "…"
    if forge == "gitlab":
        state = "failed" if outcome in ("failure", "error") else outcome
        return ForgeRequest(
            f"{api}/projects/{quote(path, safe='')}/statuses/{commit}",
            _authorization(forge, token),
            {"state": state, "name": _CONTEXT, "description": description, **linked},
        )
    return ForgeRequest(
        f"{api}/repos/{quote(path)}/statuses/{commit}",
        _authorization(forge, token),
        {"state": outcome, "context": _CONTEXT, "description": description, **linked},
    )


def pull_request_request(forge: ForgeName, api: str, repository: str, token: str, number: int) -> ForgeRequest:
    """Return the request for a pull request; `repository` is a path at the forge."""
    path = repository.removesuffix(".git")
    if forge == "gitlab":
        url = f"{api}/projects/{quote(path, safe='')}/merge_requests/{number}"
    else:
        url = f"{api}/repos/{quote(path)}/pulls/{number}"
    return ForgeRequest(url, _authorization(forge, token))


def is_open_pull_request(document: Any) -> bool:
    """Return whether a forge's answer says that a pull request is open."""
    return isinstance(document, dict) and document.get("state") in ("open", "opened")


def _authorization(forge: ForgeName, token: str) -> dict[str, str]:
    if forge == "gitlab":
        return {"private-token": token}
    return {"authorization": f"{'Bearer' if forge == 'github' else 'token'} {token}", "accept": "application/json"}
