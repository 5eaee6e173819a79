"""The changes from an organization to the contents of a directory."""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import Any, NamedTuple, Protocol

import msgspec

from launchbay.errors import BadRequest, LaunchbayError
from launchbay.features.directories.contents import EARLY, KINDS, LATE, Noun
from launchbay.features.directories.files import Application, Contents, NamedRevision, Source
from launchbay.features.directories.values import (
    Environment,
    PromotionOrder,
    PropertyEntry,
    Revision,
    RuleOwner,
    Rules,
    StageEntry,
    revision_names,
    with_revision_ids,
    with_revision_names,
)
from launchbay.ids import with_names
from launchbay.manifest.reader import read
from launchbay.manifest.tree import plain
from launchbay.model.promotion import Stage
from launchbay.model.scalars import is_stored_as
from launchbay.model.yaml_text import yaml_text


class Listed(NamedTuple):
    """An object in a list.

    `mark` says of an environment that it is the default, and of a role that it can change.
    """

    id: str
    name: str
    mark: bool = False


class StoredApplication(NamedTuple):
    """An application.

    `version` is the newest of its manifest, `source_url` where that is loaded from, if it is.
    """

    name: str
    version: int
    source_url: str | None


class StoredRevision(NamedTuple):
    """A named revision with the IDs of what it refers to."""

    id: str
    name: str
    application_id: str
    version: int
    parameters: dict[str, Any]
    environment_id: str | None
    submodules: dict[str, Any]


class StoredObject(NamedTuple):
    """An object of a kind that has one file for each.

    `content` are values in the form of its kind. `at` is where roles allow it. `reason` says why an export leaves it
    out; one that no file can describe has no content.
    """

    kind: Noun
    id: str
    name: str
    content: dict[str, Any]
    at: tuple[str, ...] = ()
    reason: str = ""


class Organization(Protocol):
    """What a plan reads of an organization, and changes in it, by ID.

    Implemented by the client for `launchbay apply`, and by the use cases for a source in Git.
    """

    def list_roles(self) -> Sequence[Listed]: ...
    def list_environments(self) -> Sequence[Listed]: ...
    def list_applications(self) -> Sequence[Listed]: ...
    def list_services(self) -> Sequence[Listed]: ...
    def role_text(self, role: str) -> str: ...
    def policies_text(self, environment: str) -> str: ...
    def markers(self, environment: str) -> list[str]: ...
    def properties(self, environment: str) -> list[PropertyEntry]: ...
    def environment_services(self, environment: str) -> list[str]: ...
    def environment_labels(self, environment: str) -> dict[str, str]: ...
    def application(self, application: str) -> StoredApplication: ...
    def application_labels(self, application: str) -> dict[str, str]: ...
    def manifest(self, application: str, version: int) -> str: ...
    def versions(self, application: str) -> Sequence[int]: ...
    def list_revisions(self, application: str) -> Sequence[Listed]: ...
    def revision(self, revision: str) -> StoredRevision: ...
    def manifest_problem(self, text: str) -> str | None: ...
    def rules(self, kind: RuleOwner, owner: str) -> Rules: ...
    def promotion_order(self, application: str | None) -> Sequence[Stage] | None: ...
    def objects(self) -> tuple[Sequence[StoredObject], list[str]]: ...
    def service_types(self) -> Sequence[str]: ...

    def put_object(self, kind: Noun, name: str, content: dict[str, Any]) -> str: ...
    def delete_object(self, kind: Noun, number: str) -> object: ...
    def create_role(self, name: str, text: str) -> object: ...
    def update_role(self, role: str, name: str, text: str) -> object: ...
    def delete_role(self, role: str) -> object: ...
    def create_environment(self, name: str) -> str: ...
    def delete_environment(self, environment: str) -> object: ...
    def set_policies(self, environment: str, document: str) -> object: ...
    def set_markers(self, environment: str, names: list[str]) -> object: ...
    def set_properties(self, environment: str, properties: list[PropertyEntry]) -> object: ...
    def set_environment_services(self, environment: str, services: list[str]) -> object: ...
    def set_environment_labels(self, environment: str, labels: dict[str, str]) -> object: ...
    def set_default_environment(self, environment: str) -> object: ...
    def create_application(self, name: str) -> str: ...
    def delete_application(self, application: str) -> object: ...
    def set_application_labels(self, application: str, labels: dict[str, str]) -> object: ...
    def replace_manifest(self, application: str, name: str, text: str) -> object: ...
    def set_manifest_source(self, application: str, url: str) -> object: ...
    def delete_revision(self, revision: str) -> object: ...
    def set_rules(self, kind: RuleOwner, owner: str, rules: Rules) -> object: ...
    def set_promotion_order(self, application: str | None, stages: Sequence[Stage] | None) -> object: ...

    def create_revision(
        self,
        application: str,
        *,
        name: str,
        version: int,
        parameters: dict[str, Any],
        environment: str | None,
        submodules: dict[str, Any],
    ) -> str: ...

    def change_revision(
        self,
        revision: str,
        *,
        version: int | None,
        parameters: dict[str, Any],
        environment: str | None,
        submodules: dict[str, Any],
    ) -> object: ...


def _ambiguous(kind: str, name: str) -> BadRequest:
    return BadRequest(
        f"Several objects are the {kind} '{name}', and a directory knows names alone. Rename all but one.",
        code="AmbiguousName",
    )


@dataclass
class State:
    """The state of an organization, read on demand.

    Ids of objects that the plan creates are added.
    """

    organization: Organization
    revision_ids: dict[tuple[str, str], str] = field(default_factory=dict)
    _texts: dict[tuple[str, int], str] = field(default_factory=dict)

    @cached_property
    def roles(self) -> dict[str, str]:
        """Ids of the editable roles by name."""
        return {each.name: each.id for each in self.organization.list_roles() if each.mark}

    @cached_property
    def fixed_roles(self) -> frozenset[str]:
        """Names of the roles that can't be changed."""
        return frozenset(each.name for each in self.organization.list_roles() if not each.mark)

    @cached_property
    def environments(self) -> dict[str, str]:
        return {each.name: each.id for each in self.organization.list_environments()}

    @cached_property
    def default_environment(self) -> str:
        """Name of the default environment, or an empty string."""
        return next((each.name for each in self.organization.list_environments() if each.mark), "")

    @cached_property
    def applications(self) -> dict[str, str]:
        return {each.name: each.id for each in self.organization.list_applications()}

    @cached_property
    def services(self) -> dict[str, str]:
        """Ids of the services by name, without those that share a name."""
        listed = self.organization.list_services()
        counts = Counter(each.name for each in listed)
        return {each.name: each.id for each in listed if counts[each.name] == 1}

    @cached_property
    def _listed_objects(self) -> tuple[Sequence[StoredObject], list[str]]:
        return self.organization.objects()

    @property
    def omitted(self) -> list[str]:
        """What a directory can't hold of the organization."""
        return self._listed_objects[1]

    def objects(self, kind: Noun) -> dict[str, StoredObject]:
        """Return the objects of a kind by name. Raises BadRequest for a shared name."""
        found: dict[str, StoredObject] = {}
        for each in self._listed_objects[0]:
            if each.kind != kind:
                continue
            if each.name in found and not (each.reason or found[each.name].reason):
                raise _ambiguous(kind, each.name)
            if not each.reason or each.name not in found:
                found[each.name] = each
        return found

    def named(self, text: str) -> str:
        """Return a text with names instead of the IDs that were read so far."""
        read = vars(self)
        parts = [read.get(part, {}) for part in ("roles", "environments", "applications", "services")]
        names = {number: name for part in parts for name, number in part.items()}
        names |= {each.id: each.name for each in read.get("_listed_objects", ((), ()))[0]}
        return with_names(text, names | {number: "/".join(key) for key, number in self.revision_ids.items()})

    def shared_names(self, kind: Noun) -> set[str]:
        """Return the names that several objects have, exported or not."""
        counts = Counter(each.name for each in self._listed_objects[0] if each.kind == kind)
        return {name for name, count in counts.items() if count > 1}

    def _service_name(self, number: str) -> str:
        """Return the name of a service. Raises BadRequest for one that shares it."""
        names = {service: name for name, service in self.services.items()}
        if number in names:
            return names[number]
        shared = next((each.name for each in self.organization.list_services() if each.id == number), None)
        if shared is None:
            return number  # one that the caller can't see
        raise BadRequest(
            f"Several services are named '{shared}', and a directory knows names alone. Rename all but one."
        )

    def role_text(self, name: str) -> str:
        """Return the permissions of a role, in YAML."""
        return self.organization.role_text(self.roles[name])

    def environment(self, name: str) -> Environment:
        number = self.environments[name]
        policies = plain(read(self.organization.policies_text(number).encode()))
        return Environment(
            default=name == self.default_environment,
            policies=policies.get("policies") or {},
            markers=self.organization.markers(number),
            properties=self.organization.properties(number),
            services=list(map(self._service_name, self.organization.environment_services(number))),
            labels=self.organization.environment_labels(number),
            rules=self.organization.rules("environment", number),
        )

    def application_labels(self, name: str) -> dict[str, str]:
        return self.organization.application_labels(self.applications[name])

    def application(self, name: str) -> StoredApplication:
        return self.organization.application(self.applications[name])

    def manifest(self, application: str, version: int) -> str:
        key = (application, version)
        if key not in self._texts:
            self._texts[key] = self.organization.manifest(self.applications[application], version)
        return self._texts[key]

    def version_of(self, application: str, text: str) -> int | None:
        """Return the newest version of an application's manifest with this text."""
        versions = sorted(self.organization.versions(self.applications[application]), reverse=True)
        return next((version for version in versions if self.manifest(application, version) == text), None)

    def revisions(self, application: str) -> dict[str, StoredRevision]:
        listed = self.organization.list_revisions(self.applications[application])
        for each in listed:
            self.revision_ids[application, each.name] = each.id
        return {each.name: self.organization.revision(each.id) for each in listed}

    def revision(self, document: StoredRevision) -> Revision:
        """Return a revision, with names for what it refers to."""
        names = {number: name for name, number in self.environments.items()}
        environment = document.environment_id
        return Revision(
            parameters=document.parameters,
            environment=None if environment is None else names.get(environment, environment),
            submodules=with_revision_names(document.submodules, self._revision_name),
        )

    def revision_id(self, text: str) -> str:
        """Return the id of `APPLICATION/REVISION`. Raises BadRequest."""
        application, _, name = text.rpartition("/")
        if (application, name) not in self.revision_ids and application in self.applications:
            self.revisions(application)
        number = self.revision_ids.get((application, name))
        if number is None:
            raise BadRequest(f"Unknown revision '{text}' in submodules. Use APPLICATION/REVISION.")
        return number

    def with_ids(self, submodules: Mapping[str, Any]) -> dict[str, Any]:
        """Return the submodules of a revision with ids instead of names. Raises BadRequest."""
        return with_revision_ids(submodules, self.revision_id)

    def order(self, application: str | None) -> PromotionOrder:
        """Return the own order of an application, or with None that of the organization.

        An environment that isn't there has its ID instead of a name.
        """
        names = {number: name for name, number in self.environments.items()}
        found = self.organization.promotion_order(None if application is None else self.applications[application])
        if found is None:
            return PromotionOrder(None)
        return PromotionOrder(
            [StageEntry.of(each, names.get(each.environment_id, each.environment_id)) for each in found]
        )

    def contents(self) -> Contents:
        """Return what a directory holds of the organization."""
        applications = {name: self._whole_application(name) for name in sorted(self.applications)}
        omitted = [
            f"the promotion order of {'the organization' if name is None else f'application {name}'}: it names an "
            "environment that was deleted, or that you can't read"
            for name in (None, *applications)
            if not self._is_named(self.order(name))
        ]
        promotion = self._whole_order(None)
        return Contents(
            applications=applications,
            environments={name: self.environment(name) for name in sorted(self.environments)},
            roles={name: self.role_text(name) for name in sorted(self.roles)},
            objects={
                kind: {name: each.content for name, each in sorted(self.objects(kind).items()) if not each.reason}
                for kind in KINDS
            },
            omitted=[*self.omitted, *omitted],
            promotion=promotion,
        )

    def _is_named(self, order: PromotionOrder) -> bool:
        return all(each.environment in self.environments for each in order.stages or ())

    def _whole_order(self, application: str | None) -> PromotionOrder | None:
        found = self.order(application)
        return None if found.stages is None or not self._is_named(found) else found

    def _whole_application(self, name: str) -> Application:
        document = self.application(name)
        manifest = self.manifest(name, document.version)
        revisions = {}
        for revision, content in sorted(self.revisions(name).items()):
            text = self.manifest(name, content.version)
            revisions[revision] = NamedRevision(self.revision(content), None if text == manifest else text)
        source = None if document.source_url is None else Source(document.source_url)
        rules = self.organization.rules("application", self.applications[name])
        labels, order = self.application_labels(name), self._whole_order(name)
        return Application(None if source else manifest, source, labels, revisions, rules, order)

    def _revision_name(self, number: str) -> str:
        document = self.organization.revision(number)
        return f"{self.organization.application(document.application_id).name}/{document.name}"


CREATE, CHANGE, DELETE = "+", "~", "-"


@dataclass(frozen=True)
class ObjectChange:
    """One change. `before` and `after` are YAML to compare, or empty."""

    sign: str
    what: str
    do: Callable[[], object]
    detail: str = ""
    before: str = ""
    after: str = ""
    named: Callable[[str], str] = str  # gives a text names instead of IDs

    def make(self) -> None:
        """Make the change. Errors of the use cases name objects as the files do."""
        try:
            self.do()
        except LaunchbayError as error:
            error.reword(self.named)
            raise

    def subject(self) -> tuple[str, str]:
        """Return the kind and name of the object, such as role or environment."""
        kind, _, name = self.what.partition(" ")
        if kind in _KINDS:
            return kind, name
        kind, _, name = self.what.partition(" of ")[2].partition(" ")
        return kind, name


_KINDS = frozenset({"role", "environment", "application", "revision", *KINDS})


_Kinds = Iterable[tuple[str, Mapping[str, Any] | None, dict[str, str], Callable[[str], object]]]


class Comparison:
    """The changes from an organization to the wanted contents, in the order to apply them. Planning changes nothing."""

    def __init__(self, state: State, wanted: Contents) -> None:
        self._state = state
        self._organization = state.organization
        self._wanted = wanted
        self._problems: list[str] = []

    def changes(self) -> list[ObjectChange]:
        """Return creations and changes. Raises BadRequest for an unknown name or an invalid manifest."""
        wanted = self._wanted
        found = [change for name, text in (wanted.roles or {}).items() for change in self._role(name, text)]
        found += [change for kind in EARLY for change in self._objects(kind)]
        for name, environment in (wanted.environments or {}).items():
            found += self._environment(name, environment)
        applications = wanted.applications or {}
        for name, application in applications.items():
            found += self._application(name, application)
        for owner, name in self._revisions_in_order():
            revision = (applications[owner].revisions or {})[name]
            found += self._revision(owner, name, revision)
        found += [change for kind in LATE for change in self._objects(kind)]
        found += self._order(None, wanted.promotion)
        for name, application in applications.items():
            found += self._order(name, application.promotion)
        if self._problems:
            raise BadRequest(*self._problems, code="InvalidDirectory")
        return [replace(each, named=self._state.named) for each in found]

    def _check_names(self, kind: Noun, name: str, present: StoredObject | None) -> None:
        """Note names and types in an object's file that nothing has."""
        content = self._wanted.objects[kind][name]
        if kind == "service":
            if present is None and content["type"] not in self._state.organization.service_types():
                self._refuse(kind, name, ("type",), f"Unknown service type {content['type'][:80]!r}.")
            elif present is not None and content["type"] != present.content["type"]:
                now = present.content["type"]
                self._refuse(kind, name, ("type",), f"The service has the type {now}, and a type can't change.")
        for keys, noun, value in _references(kind, content):
            if value not in self._known(noun, value):
                self._refuse(kind, name, keys, f"Unknown {noun.replace('-', ' ')} {value[:100]!r}.")

    def _refuse(self, kind: Noun, name: str, keys: tuple[str | int, ...], message: str) -> None:
        self._problems.append(f"{self._wanted.place(kind, name, *keys)}: {message}")

    def _known(self, noun: str, value: str) -> Collection[str]:
        """Return the names that objects of a kind have, or will have."""
        state, wanted = self._state, self._wanted
        if noun == "application":
            return {*state.applications, *(wanted.applications or ())}
        if noun == "environment":
            return {*state.environments, *(wanted.environments or ())}
        if noun == "revision":
            owner, _, name = value.rpartition("/")
            application = (wanted.applications or {}).get(owner)
            planned = () if application is None else application.revisions or ()
            is_known = name in planned or (owner in state.applications and name in state.revisions(owner))
            return {value} if is_known else ()
        if noun == "service":
            listed = {each.name for each in state.organization.list_services()}
            return {*listed, *wanted.objects.get("service", ())}
        kind: Noun = "service-account" if noun == "service-account" else "user"
        return {*state.objects(kind), *wanted.objects.get(kind, ())}

    def superfluous(self) -> list[ObjectChange]:
        """Return deletions of missing objects, only of kinds with a folder."""
        state, wanted, organization = self._state, self._wanted, self._organization
        found = [change for kind in LATE for change in self._superfluous_objects(kind)]
        for name, application in (wanted.applications or {}).items():
            if name in state.applications and application.revisions is not None:
                for revision, document in state.revisions(name).items():
                    if revision not in application.revisions:
                        delete = partial(organization.delete_revision, document.id)
                        found.append(ObjectChange(DELETE, f"revision {name}/{revision}", delete))
        kinds: _Kinds = (
            ("application", wanted.applications, state.applications, organization.delete_application),
            ("environment", wanted.environments, state.environments, organization.delete_environment),
        )
        found += self._superfluous_of(kinds)
        found += [change for kind in reversed(EARLY) for change in self._superfluous_objects(kind)]
        found += self._superfluous_of((("role", wanted.roles, state.roles, organization.delete_role),))
        return [replace(each, named=state.named) for each in found]

    def _superfluous_of(self, kinds: _Kinds) -> Iterator[ObjectChange]:
        for kind, names, present, delete_one in kinds:
            for name in sorted(set(present) - set(names)) if names is not None else ():
                yield ObjectChange(DELETE, f"{kind} {name}", partial(delete_one, present[name]))

    def _superfluous_objects(self, kind: Noun) -> Iterator[ObjectChange]:
        wanted = self._wanted.objects.get(kind)
        if wanted is None:
            return
        for name, each in sorted(self._state.objects(kind).items()):
            if name not in wanted and not each.reason:
                yield ObjectChange(DELETE, f"{kind} {name}", partial(self._organization.delete_object, kind, each.id))

    def _objects(self, kind: Noun) -> Iterator[ObjectChange]:
        """Yield the changes of a kind: those of vaults come first."""
        wanted = self._wanted.objects.get(kind)
        if not wanted:
            return
        present, shared = self._state.objects(kind), self._state.shared_names(kind)
        vaults = {vault for each in wanted.values() for vault in _vaults(each)}
        for name in sorted(wanted, key=lambda each: (kind == "service" and each not in vaults, each)):
            put = partial(self._put_object, kind, name, wanted[name])
            after = yaml_text(wanted[name], keeps_numbers=True)
            if name in shared:
                raise _ambiguous(kind, name)
            if name in present and present[name].reason and not present[name].content:
                raise BadRequest(
                    f"The {kind} '{name}' exists, and a file can't describe it, since {present[name].reason}. "
                    "Rename or delete it, or give the file another name."
                )
            if name not in present:
                self._check_names(kind, name, None)
                yield ObjectChange(CREATE, f"{kind} {name}", put, after=after)
            elif not _same_object(kind, wanted[name], present[name].content):
                self._check_names(kind, name, present[name])
                yield ObjectChange(
                    CHANGE,
                    f"{kind} {name}",
                    put,
                    before=yaml_text(present[name].content, keeps_numbers=True),
                    after=after,
                )

    def _put_object(self, kind: Noun, name: str, content: dict[str, Any]) -> None:
        number = self._organization.put_object(kind, name, content)
        if kind == "service":
            self._state.services[name] = number

    def _role(self, name: str, text: str) -> Iterator[ObjectChange]:
        state, organization = self._state, self._organization
        if name in state.fixed_roles:
            raise BadRequest(f"The role '{name}' can't be changed. Delete roles/{name}.yaml.")
        if name not in state.roles:
            create = partial(organization.create_role, name, text)
            yield ObjectChange(CREATE, f"role {name}", create, after=text)
            return
        now = state.role_text(name)
        if now != text:
            update = partial(organization.update_role, state.roles[name], name, text)
            yield ObjectChange(CHANGE, f"role {name}", update, before=now, after=text)

    def _environment(self, name: str, wanted: Environment) -> Iterator[ObjectChange]:
        state = self._state
        for service in wanted.services or ():
            if service not in {*state.services, *self._wanted.objects.get("service", ())}:
                raise BadRequest(f"Unknown service '{service}' in environment '{name}'.")
        is_new = name not in state.environments
        now = Environment(policies={}, markers=[], properties=[], services=[], labels={}, rules=Rules())
        if is_new:
            yield ObjectChange(CREATE, f"environment {name}", partial(self._create_environment, name))
        else:
            now = state.environment(name)
        for part in ("policies", "markers", "properties", "services", "labels", "rules"):
            value, present = getattr(wanted, part), getattr(now, part)
            if isinstance(value, Rules) and isinstance(present, Rules):
                value = value.completed(present)
            if value is not None and not _same(part, value, present):
                set_part = partial(getattr(self, f"_set_{part}"), name, value)
                before, after = (yaml_text({part: _as_data(each)}) for each in (present, value))
                sign = CREATE if is_new else CHANGE
                yield ObjectChange(sign, f"{part} of environment {name}", set_part, before=before, after=after)
        if wanted.default and not now.default:
            yield ObjectChange(CHANGE, f"environment {name}", partial(self._set_default, name), "becomes the default")

    def _create_environment(self, name: str) -> None:
        self._state.environments[name] = self._organization.create_environment(name)

    def _set_policies(self, name: str, value: dict[str, Any]) -> None:
        self._organization.set_policies(self._state.environments[name], yaml_text({"policies": value}))

    def _set_markers(self, name: str, value: list[str]) -> None:
        self._organization.set_markers(self._state.environments[name], value)

    def _set_properties(self, name: str, value: list[Any]) -> None:
        self._organization.set_properties(self._state.environments[name], value)

    def _set_services(self, name: str, value: list[str]) -> None:
        services = [self._state.services[each] for each in value]
        self._organization.set_environment_services(self._state.environments[name], services)

    def _set_labels(self, name: str, value: dict[str, str]) -> None:
        self._organization.set_environment_labels(self._state.environments[name], value)

    def _set_rules(self, name: str, value: Rules) -> None:
        self._organization.set_rules("environment", self._state.environments[name], value)

    def _set_default(self, name: str) -> None:
        self._organization.set_default_environment(self._state.environments[name])

    def _application(self, name: str, wanted: Application) -> Iterator[ObjectChange]:
        """Yield the application and its manifests, its own last as the newest."""
        state = self._state
        is_new = name not in state.applications
        document = None if is_new else state.application(name)
        if is_new:
            yield ObjectChange(CREATE, f"application {name}", partial(self._create_application, name))
        labels = {} if is_new or wanted.labels is None else state.application_labels(name)
        if wanted.labels is not None and wanted.labels != labels:
            before, after = yaml_text(labels), yaml_text(wanted.labels)
            label = partial(self._label_application, name, wanted.labels)
            sign = CREATE if is_new else CHANGE
            yield ObjectChange(sign, f"labels of application {name}", label, before=before, after=after)
        if wanted.rules is not None:
            now_set = Rules() if is_new else state.organization.rules("application", state.applications[name])
            rules = wanted.rules.completed(now_set)
            if rules != now_set:
                before, after = (yaml_text(msgspec.to_builtins(each)) for each in (now_set, rules))
                rule = partial(self._rule_application, name, rules)
                sign = CREATE if is_new else CHANGE
                yield ObjectChange(sign, f"rules of application {name}", rule, before=before, after=after)
        if wanted.source is not None:
            if document is None or document.source_url != wanted.source.url:
                yield ObjectChange(
                    CREATE if is_new else CHANGE,
                    f"manifest of application {name}",
                    partial(self._set_source, name, wanted.source.url),
                    f"loaded from {wanted.source.url}",
                )
            return
        if document is not None and document.source_url is not None and wanted.manifest is not None:
            raise BadRequest(
                f"The manifest of '{name}' is loaded from {document.source_url}; a file can't replace it. "
                f"Write the URL to applications/{name}/source.yaml."
            )
        others = dict.fromkeys(
            each.manifest for each in (wanted.revisions or {}).values() if each.manifest not in {None, wanted.manifest}
        )
        missing = [text for text in others if text and (is_new or state.version_of(name, text) is None)]
        for text in missing:
            yield self._upload(name, text, CREATE, f"older manifest of application {name}", "")
        now = None if document is None else state.manifest(name, document.version)
        newest = wanted.manifest if wanted.manifest is not None else now
        if newest is not None and (missing or newest != now):
            sign = CREATE if is_new else CHANGE
            yield self._upload(name, newest, sign, f"manifest of application {name}", now or "")

    def _upload(self, name: str, text: str, sign: str, what: str, before: str) -> ObjectChange:
        """Return an upload. Raises BadRequest if the server finds an error in the manifest."""
        problem = self._organization.manifest_problem(text)
        if problem is not None:
            raise BadRequest(f"The {what} is invalid: {problem}", code="InvalidManifest")
        return ObjectChange(sign, what, partial(self._replace_manifest, name, text), before=before, after=text)

    def _create_application(self, name: str) -> None:
        self._state.applications[name] = self._organization.create_application(name)

    def _rule_application(self, name: str, rules: Rules) -> None:
        self._organization.set_rules("application", self._state.applications[name], rules)

    def _label_application(self, name: str, labels: dict[str, str]) -> None:
        self._organization.set_application_labels(self._state.applications[name], labels)

    def _replace_manifest(self, name: str, text: str) -> None:
        self._organization.replace_manifest(self._state.applications[name], name, text)

    def _set_source(self, name: str, url: str) -> None:
        self._organization.set_manifest_source(self._state.applications[name], url)

    def _order(self, application: str | None, wanted: PromotionOrder | None) -> Iterator[ObjectChange]:
        if wanted is None:
            return
        for index, each in enumerate(wanted.stages or ()):
            if each.environment not in self._known("environment", each.environment):
                place = self._wanted.place_in_order(application, "stages", index, "environment")
                self._problems.append(f"{place}: Unknown environment {each.environment[:100]!r}.")
        is_there = application is None or application in self._state.applications
        now = self._state.order(application) if is_there else PromotionOrder(None)
        wanted = wanted.canonical(of_application=application is not None)
        if wanted != now:
            what = "promotion order of " + ("organization" if application is None else f"application {application}")
            sign = DELETE if wanted.stages is None else CREATE if now.stages is None else CHANGE
            before, after = ("" if each.stages is None else yaml_text(_as_data(each)) for each in (now, wanted))
            yield ObjectChange(sign, what, partial(self._set_order, application, wanted), before=before, after=after)

    def _set_order(self, application: str | None, order: PromotionOrder) -> None:
        state = self._state
        stages = None
        if order.stages is not None:
            stages = [each.stage(state.environments[each.environment]) for each in order.stages]
        owner = None if application is None else state.applications[application]
        self._organization.set_promotion_order(owner, stages)

    def _revisions_in_order(self) -> list[tuple[str, str]]:
        """Return the wanted revisions, each after the revisions of its submodules."""
        applications = self._wanted.applications or {}
        done: dict[tuple[str, str], None] = {}
        begun: set[tuple[str, str]] = set()

        def take(application: str, name: str) -> None:
            key = (application, name)
            revisions = applications[application].revisions if application in applications else None
            if key in begun or revisions is None or name not in revisions:
                return
            begun.add(key)
            for reference in revision_names(revisions[name].content.submodules):
                inner, _, revision = reference.rpartition("/")
                take(inner, revision)
            done[key] = None

        for application, entry in applications.items():
            for name in entry.revisions or {}:
                take(application, name)
        return list(done)

    def _revision(self, application: str, name: str, wanted: NamedRevision) -> Iterator[ObjectChange]:
        state, content = self._state, wanted.content
        planned = self._wanted.environments or {}
        if content.environment is not None and content.environment not in {*state.environments, *planned}:
            raise BadRequest(f"Unknown environment '{content.environment}' in revision {application}/{name}.")
        for reference in revision_names(content.submodules):
            if not self._known("revision", reference):
                raise BadRequest(
                    f"Unknown revision '{reference}' in submodules of revision {application}/{name}. "
                    "Use APPLICATION/REVISION."
                )
        now = state.revisions(application).get(name) if application in state.applications else None
        what, do = f"revision {application}/{name}", partial(self._put_revision, application, name, wanted)
        if now is None:
            yield ObjectChange(CREATE, what, do, after=_shown(content))
            return
        before = state.revision(now)
        text = self._text_of(application, wanted)
        has_other_text = text is not None and state.manifest(application, now.version) != text
        is_same = before.environment == content.environment and all(
            is_stored_as(getattr(content, part), getattr(before, part)) for part in ("parameters", "submodules")
        )
        if not is_same or has_other_text:
            detail = "another manifest" if has_other_text else ""
            yield ObjectChange(CHANGE, what, do, detail, _shown(before), _shown(content))

    def _text_of(self, application: str, revision: NamedRevision) -> str | None:
        """Return the wanted manifest of a revision, or None if the directory has none."""
        return revision.manifest or (self._wanted.applications or {})[application].manifest

    def _put_revision(self, application: str, name: str, wanted: NamedRevision) -> None:
        state, content = self._state, wanted.content
        text = self._text_of(application, wanted)
        version = None if text is None else state.version_of(application, text)
        environment = None if content.environment is None else state.environments[content.environment]
        submodules = state.with_ids(content.submodules)
        revisions: Mapping[str, StoredRevision] = state.revisions(application)
        if name in revisions:
            self._organization.change_revision(
                revisions[name].id,
                version=version,
                parameters=content.parameters,
                environment=environment,
                submodules=submodules,
            )
            return
        created = self._organization.create_revision(
            state.applications[application],
            name=name,
            version=state.application(application).version if version is None else version,
            parameters=content.parameters,
            environment=environment,
            submodules=submodules,
        )
        state.revision_ids[application, name] = created


_Reference = tuple[tuple[str | int, ...], str, str]  # where it is, the kind, and the name


def _references(kind: Noun, content: Mapping[str, Any]) -> Iterator[_Reference]:
    """Yield what the file of an object names.

    Roles are left out: the server knows also those that the caller can't read.
    """
    if kind == "service":
        for name, value in content.get("parameters", {}).items():
            if isinstance(value, Mapping) and set(value) == {"fromVault", "vault"} and isinstance(value["vault"], str):
                yield ("parameters", name, "vault"), "service", value["vault"]
    elif kind == "git-source":
        yield from _named(content, (), ("account", "service-account"), ("application", "application"))
        yield from _named(content, (), ("vault", "service"))
        yield from _named(content.get("previews"), ("previews",), ("environment", "environment"))
    elif kind == "schedule":
        yield from _named(content, (), ("application", "application"))
        launch, bulk = content.get("launch"), content.get("bulk")
        yield from _named(launch, ("launch",), ("environment", "environment"), ("revision", "revision"))
        if isinstance(launch, Mapping) and isinstance(launch.get("submodules"), Mapping):
            for revision in revision_names(launch["submodules"]):
                yield ("launch", "submodules"), "revision", revision
        select = bulk.get("select", {}) if isinstance(bulk, Mapping) else {}
        for field_name in ("application", "environment"):
            for index, each in enumerate(select.get(f"{field_name}s") or ()):
                yield ("bulk", "select", f"{field_name}s", index), field_name, each
        if isinstance(select.get("owner"), str):
            yield ("bulk", "select", "owner"), "user", select["owner"].strip(" ").lower()


def _named(content: Any, at: tuple[str | int, ...], *fields: tuple[str, str]) -> Iterator[_Reference]:
    for name, noun in fields:
        value = content.get(name) if isinstance(content, Mapping) else None
        if isinstance(value, str):
            yield (*at, name), noun, value


def _vaults(content: Mapping[str, Any]) -> Iterator[str]:
    """Yield the services that the parameters of a service name."""
    parameters = content.get("parameters")
    for value in parameters.values() if isinstance(parameters, Mapping) else ():
        if isinstance(value, Mapping) and isinstance(value.get("vault"), str):
            yield value["vault"]


def _same_object(kind: Noun, wanted: dict[str, Any], present: dict[str, Any]) -> bool:
    """Return whether an object has what its file says.

    Roles are unordered, and the name of a person is their own. A vault that is left out is the one that it is. Applying
    keeps a secret that the file leaves out.
    """
    if kind == "service":
        named = wanted.get("parameters", {})
        parameters = {
            name: value
            for name, value in present.get("parameters", {}).items()
            if name in named
            or not (isinstance(value, Mapping) and {"fromVault"} <= set(value) <= {"fromVault", "vault"})
        }
        given = {
            name: {**parameters[name], **value} if _is_reference_to(value, parameters.get(name)) else value
            for name, value in named.items()
            if value is not None
        }
        wanted = {**wanted, "parameters": given}
        present = {**present, "parameters": parameters}
    elif "roles" in {*wanted, *present}:
        wanted, present = ({**each, "roles": sorted(each.get("roles", []))} for each in (wanted, present))
    if kind == "user":
        wanted = {**wanted, "name": present["name"]}
    return is_stored_as(wanted, present)


def _is_reference_to(value: Any, present: Any) -> bool:
    """Return whether a value names a parameter's secret, without its vault."""
    return (
        isinstance(value, Mapping)
        and isinstance(present, Mapping)
        and set(value) == {"fromVault"}
        and value["fromVault"] == present.get("fromVault")
    )


def _same(part: str, wanted: Any, present: Any) -> bool:
    """Return whether two values are equal; markers and services are unordered."""
    if part in {"markers", "services"}:
        return sorted(wanted) == sorted(present)
    return is_stored_as(_as_data(wanted), _as_data(present))


def _shown(revision: Revision) -> str:
    return yaml_text(_as_data(revision))


def _as_data(value: Any) -> Any:
    return msgspec.to_builtins(value, builtin_types=(msgspec.Raw,))  # numbers that remember their text
