"""Resource paths: how a permission check names what an operation touches (api-decisions, "Resource paths").

A path is a tuple of segments, never one string: a workflow's name may hold a slash, which must not move a boundary.
"""

from dataclasses import dataclass

from launchbay.errors import BadRequest

KINDS = ("applications", "environments", "services", "roles", "users")


@dataclass(frozen=True, slots=True)
class Resource:
    """The path of one object; the first segment is its kind."""

    segments: tuple[str, ...]

    @property
    def kind(self) -> str:
        """The first segment."""
        return self.segments[0]

    def __str__(self) -> str:
        return "/" + "/".join(self.segments)


def application(application_id: str) -> Resource:
    """Return `/applications/{id}`, which stands for the application's manifests and revisions too."""
    return Resource(("applications", application_id))


def instance(application_id: str, instance_id: str) -> Resource:
    """Return `/applications/{id}/instances/{id}`."""
    return Resource(("applications", application_id, "instances", instance_id))


def workflow(application_id: str, instance_id: str, name: str) -> Resource:
    """Return `/applications/{id}/instances/{id}/workflows/{name}`."""
    return Resource(("applications", application_id, "instances", instance_id, "workflows", name))


def environment(environment_id: str) -> Resource:
    """Return `/environments/{id}`."""
    return Resource(("environments", environment_id))


def service(service_id: str) -> Resource:
    """Return `/services/{id}`."""
    return Resource(("services", service_id))


def role(role_id: str) -> Resource:
    """Return `/roles/{id}`."""
    return Resource(("roles", role_id))


def user(user_id: str) -> Resource:
    """Return `/users/{id}`."""
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
    return Resource(segments)
