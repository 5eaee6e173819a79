"""Names instead of IDs: what is not an ID is looked up.

A name wins over the beginning of an ID, so a new instance called `cafe` never changes what a longer beginning means.
"""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from itertools import islice, pairwise
from typing import TypeVar

import click

from launchbay.cli.lazy import unknown_name
from launchbay.cli.output import Ambiguous, ObjectNotFound
from launchbay.client import Client, NotAllowed, NotFound
from launchbay.client.types import FleetInstance, FleetJob
from launchbay.ids import is_id
from launchbay.limits import PAGE_ROWS_MAX

T = TypeVar("T")
LAST = "last"
PREFIX_CHARS = 4  # of an ID, at least: fewer are more likely to be a mistyped name
LISTED: Mapping[str, str] = {  # objects of an organization, and the operation that lists the newest first
    "bulk run": "list_bulks",
    "change set": "list_change_sets",
    "git source": "list_git_sources",
    "recurring schedule": "list_recurring_schedules",
    "rollout": "list_rollouts",
}
_NUMBER = re.compile(r"#?([0-9]{1,3})|#([0-9]+)")  # without #, more digits begin an ID
_PREFIX = re.compile(rf"[0-9a-f]{{{PREFIX_CHARS},23}}")
_SUGGESTED = 500  # newest instances that an unknown name is compared with
_CANDIDATES = 5  # shown of several objects that an ambiguous name may mean


class Names:
    """Finds ids by name.

    Methods raise ObjectNotFound if no object has the name, and Ambiguous if several have it or begin with the text.
    They raise UsageError if the user has to choose an organization first.
    """

    def __init__(self, client: Client, organization: str) -> None:
        self._client = client
        self._wanted = organization
        self._organization = ""

    def organization(self) -> str:
        """Return the id of the chosen organization, or of the only one."""
        if not self._organization:
            self._organization = self._wanted if is_id(self._wanted) else self._find_organization()
        return self._organization

    def application(self, text: str) -> str:
        return _one("application", text, lambda: self._client.list_applications(self.organization()))

    def environment(self, text: str) -> str:
        return _one("environment", text, lambda: self._client.list_environments(self.organization()))

    def known(self, kind: str) -> Mapping[str, str]:
        """Return the names of applications, environments or users by their IDs."""
        if kind == "user":
            return {each.id: each.email for each in self._client.list_users(self.organization())}
        if kind == "application":
            return {each.id: each.name for each in self._client.list_applications(self.organization())}
        return {each.id: each.name for each in self._client.list_environments(self.organization())}

    def role(self, text: str) -> str:
        return _one("role", text, lambda: self._client.list_roles(self.organization()))

    def service(self, text: str) -> str:
        return _one("service", text, lambda: self._client.list_services(self.organization()))

    def zone(self, text: str) -> str:
        return _one("zone", text, lambda: self._client.list_zones(self.organization()))

    def user(self, text: str) -> str:
        """Return the id of a user, by email address or name."""
        if is_id(text):
            return text
        users = self._client.list_users(self.organization())
        pairs = [(user.email, user.id) for user in users]
        named = [(user.name, user.id) for user in users]
        address = text.lower() if text.isascii() else text
        if any(email == address for email, _ in pairs):
            return _chosen("user", address, pairs)
        if not any(text == name for name, _ in named):
            # Perhaps somebody who has not accepted the invitation yet. Only who manages users sees them.
            with suppress(NotAllowed):
                invited = self._client.list_pending_users(self.organization())
                pairs += [(text if user.email == address else user.email, user.id) for user in invited]
        return _chosen("user", text, [*named, *pairs])

    def path(self, text: str) -> str:
        """Return the path of an object, such as `/applications/shop/instances/shop-1`, with IDs for names."""
        parts = text.split("/")
        for place, (kind, name) in enumerate(pairwise(parts), 1):
            if place % 2 == 0 and kind in _IN_PATHS and name != "*":
                parts[place] = getattr(self, kind.removesuffix("s"))(name)
        return "/".join(parts)

    def invitation(self, text: str) -> str:
        """Return the id of an invitation, by the name of its organization."""
        if is_id(text):
            return text
        return _chosen(
            "invitation", text, [(each.organization_name, each.id) for each in self._client.list_invitations()]
        )

    def token(self, text: str) -> str:
        """Return the id of a refresh token, by its label."""
        if is_id(text):
            return text
        return _chosen("token", text, [(each.label, each.id) for each in self._client.list_tokens()])

    def webhook(self, text: str) -> str:
        """Return the id of a webhook, by its URL."""
        if is_id(text):
            return text
        pairs = [(each.url, each.id) for each in self._client.list_webhooks(self.organization())]
        if not is_prefix(text) and not any(text == url for url, _ in pairs):
            # Lists show only hosts, so what looks similar may be any webhook.
            raise ObjectNotFound(f"Unknown webhook '{text}'. Use the ID: launchbay webhook list")
        return _chosen("webhook", text, pairs)

    def approval(self, text: str) -> str:
        """Return the ID of an approval, by its beginning."""
        if is_id(text):
            return text
        listing = self._client.list_approvals.each
        pairs = [("", each.id) for each in listing(self.organization())]
        if not any(number.startswith(text) for _, number in pairs):
            pairs = [("", each.id) for each in islice(listing(self.organization(), status="decided"), _SUGGESTED)]
        return _chosen("approval", text, pairs)

    def listed(self, kind: str, text: str) -> str:
        """Return the ID of an object of LISTED, by name or beginning."""
        if is_id(text):
            return text
        found = islice(getattr(self._client, LISTED[kind]).each(self.organization()), _SUGGESTED)
        return _chosen(kind, text, [(getattr(each, "name", ""), each.id) for each in found])

    def revision(self, text: str, *, application_id: str | None = None) -> str:
        """Return the ID of a revision, by `APPLICATION/REVISION` or by its name."""
        if is_id(text):
            return text
        application, slash, name = text.rpartition("/")
        if slash:
            application_id = self.application(application)
        if application_id is None:
            raise ObjectNotFound(f"Unknown revision '{text}'. Use APPLICATION/REVISION, or the revision's ID.")
        return _one("revision", name, lambda: self._client.list_revisions(application_id))

    def instance(self, text: str) -> str:
        """Return the ID of an instance. Destroyed instances count only if no other has the name."""
        if is_id(text):
            return text
        found = list(self._listed(name=text))
        alive = [each for each in found if each.status != "Destroyed"] or found
        if len(alive) > 1:
            raise _several("instance", text, [(each.id, _about_instance(each)) for each in alive])
        if alive:
            return alive[0].id
        if is_prefix(text):
            begins = [each for each in self._listed(q=text) if each.id.startswith(text)]
            if len(begins) == 1:
                return begins[0].id
            if begins:
                raise _ambiguous("instance", text, [(each.id, _about_instance(each)) for each in begins])
        known = [each.name for each in islice(self.instances(), _SUGGESTED)]
        message = unknown_name(f"instance '{text}'", text, list(dict.fromkeys(known)))
        raise ObjectNotFound(message if "?" in message else f"{message} List them: launchbay ps --all")

    def instances(self) -> Iterable[FleetInstance]:
        """Return all instances of the organization, the newest first."""
        return self._listed()

    def _listed(self, *, name: str | None = None, q: str | None = None) -> Iterable[FleetInstance]:
        listing = self._client.list_organization_instances
        return listing.each(self.organization(), name=name, q=q, sort="-created", limit=PAGE_ROWS_MAX)

    def job(self, text: str, instance: str) -> str:
        """Return the ID of a job of an instance.

        It is named by its ID or its beginning, its number, or `last`.
        """
        if is_id(text):
            return text
        if text == LAST:
            for newest in self._client.list_jobs(instance, limit=1):
                return newest.id
        number = _NUMBER.fullmatch(text)
        found = self._jobs(text, number, instance)
        if len(found) > 1:
            raise _ambiguous("job", text, [(each.id, _about_job(each)) for each in found])
        if found:
            return found[0].id
        raise ObjectNotFound(
            f"Unknown job '{text}'. Use its ID, its number such as #3, or {LAST} for the newest job of the instance."
        )

    def any_job(self, text: str) -> tuple[str, str]:
        """Return instance and job: by `INSTANCE#NUMBER`, an ID or its beginning."""
        instance, sharp, number = text.rpartition("#")
        if sharp and instance:
            instance_id = self.instance(instance)
            return instance_id, self.job(number if number == LAST else f"#{number}", instance_id)
        if is_id(text):
            return self._client.find_job(text).instance_id, text
        found = self._jobs(text, None, None)
        if len(found) > 1:
            raise _ambiguous("job", text, [(each.id, _about_job(each)) for each in found])
        if not found:
            raise ObjectNotFound(f"Unknown job '{text}'. Use INSTANCE#NUMBER, or the job's ID or its beginning.")
        return found[0].instance_id, found[0].id

    def instance_or_application(self, text: str) -> str:
        """Return the ID of what has exactly this name. Destroyed instances count last."""
        if is_id(text):
            return text
        instances = list(self._listed(name=text))
        alive = [each for each in instances if each.status != "Destroyed"]
        applications = [each for each in self._client.list_applications(self.organization()) if each.name == text]
        named = [(each.id, f"application {each.name}") for each in applications]
        found = [*((each.id, _about_instance(each)) for each in alive), *named]
        found = found or [(each.id, _about_instance(each)) for each in instances]
        if len(found) > 1:
            raise _several("instance or application", text, found)
        if not found:
            raise ObjectNotFound(
                f"No instance or application is named '{text}'. For other objects, use the ID or path."
            )
        return found[0][0]

    def instance_or_job(self, target: str) -> str | tuple[str, str]:
        """Return an instance, or instance and job.

        An instance wins over a job whose ID begins in the same way.
        """
        if "#" in target:
            try:
                return self.any_job(target)
            except (Ambiguous, ObjectNotFound):
                with suppress(ObjectNotFound):  # an instance may have the name `a#1`
                    return self.instance(target)
                raise
        if is_id(target):
            with suppress(NotFound):
                return self._client.find_job(target).instance_id, target
        try:
            return self.instance(target)
        except ObjectNotFound as error:
            if not is_prefix(target):
                raise
            try:
                return self.any_job(target)
            except ObjectNotFound as no_job:
                raise error from no_job

    def _jobs(self, text: str, number: "re.Match[str] | None", instance: str | None) -> Sequence[FleetJob]:
        """Return up to six jobs with this number, or whose IDs begin so."""
        listing = partial(self._client.list_organization_jobs, instance=instance, limit=6)
        if number is not None:
            return listing(self.organization(), number=int(number[1] or number[2])) if len(text) < 10 else ()
        return listing(self.organization(), id_part=text) if is_prefix(text) else ()

    def _find_organization(self) -> str:
        organizations = self._client.list_organizations()
        pairs = [(each.name, each.id) for each in organizations]
        if self._wanted:
            return _chosen("organization", self._wanted, pairs)
        if len(pairs) == 1:
            return pairs[0][1]
        if not pairs:
            raise ObjectNotFound("You aren't a member of any organization. Ask an administrator to add you to one.")
        names = ", ".join(repr(name) for name, _ in pairs)
        raise click.UsageError(f"You are a member of several organizations: {names}. Choose one with --organization.")


def _one(kind: str, text: str, listing: Callable[[], Sequence[T]]) -> str:
    if is_id(text):
        return text
    return _chosen(kind, text, [(each.name, each.id) for each in listing()])  # type: ignore[attr-defined] # of every list


def _chosen(kind: str, text: str, pairs: Sequence[tuple[str, str]]) -> str:
    names = {number: name for name, number in pairs}
    found = list(dict.fromkeys(number for name, number in pairs if name == text))
    if len(found) > 1:
        raise _several(kind, text, [(number, "") for number in found])
    if not found and is_prefix(text):
        found = list(dict.fromkeys(number for _, number in pairs if number.startswith(text)))
    if len(found) > 1:
        raise _ambiguous(kind, text, [(number, names[number]) for number in found])
    if not found:
        message = unknown_name(f"{kind} '{text}'", text, [name for name, _ in pairs])
        listing = LISTING.get(kind)
        raise ObjectNotFound(message if "?" in message or listing is None else f"{message} List them: {listing}")
    return found[0]


# Kinds that paths of objects have, and whose names are known.
_IN_PATHS = {"applications", "environments", "instances", "roles", "services", "users", "webhooks", "zones"}

# By kind, the command that lists all of them.
LISTING = {
    **{kind: f"launchbay {kind} list" for kind in ("application", "environment", "organization", "role", "service")},
    **{kind: f"launchbay {kind} list" for kind in ("approval", "invitation", "token", "user", "webhook", "zone")},
    **{kind: f"launchbay {kind.replace(' ', '-')} list" for kind in ("change set", "git source", "recurring schedule")},
    "bulk run": "launchbay bulk list",
    "rollout": "launchbay rollout list",
}


def is_prefix(text: str) -> bool:
    """Return whether the text can be the beginning of an ID."""
    return _PREFIX.fullmatch(text) is not None


def _about_instance(found: FleetInstance) -> str:
    return f"{found.name}: {found.application_name}, {found.environment_name}, {found.status}"


def _about_job(found: FleetJob) -> str:
    return f"{found.workflow} on {found.instance_name}, {found.status}"


def _several(kind: str, text: str, found: Sequence[tuple[str, str]]) -> Ambiguous:
    """Return the error for several objects, by ID and what each is."""
    return Ambiguous("\n".join([f"More than one {kind} is named '{text}'. Use the ID of one:", *_lines(found)]))


def _ambiguous(kind: str, text: str, found: Sequence[tuple[str, str]]) -> Ambiguous:
    told = f"'{text}' begins the ID of more than one {kind}. Type more characters:"
    return Ambiguous("\n".join([told, *_lines(found)]))


def _lines(found: Sequence[tuple[str, str]]) -> list[str]:
    more = ["  …"] if len(found) > _CANDIDATES else []
    return [*(f"  {number}  {about}".rstrip() for number, about in found[:_CANDIDATES]), *more]
