"""Every permission there is (conformance.md, "Organizations, roles, permissions")."""

from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property

from launchbay.errors import BadRequest
from launchbay.ids import canonical_id
from launchbay.limits import ROLE_PATTERN_CHARS


class Permission(StrEnum):
    """What a role may allow; the value is the name in a role's text."""

    READ = "Read"
    CREATE_APPLICATION = "CreateApplication"
    EDIT_APPLICATION = "EditApplication"
    DELETE_APPLICATION = "DeleteApplication"
    CREATE_INSTANCE = "CreateInstance"
    EDIT_INSTANCE = "EditInstance"  # running `destroy` needs it too
    DELETE_INSTANCE = "DeleteInstance"
    RUN_INSTANCE_WORKFLOW = "RunInstanceWorkflow"
    SCHEDULE_INSTANCE_WORKFLOW = "ScheduleInstanceWorkflow"
    APPROVE_INSTANCE_WORKFLOW = "ApproveInstanceWorkflow"  # to answer for a step of a workflow that waits for people
    CREATE_ENVIRONMENT = "CreateEnvironment"
    EDIT_ENVIRONMENT = "EditEnvironment"
    DELETE_ENVIRONMENT = "DeleteEnvironment"
    CREATE_SERVICE = "CreateService"
    EDIT_SERVICE = "EditService"
    RUN_SERVICE_COMMAND = "RunServiceCommand"
    MANAGE_ROLES = "ManageRoles"
    MANAGE_USERS = "ManageUsers"
    VIEW_AUDIT = "ViewAudit"
    REVEAL_SECRETS = "RevealSecrets"  # to see masked values of services and instances
    OVERRIDE_FREEZE = "OverrideFreeze"  # to change what is frozen, with a reason
    EDIT_RULES = "EditRules"  # those about changes
    PROVISION_USERS = "ProvisionUsers"  # to say who belongs to the organization and its groups, as an identity provider


ALIASES = {"EnvironmentEdit": Permission.EDIT_ENVIRONMENT}
_BY_NAME = {permission.value: permission for permission in Permission} | ALIASES


def permission_named(name: str) -> Permission | None:
    """Return the permission with this name or alias. Names are case-sensitive."""
    return _BY_NAME.get(name)


class Method(StrEnum):
    """How the caller proved who they are."""

    BASIC = "basic"
    BEARER = "bearer"
    EXCHANGE = "exchange"  # a refresh token, for a session token
    INVITATION = "invitation"  # the link that sets the first password
    OPENID = "openid"  # the OpenID Connect provider
    ACCESS_TOKEN = "accessToken"  # noqa: S105 - the name of a method
    CONSOLE = "console"  # a session of the console
    ENGINE = "engine"  # no caller: a duty of the engine, in the audit log alone


@dataclass(frozen=True, slots=True)
class ActingToken:
    """The access token of a request. `scope` limits what it allows."""

    id: str
    name: str
    organization_id: str
    scope: str | None


@dataclass(frozen=True, slots=True)
class Actor:
    """A caller whose credentials were verified. Email and name are labels; every decision rests on `user_id`.

    `stamp` is the user's `access_stamp` under which the credentials were verified, or None where they do not depend on
    the password. The lookup compares it with the stored one in the query that it makes anyway, so a verification kept
    in memory ends with the very next request after a change, without a query of its own. The same query sees when the
    refresh token was revoked from which the session token was made. Agents call over MCP.
    """

    user_id: str
    email: str
    name: str
    address: str
    method: Method
    stamp: int | None = None
    refresh_token_id: str | None = None
    token: ActingToken | None = None
    is_agent: bool = False

    @property
    def token_id(self) -> str | None:
        """The ID of the access token, or None for who acts without one."""
        return None if self.token is None else self.token.id


def on_behalf(user_id: str) -> Actor:
    """Return who asked for something earlier, for a decision of the engine.

    Audit entries name them otherwise.
    """
    return Actor(user_id, "", "", "", Method.ENGINE)


# Resource paths: how a permission check names what an operation touches (conformance.md, "Resource paths").
#
# A path is a tuple of segments, never one string: a workflow's name may hold a slash, which must not move a boundary.

KINDS = ("applications", "environments", "services", "roles", "users")

# Stands for the IDs of all objects of a kind, those of others to come too: a pattern covers it only if it covers every
# ID. A new ID doesn't, since a pattern such as `/users/6*` may cover that one and not those of before.
EVERY = "*"


@dataclass(frozen=True, slots=True)
class Resource:
    """The path of one object; the first segment is its kind."""

    segments: tuple[str, ...]

    @property
    def kind(self) -> str:
        return self.segments[0]

    def __str__(self) -> str:
        return "/" + "/".join(self.segments)


def application(application_id: str) -> Resource:
    """Return `/applications/{id}`, which stands for the application's manifests and revisions too."""
    return Resource(("applications", application_id))


def instance(application_id: str, instance_id: str) -> Resource:
    return Resource(("applications", application_id, "instances", instance_id))


def workflow(application_id: str, instance_id: str, name: str) -> Resource:
    return Resource(("applications", application_id, "instances", instance_id, "workflows", name))


def environment(environment_id: str) -> Resource:
    return Resource(("environments", environment_id))


def service(service_id: str) -> Resource:
    return Resource(("services", service_id))


def role(role_id: str) -> Resource:
    return Resource(("roles", role_id))


def user(user_id: str) -> Resource:
    return Resource(("users", user_id))


def parse_resource(text: str) -> Resource:
    """Return the resource that a path in text form names; a workflow's name is the whole rest, slashes included.

    Raises BadRequest for a text that is the path of no kind of object.
    """
    segments = tuple(text.split("/", 6)[1:]) if text.startswith("/") else ()
    inner = segments[2:5:2]
    known = len(segments) in {2, 4, 6} and segments[0] in KINDS and all(segments)
    if not known or inner != ("instances", "workflows")[: len(inner)] or (inner and segments[0] != "applications"):
        raise BadRequest(
            f"{text[:200]!r} is not a resource path.",
            "A path is /applications/{id}, optionally followed by /instances/{id} and /workflows/{name}, "
            "or /environments/{id}, /services/{id}, /roles/{id}, /users/{id}.",
        )
    return Resource(tuple(each if at == 5 else canonical_id(each) for at, each in enumerate(segments)))


@dataclass(frozen=True)
class Pattern:
    """One pattern, compared case-sensitively but for IDs. Make it with `parse_pattern`."""

    text: str

    @cached_property
    def segments(self) -> tuple[str, ...]:
        return tuple(self.text.split("/")[1:])

    @cached_property
    def covers_below(self) -> bool:
        return self.segments[-1].strip("*") == ""

    def concerns(self, kind: str) -> bool:
        return segment_matches(self.segments[0], kind)

    def covers(self, resource: Resource) -> bool:
        """Tell whether the resource is one of those that the pattern describes."""
        mine, theirs = self.segments, resource.segments
        if self.covers_below:
            # At least one segment has to be there for the last `*`; the ones before it are compared one by one.
            return len(theirs) >= len(mine) and all(map(segment_matches, mine[:-1], theirs))
        return len(theirs) == len(mine) and all(map(segment_matches, mine, theirs))

    def includes(self, other: "Pattern") -> bool:
        """Whether this pattern covers all that the other one covers.

        Matching its text is enough: each `*` of the other one falls to a `*` here, which stands for anything.
        """
        mine, theirs = self.segments, other.segments
        if self.covers_below:
            return len(theirs) >= len(mine) and all(map(segment_matches, mine[:-1], theirs))
        return not other.covers_below and len(theirs) == len(mine) and all(map(segment_matches, mine, theirs))


def parse_pattern(text: str) -> Pattern:
    """Return the pattern; `*` alone is `/*`, everything, as roles of older clients have it.

    Raises ValueError when it is too long, does not start with `/` or has an empty segment.
    """
    if text == "*":
        return Pattern("/*")
    if len(text) > ROLE_PATTERN_CHARS:
        raise ValueError(
            f"a resource path pattern has at most {ROLE_PATTERN_CHARS} characters, this one has {len(text)}"
        )
    if not text.startswith("/"):
        raise ValueError(f"the resource path pattern {text!r} must start with '/', such as /applications/*")
    if "" in text.split("/")[1:]:
        raise ValueError(f"the resource path pattern {text!r} has an empty segment; write /applications/*, for example")
    return Pattern(_with_canonical_ids(text))


def _with_canonical_ids(path: str) -> str:
    """Return a path with IDs in lower case, but for workflows."""
    segments = path.split("/")
    return "/".join(
        each if before == "workflows" else canonical_id(each)
        for before, each in zip(["", *segments], segments, strict=False)
    )


def segment_matches(pattern: str, segment: str) -> bool:
    """Match one segment; every `*` stands for any number of characters.

    The pieces between the stars are found from left to right, so that no pattern takes more than linear passes:
    a regular expression made from a pattern would backtrack without a bound.
    """
    if "*" not in pattern:
        return pattern == segment
    first, *middle, last = pattern.split("*")
    if len(segment) < len(first) + len(last) or not segment.startswith(first) or not segment.endswith(last):
        return False
    position, end = len(first), len(segment) - len(last)
    for piece in middle:
        found = segment.find(piece, position, end)
        if found < 0:
            return False
        position = found + len(piece)
    return True
