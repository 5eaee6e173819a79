"""Events of forges are verified and read; statuses of commits are asked for in the form of each forge."""

import hashlib
import hmac
from datetime import UTC, datetime
from typing import Any

import pytest

from launchbay.features.directories.contents import ForgeName
from launchbay.features.git_sources.forge import (
    ForgeRequest,
    PullRequest,
    Push,
    default_api,
    is_open_pull_request,
    is_signed,
    pull_request_request,
    read_event,
    status_request,
)

SECRET, BODY = "a secret of the forge", b'{"ref": "refs/heads/main"}'
DIGEST = hmac.new(SECRET.encode(), BODY, hashlib.sha256).hexdigest()


@pytest.mark.parametrize(
    ("forge", "headers"),
    [
        ("github", {"x-hub-signature-256": f"sha256={DIGEST}"}),
        ("gitea", {"x-gitea-signature": DIGEST}),
        ("gitlab", {"x-gitlab-token": SECRET}),
    ],
)
def test_an_event_needs_the_signature_of_the_secret(forge: ForgeName, headers: dict[str, str]) -> None:
    assert is_signed(forge, SECRET, headers, BODY)
    assert not is_signed(forge, "another secret", headers, BODY)
    assert not is_signed(forge, "", dict.fromkeys(headers, ""), BODY)
    assert not is_signed(forge, SECRET, {}, BODY)
    assert not is_signed(forge, SECRET, {name: value[:-1] + "é" for name, value in headers.items()}, BODY)
    assert is_signed(forge, SECRET, headers, BODY + b" ") == (forge == "gitlab")


SIGNING_TOKEN = "whsec_YSBrZXkgb2YgdHdlbnR5LWZvdXIgYnl0ZQ=="
# What the library standardwebhooks 1.1.0 makes of the token, this ID and time, and BODY.
SIGNED = {
    "webhook-id": "evt-1",
    "webhook-timestamp": "1714816800",
    "webhook-signature": "v1,o/jWAAEQ7V4XYZ7bkf2T+tM2aXWEqyy4Xf7EVKcd2wo=",
}


def test_a_signing_token_of_gitlab_signs_id_time_and_body() -> None:
    signature = SIGNED["webhook-signature"]
    assert is_signed("gitlab", SIGNING_TOKEN, SIGNED, BODY)
    assert is_signed("gitlab", SIGNING_TOKEN.rstrip("="), SIGNED, BODY)
    assert is_signed("gitlab", SIGNING_TOKEN, {**SIGNED, "x-gitlab-token": "the secret token beside it"}, BODY)
    assert is_signed("gitlab", SIGNING_TOKEN, {**SIGNED, "webhook-signature": f"v1,b2xk v1a,bmV3 {signature}"}, BODY)
    assert not is_signed("gitlab", SIGNING_TOKEN, SIGNED, BODY + b" ")
    for changed in (
        {"webhook-id": "evt-2"},
        {"webhook-timestamp": "1714816801"},
        {"webhook-signature": signature.replace("v1,", "v2,")},
        {"webhook-signature": ""},
        {"webhook-signature": "v1,é"},
    ):
        assert not is_signed("gitlab", SIGNING_TOKEN, {**SIGNED, **changed}, BODY)
    assert not is_signed("gitlab", SIGNING_TOKEN, {"webhook-id": "evt-1"}, BODY)
    assert not is_signed("gitlab", "whsec_", SIGNED, BODY)
    assert not is_signed("gitlab", "whsec_?", SIGNED, BODY)
    assert not is_signed("gitlab", "another token", SIGNED, BODY)
    assert not is_signed("github", SIGNING_TOKEN, SIGNED, BODY)


def test_a_secret_token_that_looks_like_a_signing_token_is_still_one() -> None:
    assert is_signed("gitlab", SIGNING_TOKEN, {"x-gitlab-token": SIGNING_TOKEN}, BODY)


def github(**more: Any) -> dict[str, Any]:
    found = {
        "state": "open",
        "updated_at": "2026-05-04T10:00:00Z",
        "head": {"ref": "feature", "sha": "a" * 40, "repo": {"full_name": "team/shop"}},
        "base": {"ref": "main", "repo": {"full_name": "team/shop"}},
        **more,
    }
    return {"action": "opened", "number": 7, "pull_request": found}


def gitlab(**more: Any) -> dict[str, Any]:
    found = {
        "iid": 7,
        "state": "opened",
        "source_branch": "feature",
        "target_branch": "main",
        "source_project_id": 1,
        "target_project_id": 1,
        "last_commit": {"id": "a" * 40},
        "updated_at": "2026-05-04 10:00:00 UTC",
        **more,
    }
    return {"object_kind": "merge_request", "object_attributes": found}


def test_the_same_event_of_each_forge_is_the_same() -> None:
    expected = PullRequest(
        number=7,
        branch="feature",
        target="main",
        commit="a" * 40,
        is_open=True,
        is_foreign=False,
        changed_at=datetime(2026, 5, 4, 10, tzinfo=UTC),
    )
    assert read_event("github", {"x-github-event": "pull_request"}, github()) == expected
    assert read_event("gitea", {"x-gitea-event": "pull_request"}, github()) == expected
    assert read_event("gitlab", {"x-gitlab-event": "Merge Request Hook"}, gitlab()) == expected
    for document in (github(state="closed"), github(head={**github()["pull_request"]["head"], "repo": None})):
        found = read_event("github", {"x-github-event": "pull_request"}, document)
        assert isinstance(found, PullRequest)
        assert (found.is_open, found.is_foreign) in {(False, False), (True, True)}
    for state, source, outcome in (("merged", 1, (False, False)), ("opened", 2, (True, True))):
        document = gitlab(state=state, source_project_id=source)
        found = read_event("gitlab", {"x-gitlab-event": "Merge Request Hook"}, document)
        assert isinstance(found, PullRequest)
        assert (found.is_open, found.is_foreign) == outcome


def test_pushes_of_branches_count_and_other_events_do_not() -> None:
    push = {"ref": "refs/heads/a/b", "after": "a" * 40}
    assert read_event("github", {"x-github-event": "push"}, push) == Push("a/b")
    assert read_event("gitlab", {"x-gitlab-event": "Push Hook"}, push) == Push("a/b")
    assert read_event("gitea", {"x-gitea-event": "push"}, {**push, "after": "0" * 40}) is None
    assert read_event("github", {"x-github-event": "push"}, {**push, "ref": "refs/tags/v1"}) is None
    assert read_event("github", {"x-github-event": "ping"}, {}) is None


@pytest.mark.parametrize("document", [None, [], {}, {"number": "x"}, github(updated_at="soon"), github(base=None)])
def test_an_event_of_a_wrong_form_is_refused(document: Any) -> None:
    with pytest.raises(ValueError, match=r"\S"):
        read_event("github", {"x-github-event": "pull_request"}, document)


def test_a_status_is_asked_for_in_the_form_of_the_forge() -> None:
    def request(forge: ForgeName, host: str) -> ForgeRequest:
        api, link = default_api(forge, host), "https://bay.example.org"
        return status_request(forge, api, "team/shop.git", "token", "a" * 40, "failure", "x" * 200, link)

    assert default_api("github", "github.com") == "https://api.github.com"
    github = request("github", "git.example.org")
    assert github.url == f"https://git.example.org/api/v3/repos/team/shop/statuses/{'a' * 40}"
    assert (github.body["state"], len(github.body["description"])) == ("failure", 140)
    gitlab = request("gitlab", "git.example.org")
    assert gitlab.url == f"https://git.example.org/api/v4/projects/team%2Fshop/statuses/{'a' * 40}"
    assert (gitlab.body["state"], gitlab.headers) == ("failed", {"private-token": "token"})
    gitea = request("gitea", "git.example.org")
    assert (gitea.url, gitea.headers["authorization"]) == (
        f"https://git.example.org/api/v1/repos/team/shop/statuses/{'a' * 40}",
        "token token",
    )


def test_a_pull_request_is_asked_for_in_the_form_of_each_forge() -> None:
    def url(forge: ForgeName) -> str:
        return pull_request_request(forge, "https://git.example.org/api", "team/shop.git", "token", 7).url

    assert url("gitlab") == "https://git.example.org/api/projects/team%2Fshop/merge_requests/7"
    assert url("github") == url("gitea") == "https://git.example.org/api/repos/team/shop/pulls/7"
    assert [is_open_pull_request({"state": state}) for state in ("open", "opened", "closed", "merged")] == [
        *(True, True, False, False)
    ]
    assert not is_open_pull_request([])
