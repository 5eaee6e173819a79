"""Every operation of the API, as methods of both clients.

Made from the endpoint table by `python -m generators`; a test holds that it is up to date.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import NoneType
from typing import Any

from msgspec import UNSET, UnsetType

from launchbay.client.core import JSON, Call, OperationSpec, omit_unset
from launchbay.client.operation import event_operation, list_operation, operation
from launchbay.client.streams import Event
from launchbay.client.types import (
    AddedUser,
    ApplicationDocument,
    Approval,
    Archive,
    AuditEntryShape,
    Created,
    CreatedWebhook,
    Delivery,
    EnvironmentItem,
    Explained,
    Findings,
    Health,
    HostKey,
    ImportedOrganization,
    InstanceDocument,
    InstanceSummary,
    JobDetail,
    JobDocument,
    LogLine,
    ManifestVersion,
    Marker,
    Markers,
    Named,
    OfferedIn,
    OfferedInstance,
    OfferedServices,
    Preview,
    Properties,
    Property,
    RefreshedVersion,
    RevisionDocument,
    RoleDetail,
    RoleItem,
    Scheduled,
    Schedules,
    ServiceDocument,
    ServiceItem,
    ServiceTypeShape,
    SessionToken,
    TokenItem,
    UserDetail,
    UserItem,
    VersionItem,
    Webhook,
)


class Operations:
    """The operations: on a client they make calls, on this class they are data (`operation.py`)."""

    # Organizations

    @list_operation(OperationSpec("GET", "/api/1/organizations"))
    def list_organizations(self, *, limit: int | None = None, after: str | None = None) -> Call[list[Named]]:
        """Lists the organizations that the caller belongs to.

        Needs: None: everybody sees their own organizations.

        `limit`: At most so many items; without it, all of them.

        `after`: Only items after the one with this id.
        """
        return Call(list[Named], query={"limit": limit, "after": after})

    @operation(OperationSpec("POST", "/api/1/organizations", media_type=JSON, keyed=True))
    def create_organization(self, *, name: str, idempotency_key: str | None = None) -> Call[Created]:
        """Creates an organization with all that comes with one; the caller becomes its administrator.

        Needs: ManageUsers for all users of some organization.
        """
        return Call(Created, body=omit_unset({"name": name}), idempotency_key=idempotency_key)

    @operation(OperationSpec("GET", "/api/1/organizations/{orgId}"))
    def read_organization(self, organization_id: str) -> Call[Named]:
        """Reads an organization.

        Needs: None: for those who belong to it.
        """
        return Call(Named, (organization_id,))

    @operation(OperationSpec("PUT", "/api/1/organizations/{orgId}", media_type=JSON))
    def rename_organization(self, organization_id: str, *, name: str) -> Call[None]:
        """Renames an organization.

        Needs: ManageUsers for all users.
        """
        return Call(NoneType, (organization_id,), body=omit_unset({"name": name}))

    @operation(OperationSpec("GET", "/api/1/organizations/{orgId}/archive"))
    def export_organization(self, organization_id: str) -> Call[Archive]:
        """Exports an organization as one document, without its secrets and its instances.

        Needs: ManageUsers for all users and ManageRoles for all roles.
        """
        return Call(Archive, (organization_id,))

    @operation(OperationSpec("POST", "/api/1/archives", media_type=JSON, keyed=True))
    def import_organization(
        self,
        *,
        archive: Mapping[str, Any],
        name: str | None = None,
        plan: bool | None = None,
        idempotency_key: str | None = None,
    ) -> Call[ImportedOrganization]:
        """Makes an organization of an archive, all of it or nothing; the caller becomes its administrator.

        Needs: ManageUsers for all users of some organization.
        """
        return Call(
            ImportedOrganization,
            body=omit_unset({"archive": archive, "name": name, "plan": plan}),
            idempotency_key=idempotency_key,
        )

    @list_operation(OperationSpec("GET", "/api/1/organizations/{orgId}/hostKeys"))
    def list_host_keys(
        self, organization_id: str, *, limit: int | None = None, after: str | None = None
    ) -> Call[list[HostKey]]:
        """Lists the keys that the hosts of workflows showed at their first use.

        Needs: EditEnvironment for all environments of the organization.

        `limit`: At most so many items; without it, all of them.

        `after`: Only items after the one with this id.
        """
        return Call(list[HostKey], (organization_id,), query={"limit": limit, "after": after})

    @operation(OperationSpec("DELETE", "/api/1/organizations/{orgId}/hostKeys/{host}"))
    def forget_host_key(self, organization_id: str, host: str) -> Call[None]:
        """Forgets the key of a host, such as 10.0.0.5:22: the key that it shows next is pinned.

        Needs: EditEnvironment for all environments of the organization.
        """
        return Call(NoneType, (organization_id, host))

    # Users

    @list_operation(OperationSpec("GET", "/api/1/organizations/{orgId}/users"))
    def list_users(
        self, organization_id: str, *, limit: int | None = None, after: str | None = None
    ) -> Call[list[UserItem]]:
        """Lists the users of an organization.

        Needs: Read on each user shown.

        `limit`: At most so many items; without it, all of them.

        `after`: Only items after the one with this id.
        """
        return Call(list[UserItem], (organization_id,), query={"limit": limit, "after": after})

    @operation(OperationSpec("POST", "/api/1/organizations/{orgId}/users", media_type=JSON, keyed=True))
    def create_user(
        self,
        organization_id: str,
        *,
        email: str,
        name: str,
        password: str | None = None,
        roles: Sequence[str] | None = None,
        idempotency_key: str | None = None,
    ) -> Call[AddedUser]:
        """Adds a user to an organization: a new account, or the existing one of this e-mail address.

        Needs: ManageUsers; ManageRoles too when roles are given.
        """
        return Call(
            AddedUser,
            (organization_id,),
            body=omit_unset({"email": email, "name": name, "password": password, "roles": roles}),
            idempotency_key=idempotency_key,
        )

    @operation(OperationSpec("GET", "/api/1/organizations/{orgId}/users/{userId}"))
    def read_user(self, organization_id: str, user_id: str) -> Call[UserDetail]:
        """Reads a user of an organization.

        Needs: Read on the user.
        """
        return Call(UserDetail, (organization_id, user_id))

    @operation(OperationSpec("PUT", "/api/1/organizations/{orgId}/users/{userId}", media_type=JSON))
    def update_user(self, organization_id: str, user_id: str, *, enabled: bool) -> Call[None]:
        """Disables or enables a user's account.

        Needs: ManageUsers on the user, in every organization that the account belongs to.
        """
        return Call(NoneType, (organization_id, user_id), body=omit_unset({"enabled": enabled}))

    @operation(OperationSpec("DELETE", "/api/1/organizations/{orgId}/users/{userId}"))
    def remove_user(self, organization_id: str, user_id: str) -> Call[None]:
        """Removes a user from an organization; an account that belongs to no other one is deleted.

        Needs: ManageUsers on the user.
        """
        return Call(NoneType, (organization_id, user_id))

    @operation(OperationSpec("PUT", "/api/1/organizations/{orgId}/users/{userId}/roles", media_type=JSON))
    def assign_roles(self, organization_id: str, user_id: str, roles: Sequence[str]) -> Call[None]:
        """Assigns roles to a user.

        Needs: ManageRoles on the user and on each role.
        """
        return Call(NoneType, (organization_id, user_id), body=roles)

    @operation(OperationSpec("DELETE", "/api/1/organizations/{orgId}/users/{userId}/roles", media_type=JSON))
    def revoke_roles(self, organization_id: str, user_id: str, roles: Sequence[str]) -> Call[None]:
        """Revokes roles from a user.

        Needs: ManageRoles on the user and on each role.
        """
        return Call(NoneType, (organization_id, user_id), body=roles)

    # Roles

    @list_operation(OperationSpec("GET", "/api/1/organizations/{orgId}/roles"))
    def list_roles(
        self, organization_id: str, *, limit: int | None = None, after: str | None = None
    ) -> Call[list[RoleItem]]:
        """Lists the roles of an organization.

        Needs: Read on each role shown.

        `limit`: At most so many items; without it, all of them.

        `after`: Only items after the one with this id.
        """
        return Call(list[RoleItem], (organization_id,), query={"limit": limit, "after": after})

    @operation(OperationSpec("POST", "/api/1/organizations/{orgId}/roles", media_type=JSON, keyed=True))
    def create_role(
        self, organization_id: str, *, name: str, permissions: str, idempotency_key: str | None = None
    ) -> Call[RoleDetail]:
        """Creates a role.

        Needs: ManageRoles.
        """
        return Call(
            RoleDetail,
            (organization_id,),
            body=omit_unset({"name": name, "permissions": permissions}),
            idempotency_key=idempotency_key,
        )

    @operation(OperationSpec("GET", "/api/1/roles/{roleId}"))
    def read_role(self, role_id: str) -> Call[RoleDetail]:
        """Reads a role with its permissions.

        Needs: Read.
        """
        return Call(RoleDetail, (role_id,))

    @operation(OperationSpec("PUT", "/api/1/roles/{roleId}", media_type=JSON))
    def update_role(self, role_id: str, *, name: str, permissions: str) -> Call[None]:
        """Modifies a role; it counts for the next request of everybody who holds it.

        Needs: ManageRoles.
        """
        return Call(NoneType, (role_id,), body=omit_unset({"name": name, "permissions": permissions}))

    @operation(OperationSpec("DELETE", "/api/1/roles/{roleId}"))
    def delete_role(self, role_id: str) -> Call[None]:
        """Removes a role, also from everybody who holds it.

        Needs: ManageRoles.
        """
        return Call(NoneType, (role_id,))

    @operation(OperationSpec("GET", "/api/1/permissions/explain"))
    def explain_permission(
        self,
        *,
        permission: str,
        path: str,
        user: str | None = None,
        touching: str | None = None,
        organization: str | None = None,
    ) -> Call[Explained]:
        """Tells whether a user may do something, and which role, entry and pattern decide.

        Needs: None for oneself, ManageRoles on the user for others.

        `permission`: The permission's name, such as CreateInstance.

        `path`: The object's path, such as /applications/{id}.

        `user`: The user's id; the caller without it.

        `touching`: Another object that is touched, such as a launch's /environments/{id}.

        `organization`: For a path of a user: in which organization.
        """
        return Call(
            Explained,
            query={
                "permission": permission,
                "path": path,
                "user": user,
                "touching": touching,
                "organization": organization,
            },
        )

    # Applications

    @list_operation(OperationSpec("GET", "/api/1/organizations/{orgId}/applications"))
    def list_applications(
        self, organization_id: str, *, limit: int | None = None, after: str | None = None
    ) -> Call[list[Named]]:
        """Lists the applications of an organization.

        Needs: Read on each application shown.

        `limit`: At most so many items; without it, all of them.

        `after`: Only items after the one with this id.
        """
        return Call(list[Named], (organization_id,), query={"limit": limit, "after": after})

    @operation(OperationSpec("POST", "/api/1/organizations/{orgId}/applications", media_type=JSON, keyed=True))
    def create_application(
        self, organization_id: str, *, name: str, idempotency_key: str | None = None
    ) -> Call[Created]:
        """Creates an application with the default no-op manifest.

        Needs: CreateApplication.
        """
        return Call(Created, (organization_id,), body=omit_unset({"name": name}), idempotency_key=idempotency_key)

    @operation(OperationSpec("GET", "/api/1/applications/{appId}"))
    def read_application(self, application_id: str) -> Call[ApplicationDocument]:
        """Reads an application.

        Needs: Read.
        """
        return Call(ApplicationDocument, (application_id,))

    @operation(OperationSpec("PUT", "/api/1/applications/{appId}", media_type=JSON))
    def rename_application(self, application_id: str, *, name: str) -> Call[None]:
        """Renames an application.

        Needs: EditApplication.
        """
        return Call(NoneType, (application_id,), body=omit_unset({"name": name}))

    @operation(OperationSpec("DELETE", "/api/1/applications/{appId}"))
    def delete_application(self, application_id: str) -> Call[None]:
        """Deletes an application whose instances are all destroyed, with its manifests and revisions.

        Needs: DeleteApplication.
        """
        return Call(NoneType, (application_id,))

    @operation(OperationSpec("POST", "/api/1/applications/{appId}/launch", media_type=JSON, keyed=True))
    def launch_application(
        self,
        application_id: str,
        *,
        revision_id: str | None = None,
        version: int | str | None = None,
        environment_id: str | None = None,
        destroy_interval: int | str | None = None,
        instance_name: str | None = None,
        parameters: Mapping[str, Any] | None = None,
        submodules: Mapping[str, Any] | None = None,
        idempotency_key: str | None = None,
    ) -> Call[Created]:
        """Launches the application into a new instance.

        Needs: CreateInstance on the application and the environment.

        `revision_id`: The revision to launch.

        `version`: The manifest version; the newest by default. It wins over the revision's.

        `environment_id`: By default the default environment.

        `destroy_interval`: Milliseconds until the instance is destroyed; -1 is never, an hour the default.

        `instance_name`: Generated when left out.

        `parameters`: Name to value.

        `submodules`: Submodule id to its configuration.
        """
        return Call(
            Created,
            (application_id,),
            body=omit_unset(
                {
                    "revisionId": revision_id,
                    "version": version,
                    "environmentId": environment_id,
                    "destroyInterval": destroy_interval,
                    "instanceName": instance_name,
                    "parameters": parameters,
                    "submodules": submodules,
                }
            ),
            idempotency_key=idempotency_key,
        )

    @operation(OperationSpec("POST", "/api/1/applications/{appId}/launch/preview", media_type=JSON, repeatable=True))
    def preview_launch(
        self,
        application_id: str,
        *,
        revision_id: str | None = None,
        version: int | str | None = None,
        environment_id: str | None = None,
        destroy_interval: int | str | None = None,
        instance_name: str | None = None,
        parameters: Mapping[str, Any] | None = None,
        submodules: Mapping[str, Any] | None = None,
    ) -> Call[Preview]:
        """Tells what a launch would do, and changes nothing.

        Needs: CreateInstance on the application, its submodules and the environment.

        `revision_id`: The revision to launch.

        `version`: The manifest version; the newest by default. It wins over the revision's.

        `environment_id`: By default the default environment.

        `destroy_interval`: Milliseconds until the instance is destroyed; -1 is never, an hour the default.

        `instance_name`: Generated when left out.

        `parameters`: Name to value.

        `submodules`: Submodule id to its configuration.
        """
        return Call(
            Preview,
            (application_id,),
            body=omit_unset(
                {
                    "revisionId": revision_id,
                    "version": version,
                    "environmentId": environment_id,
                    "destroyInterval": destroy_interval,
                    "instanceName": instance_name,
                    "parameters": parameters,
                    "submodules": submodules,
                }
            ),
        )

    # Manifests

    @operation(OperationSpec("PUT", "/api/1/applications/{appId}/manifest", media_type="application/x-yaml"))
    def replace_manifest(self, application_id: str, text: str) -> Call[ManifestVersion]:
        """Replaces the manifest; the new text becomes the newest version.

        Needs: EditApplication.
        """
        return Call(ManifestVersion, (application_id,), body=text)

    @operation(OperationSpec("GET", "/api/1/applications/{appId}/manifest", answer="application/x-yaml"))
    def read_manifest(self, application_id: str, *, version: int | None = None) -> Call[str]:
        """Reads a manifest version as it was given.

        Needs: Read.

        `version`: The version; the newest one if left out.
        """
        return Call(str, (application_id,), query={"version": version})

    @operation(OperationSpec("POST", "/api/1/manifests/validate", media_type="application/x-yaml", repeatable=True))
    def validate_manifest(self, text: str) -> Call[Findings]:
        """Checks a manifest and returns its errors and warnings; stores nothing.

        Needs: None: everybody may check a text of their own.
        """
        return Call(Findings, body=text)

    @list_operation(OperationSpec("GET", "/api/1/applications/{appId}/manifests"))
    def list_manifests(self, application_id: str) -> Call[list[VersionItem]]:
        """Lists the manifest versions of an application.

        Needs: Read.
        """
        return Call(list[VersionItem], (application_id,))

    @operation(OperationSpec("PUT", "/api/1/applications/{appId}/manifestSource", media_type=JSON))
    def set_manifest_source(self, application_id: str, *, url: str) -> Call[ManifestVersion]:
        """Loads the manifest from a URL from now on; what is there becomes the newest version.

        Needs: EditApplication.
        """
        return Call(ManifestVersion, (application_id,), body=omit_unset({"url": url}))

    @operation(OperationSpec("POST", "/api/1/applications/{appId}/manifestSource/refresh", repeatable=True))
    def refresh_manifest(self, application_id: str) -> Call[RefreshedVersion]:
        """Loads the manifest from its URL again; what has changed becomes the newest version.

        Needs: EditApplication.
        """
        return Call(RefreshedVersion, (application_id,))

    # Revisions

    @list_operation(OperationSpec("GET", "/api/1/applications/{appId}/revisions"))
    def list_revisions(
        self, application_id: str, *, limit: int | None = None, after: str | None = None
    ) -> Call[list[Named]]:
        """Lists the named revisions of an application.

        Needs: Read.

        `limit`: At most so many items; without it, all of them.

        `after`: Only items after the one with this id.
        """
        return Call(list[Named], (application_id,), query={"limit": limit, "after": after})

    @operation(OperationSpec("POST", "/api/1/applications/{appId}/revisions", media_type=JSON, keyed=True))
    def create_revision(
        self,
        application_id: str,
        *,
        name: str,
        instance_id: str | None = None,
        version: int | None = None,
        parameters: Mapping[str, Any] | None = None,
        environment_id: str | UnsetType | None = UNSET,
        submodules: Mapping[str, Any] | None = None,
        idempotency_key: str | None = None,
    ) -> Call[Created]:
        """Creates a revision from an instance, or from a manifest version with what goes with it.

        Needs: EditApplication; Read on the instance or environment named.
        """
        return Call(
            Created,
            (application_id,),
            body=omit_unset(
                {
                    "name": name,
                    "instanceId": instance_id,
                    "version": version,
                    "parameters": parameters,
                    "environmentId": environment_id,
                    "submodules": submodules,
                },
                nullable=("environmentId",),
            ),
            idempotency_key=idempotency_key,
        )

    @operation(OperationSpec("GET", "/api/1/revisions/{revId}"))
    def read_revision(self, revision_id: str) -> Call[RevisionDocument]:
        """Reads a revision.

        Needs: Read on its application.
        """
        return Call(RevisionDocument, (revision_id,))

    @operation(OperationSpec("PUT", "/api/1/revisions/{revId}", media_type=JSON))
    def change_revision(
        self,
        revision_id: str,
        *,
        name: str | None = None,
        instance_id: str | None = None,
        version: int | None = None,
        parameters: Mapping[str, Any] | None = None,
        environment_id: str | UnsetType | None = UNSET,
        submodules: Mapping[str, Any] | None = None,
    ) -> Call[None]:
        """Changes what the body names of a revision.

        Needs: EditApplication on its application; Read on the instance or environment named.
        """
        return Call(
            NoneType,
            (revision_id,),
            body=omit_unset(
                {
                    "name": name,
                    "instanceId": instance_id,
                    "version": version,
                    "parameters": parameters,
                    "environmentId": environment_id,
                    "submodules": submodules,
                },
                nullable=("environmentId",),
            ),
        )

    @operation(OperationSpec("DELETE", "/api/1/revisions/{revId}"))
    def delete_revision(self, revision_id: str) -> Call[None]:
        """Deletes a revision; instances launched from it stay.

        Needs: EditApplication on its application.
        """
        return Call(NoneType, (revision_id,))

    # Environments

    @list_operation(OperationSpec("GET", "/api/1/organizations/{orgId}/environments"))
    def list_environments(
        self, organization_id: str, *, limit: int | None = None, after: str | None = None
    ) -> Call[list[EnvironmentItem]]:
        """Lists the environments of an organization.

        Needs: Read on each environment shown.

        `limit`: At most so many items; without it, all of them.

        `after`: Only items after the one with this id.
        """
        return Call(list[EnvironmentItem], (organization_id,), query={"limit": limit, "after": after})

    @operation(OperationSpec("POST", "/api/1/organizations/{orgId}/environments", media_type=JSON, keyed=True))
    def create_environment(
        self, organization_id: str, *, name: str, idempotency_key: str | None = None
    ) -> Call[Created]:
        """Creates an environment that offers nothing yet.

        Needs: CreateEnvironment.
        """
        return Call(Created, (organization_id,), body=omit_unset({"name": name}), idempotency_key=idempotency_key)

    @operation(OperationSpec("PUT", "/api/1/organizations/{orgId}/defaultEnvironment", media_type=JSON))
    def set_default_environment(self, organization_id: str, *, environment_id: str) -> Call[None]:
        """Chooses the environment that launches without an environment go to.

        Needs: EditEnvironment on the environment that becomes the default one.
        """
        return Call(NoneType, (organization_id,), body=omit_unset({"environmentId": environment_id}))

    @operation(OperationSpec("PUT", "/api/1/environments/{id}", media_type="application/x-yaml"))
    def replace_policies(self, environment_id: str, text: str) -> Call[None]:
        """Imports policies; they replace all that the environment has.

        Needs: EditEnvironment.
        """
        return Call(NoneType, (environment_id,), body=text)

    @operation(OperationSpec("GET", "/api/1/environments/{id}", answer="application/x-yaml"))
    def read_policies(self, environment_id: str) -> Call[str]:
        """Exports the policies as the YAML document that an import takes.

        Needs: Read.
        """
        return Call(str, (environment_id,))

    @operation(OperationSpec("DELETE", "/api/1/environments/{id}"))
    def delete_environment(self, environment_id: str) -> Call[None]:
        """Deletes an environment that has no instances and is not the default one.

        Needs: DeleteEnvironment.
        """
        return Call(NoneType, (environment_id,))

    @operation(OperationSpec("POST", "/api/1/environments/{id}/clone", media_type=JSON, keyed=True))
    def clone_environment(
        self, environment_id: str, *, name: str | None = None, idempotency_key: str | None = None
    ) -> Call[Named]:
        """Copies an environment with its policies, markers, properties and services.

        Needs: Read on the environment, CreateEnvironment for the copy.
        """
        return Call(Named, (environment_id,), body=omit_unset({"name": name}), idempotency_key=idempotency_key)

    @operation(OperationSpec("PUT", "/api/1/environments/{id}/name", media_type=JSON))
    def rename_environment(self, environment_id: str, *, name: str) -> Call[None]:
        """Renames an environment.

        Needs: EditEnvironment.
        """
        return Call(NoneType, (environment_id,), body=omit_unset({"name": name}))

    @operation(OperationSpec("PUT", "/api/1/environments/{id}/markers", media_type=JSON))
    def replace_markers(self, environment_id: str, *, markers: Sequence[Marker]) -> Call[None]:
        """Replaces the markers of an environment.

        Needs: EditEnvironment.
        """
        return Call(NoneType, (environment_id,), body=omit_unset({"markers": markers}))

    @operation(OperationSpec("GET", "/api/1/environments/{id}/markers"))
    def read_markers(self, environment_id: str) -> Call[Markers]:
        """Reads the markers of an environment.

        Needs: Read.
        """
        return Call(Markers, (environment_id,))

    @operation(OperationSpec("PUT", "/api/1/environments/{id}/properties", media_type=JSON))
    def replace_properties(self, environment_id: str, *, properties: Sequence[Property]) -> Call[None]:
        """Replaces the properties of an environment.

        Needs: EditEnvironment.
        """
        return Call(NoneType, (environment_id,), body=omit_unset({"properties": properties}))

    @operation(OperationSpec("GET", "/api/1/environments/{id}/properties"))
    def read_properties(self, environment_id: str) -> Call[Properties]:
        """Reads the properties of an environment.

        Needs: Read.
        """
        return Call(Properties, (environment_id,))

    @operation(OperationSpec("PUT", "/api/1/environments/{id}/services", media_type=JSON))
    def replace_environment_services(self, environment_id: str, *, services: Sequence[str]) -> Call[None]:
        """Makes an environment offer exactly these services.

        Needs: EditEnvironment on the environment and each service that comes or goes.
        """
        return Call(NoneType, (environment_id,), body=omit_unset({"services": services}))

    @operation(OperationSpec("GET", "/api/1/environments/{id}/services"))
    def read_environment_services(self, environment_id: str) -> Call[OfferedServices]:
        """Reads which services an environment offers.

        Needs: Read.
        """
        return Call(OfferedServices, (environment_id,))

    @list_operation(OperationSpec("GET", "/api/1/environments/{id}/offers"))
    def list_environment_offers(
        self, environment_id: str, *, limit: int | None = None, after: str | None = None
    ) -> Call[list[OfferedInstance]]:
        """Lists the instances that the environment offers as services.

        Needs: Read.

        `limit`: At most so many items; without it, all of them.

        `after`: Only items after the one with this id.
        """
        return Call(list[OfferedInstance], (environment_id,), query={"limit": limit, "after": after})

    # Services

    @list_operation(OperationSpec("GET", "/api/1/organizations/{orgId}/services"))
    def list_services(
        self, organization_id: str, *, limit: int | None = None, after: str | None = None
    ) -> Call[list[ServiceItem]]:
        """Lists the service instances of an organization.

        Needs: Read on each service shown.

        `limit`: At most so many items; without it, all of them.

        `after`: Only items after the one with this id.
        """
        return Call(list[ServiceItem], (organization_id,), query={"limit": limit, "after": after})

    @operation(OperationSpec("POST", "/api/1/organizations/{orgId}/services", media_type=JSON, keyed=True))
    def create_service(
        self,
        organization_id: str,
        *,
        name: str,
        type_id: str,
        zone_id: str | None = None,
        parameters: Mapping[str, Any] | None = None,
        idempotency_key: str | None = None,
    ) -> Call[Created]:
        """Creates a service instance.

        Needs: CreateService.
        """
        return Call(
            Created,
            (organization_id,),
            body=omit_unset({"name": name, "typeId": type_id, "zoneId": zone_id, "parameters": parameters}),
            idempotency_key=idempotency_key,
        )

    @list_operation(OperationSpec("GET", "/api/1/organizations/{orgId}/serviceTypes"))
    def list_service_types(self, organization_id: str) -> Call[list[ServiceTypeShape]]:
        """Lists the types that services can be made of, with their parameters and commands.

        Needs: None: everybody in the organization may know.
        """
        return Call(list[ServiceTypeShape], (organization_id,))

    @list_operation(OperationSpec("GET", "/api/1/organizations/{orgId}/zones"))
    def list_zones(
        self, organization_id: str, *, limit: int | None = None, after: str | None = None
    ) -> Call[list[Named]]:
        """Lists the zones that services can be in.

        Needs: None: everybody in the organization may know.

        `limit`: At most so many items; without it, all of them.

        `after`: Only items after the one with this id.
        """
        return Call(list[Named], (organization_id,), query={"limit": limit, "after": after})

    @operation(OperationSpec("GET", "/api/1/services/{id}"))
    def read_service(self, service_id: str) -> Call[ServiceDocument]:
        """Reads a service instance; secret parameters are masked.

        Needs: Read.
        """
        return Call(ServiceDocument, (service_id,))

    @operation(OperationSpec("PUT", "/api/1/services/{id}", media_type=JSON))
    def update_service(
        self, service_id: str, *, name: str | None = None, parameters: Mapping[str, Any] | None = None
    ) -> Call[ServiceDocument]:
        """Changes the name and the named parameters of a service instance.

        Needs: EditService.
        """
        return Call(ServiceDocument, (service_id,), body=omit_unset({"name": name, "parameters": parameters}))

    @operation(OperationSpec("DELETE", "/api/1/services/{id}"))
    def delete_service(self, service_id: str) -> Call[None]:
        """Deletes a service instance; no environment offers it any longer.

        Needs: EditService.
        """
        return Call(NoneType, (service_id,))

    @operation(OperationSpec("POST", "/api/1/services/{id}/{commandname}", media_type=JSON))
    def run_service_command(
        self,
        service_id: str,
        command: str,
        *,
        arguments: Mapping[str, Any] | None = None,
        include_intermediate: bool | None = None,
    ) -> Call[list[dict[str, Any]]]:
        """Runs a command on a service instance and returns its results, the final one last.

        Needs: RunServiceCommand.
        """
        return Call(
            list[dict[str, Any]],
            (service_id, command),
            body=omit_unset({"arguments": arguments, "includeIntermediate": include_intermediate}),
        )

    # Instances

    @list_operation(OperationSpec("GET", "/api/1/environments/{envId}/instances"))
    def list_environment_instances(
        self,
        environment_id: str,
        *,
        limit: int | None = None,
        after: str | None = None,
        status: str | None = None,
        name: str | None = None,
    ) -> Call[list[InstanceSummary]]:
        """Lists the instances of an environment.

        Needs: Read.

        `limit`: At most so many items; without it, all of them.

        `after`: Only items after the one with this id.

        `status`: Only instances in this status.

        `name`: Only instances of exactly this name.
        """
        return Call(
            list[InstanceSummary],
            (environment_id,),
            query={"limit": limit, "after": after, "status": status, "name": name},
        )

    @list_operation(OperationSpec("GET", "/api/1/applications/{appId}/instances"))
    def list_application_instances(
        self,
        application_id: str,
        *,
        limit: int | None = None,
        after: str | None = None,
        status: str | None = None,
        name: str | None = None,
    ) -> Call[list[InstanceSummary]]:
        """Lists the instances of an application.

        Needs: Read.

        `limit`: At most so many items; without it, all of them.

        `after`: Only items after the one with this id.

        `status`: Only instances in this status.

        `name`: Only instances of exactly this name.
        """
        return Call(
            list[InstanceSummary],
            (application_id,),
            query={"limit": limit, "after": after, "status": status, "name": name},
        )

    @list_operation(OperationSpec("GET", "/api/1/revisions/{revId}/instances"))
    def list_revision_instances(
        self,
        revision_id: str,
        *,
        limit: int | None = None,
        after: str | None = None,
        status: str | None = None,
        name: str | None = None,
    ) -> Call[list[InstanceSummary]]:
        """Lists the instances of a revision.

        Needs: Read.

        `limit`: At most so many items; without it, all of them.

        `after`: Only items after the one with this id.

        `status`: Only instances in this status.

        `name`: Only instances of exactly this name.
        """
        return Call(
            list[InstanceSummary],
            (revision_id,),
            query={"limit": limit, "after": after, "status": status, "name": name},
        )

    @operation(OperationSpec("GET", "/api/1/instances/{id}"))
    def read_instance(self, instance_id: str) -> Call[InstanceDocument]:
        """Reads an instance with its workflow history.

        Needs: Read.
        """
        return Call(InstanceDocument, (instance_id,))

    @operation(OperationSpec("DELETE", "/api/1/instances/{id}"))
    def delete_instance(self, instance_id: str, *, force: int | None = None) -> Call[None]:
        """Deletes a destroyed instance; with force also an active one, which is destroyed first.

        Needs: DeleteInstance.

        `force`: 1 deletes an active instance too, after destroying it.
        """
        return Call(NoneType, (instance_id,), query={"force": force})

    @operation(OperationSpec("PUT", "/api/1/instances/{id}/userData", media_type=JSON))
    def put_user_data(self, instance_id: str, user_data: Mapping[str, Any]) -> Call[None]:
        """Associates user data with the instance.

        Needs: EditInstance.
        """
        return Call(NoneType, (instance_id,), body=user_data)

    @operation(OperationSpec("PUT", "/api/1/instances/{id}/configuration", media_type=JSON))
    def reconfigure_instance(
        self,
        instance_id: str,
        *,
        instance_name: str | None = None,
        manifest_version: int | str | None = None,
        revision_id: str | None = None,
        parameters: Mapping[str, Any] | None = None,
        submodules: Mapping[str, Any] | None = None,
    ) -> Call[None]:
        """Gives the instance a new configuration, which takes effect some time after the answer.

        Needs: EditInstance; CreateInstance on applications of new submodules.

        `instance_name`: The new name; unchanged when left out.

        `manifest_version`: The new manifest version; it wins over the revision's.

        `revision_id`: The new revision.

        `parameters`: Name to value.

        `submodules`: Submodule id to its configuration.
        """
        return Call(
            NoneType,
            (instance_id,),
            body=omit_unset(
                {
                    "instanceName": instance_name,
                    "manifestVersion": manifest_version,
                    "revisionId": revision_id,
                    "parameters": parameters,
                    "submodules": submodules,
                }
            ),
        )

    @operation(OperationSpec("POST", "/api/1/instances/{id}/configuration/preview", media_type=JSON, repeatable=True))
    def preview_configuration(
        self,
        instance_id: str,
        *,
        instance_name: str | None = None,
        manifest_version: int | str | None = None,
        revision_id: str | None = None,
        parameters: Mapping[str, Any] | None = None,
        submodules: Mapping[str, Any] | None = None,
    ) -> Call[Preview]:
        """Tells what a reconfiguration would do, and changes nothing.

        Needs: EditInstance; CreateInstance on applications of new submodules.

        `instance_name`: The new name; unchanged when left out.

        `manifest_version`: The new manifest version; it wins over the revision's.

        `revision_id`: The new revision.

        `parameters`: Name to value.

        `submodules`: Submodule id to its configuration.
        """
        return Call(
            Preview,
            (instance_id,),
            body=omit_unset(
                {
                    "instanceName": instance_name,
                    "manifestVersion": manifest_version,
                    "revisionId": revision_id,
                    "parameters": parameters,
                    "submodules": submodules,
                }
            ),
        )

    @operation(OperationSpec("GET", "/api/1/instances/{id}/environments"))
    def read_instance_environments(self, instance_id: str) -> Call[OfferedIn]:
        """Reads which environments offer the instance as a service.

        Needs: Read.
        """
        return Call(OfferedIn, (instance_id,))

    @operation(OperationSpec("PUT", "/api/1/instances/{id}/environments", media_type=JSON))
    def replace_instance_environments(self, instance_id: str, *, environments: Sequence[str]) -> Call[None]:
        """Offers the instance as a service in exactly these environments; an offered instance does not expire.

        Needs: EditInstance; EditEnvironment on the instance and each environment that comes or goes.
        """
        return Call(NoneType, (instance_id,), body=omit_unset({"environments": environments}))

    @operation(OperationSpec("PUT", "/api/1/instances/{id}/destroyAt", media_type=JSON))
    def set_destroy_at(self, instance_id: str, *, destroy_at: int) -> Call[None]:
        """Sets when the instance is destroyed by itself; -1 lets it live on.

        Needs: EditInstance.
        """
        return Call(NoneType, (instance_id,), body=omit_unset({"destroyAt": destroy_at}))

    # Workflows

    @operation(OperationSpec("POST", "/api/1/instances/{id}/{workflow}", media_type=JSON, keyed=True))
    def run_workflow(
        self,
        instance_id: str,
        workflow: str,
        parameters: Mapping[str, Any] | None = None,
        *,
        idempotency_key: str | None = None,
    ) -> Call[Created]:
        """Runs a workflow on the instance.

        Needs: RunInstanceWorkflow; EditInstance for destroy.
        """
        return Call(Created, (instance_id, workflow), body=parameters or {}, idempotency_key=idempotency_key)

    @operation(OperationSpec("POST", "/api/1/instances/{id}/{workflow}/schedule", media_type=JSON, keyed=True))
    def schedule_workflow(
        self,
        instance_id: str,
        workflow: str,
        *,
        interval: int | str,
        parameters: Mapping[str, Any] | None = None,
        idempotency_key: str | None = None,
    ) -> Call[Scheduled]:
        """Schedules a workflow; interval 0 runs it at once.

        Needs: ScheduleInstanceWorkflow; EditInstance for destroy.
        """
        return Call(
            Scheduled,
            (instance_id, workflow),
            body=omit_unset({"interval": interval, "parameters": parameters}),
            idempotency_key=idempotency_key,
        )

    @operation(OperationSpec("POST", "/api/1/instances/{id}/{workflow}/reschedule", media_type=JSON))
    def reschedule_workflow(
        self, instance_id: str, workflow: str, *, interval: int | str, parameters: Mapping[str, Any] | None = None
    ) -> Call[Scheduled]:
        """Moves a schedule, named by its id or workflow; interval 0 cancels it.

        Needs: ScheduleInstanceWorkflow; EditInstance for destroy.
        """
        return Call(
            Scheduled, (instance_id, workflow), body=omit_unset({"interval": interval, "parameters": parameters})
        )

    @operation(OperationSpec("GET", "/api/1/instances/{id}/schedules"))
    def list_schedules(self, instance_id: str) -> Call[Schedules]:
        """Lists the pending schedules of the instance.

        Needs: Read.
        """
        return Call(Schedules, (instance_id,))

    # Jobs

    @list_operation(OperationSpec("GET", "/api/1/instances/{id}/jobs"))
    def list_jobs(
        self, instance_id: str, *, limit: int | None = None, after: str | None = None
    ) -> Call[list[JobDocument]]:
        """Lists the jobs of the instance.

        Needs: Read.

        `limit`: At most so many items; without it, all of them.

        `after`: Only items after the one with this id.
        """
        return Call(list[JobDocument], (instance_id,), query={"limit": limit, "after": after})

    @operation(OperationSpec("GET", "/api/1/instances/{id}/jobs/{jobId}"))
    def read_job(self, instance_id: str, job_id: str) -> Call[JobDetail]:
        """Reads a job with all its steps: attempts, times, outputs, errors; secrets are covered.

        Needs: Read.
        """
        return Call(JobDetail, (instance_id, job_id))

    @operation(OperationSpec("DELETE", "/api/1/instances/{id}/jobs/{jobId}"))
    def cancel_job(self, instance_id: str, job_id: str) -> Call[None]:
        """Cancels a job under way: its running steps are interrupted, and it ends as failed soon.

        Needs: RunInstanceWorkflow; EditInstance for destroy.
        """
        return Call(NoneType, (instance_id, job_id))

    @operation(OperationSpec("POST", "/api/1/instances/{id}/jobs/{jobId}/resume", media_type=JSON, keyed=True))
    def resume_job(
        self,
        instance_id: str,
        job_id: str,
        *,
        parameters: Mapping[str, Any] | None = None,
        idempotency_key: str | None = None,
    ) -> Call[Created]:
        """Runs the newest job again from where it failed; the steps that are done stay done.

        Needs: RunInstanceWorkflow; EditInstance for destroy.
        """
        return Call(
            Created, (instance_id, job_id), body=omit_unset({"parameters": parameters}), idempotency_key=idempotency_key
        )

    @list_operation(OperationSpec("GET", "/api/1/instances/{id}/log"))
    def read_log(
        self,
        instance_id: str,
        *,
        job: str | None = None,
        step: str | None = None,
        after: int | None = None,
        limit: int | None = None,
    ) -> Call[list[LogLine]]:
        """Reads the log of the instance, of one job or of one step; secrets are covered.

        Needs: Read.

        `job`: Only lines of the job with this id.

        `step`: Only lines of the step with this path.

        `after`: Only lines after the one with this id.

        `limit`: At most so many lines; without it, all.
        """
        return Call(list[LogLine], (instance_id,), query={"job": job, "step": step, "after": after, "limit": limit})

    @event_operation(OperationSpec("GET", "/api/1/instances/{id}/events", answer="text/event-stream"))
    def watch_instance(self, instance_id: str, *, after: int | None = None) -> Call[Event]:
        """Streams what happens to the instance as server-sent events: status, job, step, log, signal, approval.

        Needs: Read.

        `after`: Like the header Last-Event-ID, which wins.
        """
        return Call(Event, (instance_id,), query={"after": after})

    # Approvals

    @list_operation(OperationSpec("GET", "/api/1/organizations/{orgId}/approvals"))
    def list_approvals(
        self, organization_id: str, *, limit: int | None = None, after: str | None = None
    ) -> Call[list[Approval]]:
        """Lists the approvals that workflows of the organization wait for.

        Needs: Read for the instance of each.

        `limit`: At most so many items; without it, all of them.

        `after`: Only items after the one with this id.
        """
        return Call(list[Approval], (organization_id,), query={"limit": limit, "after": after})

    @list_operation(OperationSpec("GET", "/api/1/instances/{id}/approvals"))
    def list_instance_approvals(
        self, instance_id: str, *, limit: int | None = None, after: str | None = None
    ) -> Call[list[Approval]]:
        """Lists the approvals that workflows of the instance wait for or have got.

        Needs: Read.

        `limit`: At most so many items; without it, all of them.

        `after`: Only items after the one with this id.
        """
        return Call(list[Approval], (instance_id,), query={"limit": limit, "after": after})

    @operation(OperationSpec("POST", "/api/1/approvals/{approvalId}/approve", media_type=JSON, keyed=True))
    def approve(
        self, approval_id: str, *, comment: str | None = None, idempotency_key: str | None = None
    ) -> Call[Approval]:
        """Approves what a step waits for.

        Needs: ApproveInstanceWorkflow, and what the step asks for.
        """
        return Call(Approval, (approval_id,), body=omit_unset({"comment": comment}), idempotency_key=idempotency_key)

    @operation(OperationSpec("POST", "/api/1/approvals/{approvalId}/reject", media_type=JSON, keyed=True))
    def reject(
        self, approval_id: str, *, comment: str | None = None, idempotency_key: str | None = None
    ) -> Call[Approval]:
        """Rejects what a step waits for: the step fails, and is not tried again.

        Needs: ApproveInstanceWorkflow, and what the step asks for.
        """
        return Call(Approval, (approval_id,), body=omit_unset({"comment": comment}), idempotency_key=idempotency_key)

    # Audit

    @list_operation(OperationSpec("GET", "/api/1/organizations/{orgId}/audit"))
    def list_audit_entries(
        self,
        organization_id: str,
        *,
        limit: int | None = None,
        after: str | None = None,
        actor: str | None = None,
        object_: str | None = None,
    ) -> Call[list[AuditEntryShape]]:
        """Lists what was changed in an organization: by whom, when, from where, before and after.

        Needs: ViewAudit.

        `limit`: At most so many items; without it, all of them.

        `after`: Only items after the one with this id.

        `actor`: Only by this user: an id or an e-mail address.

        `object_`: Only about this object: its id, or a path that stands for all below it too.
        """
        return Call(
            list[AuditEntryShape],
            (organization_id,),
            query={"limit": limit, "after": after, "actor": actor, "object": object_},
        )

    # Webhooks

    @list_operation(OperationSpec("GET", "/api/1/organizations/{orgId}/webhooks"))
    def list_webhooks(
        self, organization_id: str, *, limit: int | None = None, after: str | None = None
    ) -> Call[list[Webhook]]:
        """Lists the webhooks of the organization.

        Needs: ManageUsers for all users of the organization.

        `limit`: At most so many items; without it, all of them.

        `after`: Only items after the one with this id.
        """
        return Call(list[Webhook], (organization_id,), query={"limit": limit, "after": after})

    @operation(OperationSpec("POST", "/api/1/organizations/{orgId}/webhooks", media_type=JSON, keyed=True))
    def create_webhook(
        self,
        organization_id: str,
        *,
        url: str,
        events: Sequence[str],
        secret: str | None = None,
        idempotency_key: str | None = None,
    ) -> Call[CreatedWebhook]:
        """Creates a webhook: a URL that is told, signed, what happens to the organization's instances.

        Needs: ManageUsers for all users of the organization.

        `events`: Of status, job, signal, approval and notification.
        """
        return Call(
            CreatedWebhook,
            (organization_id,),
            body=omit_unset({"url": url, "events": events, "secret": secret}),
            idempotency_key=idempotency_key,
        )

    @operation(OperationSpec("PUT", "/api/1/webhooks/{webhookId}", media_type=JSON))
    def update_webhook(
        self,
        webhook_id: str,
        *,
        url: str | None = None,
        events: Sequence[str] | None = None,
        secret: str | None = None,
        enabled: bool | None = None,
    ) -> Call[None]:
        """Changes what is given of the webhook, or switches it off or on.

        Needs: ManageUsers for all users of the organization.

        `events`: Of status, job, signal, approval and notification.
        """
        return Call(
            NoneType,
            (webhook_id,),
            body=omit_unset({"url": url, "events": events, "secret": secret, "enabled": enabled}),
        )

    @operation(OperationSpec("DELETE", "/api/1/webhooks/{webhookId}"))
    def delete_webhook(self, webhook_id: str) -> Call[None]:
        """Deletes the webhook with its deliveries.

        Needs: ManageUsers for all users of the organization.
        """
        return Call(NoneType, (webhook_id,))

    @list_operation(OperationSpec("GET", "/api/1/webhooks/{webhookId}/deliveries"))
    def list_deliveries(
        self, webhook_id: str, *, limit: int | None = None, after: str | None = None
    ) -> Call[list[Delivery]]:
        """Lists what was sent to the webhook and what is on its way.

        Needs: ManageUsers for all users of the organization.

        `limit`: At most so many items; without it, all of them.

        `after`: Only items after the one with this id.
        """
        return Call(list[Delivery], (webhook_id,), query={"limit": limit, "after": after})

    # Account

    @operation(OperationSpec("PUT", "/api/1/users/me/password", media_type=JSON))
    def change_password(self, *, current_password: str, new_password: str) -> Call[None]:
        """Changes the caller's password.

        Needs: None: everybody's own.
        """
        return Call(NoneType, body=omit_unset({"currentPassword": current_password, "newPassword": new_password}))

    @list_operation(OperationSpec("GET", "/api/1/tokens"))
    def list_tokens(self, *, limit: int | None = None, after: str | None = None) -> Call[list[TokenItem]]:
        """Lists the caller's refresh tokens; never their values.

        Needs: None: everybody's own.

        `limit`: At most so many items; without it, all of them.

        `after`: Only items after the one with this id.
        """
        return Call(list[TokenItem], query={"limit": limit, "after": after})

    @operation(OperationSpec("DELETE", "/api/1/tokens/{id}"))
    def revoke_token(self, token_id: str) -> Call[None]:
        """Revokes one of the caller's refresh tokens.

        Needs: None: everybody's own.
        """
        return Call(NoneType, (token_id,))

    @operation(OperationSpec("POST", "/refreshToken/jwtBearer", media_type=JSON, repeatable=True, public=True))
    def exchange_token(self, *, refresh_token: str) -> Call[SessionToken]:
        """Exchanges a refresh token for a session token."""
        return Call(SessionToken, body=omit_unset({"refreshToken": refresh_token}))

    # Pages

    @operation(OperationSpec("GET", "/refreshToken", answer="text/html", public=True))
    def refresh_token_page(self) -> Call[str]:
        """The page where people sign in to generate a refresh token."""
        return Call(str)

    @operation(
        OperationSpec(
            "POST", "/refreshToken", media_type="application/x-www-form-urlencoded", answer="text/html", public=True
        )
    )
    def generate_token(self, *, email: str, password: str, label: str | None = None) -> Call[str]:
        """Signs in and shows a new refresh token, this once."""
        return Call(str, body=omit_unset({"email": email, "password": password, "label": label}))

    @operation(OperationSpec("GET", "/invitation/{token}", answer="text/html", public=True))
    def invitation_page(self, token: str) -> Call[str]:
        """The page where an invited user sets the first password."""
        return Call(str, (token,))

    @operation(
        OperationSpec(
            "POST",
            "/invitation/{token}",
            media_type="application/x-www-form-urlencoded",
            answer="text/html",
            public=True,
        )
    )
    def accept_invitation(self, token: str, *, password: str, repeated: str) -> Call[str]:
        """Sets the first password; the link works once."""
        return Call(str, (token,), body=omit_unset({"password": password, "repeated": repeated}))

    @operation(OperationSpec("GET", "/signIn/openid", answer="text/html", public=True))
    def begin_sign_in(self, *, to: str | None = None) -> Call[str]:
        """Sends the browser to the OpenID Connect provider to sign in."""
        return Call(str, query={"to": to})

    @operation(OperationSpec("GET", "/signIn/openid/callback", answer="text/html", public=True))
    def finish_sign_in(
        self,
        *,
        code: str | None = None,
        state: str | None = None,
        error: str | None = None,
        error_description: str | None = None,
        iss: str | None = None,
    ) -> Call[str]:
        """Takes the provider's answer and shows a new refresh token, this once."""
        return Call(
            str,
            query={"code": code, "state": state, "error": error, "error_description": error_description, "iss": iss},
        )

    # Health

    @operation(OperationSpec("GET", "/health/live", public=True))
    def health_live(self) -> Call[Health]:
        """Tells that the process lives."""
        return Call(Health)

    @operation(OperationSpec("GET", "/health/ready", public=True))
    def health_ready(self) -> Call[Health]:
        """Tells whether the process can answer requests: whether its database does."""
        return Call(Health)

    @operation(OperationSpec("GET", "/metrics", answer="text/plain", public=True))
    def read_metrics(self) -> Call[str]:
        """Shows the metrics of this process in Prometheus' text format."""
        return Call(str)

    # Description

    @operation(OperationSpec("GET", "/api/1/openapi.json", public=True))
    def openapi(self) -> Call[dict[str, Any]]:
        """Describes this API: an OpenAPI 3.1 document."""
        return Call(dict[str, Any])

    @operation(OperationSpec("GET", "/docs", answer="text/html", public=True))
    def browse_api(self) -> Call[str]:
        """Shows this API as a page: calls by family, parameters, answers, and command lines to try."""
        return Call(str)
