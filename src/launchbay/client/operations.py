"""Every operation of the API, as methods of both clients.

Made from the endpoint table by `python -m generators`; a test holds that it is up to date.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from msgspec import UNSET, UnsetType

from launchbay.client import types
from launchbay.client.core import JSON, Call, OperationSpec
from launchbay.client.operation import event_operation, list_operation, operation
from launchbay.client.streams import Event


class Operations:
    """The operations: on a client they make calls, on this class they are data (`operation.py`)."""

    # Organizations

    @list_operation(OperationSpec("GET", "/api/1/organizations"))
    def list_organizations(self, *, limit: int | None = None, after: str | None = None) -> Call[list[types.Named]]:
        """List your organizations. Permission: None: lists your own organizations.

        `limit`: Maximum number of items. Default: all.
        `after`: Only items after the one with this ID.
        """

    @operation(OperationSpec("POST", "/api/1/organizations", media_type=JSON, keyed=True))
    def create_organization(self, *, name: str, idempotency_key: str | None = None) -> Call[types.Created]:
        """Create an organization with its default environment, services and roles. The caller becomes its
        administrator. Permission: Administrator of the server (setting `organization_creators`).
        """

    @operation(OperationSpec("GET", "/api/1/organizations/{orgId}"))
    def read_organization(self, organization_id: str) -> Call[types.Named]:
        """Show an organization. Permission: None: every member."""

    @operation(OperationSpec("PUT", "/api/1/organizations/{orgId}", media_type=JSON))
    def rename_organization(self, organization_id: str, *, name: str, if_match: str | None = None) -> Call[None]:
        """Rename an organization. Permission: ManageUsers for all users."""

    @operation(OperationSpec("POST", "/api/1/organizations/{orgId}/directory/preview", media_type=JSON))
    def preview_directory(
        self, organization_id: str, *, files: Mapping[str, Any], prune: bool | None = None, if_match: str | None = None
    ) -> Call[types.DirectoryPreview]:
        """Show what applying a directory would do, and what rules would refuse. Permission: Read; what its changes
        need.
        """

    @operation(OperationSpec("GET", "/api/1/organizations/{orgId}/archive"))
    def export_organization(self, organization_id: str) -> Call[types.Archive]:
        """Export an organization as one document, without secrets and instances. Permission: ManageUsers for all
        users and ManageRoles for all roles.
        """

    @operation(OperationSpec("POST", "/api/1/archives", media_type=JSON, keyed=True))
    def import_organization(
        self,
        *,
        archive: Mapping[str, Any],
        name: str | None = None,
        plan: bool | None = None,
        idempotency_key: str | None = None,
    ) -> Call[types.ImportedOrganization]:
        """Create an organization from an archive, all of it or nothing. The caller becomes its administrator.
        Permission: Administrator of the server (setting `organization_creators`).

        `name`: Name to use instead of the one in the archive.
        `plan`: Only return the plan; create nothing.
        """

    @operation(OperationSpec("GET", "/api/1/organizations/{orgId}/archive/lines", answer="application/x-ndjson"))
    def export_organization_lines(self, organization_id: str) -> Call[str]:
        """Export an organization of any size, as lines of JSON, without secrets and instances. Permission:
        ManageUsers for all users and ManageRoles for all roles.
        """

    @operation(
        OperationSpec(
            "POST",
            "/api/1/archives/lines",
            media_type="application/x-ndjson",
            query=(
                "name",
                "plan",
            ),
        )
    )
    def import_organization_lines(
        self, file: Path, *, name: str | None = None, plan: bool | None = None
    ) -> Call[types.ImportedOrganization]:
        """Create an organization from an archive in lines, all of it or nothing. Permission: Administrator of the
        server (setting `organization_creators`).

        `name`: Name to use instead of the one in the archive.
        `plan`: Only return the plan; create nothing.
        """

    @operation(OperationSpec("GET", "/api/1/organizations/{orgId}/directory"))
    def read_directory(self, organization_id: str) -> Call[types.DirectoryObjects]:
        """Show services, accounts, users, Git sources and schedules by name, without secrets. Permission: Read on
        each object returned.
        """

    @operation(OperationSpec("PUT", "/api/1/organizations/{orgId}/directory", media_type=JSON))
    def put_directory_object(
        self,
        organization_id: str,
        *,
        kind: Literal["git-source", "schedule", "service", "service-account", "user"],
        name: str,
        content: str,
        if_match: str | None = None,
    ) -> Call[types.PutObject]:
        """Create the object of this name, or change it. Its secrets stay. Permission: Those to create or to change
        such an object.

        `kind`: The kind of the object, which decides about its content.
        `content`: The text of the object's file, in YAML. It names other objects.
        """

    @list_operation(OperationSpec("GET", "/api/1/organizations/{orgId}/concurrency"))
    def list_concurrency_groups(self, organization_id: str) -> Call[list[types.ConcurrencyGroup]]:
        """List groups of jobs with a limit: which have started, and which wait. Permission: membership; Read on the
        instances.
        """

    @operation(OperationSpec("GET", "/api/1/organizations/{orgId}/change-rules"))
    def read_organization_rules(self, organization_id: str, *, version: int | None = None) -> Call[types.RulesDocument]:
        """Show the rules about changes of an organization. Permission: None, for members.

        `version`: Default: the version that is in force.
        """

    @operation(OperationSpec("PUT", "/api/1/organizations/{orgId}/change-rules", media_type=JSON))
    def replace_organization_rules(
        self, organization_id: str, *, rules: str, dry_run: bool | None = None, if_match: str | None = None
    ) -> Call[types.RulesSaved]:
        """Set the rules about changes of an organization. Permission: EditRules for everything.

        `rules`: The rules as YAML. An empty text removes them.
        `dry_run`: Only check them, and compare them with recent changes.
        """

    @list_operation(OperationSpec("GET", "/api/1/organizations/{orgId}/change-rules/versions"))
    def list_organization_rules(self, organization_id: str) -> Call[list[types.RulesVersion]]:
        """List the versions of an organization's rules, newest first. Permission: None, for members."""

    @operation(OperationSpec("GET", "/api/1/organizations/{orgId}/promotion-order"))
    def read_promotion_order(self, organization_id: str) -> Call[types.OrderDocument]:
        """Show the order in which versions pass environments, unless an application has its own. Permission: None,
        for members.
        """

    @operation(OperationSpec("PUT", "/api/1/organizations/{orgId}/promotion-order", media_type=JSON))
    def replace_promotion_order(
        self, organization_id: str, *, stages: Sequence[types.StageBody] | None = None, if_match: str | None = None
    ) -> Call[None]:
        """Set the order in which versions pass environments. Permission: EditEnvironment for each environment that
        it names or named.

        `stages`: All of them. Empty: no order. Without it: an application has the order of its organization again.
        """

    @list_operation(OperationSpec("GET", "/api/1/organizations/{orgId}/usage"))
    def read_usage(
        self, organization_id: str, *, limit: int | None = None, after: str | None = None
    ) -> Call[list[types.Usage]]:
        """List what an organization uses and what it may use. Permission: None: every member.

        `limit`: Maximum number of items. Default: all.
        `after`: Only items after the one with this ID.
        """

    @list_operation(OperationSpec("GET", "/api/1/organizations/{orgId}/hostKeys"))
    def list_host_keys(
        self, organization_id: str, *, limit: int | None = None, after: str | None = None
    ) -> Call[list[types.HostKey]]:
        """List the pinned SSH host keys of an organization. Permission: EditEnvironment for all environments of the
        organization.

        `limit`: Maximum number of items. Default: all.
        `after`: Only items after the one with this ID.
        """

    @operation(OperationSpec("DELETE", "/api/1/organizations/{orgId}/hostKeys/{host}"))
    def forget_host_key(self, organization_id: str, host: str, *, if_match: str | None = None) -> Call[None]:
        """Forget the pinned key of a host, such as 10.0.0.5:22. The next key it presents is pinned. Permission:
        EditEnvironment for all environments of the organization.
        """

    # Users

    @list_operation(OperationSpec("GET", "/api/1/organizations/{orgId}/users"))
    def list_users(
        self, organization_id: str, *, limit: int | None = None, after: str | None = None
    ) -> Call[list[types.UserItem]]:
        """List the users of an organization. Permission: Read on each user returned.

        `limit`: Maximum number of items. Default: all.
        `after`: Only items after the one with this ID.
        """

    @operation(OperationSpec("POST", "/api/1/organizations/{orgId}/users", media_type=JSON, keyed=True))
    def create_user(
        self,
        organization_id: str,
        *,
        email: str,
        name: str,
        password: str | None = None,
        roles: Sequence[str] | None = None,
        is_for_program: bool | None = None,
        idempotency_key: str | None = None,
    ) -> Call[types.AddedUser]:
        """Add a user to an organization, or invite an existing account. Permission: ManageUsers; ManageRoles too if
        roles are given.

        `password`: First password. Default: an invitation link for the user to set one.
        `is_for_program`: The account is for a program that signs in with this password, which never expires. The
        password of a person expires unless the person replaces it.
        """

    @list_operation(OperationSpec("GET", "/api/1/organizations/{orgId}/invitations"))
    def list_pending_users(
        self, organization_id: str, *, limit: int | None = None, after: str | None = None
    ) -> Call[list[types.PendingUser]]:
        """List people who have an account and are invited to an organization. Permission: ManageUsers on each user
        returned.

        `limit`: Maximum number of items. Default: all.
        `after`: Only items after the one with this ID.
        """

    @operation(OperationSpec("GET", "/api/1/organizations/{orgId}/users/{userId}"))
    def read_user(self, organization_id: str, user_id: str) -> Call[types.UserDetail]:
        """Show a user of an organization. Permission: Read on the user."""

    @operation(OperationSpec("PUT", "/api/1/organizations/{orgId}/users/{userId}", media_type=JSON))
    def update_user(
        self, organization_id: str, user_id: str, *, enabled: bool, if_match: str | None = None
    ) -> Call[None]:
        """Disable or enable a user's account. Permission: ManageUsers on the user, in the organization that made the
        account.

        `enabled`: Whether the account can sign in.
        """

    @operation(OperationSpec("DELETE", "/api/1/organizations/{orgId}/users/{userId}"))
    def remove_user(self, organization_id: str, user_id: str, *, if_match: str | None = None) -> Call[None]:
        """Remove a user from an organization. An account without any organization is deleted. Permission:
        ManageUsers on the user.
        """

    @operation(OperationSpec("PUT", "/api/1/organizations/{orgId}/users/{userId}/roles", media_type=JSON))
    def assign_roles(
        self, organization_id: str, user_id: str, roles: Sequence[str], *, if_match: str | None = None
    ) -> Call[None]:
        """Assign roles to a user. Permission: ManageRoles on the user and on each role."""

    @operation(OperationSpec("DELETE", "/api/1/organizations/{orgId}/users/{userId}/roles", media_type=JSON))
    def revoke_roles(
        self, organization_id: str, user_id: str, roles: Sequence[str], *, if_match: str | None = None
    ) -> Call[None]:
        """Revoke roles from a user. Permission: ManageRoles on the user and on each role."""

    @list_operation(OperationSpec("GET", "/api/1/organizations/{orgId}/signInBlocks"))
    def list_sign_in_blocks(
        self, organization_id: str, *, limit: int | None = None, after: str | None = None
    ) -> Call[list[types.SignInBlock]]:
        """List users blocked after wrong passwords. Permission: ManageUsers on each user returned.

        `limit`: Maximum number of items. Default: all.
        `after`: Only items after the one with this ID.
        """

    @operation(OperationSpec("DELETE", "/api/1/organizations/{orgId}/users/{userId}/signInBlock"))
    def lift_sign_in_block(self, organization_id: str, user_id: str, *, if_match: str | None = None) -> Call[None]:
        """Let a blocked user sign in again. Permission: ManageUsers on the user."""

    @operation(OperationSpec("DELETE", "/api/1/organizations/{orgId}/users/{userId}/secondFactors"))
    def reset_second_factors(self, organization_id: str, user_id: str, *, if_match: str | None = None) -> Call[None]:
        """Remove a user's second factors. Permission: ManageUsers where the account was made."""

    @operation(OperationSpec("GET", "/api/1/organizations/{orgId}/signInPolicy"))
    def read_sign_in_policy(self, organization_id: str) -> Call[types.SignInPolicy]:
        """Show whether an organization demands a second factor. Permission: None: every member."""

    @operation(OperationSpec("PUT", "/api/1/organizations/{orgId}/signInPolicy", media_type=JSON))
    def write_sign_in_policy(
        self, organization_id: str, *, second_factor_required: bool, if_match: str | None = None
    ) -> Call[None]:
        """Set the sign-in policy of an organization. Permission: ManageUsers for all users."""

    # Service accounts

    @list_operation(OperationSpec("GET", "/api/1/organizations/{orgId}/serviceAccounts"))
    def list_service_accounts(
        self, organization_id: str, *, limit: int | None = None, after: str | None = None
    ) -> Call[list[types.ServiceAccount]]:
        """List the service accounts of an organization. Permission: Read on each service account returned, as
        `/users/{id}`.

        `limit`: Maximum number of items. Default: all.
        `after`: Only items after the one with this ID.
        """

    @operation(OperationSpec("POST", "/api/1/organizations/{orgId}/serviceAccounts", media_type=JSON, keyed=True))
    def create_service_account(
        self,
        organization_id: str,
        *,
        name: str,
        description: str | None = None,
        roles: Sequence[str] | None = None,
        idempotency_key: str | None = None,
    ) -> Call[types.ServiceAccount]:
        """Create a service account, which programs use by access token. Permission: ManageUsers; ManageRoles too if
        roles are given.
        """

    @operation(OperationSpec("GET", "/api/1/organizations/{orgId}/serviceAccounts/{userId}"))
    def read_service_account(self, organization_id: str, service_account_id: str) -> Call[types.ServiceAccount]:
        """Show a service account. Permission: Read on the service account, as `/users/{id}`."""

    @operation(OperationSpec("PUT", "/api/1/organizations/{orgId}/serviceAccounts/{userId}", media_type=JSON))
    def update_service_account(
        self,
        organization_id: str,
        service_account_id: str,
        *,
        name: str | None = None,
        description: str | None = None,
        enabled: bool | None = None,
        if_match: str | None = None,
    ) -> Call[None]:
        """Rename, describe, disable or enable a service account. Permission: ManageUsers on the service account, as
        `/users/{id}`.

        `enabled`: Whether its tokens work. Disabling it revokes them.
        """

    @operation(OperationSpec("DELETE", "/api/1/organizations/{orgId}/serviceAccounts/{userId}"))
    def delete_service_account(
        self, organization_id: str, service_account_id: str, *, if_match: str | None = None
    ) -> Call[None]:
        """Delete a service account with its access tokens. Permission: ManageUsers on the service account, as
        `/users/{id}`.
        """

    @list_operation(OperationSpec("GET", "/api/1/organizations/{orgId}/accessTokens"))
    def list_access_tokens(
        self, organization_id: str, *, limit: int | None = None, after: str | None = None
    ) -> Call[list[types.AccessTokenItem]]:
        """List your own access tokens, and those of owners whom you manage. Permission: None for your own;
        ManageUsers on the owner for others.

        `limit`: Maximum number of items. Default: all.
        `after`: Only items after the one with this ID.
        """

    @operation(OperationSpec("POST", "/api/1/organizations/{orgId}/accessTokens", media_type=JSON))
    def create_access_token(
        self,
        organization_id: str,
        *,
        name: str | None = None,
        scope: Sequence[str] | None = None,
        days: int | None = None,
        owner: str | None = None,
    ) -> Call[types.CreatedAccessToken]:
        """Create an access token, and show it once. Permission: None for your own; for a service account,
        ManageRoles on it and on each of its roles.

        `scope`: What it allows: entries of a role, such as `Read: [/*]`. Default: all that its owner may do.
        `days`: Days until it expires, 1 to 366.
        `owner`: ID of the service account that it is for. Default: you.
        """

    @operation(OperationSpec("DELETE", "/api/1/organizations/{orgId}/accessTokens/{accessTokenId}"))
    def revoke_access_token(
        self, organization_id: str, access_token_id: str, *, if_match: str | None = None
    ) -> Call[None]:
        """Revoke an access token. Permission: None for your own; ManageUsers on the owner for others."""

    # Roles

    @list_operation(OperationSpec("GET", "/api/1/organizations/{orgId}/roles"))
    def list_roles(
        self, organization_id: str, *, limit: int | None = None, after: str | None = None
    ) -> Call[list[types.RoleItem]]:
        """List the roles of an organization. Permission: Read on each role returned.

        `limit`: Maximum number of items. Default: all.
        `after`: Only items after the one with this ID.
        """

    @operation(OperationSpec("POST", "/api/1/organizations/{orgId}/roles", media_type=JSON, keyed=True))
    def create_role(
        self, organization_id: str, *, name: str, permissions: str, idempotency_key: str | None = None
    ) -> Call[types.RoleDetail]:
        """Create a role. Permission: ManageRoles."""

    @operation(OperationSpec("POST", "/api/1/organizations/{orgId}/roles/check", media_type=JSON))
    def check_role(
        self, organization_id: str, *, permissions: str, role_id: str | None = None, if_match: str | None = None
    ) -> Call[types.RoleCheckDocument]:
        """Check the text of a role, and show who gains and loses what. Permission: ManageRoles.

        `role_id`: Default: a new role.
        """

    @operation(OperationSpec("GET", "/api/1/roles/{roleId}"))
    def read_role(self, role_id: str) -> Call[types.RoleDetail]:
        """Show a role with its permissions. Permission: Read."""

    @operation(OperationSpec("PUT", "/api/1/roles/{roleId}", media_type=JSON))
    def update_role(self, role_id: str, *, name: str, permissions: str, if_match: str | None = None) -> Call[None]:
        """Replace the name and permissions of a role. Applies from the next request of its holders. Permission:
        ManageRoles.
        """

    @operation(OperationSpec("DELETE", "/api/1/roles/{roleId}"))
    def delete_role(self, role_id: str, *, if_match: str | None = None) -> Call[None]:
        """Delete a role and revoke it from all its holders. Permission: ManageRoles."""

    @list_operation(OperationSpec("GET", "/api/1/organizations/{orgId}/groupRoles"))
    def list_group_roles(self, organization_id: str) -> Call[list[types.GroupItem]]:
        """List the roles of groups of the identity provider. Permission: ManageRoles."""

    @operation(OperationSpec("PUT", "/api/1/organizations/{orgId}/groupRoles", media_type=JSON))
    def replace_group_roles(
        self, organization_id: str, body: Sequence[types.GroupItem], *, if_match: str | None = None
    ) -> Call[None]:
        """Replace the roles of groups. Permission: ManageRoles for all users."""

    @operation(OperationSpec("GET", "/api/1/permissions/explain"))
    def explain_permission(
        self,
        *,
        permission: str,
        path: str,
        user: str | None = None,
        touching: str | None = None,
        organization: str | None = None,
    ) -> Call[types.Explained]:
        """Explain whether a user may do something, and which role, entry and pattern decide. Permission: None for
        yourself; ManageRoles on the user for others.

        `permission`: The permission's name, such as CreateInstance.
        `path`: The object's path, such as /applications/{id}.
        `user`: The user's ID. Default: the caller.
        `touching`: A second object of the operation, such as the /environments/{id} of a launch.
        `organization`: The organization, if the path is that of a user.
        """

    # Applications

    @list_operation(OperationSpec("GET", "/api/1/organizations/{orgId}/applications"))
    def list_applications(
        self, organization_id: str, *, limit: int | None = None, after: str | None = None, labels: str | None = None
    ) -> Call[list[types.Named]]:
        """List the applications of an organization. Permission: Read on each application returned.

        `limit`: Maximum number of items. Default: all.
        `after`: Only items after the one with this ID.
        `labels`: Only objects with these labels, such as `team=web,tier!=db`.
        """

    @operation(OperationSpec("POST", "/api/1/organizations/{orgId}/applications", media_type=JSON, keyed=True))
    def create_application(
        self, organization_id: str, *, name: str, idempotency_key: str | None = None
    ) -> Call[types.Created]:
        """Create an application with the default manifest, which does nothing. Permission: CreateApplication."""

    @operation(OperationSpec("GET", "/api/1/applications/{appId}"))
    def read_application(self, application_id: str) -> Call[types.ApplicationDocument]:
        """Show an application. Permission: Read."""

    @operation(OperationSpec("PUT", "/api/1/applications/{appId}", media_type=JSON))
    def rename_application(self, application_id: str, *, name: str, if_match: str | None = None) -> Call[None]:
        """Rename an application. Permission: EditApplication."""

    @operation(OperationSpec("DELETE", "/api/1/applications/{appId}"))
    def delete_application(self, application_id: str, *, if_match: str | None = None) -> Call[None]:
        """Delete an application with its manifests and revisions. All its instances must be destroyed. Permission:
        DeleteApplication.
        """

    @operation(
        OperationSpec(
            "POST",
            "/api/1/applications/{appId}/launch",
            media_type=JSON,
            keyed=True,
            query=("ifExists",),
            include="warnings",
        )
    )
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
        labels: Mapping[str, Any] | None = None,
        if_exists: Literal["allow", "fail", "return"] | None = None,
        if_match: str | None = None,
        idempotency_key: str | None = None,
    ) -> Call[types.LaunchAnswer]:
        """Launch an application into a new instance. Permission: CreateInstance on the application and the
        environment.

        `revision_id`: The revision to launch.
        `version`: The manifest version. Overrides the revision's. Default: the newest.
        `environment_id`: Default: the default environment.
        `destroy_interval`: Milliseconds until the instance is destroyed; -1 is never. Default: 1 hour.
        `instance_name`: Default: generated.
        `parameters`: Values by parameter name.
        `submodules`: Configurations by submodule ID. In one, `revisionId: null` means an own child.
        `labels`: Labels of the instance: names to strings.
        `if_exists`: If a living instance of the application has this name in the environment: `fail`, `return` it as
        it is, or `allow` a second one. Default: as the rules of application and environment say, else `allow`.
        """

    @operation(
        OperationSpec(
            "POST",
            "/api/1/applications/{appId}/launch/preview",
            media_type=JSON,
            repeatable=True,
            query=("ifExists",),
            include="warnings",
        )
    )
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
        labels: Mapping[str, Any] | None = None,
        if_exists: Literal["allow", "fail", "return"] | None = None,
        if_match: str | None = None,
    ) -> Call[types.Preview]:
        """Preview a launch without changing anything. Permission: CreateInstance on the application, its submodules
        and the environment.

        `revision_id`: The revision to launch.
        `version`: The manifest version. Overrides the revision's. Default: the newest.
        `environment_id`: Default: the default environment.
        `destroy_interval`: Milliseconds until the instance is destroyed; -1 is never. Default: 1 hour.
        `instance_name`: Default: generated.
        `parameters`: Values by parameter name.
        `submodules`: Configurations by submodule ID. In one, `revisionId: null` means an own child.
        `labels`: Labels of the instance: names to strings.
        `if_exists`: If a living instance of the application has this name in the environment: `fail`, `return` it as
        it is, or `allow` a second one. Default: as the rules of application and environment say, else `allow`.
        """

    @operation(OperationSpec("GET", "/api/1/applications/{appId}/failurePolicy"))
    def read_failure_policy(self, application_id: str) -> Call[types.FailurePolicyBody]:
        """Show what instances of an application do when a reconfiguration fails. Permission: Read."""

    @operation(OperationSpec("PUT", "/api/1/applications/{appId}/failurePolicy", media_type=JSON))
    def set_failure_policy(
        self, application_id: str, *, on_failure: Literal["keep", "rollback"], if_match: str | None = None
    ) -> Call[None]:
        """Set what instances of an application do when a reconfiguration fails. Permission: EditApplication."""

    @operation(OperationSpec("GET", "/api/1/applications/{appId}/concurrency"))
    def read_application_concurrency(self, application_id: str) -> Call[types.ConcurrencyBody]:
        """Show how many jobs of an application may run at a time. Permission: Read."""

    @operation(OperationSpec("PUT", "/api/1/applications/{appId}/concurrency", media_type=JSON))
    def replace_application_concurrency(
        self, application_id: str, *, limits: Sequence[types.ConcurrencyLimitBody], if_match: str | None = None
    ) -> Call[None]:
        """Set how many jobs of an application may run at a time. Permission: EditApplication."""

    @operation(OperationSpec("GET", "/api/1/applications/{appId}/lifetime"))
    def read_application_lifetime(self, application_id: str) -> Call[types.LifetimeBody]:
        """Show how long instances of an application may live. Permission: Read."""

    @operation(OperationSpec("PUT", "/api/1/applications/{appId}/lifetime", media_type=JSON))
    def replace_application_lifetime(
        self,
        application_id: str,
        *,
        default_ms: int | None = None,
        greatest_ms: int | None = None,
        may_never: bool | None = None,
        extend_ms: int | None = None,
        extensions: int | None = None,
        grace_ms: int | None = None,
        idle_ms: int | None = None,
        mail: bool | None = None,
        if_exists: Literal["allow", "fail", "return"] | UnsetType | None = UNSET,
        if_match: str | None = None,
    ) -> Call[None]:
        """Set how long instances of an application may live. Permission: EditApplication.

        `default_ms`: For launches that don't say how long; -1 means without an end.
        `greatest_ms`: The longest life, from the launch.
        `may_never`: Whether an instance may live on without an end.
        `extend_ms`: The maximum time that one extension adds.
        `extensions`: How often an instance may be extended.
        `grace_ms`: How long a destroy waits and can be taken back. Forced ones don't wait.
        `idle_ms`: An instance without a run for so long is destroyed; an hour or more.
        `mail`: Whether owners are warned by email, too.
        `if_exists`: What launches do whose name a living instance has, if they don't say it: `fail`, `return` that
        instance, or `allow` a second one. With the first two, no instance is renamed to such a name.
        """

    @operation(OperationSpec("GET", "/api/1/applications/{appId}/sleep"))
    def read_application_sleep(self, application_id: str) -> Call[types.SleepBody]:
        """Show when instances of an application sleep. Permission: Read."""

    @operation(OperationSpec("PUT", "/api/1/applications/{appId}/sleep", media_type=JSON))
    def replace_application_sleep(
        self,
        application_id: str,
        *,
        windows: Sequence[types.SleepWindowBody] | None = None,
        stop: str | None = None,
        start: str | None = None,
        when_busy: Literal["queue", "skip"] | None = None,
        if_match: str | None = None,
    ) -> Call[None]:
        """Set when instances of an application sleep. Permission: EditApplication; RunInstanceWorkflow for workflows
        that it names.

        `windows`: Without it: no rule. An application with an empty list doesn't sleep with its environment.
        `stop`: Default: the command `stop`.
        `start`: Default: the command `start`.
        `when_busy`: A busy instance sleeps later (`queue`), or not in this window (`skip`).
        """

    @operation(OperationSpec("GET", "/api/1/applications/{appId}/freeze"))
    def read_application_freeze(self, application_id: str) -> Call[types.FreezeDocument]:
        """Show why nothing of an application changes. Permission: Read."""

    @operation(OperationSpec("PUT", "/api/1/applications/{appId}/freeze", media_type=JSON))
    def set_application_freeze(self, application_id: str, *, reason: str) -> Call[None]:
        """Stop all changes of an application, its revisions and instances. Permission: EditApplication.

        `reason`: Everyone who is refused sees it.
        """

    @operation(OperationSpec("DELETE", "/api/1/applications/{appId}/freeze"))
    def lift_application_freeze(self, application_id: str, *, if_match: str | None = None) -> Call[None]:
        """Allow changes of an application again. Permission: EditApplication."""

    @operation(OperationSpec("GET", "/api/1/applications/{appId}/freeze-windows"))
    def read_application_freeze_windows(self, application_id: str) -> Call[types.FreezeWindowsBody]:
        """Show when nothing of an application changes. Permission: Read."""

    @operation(OperationSpec("PUT", "/api/1/applications/{appId}/freeze-windows", media_type=JSON))
    def replace_application_freeze_windows(
        self, application_id: str, *, windows: Sequence[types.FreezeWindowBody] | None = None
    ) -> Call[None]:
        """Set when nothing of an application changes. Permission: EditApplication.

        `windows`: All of them. Without windows, nothing freezes automatically.
        """

    @operation(OperationSpec("GET", "/api/1/applications/{appId}/change-rules"))
    def read_application_rules(self, application_id: str, *, version: int | None = None) -> Call[types.RulesDocument]:
        """Show the rules about changes of an application. Permission: Read.

        `version`: Default: the version that is in force.
        """

    @operation(OperationSpec("PUT", "/api/1/applications/{appId}/change-rules", media_type=JSON))
    def replace_application_rules(
        self, application_id: str, *, rules: str, dry_run: bool | None = None, if_match: str | None = None
    ) -> Call[types.RulesSaved]:
        """Set the rules about changes of an application. Permission: EditRules.

        `rules`: The rules as YAML. An empty text removes them.
        `dry_run`: Only check them, and compare them with recent changes.
        """

    @list_operation(OperationSpec("GET", "/api/1/applications/{appId}/change-rules/versions"))
    def list_application_rules(self, application_id: str) -> Call[list[types.RulesVersion]]:
        """List the versions of an application's rules, newest first. Permission: Read."""

    @operation(OperationSpec("GET", "/api/1/applications/{appId}/promotion-order"))
    def read_application_promotion_order(self, application_id: str) -> Call[types.OrderDocument]:
        """Show the order in which versions of an application pass environments. Permission: Read."""

    @operation(OperationSpec("PUT", "/api/1/applications/{appId}/promotion-order", media_type=JSON))
    def replace_application_promotion_order(
        self, application_id: str, *, stages: Sequence[types.StageBody] | None = None, if_match: str | None = None
    ) -> Call[None]:
        """Set the order in which versions of an application pass environments. Permission: EditApplication;
        EditEnvironment for each environment that it, or the order in force, names.

        `stages`: All of them. Empty: no order. Without it: an application has the order of its organization again.
        """

    @operation(OperationSpec("GET", "/api/1/applications/{appId}/promotion"))
    def read_promotion(self, application_id: str) -> Call[types.BoardDocument]:
        """Show which version is in which environment, and what keeps it there. Permission: Read; on environments and
        instances, where they are shown.
        """

    @operation(OperationSpec("POST", "/api/1/applications/{appId}/promotions", media_type=JSON, keyed=True))
    def promote_version(
        self,
        application_id: str,
        *,
        from_id: str,
        to_id: str,
        version: int | None = None,
        parameters: Mapping[str, Any] | None = None,
        comment: str | None = None,
        expires_in: int | None = None,
        on_failure: Literal["keep", "rollback"] | None = None,
        confirm: bool | None = None,
        dry_run: bool | None = None,
        if_match: str | None = None,
        idempotency_key: str | None = None,
    ) -> Call[types.PromotionDocument]:
        """Make the change set that brings a version to the next environment. Permission: Read, also on both
        environments; EditInstance.

        `from_id`: The environment that has the version.
        `to_id`: The environment after it.
        `version`: Default: the version of all instances there.
        `parameters`: They go over those that the instances have.
        `confirm`: A person confirms it, if no policy asks for approvals.
        `dry_run`: Only show what it would do.
        """

    @operation(OperationSpec("GET", "/api/1/applications/{appId}/drift-schedule"))
    def read_application_drift_schedule(self, application_id: str) -> Call[types.DriftScheduleDocument]:
        """Show when instances of an application are checked for drift. Permission: Read."""

    @operation(OperationSpec("PUT", "/api/1/applications/{appId}/drift-schedule", media_type=JSON))
    def set_application_drift_schedule(
        self,
        application_id: str,
        *,
        cron: str | None = None,
        zone: str | None = None,
        jitter: int | None = None,
        paused: bool | None = None,
        mail: bool | None = None,
        if_match: str | None = None,
    ) -> Call[None]:
        """Set when instances of an application are checked for drift. Permission: EditApplication.

        `cron`: As of a recurring schedule. Without it, the schedule of the manifest applies, if it has one.
        `jitter`: Delays each time by a random part of it, in milliseconds.
        `paused`: No checks by schedule, also none of the manifest, and no emails, until somebody sets it again.
        `mail`: Owners get an email about new findings, once a day at most. The server needs an SMTP server.
        """

    @operation(OperationSpec("GET", "/api/1/applications/{appId}/put-back-rule"))
    def read_application_put_back_rule(self, application_id: str) -> Call[types.PutBackRuleDocument]:
        """Show what is put back in instances of an application. Permission: Read."""

    @operation(OperationSpec("PUT", "/api/1/applications/{appId}/put-back-rule", media_type=JSON))
    def set_application_put_back_rule(
        self,
        application_id: str,
        *,
        addresses: Sequence[str] | None = None,
        allow_deletes: Sequence[str] | None = None,
        most_per_day: int | None = None,
        if_match: str | None = None,
    ) -> Call[None]:
        """Set what is put back in instances of an application. Permission: EditApplication; EditInstance and
        RunInstanceWorkflow to put back.

        `addresses`: All that a launch may touch. None: nothing is put back.
        `allow_deletes`: Those of them that it may delete.
        `most_per_day`: How often an address is put back within a day.
        """

    @operation(OperationSpec("GET", "/api/1/applications/{appId}/impact"))
    def read_impact(self, application_id: str, *, version: int | None = None) -> Call[types.ImpactDocument]:
        """Show what a version would do to live instances. Permission: Read.

        `version`: Default: the newest.
        """

    @operation(OperationSpec("POST", "/api/1/applications/{appId}/impact", media_type="application/x-yaml"))
    def preview_impact(self, application_id: str, text: str) -> Call[types.ImpactDocument]:
        """Show what a manifest that isn't saved would do. Permission: EditApplication; Read."""

    @operation(OperationSpec("GET", "/api/1/revisions/{revId}/impact"))
    def read_revision_impact(self, revision_id: str) -> Call[types.ImpactDocument]:
        """Show what a revision would do to its instances. Permission: Read on its application."""

    @operation(OperationSpec("POST", "/api/1/revisions/{revId}/impact", media_type=JSON))
    def preview_revision_impact(
        self,
        revision_id: str,
        *,
        name: str | None = None,
        instance_id: str | None = None,
        version: int | None = None,
        parameters: Mapping[str, Any] | None = None,
        environment_id: str | UnsetType | None = UNSET,
        submodules: Mapping[str, Any] | None = None,
    ) -> Call[types.ImpactDocument]:
        """Show what a change of a revision would do. Permission: EditApplication and Read on its application; Read
        on the instance or environment named.
        """

    @operation(OperationSpec("GET", "/api/1/environments/{id}/impact"))
    def read_environment_impact(self, environment_id: str) -> Call[types.ImpactDocument]:
        """Show what the next reconfigurations take from an environment. Permission: Read."""

    @operation(OperationSpec("POST", "/api/1/environments/{id}/impact", media_type=JSON))
    def preview_environment_impact(
        self,
        environment_id: str,
        *,
        policies: str | None = None,
        markers: Sequence[types.Marker] | None = None,
        properties: Sequence[types.Property] | None = None,
        services: Sequence[str] | None = None,
    ) -> Call[types.ImpactDocument]:
        """Show what other settings of an environment would do. Permission: EditEnvironment and Read; EditEnvironment
        on each service added or removed.
        """

    @operation(OperationSpec("GET", "/api/1/services/{id}/parameters/impact"))
    def read_service_impact(self, service_id: str) -> Call[types.ImpactDocument]:
        """Show what the next reconfigurations take from a service. Permission: Read."""

    @operation(OperationSpec("POST", "/api/1/services/{id}/parameters/impact", media_type=JSON))
    def preview_service_impact(self, service_id: str, *, parameters: Mapping[str, Any]) -> Call[types.ImpactDocument]:
        """Show what other parameters of a service would do. Permission: EditService and Read."""

    # Manifests

    @operation(
        OperationSpec(
            "PUT",
            "/api/1/applications/{appId}/manifest",
            media_type="application/x-yaml",
            query=("message",),
            include="warnings",
        )
    )
    def replace_manifest(
        self, application_id: str, text: str, *, message: str | None = None, if_match: str | None = None
    ) -> Call[types.ManifestVersion]:
        """Upload a manifest as the newest version. Permission: EditApplication.

        `message`: What this version changes.
        """

    @operation(OperationSpec("GET", "/api/1/applications/{appId}/manifest", answer="application/x-yaml"))
    def read_manifest(self, application_id: str, *, version: int | None = None) -> Call[str]:
        """Show a manifest version as uploaded. Permission: Read.

        `version`: The version. Default: the newest.
        """

    @operation(OperationSpec("POST", "/api/1/manifests/validate", media_type="application/x-yaml", repeatable=True))
    def validate_manifest(self, text: str) -> Call[types.Findings]:
        """Check a manifest and return its errors and warnings. Stores nothing. Permission: None: every user."""

    @list_operation(OperationSpec("GET", "/api/1/applications/{appId}/manifests"))
    def list_manifests(self, application_id: str) -> Call[list[types.VersionItem]]:
        """List the manifest versions of an application. Permission: Read."""

    @operation(OperationSpec("PUT", "/api/1/applications/{appId}/manifestSource", media_type=JSON))
    def set_manifest_source(
        self, application_id: str, *, url: str, if_match: str | None = None
    ) -> Call[types.ManifestVersion]:
        """Set the URL to load the manifest from, and load it as the newest version. Permission: EditApplication."""

    @operation(OperationSpec("POST", "/api/1/applications/{appId}/manifestSource/refresh", repeatable=True))
    def refresh_manifest(self, application_id: str, *, if_match: str | None = None) -> Call[types.RefreshedVersion]:
        """Load the manifest from its URL again. Creates a version if it changed. Permission: EditApplication."""

    @operation(OperationSpec("GET", "/api/1/applications/{appId}/manifests/difference"))
    def compare_manifests(
        self, application_id: str, *, version: int | None = None, against: int | None = None
    ) -> Call[types.VersionDifference]:
        """Compare two manifest versions of an application. Permission: Read.

        `version`: The version. Default: the newest.
        `against`: The version to compare with; 0 for none. Default: the previous version.
        """

    @operation(
        OperationSpec(
            "POST",
            "/api/1/applications/{appId}/manifests/difference",
            media_type="application/x-yaml",
            query=("against",),
        )
    )
    def compare_manifest_text(
        self, application_id: str, text: str, *, against: int | None = None
    ) -> Call[types.VersionDifference]:
        """Compare a manifest that isn't saved with a version. Stores nothing. Permission: Read.

        `against`: The version to compare with; 0 for none. Default: the newest.
        """

    @operation(OperationSpec("GET", "/api/1/applications/{appId}/manifests/used"))
    def list_used_manifests(self, application_id: str, *, version: int | None = None) -> Call[types.UsedVersions]:
        """List the versions of live instances, and what another one would change. Permission: Read.

        `version`: The version. Default: the newest.
        """

    # Revisions

    @list_operation(OperationSpec("GET", "/api/1/applications/{appId}/revisions"))
    def list_revisions(
        self, application_id: str, *, limit: int | None = None, after: str | None = None
    ) -> Call[list[types.Named]]:
        """List the named revisions of an application. Permission: Read.

        `limit`: Maximum number of items. Default: all.
        `after`: Only items after the one with this ID.
        """

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
    ) -> Call[types.Created]:
        """Create a revision from an instance, or from a manifest version with parameters. Permission:
        EditApplication; Read on the instance or environment named.
        """

    @operation(OperationSpec("GET", "/api/1/revisions/{revId}"))
    def read_revision(self, revision_id: str) -> Call[types.RevisionDocument]:
        """Show a revision. Permission: Read on its application."""

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
        if_match: str | None = None,
    ) -> Call[None]:
        """Change a revision. Omitted fields stay unchanged. Permission: EditApplication on its application; Read on
        the instance or environment named.
        """

    @operation(OperationSpec("DELETE", "/api/1/revisions/{revId}"))
    def delete_revision(self, revision_id: str, *, if_match: str | None = None) -> Call[None]:
        """Delete a revision. Instances launched from it stay. Permission: EditApplication on its application."""

    # Environments

    @list_operation(OperationSpec("GET", "/api/1/organizations/{orgId}/environments"))
    def list_environments(
        self, organization_id: str, *, limit: int | None = None, after: str | None = None, labels: str | None = None
    ) -> Call[list[types.EnvironmentItem]]:
        """List the environments of an organization. Permission: Read on each environment returned.

        `limit`: Maximum number of items. Default: all.
        `after`: Only items after the one with this ID.
        `labels`: Only objects with these labels, such as `team=web,tier!=db`.
        """

    @operation(OperationSpec("POST", "/api/1/organizations/{orgId}/environments", media_type=JSON, keyed=True))
    def create_environment(
        self, organization_id: str, *, name: str, idempotency_key: str | None = None
    ) -> Call[types.Created]:
        """Create an empty environment. Permission: CreateEnvironment."""

    @operation(OperationSpec("PUT", "/api/1/organizations/{orgId}/defaultEnvironment", media_type=JSON))
    def set_default_environment(
        self, organization_id: str, *, environment_id: str, if_match: str | None = None
    ) -> Call[None]:
        """Set the default environment, used by launches that name none. Permission: EditEnvironment on the new
        default environment.
        """

    @operation(OperationSpec("PUT", "/api/1/environments/{id}", media_type="application/x-yaml"))
    def replace_policies(self, environment_id: str, text: str, *, if_match: str | None = None) -> Call[None]:
        """Import policies, replacing all policies of an environment. Permission: EditEnvironment."""

    @operation(OperationSpec("GET", "/api/1/environments/{id}", answer="application/x-yaml"))
    def read_policies(self, environment_id: str) -> Call[str]:
        """Export the policies of an environment as a YAML document to import. Permission: Read."""

    @operation(OperationSpec("DELETE", "/api/1/environments/{id}"))
    def delete_environment(self, environment_id: str, *, if_match: str | None = None) -> Call[None]:
        """Delete an environment. It must have no instances and not be the default one. Permission:
        DeleteEnvironment.
        """

    @operation(OperationSpec("POST", "/api/1/environments/{id}/clone", media_type=JSON, keyed=True))
    def clone_environment(
        self,
        environment_id: str,
        *,
        name: str | None = None,
        if_match: str | None = None,
        idempotency_key: str | None = None,
    ) -> Call[types.Named]:
        """Copy an environment with its policies, markers, properties and services. Permission: Read on the
        environment; CreateEnvironment for the copy.
        """

    @operation(OperationSpec("PUT", "/api/1/environments/{id}/name", media_type=JSON))
    def rename_environment(self, environment_id: str, *, name: str, if_match: str | None = None) -> Call[None]:
        """Rename an environment. Permission: EditEnvironment."""

    @operation(OperationSpec("GET", "/api/1/environments/{id}/name"))
    def read_environment_name(self, environment_id: str) -> Call[types.Named]:
        """Show the name of an environment. Permission: Read."""

    @operation(OperationSpec("PUT", "/api/1/environments/{id}/markers", media_type=JSON))
    def replace_markers(
        self, environment_id: str, *, markers: Sequence[types.Marker], if_match: str | None = None
    ) -> Call[None]:
        """Replace the markers of an environment. Permission: EditEnvironment."""

    @operation(OperationSpec("GET", "/api/1/environments/{id}/markers"))
    def read_markers(self, environment_id: str) -> Call[types.Markers]:
        """List the markers of an environment. Permission: Read."""

    @operation(OperationSpec("PUT", "/api/1/environments/{id}/properties", media_type=JSON))
    def replace_properties(
        self, environment_id: str, *, properties: Sequence[types.Property], if_match: str | None = None
    ) -> Call[None]:
        """Replace the properties of an environment. Each has a name, a type such as `list<string>`, and a value.
        Permission: EditEnvironment.
        """

    @operation(OperationSpec("GET", "/api/1/environments/{id}/properties"))
    def read_properties(self, environment_id: str) -> Call[types.Properties]:
        """List the properties of an environment. Permission: Read."""

    @operation(OperationSpec("PUT", "/api/1/environments/{id}/services", media_type=JSON))
    def replace_environment_services(
        self, environment_id: str, *, services: Sequence[str], if_match: str | None = None
    ) -> Call[None]:
        """Replace the services that an environment offers. Permission: EditEnvironment on the environment and on
        each service added or removed.
        """

    @operation(OperationSpec("GET", "/api/1/environments/{id}/services"))
    def read_environment_services(self, environment_id: str) -> Call[types.OfferedServices]:
        """List the services that an environment offers. Permission: Read."""

    @list_operation(OperationSpec("GET", "/api/1/environments/{id}/offers"))
    def list_environment_offers(
        self, environment_id: str, *, limit: int | None = None, after: str | None = None
    ) -> Call[list[types.OfferedInstance]]:
        """List the instances that an environment offers as services. Permission: Read.

        `limit`: Maximum number of items. Default: all.
        `after`: Only items after the one with this ID.
        """

    @operation(OperationSpec("GET", "/api/1/environments/{envId}/concurrency"))
    def read_environment_concurrency(self, environment_id: str) -> Call[types.ConcurrencyBody]:
        """Show how many jobs may run in an environment at a time. Permission: Read."""

    @operation(OperationSpec("PUT", "/api/1/environments/{envId}/concurrency", media_type=JSON))
    def replace_environment_concurrency(
        self, environment_id: str, *, limits: Sequence[types.ConcurrencyLimitBody], if_match: str | None = None
    ) -> Call[None]:
        """Set how many jobs may run in an environment at a time. Permission: EditEnvironment."""

    @operation(OperationSpec("GET", "/api/1/environments/{envId}/lifetime"))
    def read_environment_lifetime(self, environment_id: str) -> Call[types.LifetimeBody]:
        """Show how long instances in an environment may live. Permission: Read."""

    @operation(OperationSpec("PUT", "/api/1/environments/{envId}/lifetime", media_type=JSON))
    def replace_environment_lifetime(
        self,
        environment_id: str,
        *,
        default_ms: int | None = None,
        greatest_ms: int | None = None,
        may_never: bool | None = None,
        extend_ms: int | None = None,
        extensions: int | None = None,
        grace_ms: int | None = None,
        idle_ms: int | None = None,
        mail: bool | None = None,
        if_exists: Literal["allow", "fail", "return"] | UnsetType | None = UNSET,
        if_match: str | None = None,
    ) -> Call[None]:
        """Set how long instances in an environment may live. Permission: EditEnvironment.

        `default_ms`: For launches that don't say how long; -1 means without an end.
        `greatest_ms`: The longest life, from the launch.
        `may_never`: Whether an instance may live on without an end.
        `extend_ms`: The maximum time that one extension adds.
        `extensions`: How often an instance may be extended.
        `grace_ms`: How long a destroy waits and can be taken back. Forced ones don't wait.
        `idle_ms`: An instance without a run for so long is destroyed; an hour or more.
        `mail`: Whether owners are warned by email, too.
        `if_exists`: What launches do whose name a living instance has, if they don't say it: `fail`, `return` that
        instance, or `allow` a second one. With the first two, no instance is renamed to such a name.
        """

    @operation(OperationSpec("GET", "/api/1/environments/{envId}/sleep"))
    def read_environment_sleep(self, environment_id: str) -> Call[types.SleepBody]:
        """Show when instances in an environment sleep. Permission: Read."""

    @operation(OperationSpec("PUT", "/api/1/environments/{envId}/sleep", media_type=JSON))
    def replace_environment_sleep(
        self,
        environment_id: str,
        *,
        windows: Sequence[types.SleepWindowBody] | None = None,
        stop: str | None = None,
        start: str | None = None,
        when_busy: Literal["queue", "skip"] | None = None,
        if_match: str | None = None,
    ) -> Call[None]:
        """Set when instances in an environment sleep. Permission: EditEnvironment; RunInstanceWorkflow for workflows
        that it names.

        `windows`: Without it: no rule. An application with an empty list doesn't sleep with its environment.
        `stop`: Default: the command `stop`.
        `start`: Default: the command `start`.
        `when_busy`: A busy instance sleeps later (`queue`), or not in this window (`skip`).
        """

    @operation(OperationSpec("GET", "/api/1/environments/{envId}/changePolicy"))
    def read_change_policy(self, environment_id: str) -> Call[types.ChangePolicyBody]:
        """Show who approves change sets of an environment. Permission: Read."""

    @operation(OperationSpec("PUT", "/api/1/environments/{envId}/changePolicy", media_type=JSON))
    def set_change_policy(
        self,
        environment_id: str,
        *,
        approvals: int | None = None,
        role_id: str | None = None,
        plans_before_approval: bool | None = None,
        if_match: str | None = None,
    ) -> Call[None]:
        """Set who approves new change sets of an environment. Permission: EditEnvironment.

        `plans_before_approval`: Whether plans of change sets may run code of modules before anybody approves it.
        """

    @operation(OperationSpec("GET", "/api/1/environments/{envId}/freeze"))
    def read_freeze(self, environment_id: str) -> Call[types.FreezeDocument]:
        """Show why nothing changes in an environment. Permission: Read."""

    @operation(OperationSpec("PUT", "/api/1/environments/{envId}/freeze", media_type=JSON))
    def set_freeze(self, environment_id: str, *, reason: str) -> Call[None]:
        """Stop all changes in an environment. Permission: EditEnvironment.

        `reason`: Everyone who is refused sees it.
        """

    @operation(OperationSpec("DELETE", "/api/1/environments/{envId}/freeze"))
    def lift_freeze(self, environment_id: str, *, if_match: str | None = None) -> Call[None]:
        """Allow changes in an environment again. Permission: EditEnvironment."""

    @operation(OperationSpec("GET", "/api/1/environments/{envId}/freeze-windows"))
    def read_freeze_windows(self, environment_id: str) -> Call[types.FreezeWindowsBody]:
        """Show when nothing changes in an environment. Permission: Read."""

    @operation(OperationSpec("PUT", "/api/1/environments/{envId}/freeze-windows", media_type=JSON))
    def replace_freeze_windows(
        self, environment_id: str, *, windows: Sequence[types.FreezeWindowBody] | None = None
    ) -> Call[None]:
        """Set when nothing changes in an environment. Permission: EditEnvironment.

        `windows`: All of them. Without windows, nothing freezes automatically.
        """

    @operation(OperationSpec("GET", "/api/1/environments/{envId}/change-rules"))
    def read_environment_rules(self, environment_id: str, *, version: int | None = None) -> Call[types.RulesDocument]:
        """Show the rules about changes of an environment. Permission: Read.

        `version`: Default: the version that is in force.
        """

    @operation(OperationSpec("PUT", "/api/1/environments/{envId}/change-rules", media_type=JSON))
    def replace_environment_rules(
        self, environment_id: str, *, rules: str, dry_run: bool | None = None, if_match: str | None = None
    ) -> Call[types.RulesSaved]:
        """Set the rules about changes of an environment. Permission: EditRules.

        `rules`: The rules as YAML. An empty text removes them.
        `dry_run`: Only check them, and compare them with recent changes.
        """

    @list_operation(OperationSpec("GET", "/api/1/environments/{envId}/change-rules/versions"))
    def list_environment_rules(self, environment_id: str) -> Call[list[types.RulesVersion]]:
        """List the versions of an environment's rules, newest first. Permission: Read."""

    @operation(OperationSpec("GET", "/api/1/environments/{envId}/drift-schedule"))
    def read_environment_drift_schedule(self, environment_id: str) -> Call[types.DriftScheduleDocument]:
        """Show when instances in an environment are checked for drift. Permission: Read."""

    @operation(OperationSpec("PUT", "/api/1/environments/{envId}/drift-schedule", media_type=JSON))
    def set_environment_drift_schedule(
        self,
        environment_id: str,
        *,
        cron: str | None = None,
        zone: str | None = None,
        jitter: int | None = None,
        paused: bool | None = None,
        mail: bool | None = None,
        if_match: str | None = None,
    ) -> Call[None]:
        """Set when instances in an environment are checked for drift. Permission: EditEnvironment.

        `cron`: As of a recurring schedule. Without it, the schedule of the manifest applies, if it has one.
        `jitter`: Delays each time by a random part of it, in milliseconds.
        `paused`: No checks by schedule, also none of the manifest, and no emails, until somebody sets it again.
        `mail`: Owners get an email about new findings, once a day at most. The server needs an SMTP server.
        """

    @operation(OperationSpec("GET", "/api/1/environments/{envId}/put-back-rule"))
    def read_environment_put_back_rule(self, environment_id: str) -> Call[types.PutBackRuleDocument]:
        """Show what is put back in instances of an environment. Permission: Read."""

    @operation(OperationSpec("PUT", "/api/1/environments/{envId}/put-back-rule", media_type=JSON))
    def set_environment_put_back_rule(
        self,
        environment_id: str,
        *,
        addresses: Sequence[str] | None = None,
        allow_deletes: Sequence[str] | None = None,
        most_per_day: int | None = None,
        if_match: str | None = None,
    ) -> Call[None]:
        """Set what is put back in instances of an environment. Permission: EditEnvironment; EditInstance and
        RunInstanceWorkflow to put back.

        `addresses`: All that a launch may touch. None: nothing is put back.
        `allow_deletes`: Those of them that it may delete.
        `most_per_day`: How often an address is put back within a day.
        """

    @operation(OperationSpec("GET", "/api/1/environments/{envId}/audiences"))
    def read_environment_audiences(self, environment_id: str) -> Call[types.AudiencesBody]:
        """Show for whom steps in an environment may get tokens. Permission: Read."""

    @operation(OperationSpec("PUT", "/api/1/environments/{envId}/audiences", media_type=JSON))
    def replace_environment_audiences(
        self, environment_id: str, *, audiences: Sequence[str], if_match: str | None = None
    ) -> Call[None]:
        """Set for whom steps in an environment may get tokens. Permission: EditEnvironment.

        `audiences`: Compared as they are, without patterns. Empty: no step gets a token.
        """

    # Services

    @list_operation(OperationSpec("GET", "/api/1/organizations/{orgId}/services"))
    def list_services(
        self, organization_id: str, *, limit: int | None = None, after: str | None = None
    ) -> Call[list[types.ServiceItem]]:
        """List the services of an organization. Permission: Read on each service returned.

        `limit`: Maximum number of items. Default: all.
        `after`: Only items after the one with this ID.
        """

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
    ) -> Call[types.Created]:
        """Create a service. Permission: CreateService."""

    @list_operation(OperationSpec("GET", "/api/1/organizations/{orgId}/serviceTypes"))
    def list_service_types(self, organization_id: str) -> Call[list[types.ServiceTypeShape]]:
        """List the service types with their parameters and commands. Permission: None: every member."""

    @list_operation(OperationSpec("GET", "/api/1/organizations/{orgId}/zones"))
    def list_zones(
        self, organization_id: str, *, limit: int | None = None, after: str | None = None
    ) -> Call[list[types.Named]]:
        """List the zones of an organization. Permission: None: every member.

        `limit`: Maximum number of items. Default: all.
        `after`: Only items after the one with this ID.
        """

    @operation(OperationSpec("GET", "/api/1/services/{id}"))
    def read_service(self, service_id: str) -> Call[types.ServiceDocument]:
        """Show a service with secret parameters masked. Permission: Read."""

    @operation(OperationSpec("PUT", "/api/1/services/{id}", media_type=JSON))
    def update_service(
        self,
        service_id: str,
        *,
        name: str | None = None,
        parameters: Mapping[str, Any] | None = None,
        if_match: str | None = None,
    ) -> Call[types.ServiceDocument]:
        """Change the name and the named parameters of a service. Permission: EditService."""

    @operation(OperationSpec("DELETE", "/api/1/services/{id}"))
    def delete_service(self, service_id: str, *, if_match: str | None = None) -> Call[None]:
        """Delete a service. Environments no longer offer it. Permission: EditService."""

    @operation(OperationSpec("POST", "/api/1/services/{id}/{commandname}", media_type=JSON))
    def run_service_command(
        self,
        service_id: str,
        command: str,
        *,
        arguments: Mapping[str, Any] | None = None,
        include_intermediate: bool | None = None,
        if_match: str | None = None,
    ) -> Call[list[dict[str, Any]]]:
        """Run a command on a service and return its results, the final one last. Permission: RunServiceCommand.

        `include_intermediate`: Return the intermediate results before the final one.
        """

    @operation(OperationSpec("POST", "/api/1/services/{id}/provider/test", media_type=JSON))
    def test_secret_provider(
        self,
        service_id: str,
        *,
        environment_id: str,
        paths: Sequence[str],
        application_id: str | None = None,
        if_match: str | None = None,
    ) -> Call[types.ProviderTestDocument]:
        """Show what a job could read from a secret provider. Permission: EditService; EditEnvironment on the
        environment; CreateInstance on an application that is named.

        `environment_id`: An environment that offers the service.
        `paths`: As steps name them, without the provider: `secret/shop#password`. 1 to 20.
        `application_id`: The application whose launch it is. Default: none.
        """

    @operation(OperationSpec("GET", "/api/1/services/{id}/provider/use"))
    def read_secret_provider_use(self, service_id: str) -> Call[types.ProviderUseDocument]:
        """Show who has read from a secret provider, and unrevoked sessions. Permission: Read; Read on each instance
        returned.
        """

    # Instances

    @list_operation(OperationSpec("GET", "/api/1/instances/{id}/secrets/changed"))
    def list_changed_secrets(self, instance_id: str) -> Call[list[types.ChangedSecretDocument]]:
        """Show the secrets that changed since an instance read them. Permission: Read."""

    @list_operation(OperationSpec("GET", "/api/1/environments/{envId}/instances"))
    def list_environment_instances(
        self,
        environment_id: str,
        *,
        limit: int | None = None,
        after: str | None = None,
        status: str | None = None,
        name: str | None = None,
    ) -> Call[list[types.InstanceSummary]]:
        """List the instances of an environment. Permission: Read.

        `limit`: Maximum number of items. Default: all.
        `after`: Only items after the one with this ID.
        `status`: Only instances in this status.
        `name`: Only instances with exactly this name.
        """

    @list_operation(OperationSpec("GET", "/api/1/applications/{appId}/instances"))
    def list_application_instances(
        self,
        application_id: str,
        *,
        limit: int | None = None,
        after: str | None = None,
        status: str | None = None,
        name: str | None = None,
    ) -> Call[list[types.InstanceSummary]]:
        """List the instances of an application. Permission: Read.

        `limit`: Maximum number of items. Default: all.
        `after`: Only items after the one with this ID.
        `status`: Only instances in this status.
        `name`: Only instances with exactly this name.
        """

    @list_operation(OperationSpec("GET", "/api/1/revisions/{revId}/instances"))
    def list_revision_instances(
        self,
        revision_id: str,
        *,
        limit: int | None = None,
        after: str | None = None,
        status: str | None = None,
        name: str | None = None,
    ) -> Call[list[types.InstanceSummary]]:
        """List the instances of a revision. Permission: Read.

        `limit`: Maximum number of items. Default: all.
        `after`: Only items after the one with this ID.
        `status`: Only instances in this status.
        `name`: Only instances with exactly this name.
        """

    @operation(OperationSpec("GET", "/api/1/instances/{id}"))
    def read_instance(
        self, instance_id: str, *, wait: int | None = None, at: int | None = None
    ) -> Call[types.InstanceDocument]:
        """Show an instance with its workflow history. Permission: Read.

        `wait`: Respond as soon as no job is under way on the instance, or after this many seconds.
        `at`: Show the instance as it was at this time, in milliseconds since the epoch.
        """

    @operation(OperationSpec("DELETE", "/api/1/instances/{id}"))
    def delete_instance(self, instance_id: str, *, force: int | None = None, if_match: str | None = None) -> Call[None]:
        """Delete a destroyed instance. With force, destroy an active instance and then delete it. Permission:
        DeleteInstance.

        `force`: Also delete an active instance, after destroying it.
        """

    @operation(OperationSpec("PUT", "/api/1/instances/{id}/userData", media_type=JSON))
    def put_user_data(
        self, instance_id: str, user_data: Mapping[str, Any], *, if_match: str | None = None
    ) -> Call[None]:
        """Replace the user data of an instance. Permission: EditInstance."""

    @operation(OperationSpec("PUT", "/api/1/instances/{id}/configuration", media_type=JSON, include="warnings"))
    def reconfigure_instance(
        self,
        instance_id: str,
        *,
        instance_name: str | None = None,
        manifest_version: int | str | None = None,
        revision_id: str | None = None,
        parameters: Mapping[str, Any] | None = None,
        submodules: Mapping[str, Any] | None = None,
        if_match: str | None = None,
    ) -> Call[types.Accepted]:
        """Reconfigure an instance. Replaces all parameters: an omitted one gets its default. The change takes effect
        after the response. Permission: EditInstance; CreateInstance on applications of new submodules.

        `instance_name`: The new name. Default: unchanged.
        `manifest_version`: The new manifest version. Overrides the revision's.
        `revision_id`: The new revision.
        `parameters`: Values by parameter name.
        `submodules`: Configurations by submodule ID. In one, `revisionId: null` means an own child.
        """

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
        if_match: str | None = None,
    ) -> Call[types.Preview]:
        """Preview a reconfiguration without changing anything. An omitted parameter gets its default. Permission:
        EditInstance; CreateInstance on applications of new submodules.

        `instance_name`: The new name. Default: unchanged.
        `manifest_version`: The new manifest version. Overrides the revision's.
        `revision_id`: The new revision.
        `parameters`: Values by parameter name.
        `submodules`: Configurations by submodule ID. In one, `revisionId: null` means an own child.
        """

    @operation(OperationSpec("GET", "/api/1/instances/{id}/configuration/preview"))
    def preview_version(self, instance_id: str, *, version: int | None = None) -> Call[types.Preview]:
        """Preview another manifest version. Parameters and submodules stay. Permission: EditInstance; Read on the
        application if no version is named.

        `version`: Default: the newest.
        """

    @operation(OperationSpec("POST", "/api/1/instances/{id}/destroy/preview"))
    def preview_destroy(
        self, instance_id: str, *, force: int | None = None, if_match: str | None = None
    ) -> Call[types.Preview]:
        """Preview the destruction of an instance without changing anything. Permission: EditInstance.

        `force`: For `destroy`: destroy the instance although others use it.
        """

    @list_operation(OperationSpec("GET", "/api/1/instances/{id}/generations"))
    def list_generations(
        self, instance_id: str, *, limit: int | None = None, after: str | None = None
    ) -> Call[list[types.GenerationItem]]:
        """List the configurations of an instance that took effect. Permission: Read.

        `limit`: Maximum number of items. A page has at most 1,000.
        `after`: Only items after the one with this ID.
        """

    @operation(OperationSpec("GET", "/api/1/instances/{id}/generations/{number}"))
    def read_generation(self, instance_id: str, number: str) -> Call[types.GenerationDocument]:
        """Show a configuration of an instance that took effect. Permission: Read."""

    @operation(OperationSpec("POST", "/api/1/instances/{id}/configuration/rollback", media_type=JSON, keyed=True))
    def rollback_instance(
        self,
        instance_id: str,
        *,
        generation: int | None = None,
        preview: bool | None = None,
        if_match: str | None = None,
        idempotency_key: str | None = None,
    ) -> Call[types.RollbackDocument]:
        """Roll an instance back to an earlier configuration. Permission: EditInstance; CreateInstance on
        applications of submodules to launch again.

        `generation`: Default: the newest one that took effect and isn't the present configuration.
        `preview`: Only show what would happen.
        """

    @list_operation(OperationSpec("GET", "/api/1/instances/{id}/timeline"))
    def list_timeline(
        self, instance_id: str, *, limit: int | None = None, after: str | None = None
    ) -> Call[list[types.TimelineEntry]]:
        """List the changes of an instance. Permission: Read.

        `limit`: Maximum number of items. A page has at most 1,000.
        `after`: Only items after the one with this ID.
        """

    @operation(OperationSpec("GET", "/api/1/instances/{id}/diff"))
    def diff_instance(
        self, instance_id: str, *, from_: int | None = None, to: int | None = None, other_id: str | None = None
    ) -> Call[types.InstanceDiff]:
        """Compare two states of one or two instances. Permission: Read, also on the other instance.

        `from_`: The first time. Default: now.
        `to`: The second time. Default: now.
        `other_id`: Take the second state from this other instance.
        """

    @operation(OperationSpec("GET", "/api/1/instances/{id}/environments"))
    def read_instance_environments(self, instance_id: str) -> Call[types.OfferedIn]:
        """List the environments that offer an instance as a service. Permission: Read."""

    @operation(OperationSpec("PUT", "/api/1/instances/{id}/environments", media_type=JSON))
    def replace_instance_environments(
        self, instance_id: str, *, environments: Sequence[str], if_match: str | None = None
    ) -> Call[None]:
        """Replace the environments that offer an instance as a service. An offered instance doesn't expire.
        Permission: EditInstance; EditEnvironment on the instance and on each environment added or removed.
        """

    @operation(OperationSpec("PUT", "/api/1/instances/{id}/destroyAt", media_type=JSON))
    def set_destroy_at(self, instance_id: str, *, destroy_at: int, if_match: str | None = None) -> Call[None]:
        """Set when an instance is destroyed automatically. Permission: EditInstance."""

    @list_operation(OperationSpec("GET", "/api/1/instances/{id}/components"))
    def list_components(self, instance_id: str) -> Call[list[types.ComponentDetail]]:
        """Show what each component of an instance does, in launch order. Permission: Read."""

    @operation(OperationSpec("GET", "/api/1/instances/{id}/lifetime"))
    def read_lifetime(self, instance_id: str) -> Call[types.LifetimeDocument]:
        """Show how long an instance lives, and what will happen when. Permission: Read."""

    @operation(OperationSpec("POST", "/api/1/instances/{id}/lifetime/extend", media_type=JSON))
    def extend_instance(
        self, instance_id: str, *, by_ms: int, if_match: str | None = None
    ) -> Call[types.ExtendedDocument]:
        """Let an instance live longer, within the rules. Permission: RunInstanceWorkflow for the workflow extend."""

    @operation(OperationSpec("POST", "/api/1/instances/{id}/lifetime/undo-destroy"))
    def undo_destroy(self, instance_id: str, *, if_match: str | None = None) -> Call[types.UndoneDocument]:
        """Take back a destroy within its grace time. Permission: EditInstance."""

    @operation(OperationSpec("GET", "/api/1/instances/{id}/sleep"))
    def read_sleep(self, instance_id: str) -> Call[types.SleepDocument]:
        """Show whether an instance sleeps, and when that changes. Permission: Read."""

    @operation(OperationSpec("PUT", "/api/1/instances/{id}/sleep/awake-until", media_type=JSON))
    def keep_awake(
        self, instance_id: str, *, awake_until: int | None = None, if_match: str | None = None
    ) -> Call[None]:
        """Keep an instance awake until a time. Permission: RunInstanceWorkflow for keep-awake.

        `awake_until`: Milliseconds since the Unix epoch; null lets it sleep again.
        """

    @operation(OperationSpec("POST", "/api/1/instances/{id}/drift/check", media_type=JSON))
    def check_drift(
        self, instance_id: str, *, baseline: bool | None = None, if_match: str | None = None
    ) -> Call[types.DriftDocument]:
        """Check how an instance differs from what it is described as. Permission: Read and EditInstance.

        `baseline`: What differs now is known from then on, and no finding.
        """

    @operation(OperationSpec("GET", "/api/1/instances/{id}/drift/report"))
    def read_drift(self, instance_id: str) -> Call[types.DriftDocument]:
        """Show how an instance differs from what it is described as. Permission: Read."""

    @list_operation(OperationSpec("GET", "/api/1/organizations/{orgId}/drift"))
    def list_drift(
        self, organization_id: str, *, limit: int | None = None, after: str | None = None
    ) -> Call[list[types.DriftedDocument]]:
        """List the instances with findings or problems. Permission: Read on each instance returned.

        `limit`: Maximum number of items. A page has at most 1,000.
        `after`: Only items after the one with this ID.
        """

    @operation(OperationSpec("PUT", "/api/1/instances/{id}/drift/findings/{findingId}/ignored", media_type=JSON))
    def ignore_drift(
        self, instance_id: str, finding_id: str, *, reason: str, until: int, if_match: str | None = None
    ) -> Call[None]:
        """Ignore a finding until a date. Permission: EditInstance."""

    @operation(OperationSpec("DELETE", "/api/1/instances/{id}/drift/findings/{findingId}/ignored"))
    def watch_drift(self, instance_id: str, finding_id: str, *, if_match: str | None = None) -> Call[None]:
        """Take back that a finding is ignored. Permission: EditInstance."""

    @operation(OperationSpec("POST", "/api/1/instances/{id}/drift/put-back"))
    def put_back_drift(self, instance_id: str, *, if_match: str | None = None) -> Call[types.MadeDocument]:
        """Make a change set that puts back all that differs. Permission: EditInstance; RunInstanceWorkflow to apply
        the change set.
        """

    @operation(OperationSpec("POST", "/api/1/instances/{id}/drift/findings/{findingId}/take-over"))
    def take_over_drift(
        self, instance_id: str, finding_id: str, *, if_match: str | None = None
    ) -> Call[types.DriftDocument]:
        """Make a change set that gives a parameter the found value. Permission: Read and EditInstance."""

    @operation(OperationSpec("GET", "/api/1/instances/{id}/drift/check-schedule"))
    def read_drift_schedule(self, instance_id: str) -> Call[types.DriftScheduleDocument]:
        """Show when an instance is checked for drift. Permission: Read."""

    @operation(OperationSpec("PUT", "/api/1/instances/{id}/drift/check-schedule", media_type=JSON))
    def set_drift_schedule(
        self,
        instance_id: str,
        *,
        cron: str | None = None,
        zone: str | None = None,
        jitter: int | None = None,
        paused: bool | None = None,
        mail: bool | None = None,
        if_match: str | None = None,
    ) -> Call[None]:
        """Set when an instance is checked for drift. Permission: EditInstance.

        `cron`: As of a recurring schedule. Without it, the schedule of the manifest applies, if it has one.
        `jitter`: Delays each time by a random part of it, in milliseconds.
        `paused`: No checks by schedule, also none of the manifest, and no emails, until somebody sets it again.
        `mail`: Owners get an email about new findings, once a day at most. The server needs an SMTP server.
        """

    @operation(OperationSpec("GET", "/api/1/instances/{id}/drift/put-back-rule"))
    def read_put_back_rule(self, instance_id: str) -> Call[types.PutBackRuleDocument]:
        """Show what is put back in an instance. Permission: Read."""

    @operation(OperationSpec("PUT", "/api/1/instances/{id}/drift/put-back-rule", media_type=JSON))
    def set_put_back_rule(
        self,
        instance_id: str,
        *,
        addresses: Sequence[str] | None = None,
        allow_deletes: Sequence[str] | None = None,
        most_per_day: int | None = None,
        if_match: str | None = None,
    ) -> Call[None]:
        """Set what is put back in an instance. Permission: EditInstance; RunInstanceWorkflow to put back.

        `addresses`: All that a launch may touch. None: nothing is put back.
        `allow_deletes`: Those of them that it may delete.
        `most_per_day`: How often an address is put back within a day.
        """

    @operation(OperationSpec("POST", "/api/1/applications/{appId}/adoptions", media_type=JSON, keyed=True))
    def adopt_instance(
        self,
        application_id: str,
        *,
        launch: Mapping[str, Any] | None = None,
        states: Sequence[types.StateBody] | None = None,
        releases: Sequence[types.ReleaseBody] | None = None,
        hosts: Sequence[types.HostsBody] | None = None,
        dry_run: bool | None = None,
        if_match: str | None = None,
        idempotency_key: str | None = None,
    ) -> Call[types.AdoptDocument]:
        """Make an instance of what runs already, which is only observed. Permission: CreateInstance on the
        application and the environment.

        `dry_run`: Only say what would be adopted.
        """

    @operation(OperationSpec("GET", "/api/1/instances/{id}/adoption"))
    def read_adoption(self, instance_id: str) -> Call[types.AdoptionDocument]:
        """Show what an instance has adopted. Permission: Read."""

    # Secrets

    @operation(OperationSpec("GET", "/api/1/services/{id}/secrets"))
    def list_service_secrets(self, service_id: str) -> Call[types.SecretNames]:
        """List the secret parameters of a service, without their values. Permission: Read."""

    @operation(OperationSpec("POST", "/api/1/services/{id}/secrets/reveal", media_type=JSON))
    def reveal_service_secret(
        self, service_id: str, *, name: str, reason: str, if_match: str | None = None
    ) -> Call[types.Revealed]:
        """Show a secret parameter of a service in clear, and log that. Permission: RevealSecrets.

        `reason`: Why you need the value. The audit log keeps it.
        """

    @operation(OperationSpec("GET", "/api/1/instances/{id}/secrets"))
    def list_instance_secrets(self, instance_id: str) -> Call[types.SecretNames]:
        """List the parameters and return values of an instance that are masked. Permission: Read."""

    @operation(OperationSpec("POST", "/api/1/instances/{id}/secrets/reveal", media_type=JSON))
    def reveal_instance_secret(
        self,
        instance_id: str,
        *,
        name: str,
        reason: str,
        kind: Literal["parameters", "returnValues"] | None = None,
        if_match: str | None = None,
    ) -> Call[types.Revealed]:
        """Show a parameter or return value of an instance in clear, and log that. Permission: RevealSecrets.

        `reason`: Why you need the value. The audit log keeps it.
        `kind`: `parameters` or `returnValues`. Default: where the name is, parameters first.
        """

    # Workflows

    @operation(
        OperationSpec(
            "POST",
            "/api/1/instances/{id}/{workflow}",
            media_type=JSON,
            keyed=True,
            query=("force",),
            include="warnings,destroyAt",
        )
    )
    def run_workflow(
        self,
        instance_id: str,
        workflow: str,
        parameters: Mapping[str, Any] | None = None,
        *,
        force: int | None = None,
        if_match: str | None = None,
        idempotency_key: str | None = None,
    ) -> Call[types.RunAnswer]:
        """Run a workflow on an instance. Permission: RunInstanceWorkflow; EditInstance for destroy.

        `force`: For `destroy`: destroy the instance although others use it.
        """

    @operation(
        OperationSpec(
            "POST",
            "/api/1/instances/{id}/{workflow}/schedule",
            media_type=JSON,
            keyed=True,
            query=("force",),
            include="warnings",
        )
    )
    def schedule_workflow(
        self,
        instance_id: str,
        workflow: str,
        *,
        interval: int | str,
        parameters: Mapping[str, Any] | None = None,
        force: int | None = None,
        if_match: str | None = None,
        idempotency_key: str | None = None,
    ) -> Call[types.Scheduled]:
        """Schedule a workflow. Interval 0 runs it immediately. Permission: ScheduleInstanceWorkflow; EditInstance
        for destroy.

        `force`: For `destroy`: destroy the instance although others use it.
        """

    @operation(
        OperationSpec("POST", "/api/1/instances/{id}/{workflow}/reschedule", media_type=JSON, include="warnings")
    )
    def reschedule_workflow(
        self,
        instance_id: str,
        workflow: str,
        *,
        interval: int | str,
        parameters: Mapping[str, Any] | None = None,
        if_match: str | None = None,
    ) -> Call[types.Scheduled]:
        """Reschedule a workflow, by schedule ID or workflow name. Interval 0 cancels the schedule. Permission:
        ScheduleInstanceWorkflow; EditInstance for destroy.
        """

    @operation(OperationSpec("GET", "/api/1/instances/{id}/schedules"))
    def list_schedules(self, instance_id: str) -> Call[types.Schedules]:
        """List the schedules of an instance. Permission: Read."""

    # Jobs

    @list_operation(OperationSpec("GET", "/api/1/instances/{id}/jobs"))
    def list_jobs(
        self, instance_id: str, *, limit: int | None = None, after: str | None = None
    ) -> Call[list[types.ListedJob]]:
        """List the jobs of an instance. Permission: Read.

        `limit`: Maximum number of items. Default: all.
        `after`: Only items after the one with this ID.
        """

    @operation(OperationSpec("GET", "/api/1/instances/{id}/jobs/{jobId}"))
    def read_job(self, instance_id: str, job_id: str, *, wait: int | None = None) -> Call[types.JobDetail]:
        """Show a job with all its steps: attempts, times, outputs, errors. Secrets are masked. Permission: Read.

        `wait`: Respond as soon as the job has ended, or after this many seconds.
        """

    @operation(OperationSpec("DELETE", "/api/1/instances/{id}/jobs/{jobId}"))
    def cancel_job(self, instance_id: str, job_id: str, *, if_match: str | None = None) -> Call[None]:
        """Cancel a running job, which ends as failed; its steps are interrupted. Permission: RunInstanceWorkflow;
        EditInstance for destroy.
        """

    @list_operation(OperationSpec("GET", "/api/1/instances/{id}/jobs/{jobId}/steps"))
    def list_job_steps(
        self,
        instance_id: str,
        job_id: str,
        *,
        parent: str | None = None,
        after: str | None = None,
        limit: int | None = None,
    ) -> Call[list[types.StepDetail]]:
        """List the steps of a job, one level at a time. Permission: Read.

        `parent`: Only steps directly inside the step with this path. Default: the job's own steps.
        `after`: Only steps after the one with this path.
        `limit`: Maximum number of steps. Default: all.
        """

    @operation(OperationSpec("GET", "/api/1/jobs/{jobId}"))
    def find_job(self, job_id: str, *, wait: int | None = None) -> Call[types.JobDetail]:
        """Show a job by its ID alone, with all its steps. With wait, respond when it has ended. Permission: Read.

        `wait`: Respond as soon as the job has ended, or after this many seconds.
        """

    @operation(OperationSpec("GET", "/api/1/jobs/{jobId}/compare/{otherJobId}"))
    def compare_jobs(
        self, job_id: str, other_job_id: str, *, every_step: bool | None = None
    ) -> Call[types.JobComparisonDetail]:
        """Compare two jobs: their parameters and results, and what differs in their steps. Permission: Read of both
        instances.

        `every_step`: Also steps that don't differ.
        """

    @operation(OperationSpec("POST", "/api/1/instances/{id}/jobs/{jobId}/resume", media_type=JSON, keyed=True))
    def resume_job(
        self,
        instance_id: str,
        job_id: str,
        *,
        parameters: Mapping[str, Any] | None = None,
        if_match: str | None = None,
        idempotency_key: str | None = None,
    ) -> Call[types.Created]:
        """Resume the newest job from the step that failed. Completed steps don't run again. Permission:
        RunInstanceWorkflow; EditInstance for destroy.
        """

    @list_operation(OperationSpec("GET", "/api/1/instances/{id}/log"))
    def read_log(
        self,
        instance_id: str,
        *,
        job: str | None = None,
        step: str | None = None,
        after: int | None = None,
        limit: int | None = None,
        component: str | None = None,
        level: Literal["debug", "error", "info", "warning"] | None = None,
        q: str | None = None,
        since: int | None = None,
        until: int | None = None,
        tail: int | None = None,
    ) -> Call[list[types.LogLine]]:
        """Show or follow the log of an instance, a job or a step. Permission: Read.

        `job`: Only lines of the job with this ID.
        `step`: Only lines of the step with this path.
        `after`: Only lines after the one with this ID.
        `limit`: Maximum number of lines. Default: all.
        `component`: Only lines of the steps of this component.
        `level`: Only lines of this level and above.
        `q`: Only lines with this text, in any case.
        `since`: Only lines from this time on.
        `until`: Only lines before this time.
        `tail`: Only the newest lines, so many of them.
        """

    @event_operation(OperationSpec("GET", "/api/1/instances/{id}/events", answer="text/event-stream"))
    def watch_instance(self, instance_id: str, *, after: int | None = None) -> Call[Event]:
        """Stream the events of an instance as server-sent events: status, job, step, log, signal, approval.
        Permission: Read.

        `after`: ID of the last event that you have. The header Last-Event-ID takes precedence.
        """

    # Fleet

    @list_operation(OperationSpec("GET", "/api/1/organizations/{orgId}/instances"))
    def list_organization_instances(
        self,
        organization_id: str,
        *,
        status: str | None = None,
        last_status: str | None = None,
        degraded: bool | None = None,
        drifted: bool | None = None,
        observed: bool | None = None,
        secrets_changed: bool | None = None,
        last_workflow: str | None = None,
        application: str | None = None,
        environment: str | None = None,
        owner: str | None = None,
        version: int | None = None,
        labels: str | None = None,
        expires_before: int | None = None,
        name: str | None = None,
        name_part: str | None = None,
        q: str | None = None,
        limit: int | None = None,
        after: str | None = None,
        count: bool | None = None,
        sort: str | None = None,
    ) -> Call[list[types.FleetInstance]]:
        """List the instances of an organization, by filters. Permission: Read on each instance returned.

        `status`: Only instances in one of these statuses.
        `last_status`: Only instances whose last job ended so: Succeeded or Failed.
        `degraded`: Only instances that run, but whose `health` is Degraded.
        `drifted`: Only instances that somebody changed, by a check of their drift.
        `observed`: Only instances that were adopted and aren't taken over yet.
        `secrets_changed`: Only instances that read a secret of a provider which has changed since.
        `last_workflow`: Only instances whose last job was one of these workflows.
        `application`: Only instances of applications with these IDs.
        `environment`: Only instances in environments with these IDs.
        `owner`: Only instances of the user with this ID.
        `version`: Only instances with this manifest version.
        `labels`: A selector of labels, such as `team=web,tier!=db`.
        `expires_before`: Only instances that are destroyed before this time, in milliseconds since the Unix epoch.
        `name`: Only instances with exactly this name.
        `name_part`: Only instances whose name contains this text, in any case.
        `q`: Only instances with each of these words in the name, a label's value or at the start of the ID.
        `limit`: Maximum number of items.
        `after`: Where the page begins: from the `Link` of the page before.
        `count`: Return the number of all items in the header `Launchbay-Total-Count`.
        `sort`: The order: name, created, lastJob or expiry; `-` before it reverses it.
        """

    @list_operation(OperationSpec("GET", "/api/1/organizations/{orgId}/jobs"))
    def list_organization_jobs(
        self,
        organization_id: str,
        *,
        limit: int | None = None,
        after: str | None = None,
        count: bool | None = None,
        status: str | None = None,
        workflow: str | None = None,
        application: str | None = None,
        environment: str | None = None,
        owner: str | None = None,
        since: int | None = None,
        until: int | None = None,
        instance: str | None = None,
        number: int | None = None,
        id_part: str | None = None,
        longer_than: int | None = None,
        q: str | None = None,
        sort: str | None = None,
    ) -> Call[list[types.FleetJob]]:
        """List the jobs of an organization. Permission: Read on the instance of each job.

        `limit`: Maximum number of items.
        `after`: Where the page begins: from the `Link` of the page before.
        `count`: Return the number of all items, up to 100,000, in the header `Launchbay-Total-Count`.
        `status`: Only jobs in one of these statuses: Executing, Succeeded, Failed.
        `workflow`: Only jobs of these workflows.
        `application`: Only jobs of applications with these IDs.
        `environment`: Only jobs in environments with these IDs.
        `owner`: Only jobs of the user with this ID.
        `since`: Only jobs accepted at this time or later, in milliseconds since the Unix epoch.
        `until`: Only jobs accepted before this time, in milliseconds since the Unix epoch.
        `instance`: Only jobs of instances with these IDs.
        `number`: Only the job with this number of each of these instances. Needs `instance`.
        `id_part`: Only jobs whose ID begins with these 4 or more characters.
        `longer_than`: Only jobs that took this many milliseconds or more from their acceptance.
        `q`: Only jobs of instances with each of these words in the name, a label's value or at the start of the ID.
        `sort`: The order: created, or -created for the newest first.
        """

    @operation(OperationSpec("GET", "/api/1/organizations/{orgId}/summary"))
    def read_summary(self, organization_id: str) -> Call[types.FleetSummary]:
        """Summarize the instances of an organization. Permission: Read on each instance counted."""

    @list_operation(OperationSpec("GET", "/api/1/organizations/{orgId}/schedules"))
    def list_organization_schedules(
        self,
        organization_id: str,
        *,
        since: int | None = None,
        until: int | None = None,
        limit: int | None = None,
        after: str | None = None,
    ) -> Call[list[types.FleetSchedule]]:
        """List what is scheduled on the instances of an organization. Permission: Read on each instance returned.

        `since`: Only schedules from this time on; by default, from now on.
        `until`: Only schedules before this time; by default, within 31 days.
        `limit`: Maximum number of items.
        `after`: Where the page begins: from the `Link` of the page before.
        """

    @operation(OperationSpec("GET", "/api/1/organizations/{orgId}/views"))
    def read_views(self, organization_id: str) -> Call[types.SavedViews]:
        """Show your own saved views of lists. Permission: None: every member."""

    @operation(OperationSpec("PUT", "/api/1/organizations/{orgId}/views", media_type=JSON))
    def replace_views(
        self, organization_id: str, *, views: Sequence[types.SavedView], if_match: str | None = None
    ) -> Call[None]:
        """Replace your own saved views of lists. Permission: None: every member."""

    # Labels

    @operation(OperationSpec("GET", "/api/1/instances/{id}/labels"))
    def read_instance_labels(self, instance_id: str) -> Call[dict[str, Any]]:
        """Show the labels of an instance. Permission: Read."""

    @operation(OperationSpec("PUT", "/api/1/instances/{id}/labels", media_type=JSON))
    def put_instance_labels(
        self, instance_id: str, labels: Mapping[str, Any], *, if_match: str | None = None
    ) -> Call[None]:
        """Replace the labels of an instance. Permission: EditInstance."""

    @operation(OperationSpec("GET", "/api/1/applications/{appId}/labels"))
    def read_application_labels(self, application_id: str) -> Call[dict[str, Any]]:
        """Show the labels of an application. Permission: Read."""

    @operation(OperationSpec("PUT", "/api/1/applications/{appId}/labels", media_type=JSON))
    def put_application_labels(
        self, application_id: str, labels: Mapping[str, Any], *, if_match: str | None = None
    ) -> Call[None]:
        """Replace the labels of an application. Permission: EditApplication."""

    @operation(OperationSpec("GET", "/api/1/environments/{envId}/labels"))
    def read_environment_labels(self, environment_id: str) -> Call[dict[str, Any]]:
        """Show the labels of an environment. Permission: Read."""

    @operation(OperationSpec("PUT", "/api/1/environments/{envId}/labels", media_type=JSON))
    def put_environment_labels(
        self, environment_id: str, labels: Mapping[str, Any], *, if_match: str | None = None
    ) -> Call[None]:
        """Replace the labels of an environment. Permission: EditEnvironment."""

    # Failures

    @list_operation(OperationSpec("GET", "/api/1/organizations/{orgId}/failures"))
    def list_failures(
        self,
        organization_id: str,
        *,
        workflow: str | None = None,
        application: str | None = None,
        environment: str | None = None,
        owner: str | None = None,
        instance: str | None = None,
        labels: str | None = None,
        q: str | None = None,
        limit: int | None = None,
        after: str | None = None,
        instances: int | None = None,
    ) -> Call[list[types.Failure]]:
        """List the failures of an organization's instances, equal ones together. Permission: Read on each instance
        returned.

        `workflow`: Only instances whose last job was one of these workflows.
        `application`: Only instances of applications with these IDs.
        `environment`: Only instances in environments with these IDs.
        `owner`: Only instances of the user with this ID.
        `instance`: Only instances with these IDs.
        `labels`: A selector of labels, such as `team=web,tier!=db`.
        `q`: Only instances with each of these words in the name, a label's value or at the start of the ID.
        `limit`: Maximum number of items. Default: all.
        `after`: Where the page begins: from the `Link` of the page before.
        `instances`: How many instances of each failure the answer has.
        """

    @operation(OperationSpec("POST", "/api/1/organizations/{orgId}/failures/{failureId}/resume"))
    def resume_failures(
        self,
        organization_id: str,
        failure_id: str,
        *,
        workflow: str | None = None,
        application: str | None = None,
        environment: str | None = None,
        owner: str | None = None,
        instance: str | None = None,
        labels: str | None = None,
        q: str | None = None,
    ) -> Call[types.BulkDocument]:
        """Resume all instances with a failure, by a bulk run. Permission: What resuming needs on each instance.

        `workflow`: Only instances whose last job was one of these workflows.
        `application`: Only instances of applications with these IDs.
        `environment`: Only instances in environments with these IDs.
        `owner`: Only instances of the user with this ID.
        `instance`: Only instances with these IDs.
        `labels`: A selector of labels, such as `team=web,tier!=db`.
        `q`: Only instances with each of these words in the name, a label's value or at the start of the ID.
        """

    # Bulk

    @operation(OperationSpec("POST", "/api/1/organizations/{orgId}/bulk", media_type=JSON, keyed=True))
    def create_bulk(
        self,
        organization_id: str,
        *,
        act: Literal["destroy", "extend", "label", "reconfigure", "resume", "run"],
        ids: Sequence[str] | None = None,
        select: types.Selection | None = None,
        workflow: str | None = None,
        parameters: Mapping[str, Any] | None = None,
        version: int | None = None,
        expires_in: int | None = None,
        labels: Mapping[str, Any] | None = None,
        max_parallel: int | None = None,
        stop_after_failures: int | None = None,
        preview: bool | None = None,
        idempotency_key: str | None = None,
    ) -> Call[types.BulkDocument]:
        """Run an act on many instances. Permission: What the act needs on each instance.

        `workflow`: The workflow that `run` runs.
        `version`: The manifest version of `reconfigure`.
        `max_parallel`: Jobs at the same time.
        `stop_after_failures`: Begin no more after so many failures and refusals.
        `preview`: Only show which instances the bulk run would include.
        """

    @list_operation(OperationSpec("GET", "/api/1/organizations/{orgId}/bulk"))
    def list_bulks(
        self, organization_id: str, *, limit: int | None = None, after: str | None = None
    ) -> Call[list[types.BulkItem]]:
        """List the bulk runs of an organization. Permission: Read.

        `limit`: Maximum number of items. A page has at most 1,000.
        `after`: Only items after the one with this ID.
        """

    @operation(OperationSpec("GET", "/api/1/bulk/{bulkId}"))
    def read_bulk(self, bulk_id: str) -> Call[types.BulkDocument]:
        """Show a bulk run. Permission: Read."""

    @list_operation(OperationSpec("GET", "/api/1/bulk/{bulkId}/instances"))
    def list_bulk_instances(
        self,
        bulk_id: str,
        *,
        limit: int | None = None,
        after: str | None = None,
        status: Literal["Cancelled", "Failed", "Refused", "Running", "Succeeded", "Waiting"] | None = None,
    ) -> Call[list[types.BulkInstance]]:
        """List the instances of a bulk run. Permission: Read on each instance returned.

        `limit`: Maximum number of items. A page has at most 1,000.
        `after`: Only items after the one with this ID.
        `status`: Only instances with this status.
        """

    @operation(OperationSpec("POST", "/api/1/bulk/{bulkId}/pause"))
    def pause_bulk(self, bulk_id: str, *, if_match: str | None = None) -> Call[None]:
        """Pause a bulk run. Permission: None for who began it, else EditInstance."""

    @operation(OperationSpec("POST", "/api/1/bulk/{bulkId}/continue"))
    def continue_bulk(self, bulk_id: str, *, if_match: str | None = None) -> Call[None]:
        """Continue a paused bulk run. Permission: None for who began it, else EditInstance."""

    @operation(OperationSpec("POST", "/api/1/bulk/{bulkId}/cancel"))
    def cancel_bulk(self, bulk_id: str, *, if_match: str | None = None) -> Call[None]:
        """Cancel a bulk run. Permission: None for who began it, else EditInstance."""

    # Recurring schedules

    @operation(OperationSpec("POST", "/api/1/organizations/{orgId}/recurring-schedules", media_type=JSON, keyed=True))
    def create_recurring_schedule(
        self,
        organization_id: str,
        *,
        name: str,
        cron: str,
        zone: str | None = None,
        starts_at: int | None = None,
        ends_at: int | None = None,
        paused: bool | None = None,
        when_busy: Literal["queue", "skip"] | None = None,
        jitter_ms: int | None = None,
        instance_id: str | None = None,
        workflow: str | None = None,
        parameters: Mapping[str, Any] | None = None,
        application_id: str | None = None,
        launch: Mapping[str, Any] | None = None,
        bulk: types.BulkBody | None = None,
        preview: bool | None = None,
        idempotency_key: str | None = None,
    ) -> Call[types.RecurringDocument]:
        """Run a workflow, launch an application or begin a bulk run at the times of a cron expression. Permission:
        ScheduleInstanceWorkflow; CreateInstance for a launch.

        `cron`: Five fields (minute, hour, day, month, weekday), or six or seven of Quartz with seconds first.
        `zone`: An IANA time zone, such as Europe/Berlin.
        `starts_at`: Milliseconds since the Unix epoch.
        `ends_at`: Milliseconds since the Unix epoch.
        `when_busy`: While a job of the instance runs: `skip` leaves the time out, `queue` waits.
        `jitter_ms`: Delay each firing by a random time up to this, in ms.
        `preview`: Only show the next times.
        """

    @list_operation(OperationSpec("GET", "/api/1/organizations/{orgId}/recurring-schedules"))
    def list_recurring_schedules(
        self,
        organization_id: str,
        *,
        limit: int | None = None,
        after: str | None = None,
        instance: str | None = None,
        application: str | None = None,
    ) -> Call[list[types.RecurringDocument]]:
        """List the recurring schedules of an organization. Permission: Read on the instance or application of each
        one returned.

        `limit`: Maximum number of items. A page has at most 1,000.
        `after`: Only items after the one with this ID.
        `instance`: Only those of this instance.
        `application`: Only those of this application and its instances.
        """

    @operation(OperationSpec("GET", "/api/1/recurring-schedules/{scheduleId}"))
    def read_recurring_schedule(self, recurring_schedule_id: str) -> Call[types.RecurringDocument]:
        """Show a recurring schedule with its next times and last firings. Permission: Read on its instance or
        application.
        """

    @operation(OperationSpec("PUT", "/api/1/recurring-schedules/{scheduleId}", media_type=JSON))
    def update_recurring_schedule(
        self,
        recurring_schedule_id: str,
        *,
        name: str,
        cron: str,
        zone: str | None = None,
        starts_at: int | None = None,
        ends_at: int | None = None,
        paused: bool | None = None,
        when_busy: Literal["queue", "skip"] | None = None,
        jitter_ms: int | None = None,
        if_match: str | None = None,
    ) -> Call[None]:
        """Replace the name and the times of a recurring schedule. Permission: None for who made it, else
        EditInstance.

        `cron`: Five fields (minute, hour, day, month, weekday), or six or seven of Quartz with seconds first.
        `zone`: An IANA time zone, such as Europe/Berlin.
        `starts_at`: Milliseconds since the Unix epoch.
        `ends_at`: Milliseconds since the Unix epoch.
        `when_busy`: While a job of the instance runs: `skip` leaves the time out, `queue` waits.
        `jitter_ms`: Delay each firing by a random time up to this, in ms.
        """

    @operation(OperationSpec("DELETE", "/api/1/recurring-schedules/{scheduleId}"))
    def delete_recurring_schedule(self, recurring_schedule_id: str, *, if_match: str | None = None) -> Call[None]:
        """Delete a recurring schedule. What it has begun continues. Permission: None for who made it, else
        EditInstance.
        """

    @operation(OperationSpec("POST", "/api/1/recurring-schedules/{scheduleId}/pause"))
    def pause_recurring_schedule(self, recurring_schedule_id: str, *, if_match: str | None = None) -> Call[None]:
        """Pause a recurring schedule. Permission: None for who made it, else EditInstance."""

    @operation(OperationSpec("POST", "/api/1/recurring-schedules/{scheduleId}/resume"))
    def resume_recurring_schedule(self, recurring_schedule_id: str, *, if_match: str | None = None) -> Call[None]:
        """Resume a paused recurring schedule with its next time. Permission: None for who made it, else
        EditInstance.
        """

    # Git sources

    @operation(OperationSpec("POST", "/api/1/organizations/{orgId}/git-sources", media_type=JSON, keyed=True))
    def create_git_source(
        self,
        organization_id: str,
        *,
        name: str,
        account_id: str,
        url: str,
        application_id: str | None = None,
        branch: str | None = None,
        path: str | None = None,
        user: str | None = None,
        vault: str | None = None,
        credential: str | None = None,
        host_keys: Sequence[str] | None = None,
        interval_ms: int | None = None,
        applies: Literal["after-approval", "at-once", "change-set"] | None = None,
        instances: Literal["at-once", "change-set", "keep"] | None = None,
        prune: bool | None = None,
        forge: Literal["gitea", "github", "gitlab"] | None = None,
        api: str | None = None,
        webhook_secret: str | None = None,
        status_token: str | None = None,
        previews: types.PreviewsBody | None = None,
        paused: bool | None = None,
        idempotency_key: str | None = None,
    ) -> Call[types.GitSourceDocument]:
        """Let an application or directory follow a branch. Permission: ManageRoles for its account.

        `url`: https://HOST/PATH or ssh://USER@HOST/PATH, without a password.
        `path`: The manifest's file, or the folder of a directory. Default: the whole repository.
        `user`: The user at the host. Default: git.
        `vault`: The service with the credential.
        `credential`: Name of a secret (https: a token) or of a key pair (ssh) in the vault.
        `host_keys`: Over ssh: the keys that the host may have: `ssh-ed25519 AAAA…`.
        `interval_ms`: Interval of checks of the branch, in ms. Default: only on request.
        `applies`: Whether a new commit is applied immediately, is planned until somebody applies the plan, or, of a
        directory, becomes a change set.
        `instances`: Whether running instances keep their version, get a change set, or are updated immediately.
        `prune`: Delete objects that the directory lacks, of kinds that have a folder in it.
        `forge`: Whose events and statuses. Forgejo is gitea.
        `api`: Where the API of the forge is. Default: by its host.
        `webhook_secret`: Name of the secret in the vault that signs the forge's events.
        `status_token`: Name of the token in the vault that may set statuses of commits.
        """

    @list_operation(OperationSpec("GET", "/api/1/organizations/{orgId}/git-sources"))
    def list_git_sources(
        self,
        organization_id: str,
        *,
        limit: int | None = None,
        after: str | None = None,
        application: str | None = None,
    ) -> Call[list[types.GitSourceDocument]]:
        """List sources in Git. Permission: Read on each account.

        `limit`: Maximum number of items. Default: all.
        `after`: Only items after the one with this ID.
        `application`: Only those of this application.
        """

    @operation(OperationSpec("GET", "/api/1/git-sources/{sourceId}"))
    def read_git_source(self, git_source_id: str) -> Call[types.GitSourceDocument]:
        """Show a source in Git. Permission: Read on its account."""

    @operation(OperationSpec("PUT", "/api/1/git-sources/{sourceId}", media_type=JSON))
    def update_git_source(
        self,
        git_source_id: str,
        *,
        name: str,
        account_id: str,
        url: str,
        application_id: str | None = None,
        branch: str | None = None,
        path: str | None = None,
        user: str | None = None,
        vault: str | None = None,
        credential: str | None = None,
        host_keys: Sequence[str] | None = None,
        interval_ms: int | None = None,
        applies: Literal["after-approval", "at-once", "change-set"] | None = None,
        instances: Literal["at-once", "change-set", "keep"] | None = None,
        prune: bool | None = None,
        forge: Literal["gitea", "github", "gitlab"] | None = None,
        api: str | None = None,
        webhook_secret: str | None = None,
        status_token: str | None = None,
        previews: types.PreviewsBody | None = None,
        paused: bool | None = None,
        if_match: str | None = None,
    ) -> Call[None]:
        """Replace a source in Git, and look at its branch. Permission: ManageRoles for its account.

        `url`: https://HOST/PATH or ssh://USER@HOST/PATH, without a password.
        `path`: The manifest's file, or the folder of a directory. Default: the whole repository.
        `user`: The user at the host. Default: git.
        `vault`: The service with the credential.
        `credential`: Name of a secret (https: a token) or of a key pair (ssh) in the vault.
        `host_keys`: Over ssh: the keys that the host may have: `ssh-ed25519 AAAA…`.
        `interval_ms`: Interval of checks of the branch, in ms. Default: only on request.
        `applies`: Whether a new commit is applied immediately, is planned until somebody applies the plan, or, of a
        directory, becomes a change set.
        `instances`: Whether running instances keep their version, get a change set, or are updated immediately.
        `prune`: Delete objects that the directory lacks, of kinds that have a folder in it.
        `forge`: Whose events and statuses. Forgejo is gitea.
        `api`: Where the API of the forge is. Default: by its host.
        `webhook_secret`: Name of the secret in the vault that signs the forge's events.
        `status_token`: Name of the token in the vault that may set statuses of commits.
        """

    @operation(OperationSpec("DELETE", "/api/1/git-sources/{sourceId}"))
    def delete_git_source(self, git_source_id: str, *, if_match: str | None = None) -> Call[None]:
        """Delete a source in Git, not what it applied. Permission: ManageRoles for its account."""

    @operation(OperationSpec("POST", "/api/1/git-sources/{sourceId}/sync"))
    def sync_git_source(self, git_source_id: str, *, if_match: str | None = None) -> Call[None]:
        """Apply the branch's present commit now. Permission: ManageRoles for its account."""

    @operation(OperationSpec("POST", "/api/1/git-sources/{sourceId}/apply", media_type=JSON))
    def apply_git_source(self, git_source_id: str, *, commit: str, if_match: str | None = None) -> Call[None]:
        """Approve the plan of a commit. Permission: ManageRoles for its account."""

    @list_operation(OperationSpec("GET", "/api/1/git-sources/{sourceId}/syncs"))
    def list_git_syncs(
        self, git_source_id: str, *, limit: int | None = None, after: str | None = None
    ) -> Call[list[types.GitSyncDocument]]:
        """List what came of the last looks. Permission: Read on its account.

        `limit`: Maximum number of items. A page has at most 1,000.
        `after`: Only items after the one with this ID.
        """

    @operation(OperationSpec("GET", "/api/1/git-sources/{sourceId}/drift"))
    def read_git_drift(self, git_source_id: str) -> Call[types.GitDriftDocument]:
        """Show what differs from the applied commit. Permission: Read on its account."""

    @list_operation(OperationSpec("GET", "/api/1/git-sources/{sourceId}/previews"))
    def list_git_previews(
        self, git_source_id: str, *, limit: int | None = None, after: str | None = None
    ) -> Call[list[types.GitPreviewDocument]]:
        """List the previews of pull requests. Permission: Read on its account.

        `limit`: Maximum number of items. A page has at most 1,000.
        `after`: Only items after the one with this ID.
        """

    @operation(OperationSpec("POST", "/api/1/git-sources/{sourceId}/events", media_type=JSON, public=True))
    def receive_git_event(self, git_source_id: str, body: Any) -> Call[None]:
        """Take an event that the forge has signed."""

    # Changes

    @operation(OperationSpec("POST", "/api/1/organizations/{orgId}/change-sets", media_type=JSON, keyed=True))
    def create_change_set(
        self,
        organization_id: str,
        *,
        act: Literal["apply", "destroy", "launch", "manage", "reconfigure", "relaunch", "version"],
        ids: Sequence[str] | None = None,
        select: types.Selection | None = None,
        application_id: str | None = None,
        launch: Mapping[str, Any] | None = None,
        if_exists: Literal["allow", "fail", "return"] | None = None,
        configuration: Mapping[str, Any] | None = None,
        version: int | None = None,
        parameters: Mapping[str, Any] | None = None,
        force: bool | None = None,
        files: Mapping[str, Any] | None = None,
        prune: bool | None = None,
        comment: str | None = None,
        expires_in: int | None = None,
        on_failure: Literal["keep", "rollback"] | None = None,
        confirm: bool | None = None,
        plan: bool | None = None,
        idempotency_key: str | None = None,
    ) -> Call[types.ChangeSetDocument]:
        """Keep what a change of instances or a directory would do. Permission: EditInstance; CreateInstance for a
        launch; what its changes need for a directory.

        `if_exists`: For `launch`: what it does if a living instance has its name.
        `files`: The files of a directory: their texts by their paths in it.
        `prune`: Delete objects that the directory lacks, of kinds that have a folder in it.
        `on_failure`: What an instance does when its reconfiguration fails: with plan, only keep.
        `confirm`: Let a person confirm it if no policy asks for approvals. A token whose scope names DeleteInstance
        for the instances needs nobody.
        `plan`: Plan what the steps would do. Approvals cover that, and steps do exactly that or stop.
        """

    @list_operation(OperationSpec("GET", "/api/1/organizations/{orgId}/change-sets"))
    def list_change_sets(
        self, organization_id: str, *, limit: int | None = None, after: str | None = None
    ) -> Call[list[types.ChangeSetItem]]:
        """List the change sets of an organization. Permission: Read.

        `limit`: Maximum number of items. A page has at most 1,000.
        `after`: Only items after the one with this ID.
        """

    @operation(OperationSpec("GET", "/api/1/change-sets/{changeSetId}"))
    def read_change_set(self, change_set_id: str, *, compare: bool | None = None) -> Call[types.ChangeSetDocument]:
        """Show a change set with its plan. Permission: Read on each object shown.

        `compare`: Whether to compare it with the present state. Default: if it has at most 10 instances.
        """

    @operation(OperationSpec("DELETE", "/api/1/change-sets/{changeSetId}"))
    def delete_change_set(self, change_set_id: str, *, if_match: str | None = None) -> Call[None]:
        """Delete a change set. Permission: EditInstance for others than its author."""

    @operation(OperationSpec("POST", "/api/1/change-sets/{changeSetId}/approve", media_type=JSON))
    def approve_change_set(
        self,
        change_set_id: str,
        *,
        comment: str | None = None,
        allow_deletes: Sequence[str] | None = None,
        plan_digest: str | None = None,
        if_match: str | None = None,
    ) -> Call[types.ChangeSetDocument]:
        """Approve a change set of somebody else. Permission: ApproveInstanceWorkflow.

        `allow_deletes`: Patterns of addresses that may be deleted, such as *.
        `plan_digest`: The planDigest that was shown: other plans than those are refused.
        """

    @operation(OperationSpec("POST", "/api/1/change-sets/{changeSetId}/reject", media_type=JSON))
    def reject_change_set(
        self,
        change_set_id: str,
        *,
        comment: str | None = None,
        allow_deletes: Sequence[str] | None = None,
        plan_digest: str | None = None,
        if_match: str | None = None,
    ) -> Call[types.ChangeSetDocument]:
        """Reject a change set of somebody else. Permission: ApproveInstanceWorkflow.

        `allow_deletes`: Patterns of addresses that may be deleted, such as *.
        `plan_digest`: The planDigest that was shown: other plans than those are refused.
        """

    @operation(OperationSpec("POST", "/api/1/change-sets/{changeSetId}/apply", media_type=JSON, keyed=True))
    def apply_change_set(
        self,
        change_set_id: str,
        *,
        allow_deletes: Sequence[str] | None = None,
        plan_digest: str | None = None,
        if_match: str | None = None,
        idempotency_key: str | None = None,
    ) -> Call[types.ChangeSetDocument]:
        """Apply a change set as it was shown. Permission: EditInstance; CreateInstance for a launch; what its
        changes need for a directory.

        `allow_deletes`: Patterns of addresses that may be deleted, such as *.
        `plan_digest`: The planDigest that was shown: other plans than those are refused.
        """

    @operation(OperationSpec("POST", "/api/1/organizations/{orgId}/plans", media_type=JSON, keyed=True))
    def create_plan(
        self,
        organization_id: str,
        *,
        act: Literal["destroy", "launch", "manage", "reconfigure", "relaunch"],
        application_id: str | None = None,
        launch: Mapping[str, Any] | None = None,
        if_exists: Literal["allow", "fail", "return"] | None = None,
        instance_id: str | None = None,
        configuration: Mapping[str, Any] | None = None,
        force: bool | None = None,
        if_match: str | None = None,
        idempotency_key: str | None = None,
    ) -> Call[types.PlanDocument]:
        """Plan what each step of a change would do. Permission: Read, and CreateInstance for a launch; EditInstance
        otherwise.
        """

    @operation(OperationSpec("GET", "/api/1/plans/{planId}"))
    def read_plan(self, plan_id: str) -> Call[types.PlanDocument]:
        """Show a plan of yours. Permission: Read; only your own plans."""

    @operation(OperationSpec("DELETE", "/api/1/plans/{planId}"))
    def delete_plan(self, plan_id: str, *, if_match: str | None = None) -> Call[None]:
        """Delete a plan of yours, and stop making it. Permission: None; only your own plans."""

    @operation(OperationSpec("POST", "/api/1/organizations/{orgId}/rollouts", media_type=JSON, keyed=True))
    def create_rollout(
        self,
        organization_id: str,
        *,
        application_id: str,
        version: int,
        ids: Sequence[str] | None = None,
        select: types.Selection | None = None,
        waves: Sequence[int | str] | None = None,
        pause: int | None = None,
        health_workflow: str | None = None,
        max_parallel: int | None = None,
        stop_after_failures: int | None = None,
        on_failure: Literal["stop", "takeBack"] | None = None,
        comment: str | None = None,
        idempotency_key: str | None = None,
    ) -> Call[types.RolloutDocument]:
        """Bring a manifest version to instances in waves. Permission: EditInstance.

        `version`: The manifest version that the instances get.
        `waves`: Numbers of instances, or percentages such as `10%`. The others are the last wave.
        `pause`: Milliseconds between two waves. Null waits until somebody continues.
        `health_workflow`: A command that has to succeed on each instance with the version.
        `max_parallel`: Jobs at the same time.
        `stop_after_failures`: Failed instances that end the rollout.
        `on_failure`: What happens after so many failures: `stop`, or `takeBack` to return to the version before.
        """

    @list_operation(OperationSpec("GET", "/api/1/organizations/{orgId}/rollouts"))
    def list_rollouts(
        self, organization_id: str, *, limit: int | None = None, after: str | None = None
    ) -> Call[list[types.RolloutDocument]]:
        """List the rollouts of an organization. Permission: Read.

        `limit`: Maximum number of items. A page has at most 1,000.
        `after`: Only items after the one with this ID.
        """

    @operation(OperationSpec("GET", "/api/1/rollouts/{rolloutId}"))
    def read_rollout(self, rollout_id: str) -> Call[types.RolloutDocument]:
        """Show a rollout. Permission: Read."""

    @list_operation(OperationSpec("GET", "/api/1/rollouts/{rolloutId}/instances"))
    def list_rollout_instances(
        self,
        rollout_id: str,
        *,
        limit: int | None = None,
        after: str | None = None,
        status: Literal[
            "Checking",
            "Failed",
            "Lost",
            "Refused",
            "Returned",
            "Returning",
            "Running",
            "Skipped",
            "Succeeded",
            "Unchecked",
            "Waiting",
        ]
        | None = None,
    ) -> Call[list[types.RolloutInstance]]:
        """List the instances of a rollout. Permission: Read on each instance returned.

        `limit`: Maximum number of items. A page has at most 1,000.
        `after`: Only items after the one with this ID.
        `status`: Only instances with this status.
        """

    @operation(OperationSpec("POST", "/api/1/rollouts/{rolloutId}/stop"))
    def stop_rollout(self, rollout_id: str, *, if_match: str | None = None) -> Call[None]:
        """Stop a rollout. Its jobs continue. Permission: EditInstance, or to have begun it."""

    @operation(OperationSpec("POST", "/api/1/rollouts/{rolloutId}/continue"))
    def continue_rollout(self, rollout_id: str, *, if_match: str | None = None) -> Call[None]:
        """Continue a stopped or waiting rollout. Permission: EditInstance, or to have begun it."""

    @operation(OperationSpec("POST", "/api/1/rollouts/{rolloutId}/take-back"))
    def take_back_rollout(self, rollout_id: str, *, if_match: str | None = None) -> Call[None]:
        """Take the changes of a rollout back. Permission: EditInstance, or to have begun it."""

    # Approvals

    @list_operation(OperationSpec("GET", "/api/1/organizations/{orgId}/approvals"))
    def list_approvals(
        self,
        organization_id: str,
        *,
        limit: int | None = None,
        after: str | None = None,
        status: Literal["decided", "pending"] | None = None,
    ) -> Call[list[types.Approval]]:
        """List the pending or the decided approvals of an organization. Permission: Read on the instance of each
        approval, or ApproveInstanceWorkflow on its workflow.

        `limit`: Maximum number of items.
        `after`: Only items after the one with this ID.
        `status`: `decided`: approved, rejected, expired or withdrawn ones, newest first; `status` says which.
        """

    @list_operation(OperationSpec("GET", "/api/1/instances/{id}/approvals"))
    def list_instance_approvals(
        self, instance_id: str, *, limit: int | None = None, after: str | None = None
    ) -> Call[list[types.Approval]]:
        """List the approvals of an instance, pending and decided. Permission: Read.

        `limit`: Maximum number of items.
        `after`: Only items after the one with this ID.
        """

    @operation(OperationSpec("GET", "/api/1/approvals/{approvalId}"))
    def read_approval(self, approval_id: str) -> Call[types.Approval]:
        """Show an approval. Permission: Read on the instance, or ApproveInstanceWorkflow on the workflow."""

    @operation(OperationSpec("POST", "/api/1/approvals/{approvalId}/approve", media_type=JSON, keyed=True))
    def approve(
        self,
        approval_id: str,
        *,
        comment: str | None = None,
        if_match: str | None = None,
        idempotency_key: str | None = None,
    ) -> Call[types.Approval]:
        """Approve a step. Permission: ApproveInstanceWorkflow, and the permission or role that the step requires.

        `comment`: Comment for the others who decide, and for the log.
        """

    @operation(OperationSpec("POST", "/api/1/approvals/{approvalId}/reject", media_type=JSON, keyed=True))
    def reject(
        self,
        approval_id: str,
        *,
        comment: str | None = None,
        if_match: str | None = None,
        idempotency_key: str | None = None,
    ) -> Call[types.Approval]:
        """Reject a step. The step fails and is not retried. Permission: ApproveInstanceWorkflow, and the permission
        or role that the step requires.

        `comment`: Comment for the others who decide, and for the log.
        """

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
        action: str | None = None,
        since: int | None = None,
        until: int | None = None,
        sort: Literal["-at", "at"] | None = None,
    ) -> Call[list[types.AuditEntryShape]]:
        """List the changes made in an organization: by whom, when, from where, before and after. Permission:
        ViewAudit.

        `limit`: Maximum number of items. Default: all.
        `after`: Only items after the one with this ID.
        `actor`: Only changes by this user: an ID or an email address.
        `object_`: Only changes of this object: an ID, or a path, which includes everything below it.
        `action`: Only these operations, separated by commas, such as `run_workflow,resume_job`.
        `since`: Only changes from this time on.
        `until`: Only changes before this time.
        `sort`: The order; `-at` is newest first.
        """

    # Health

    @operation(OperationSpec("GET", "/.well-known/openid-configuration", public=True))
    def read_issuer(self) -> Call[types.IssuerDocument]:
        """Show the issuer of tokens of jobs."""

    @operation(OperationSpec("GET", "/.well-known/jwks.json", public=True))
    def read_issuer_keys(self) -> Call[types.KeySetDocument]:
        """Show the public keys that verify tokens of jobs."""

    @operation(OperationSpec("GET", "/health/live", public=True))
    def health_live(self) -> Call[types.Health]:
        """Report that the process is running."""

    @operation(OperationSpec("GET", "/health/ready", public=True))
    def health_ready(self) -> Call[types.Health]:
        """Check if the process and its database can answer requests."""

    @operation(OperationSpec("GET", "/metrics", answer="text/plain", public=True))
    def read_metrics(self) -> Call[str]:
        """Show the metrics of this process in Prometheus text format."""

    # Webhooks

    @list_operation(OperationSpec("GET", "/api/1/organizations/{orgId}/webhooks"))
    def list_webhooks(
        self, organization_id: str, *, limit: int | None = None, after: str | None = None
    ) -> Call[list[types.Webhook]]:
        """List the webhooks of an organization. Permission: ManageUsers for all users of the organization.

        `limit`: Maximum number of items. Default: all.
        `after`: Only items after the one with this ID.
        """

    @operation(OperationSpec("POST", "/api/1/organizations/{orgId}/webhooks", media_type=JSON, keyed=True))
    def create_webhook(
        self,
        organization_id: str,
        *,
        url: str,
        events: Sequence[str],
        secret: str | None = None,
        format_: Literal["json", "slack", "teams"] | None = None,
        idempotency_key: str | None = None,
    ) -> Call[types.CreatedWebhook]:
        """Create a webhook: a URL that receives signed events of the organization's instances. Permission:
        ManageUsers for all users of the organization, and Read for all instances.

        `events`: Any of status, job, signal, approval, notification, changeSet, rollout, expiry, override, drift.
        `secret`: Key of the signatures. Default: generated.
        `format_`: The form of requests: json, slack or teams.
        """

    @operation(OperationSpec("GET", "/api/1/webhooks/{webhookId}"))
    def read_webhook(self, webhook_id: str) -> Call[types.Webhook]:
        """Show a webhook. Permission: ManageUsers for all users of the organization."""

    @operation(OperationSpec("PUT", "/api/1/webhooks/{webhookId}", media_type=JSON))
    def update_webhook(
        self,
        webhook_id: str,
        *,
        url: str | None = None,
        events: Sequence[str] | None = None,
        secret: str | None = None,
        format_: Literal["json", "slack", "teams"] | None = None,
        enabled: bool | None = None,
        if_match: str | None = None,
    ) -> Call[None]:
        """Change a webhook, or disable or enable it. Permission: ManageUsers for all users of the organization, and
        Read for all instances.

        `events`: Any of status, job, signal, approval, notification, changeSet, rollout, expiry, override, drift.
        `secret`: New key of the signatures.
        `format_`: The form of requests: json, slack or teams.
        `enabled`: Whether the webhook sends events.
        """

    @operation(OperationSpec("DELETE", "/api/1/webhooks/{webhookId}"))
    def delete_webhook(self, webhook_id: str, *, if_match: str | None = None) -> Call[None]:
        """Delete a webhook with its deliveries. Permission: ManageUsers for all users of the organization."""

    @list_operation(OperationSpec("GET", "/api/1/webhooks/{webhookId}/deliveries"))
    def list_deliveries(
        self, webhook_id: str, *, limit: int | None = None, after: str | None = None
    ) -> Call[list[types.Delivery]]:
        """List the deliveries of a webhook, sent and pending. Permission: ManageUsers for all users of the
        organization, and Read for all instances.

        `limit`: Maximum number of items.
        `after`: Only items after the one with this ID.
        """

    @operation(OperationSpec("GET", "/api/1/webhooks/{webhookId}/deliveries/{deliveryId}"))
    def read_delivery(self, webhook_id: str, delivery_id: str) -> Call[types.SentDelivery]:
        """Show a delivery with what is sent, secrets masked. Permission: ManageUsers for all users of the
        organization, and Read for all instances.
        """

    @operation(OperationSpec("POST", "/api/1/webhooks/{webhookId}/test"))
    def test_webhook(self, webhook_id: str, *, if_match: str | None = None) -> Call[types.SentTest]:
        """Send the event `test` to a webhook, whichever events it asks for. Permission: ManageUsers for all users of
        the organization.
        """

    @operation(OperationSpec("POST", "/api/1/webhooks/{webhookId}/retry"))
    def retry_deliveries(
        self, webhook_id: str, *, delivery: str | None = None, if_match: str | None = None
    ) -> Call[types.Retried]:
        """Send failed deliveries of a webhook again. Permission: ManageUsers for all users of the organization.

        `delivery`: One failed delivery. Default: all.
        """

    # Account

    @operation(OperationSpec("PUT", "/api/1/users/me/password", media_type=JSON))
    def change_password(self, *, current_password: str, new_password: str) -> Call[None]:
        """Change your password. Permission: None: your own account."""

    @operation(OperationSpec("DELETE", "/api/1/users/me/sessions"))
    def sign_out_everywhere(self) -> Call[None]:
        """End all your sessions and revoke all your refresh tokens. Permission: None: your own account."""

    @list_operation(OperationSpec("GET", "/api/1/tokens"))
    def list_tokens(self, *, limit: int | None = None, after: str | None = None) -> Call[list[types.TokenItem]]:
        """List your refresh tokens. Never returns their values. Permission: None: your own account.

        `limit`: Maximum number of items. Default: all.
        `after`: Only items after the one with this ID.
        """

    @operation(OperationSpec("DELETE", "/api/1/tokens/{id}"))
    def revoke_token(self, token_id: str, *, if_match: str | None = None) -> Call[None]:
        """Revoke one of your refresh tokens. Permission: None: your own account."""

    @list_operation(OperationSpec("GET", "/api/1/users/me/invitations"))
    def list_invitations(
        self, *, limit: int | None = None, after: str | None = None
    ) -> Call[list[types.InvitationItem]]:
        """List the organizations that you are invited to. Permission: None: your own account.

        `limit`: Maximum number of items. Default: all.
        `after`: Only items after the one with this ID.
        """

    @operation(OperationSpec("POST", "/api/1/users/me/invitations", media_type=JSON))
    def accept_membership(self, *, invitation: str) -> Call[types.JoinedOrganization]:
        """Accept an invitation to an organization. Permission: None: your own account."""

    @operation(OperationSpec("DELETE", "/api/1/users/me/invitations/{id}"))
    def decline_membership(self, invitation_id: str, *, if_match: str | None = None) -> Call[None]:
        """Decline an invitation to an organization. Permission: None: your own account."""

    @operation(OperationSpec("DELETE", "/api/1/users/me/organizations/{orgId}"))
    def leave_organization(self, organization_id: str) -> Call[None]:
        """Leave an organization. If it is your last one, your account is deleted. Permission: None: your own
        account.
        """

    @operation(OperationSpec("POST", "/refreshToken/jwtBearer", media_type=JSON, repeatable=True, public=True))
    def exchange_token(self, *, refresh_token: str) -> Call[types.SessionToken]:
        """Exchange a refresh token for a session token."""

    @list_operation(OperationSpec("GET", "/api/1/users/me/secondFactors"))
    def list_second_factors(
        self, *, limit: int | None = None, after: str | None = None
    ) -> Call[list[types.SecondFactor]]:
        """List your second factors. Permission: None: your own account.

        `limit`: Maximum number of items. Default: all.
        `after`: Only items after the one with this ID.
        """

    # Pages

    @operation(OperationSpec("GET", "/refreshToken", answer="text/html", public=True))
    def refresh_token_page(self) -> Call[str]:
        """Show the page to sign in and generate a refresh token."""

    @operation(
        OperationSpec(
            "POST", "/refreshToken", media_type="application/x-www-form-urlencoded", answer="text/html", public=True
        )
    )
    def generate_token(self, *, email: str, password: str, label: str | None = None) -> Call[str]:
        """Sign in and show a new refresh token once.

        `label`: Label of the token, such as the program that uses it.
        """

    @operation(OperationSpec("POST", "/signIn", media_type="application/x-www-form-urlencoded", public=True))
    def sign_in_with_form(self, *, email: str, password: str) -> Call[None]:
        """Sign in with email address and password; the session is in a cookie."""

    @operation(
        OperationSpec(
            "POST",
            "/refreshToken/secondFactor",
            media_type="application/x-www-form-urlencoded",
            answer="text/html",
            public=True,
        )
    )
    def generate_token_with_second_factor(self, *, token: str, code: str, label: str | None = None) -> Call[str]:
        """Enter the second factor after the password, and show a new refresh token once."""

    @operation(OperationSpec("GET", "/invitation/{token}", answer="text/html", public=True))
    def invitation_page(self, token: str) -> Call[str]:
        """Show the page for an invited user to set the first password."""

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
        """Set the first password of an invited user. The link works once."""

    @operation(OperationSpec("GET", "/signIn/openid", answer="text/html", public=True))
    def begin_sign_in(self, *, to: str | None = None) -> Call[str]:
        """Redirect the browser to the OpenID Connect provider to sign in."""

    @operation(OperationSpec("GET", "/signIn/openid/callback", answer="text/html", public=True, is_camel=False))
    def finish_sign_in(
        self,
        *,
        code: str | None = None,
        state: str | None = None,
        error: str | None = None,
        error_description: str | None = None,
        iss: str | None = None,
    ) -> Call[str]:
        """Complete the sign-in at the provider and show a new refresh token once."""

    @operation(
        OperationSpec(
            "POST", "/signIn/openid/logout", media_type="application/x-www-form-urlencoded", public=True, is_camel=False
        )
    )
    def end_provider_sessions(self, *, logout_token: str) -> Call[None]:
        """End console sessions after a logout at the OpenID Connect provider."""

    # Description

    @operation(OperationSpec("GET", "/api/1/openapi.json", public=True))
    def openapi(self) -> Call[dict[str, Any]]:
        """Show the OpenAPI 3.1 document of this API."""

    @operation(OperationSpec("GET", "/docs", answer="text/html", public=True))
    def browse_api(self) -> Call[str]:
        """Show this API as a page: calls by resource, parameters, responses, and commands to try."""
