"""What an organization is now, in the form of a directory, with the ids that its names stand for."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from launchbay.cli.directory.contents import Application, Contents, NamedRevision, Source
from launchbay.cli.failures import Missing
from launchbay.client import Client
from launchbay.client.types import ApplicationDocument, RevisionDocument
from launchbay.manifest.reader import read
from launchbay.manifest.tree import plain
from launchbay.model.archive import Environment, PropertyEntry, Revision, with_revision_ids, with_revision_names


@dataclass
class Organization:
    """An organization, looked at where it is asked for. Ids of what is made meanwhile are noted here."""

    client: Client
    id: str
    revision_ids: dict[tuple[str, str], str] = field(default_factory=dict)
    _texts: dict[tuple[str, int], str] = field(default_factory=dict)

    @cached_property
    def roles(self) -> dict[str, str]:
        """Name → id of the roles that can be changed."""
        return {each.name: each.id for each in self.client.list_roles(self.id) if each.can_edit}

    @cached_property
    def fixed_roles(self) -> frozenset[str]:
        """Names of the roles that cannot be changed."""
        return frozenset(each.name for each in self.client.list_roles(self.id) if not each.can_edit)

    @cached_property
    def environments(self) -> dict[str, str]:
        """Name → id."""
        return {each.name: each.id for each in self.client.list_environments(self.id)}

    @cached_property
    def default_environment(self) -> str:
        """The name of the default environment."""
        return next((each.name for each in self.client.list_environments(self.id) if each.is_default), "")

    @cached_property
    def applications(self) -> dict[str, str]:
        """Name → id."""
        return {each.name: each.id for each in self.client.list_applications(self.id)}

    @cached_property
    def services(self) -> dict[str, str]:
        """Name → id."""
        return {each.name: each.id for each in self.client.list_services(self.id)}

    def role_text(self, name: str) -> str:
        """Return the text of a role."""
        return self.client.read_role(self.roles[name]).permissions

    def environment(self, name: str) -> Environment:
        """Return an environment in full."""
        number = self.environments[name]
        policies = plain(read(self.client.read_policies(number).encode()))
        names = {service: name for name, service in self.services.items()}
        return Environment(
            default=name == self.default_environment,
            policies=policies.get("policies") or {},
            markers=[each.name for each in self.client.read_markers(number).markers],
            properties=[
                PropertyEntry(each.name, each.type, each.value)
                for each in self.client.read_properties(number).properties
            ],
            services=[names.get(each.id, each.id) for each in self.client.read_environment_services(number).services],
        )

    def application(self, name: str) -> ApplicationDocument:
        """Return an application."""
        return self.client.read_application(self.applications[name])

    def manifest(self, application: str, version: int) -> str:
        """Return the text of a version of an application's manifest."""
        key = (application, version)
        if key not in self._texts:
            self._texts[key] = self.client.read_manifest(self.applications[application], version=version)
        return self._texts[key]

    def version_of(self, application: str, text: str) -> int | None:
        """Return the newest version of an application's manifest with this text."""
        versions = sorted(
            (each.version for each in self.client.list_manifests(self.applications[application])), reverse=True
        )
        return next((version for version in versions if self.manifest(application, version) == text), None)

    def revisions(self, application: str) -> dict[str, RevisionDocument]:
        """Return the revisions of an application by name."""
        listed = self.client.list_revisions(self.applications[application])
        for each in listed:
            self.revision_ids[application, each.name] = each.id
        return {each.name: self.client.read_revision(each.id) for each in listed}

    def revision(self, document: RevisionDocument) -> Revision:
        """Return a revision, with names for what it refers to."""
        names = {number: name for name, number in self.environments.items()}
        environment = document.environment_id
        return Revision(
            parameters=document.parameters,
            environment=None if environment is None else names.get(environment, environment),
            submodules=with_revision_names(document.submodules, self._revision_name),
        )

    def revision_id(self, text: str) -> str:
        """Return the id of `APPLICATION/REVISION`. Raises Missing."""
        application, _, name = text.rpartition("/")
        if (application, name) not in self.revision_ids and application in self.applications:
            self.revisions(application)
        number = self.revision_ids.get((application, name))
        if number is None:
            raise Missing(f"There is no revision '{text}', which a submodule names as APPLICATION/REVISION.")
        return number

    def with_ids(self, submodules: Mapping[str, Any]) -> dict[str, Any]:
        """Return the submodules of a revision as the API takes them. Raises Missing."""
        return with_revision_ids(submodules, self.revision_id)

    def contents(self) -> Contents:
        """Return everything that a directory can say of it."""
        return Contents(
            applications={name: self._whole_application(name) for name in sorted(self.applications)},
            environments={name: self.environment(name) for name in sorted(self.environments)},
            roles={name: self.role_text(name) for name in sorted(self.roles)},
        )

    def _whole_application(self, name: str) -> Application:
        document = self.application(name)
        manifest = self.manifest(name, document.version)
        revisions = {}
        for revision, content in sorted(self.revisions(name).items()):
            text = self.manifest(name, content.version)
            revisions[revision] = NamedRevision(self.revision(content), None if text == manifest else text)
        source = None if document.source_url is None else Source(document.source_url)
        return Application(None if source else manifest, source, revisions)

    def _revision_name(self, number: str) -> str:
        document = self.client.read_revision(number)
        return f"{self.client.read_application(document.application_id).name}/{document.name}"
