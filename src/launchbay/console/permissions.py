"""What the user may do: pages offer nothing else.

`UiPermissions` names the permission that each operation of a page needs, and its objects. The gate decides, as it does
for the operation itself; `tests/console/test_permissions.py` compares the two for every form of every page.
"""

from collections.abc import Collection, Iterable
from typing import Literal, Protocol, TypeAlias

from launchbay.auth import permissions
from launchbay.auth.permissions import Actor, Permission
from launchbay.ids import new_id
from launchbay.model.changes import FrozenKind
from launchbay.planning.names import DESTROY
from launchbay.store.approvals import ApprovalRow
from launchbay.store.fleet import FleetJobRow, FleetRow
from launchbay.store.instances import InstanceRecord
from launchbay.store.schedules import FleetScheduleRow
from launchbay.store.users import Role
from launchbay.usecases.approvals import may_answer
from launchbay.usecases.on_behalf import Begun, may_control
from launchbay.usecases.permissions import Permitted, manages_every_user, reads_every_instance

InstanceRef: TypeAlias = InstanceRecord | FleetRow


class Concerned(Protocol):
    """An instance that is to be changed, or launched if it has no ID."""

    @property
    def instance_id(self) -> str | None: ...
    @property
    def application_id(self) -> str: ...
    @property
    def environment_id(self) -> str: ...


class UiPermissions:
    """Whether the user may do what a method says. Creating is checked with the ID of a new object."""

    def __init__(self, permitted: Permitted) -> None:
        self._permitted = permitted

    def hidden_sections(self) -> frozenset[str]:
        """Return the keys of the sections that the navigation doesn't show."""
        shown = {"webhooks": self.manage_all_users(), "audit": self.view_audit()}
        return frozenset(key for key, is_shown in shown.items() if not is_shown)

    def manage_all_users(self) -> bool:
        """Rename the organization, and see and change its webhooks."""
        return manages_every_user(self._permitted)

    def read_every_instance(self) -> bool:
        """Read what webhooks deliver, and say where to."""
        return reads_every_instance(self._permitted)

    def control_git_source(self, account_id: str) -> bool:
        """Synchronize a source in Git, and apply its plans.

        Which roles the account has is checked then.
        """
        return self._permitted.allows(Permission.MANAGE_ROLES, permissions.user(account_id))

    def export(self) -> bool:
        """Export the organization."""
        return self.manage_all_users() and self.create_role()

    def manage_some_users(self) -> bool:
        """See who is invited."""
        return self._permitted.holds(Permission.MANAGE_USERS)

    def view_audit(self) -> bool:
        return self._permitted.holds(Permission.VIEW_AUDIT)

    def create_application(self) -> bool:
        return self._permitted.allows(Permission.CREATE_APPLICATION, permissions.application(new_id()))

    def edit_application(self, application_id: str) -> bool:
        """Change an application, its manifest and its revisions."""
        return self._permitted.allows(Permission.EDIT_APPLICATION, permissions.application(application_id))

    def delete_application(self, application_id: str) -> bool:
        return self._permitted.allows(Permission.DELETE_APPLICATION, permissions.application(application_id))

    def read_application(self, application_id: str) -> bool:
        return self._permitted.allows(Permission.READ, permissions.application(application_id))

    def read_environment(self, environment_id: str) -> bool:
        return self._permitted.allows(Permission.READ, permissions.environment(environment_id))

    def launch_something(self) -> bool:
        """Launch any application."""
        return self._permitted.holds(Permission.CREATE_INSTANCE)

    def launch(self, application_id: str, environment_id: str | None = None) -> bool:
        touched = () if environment_id is None else (permissions.environment(environment_id),)
        return self._permitted.allows(Permission.CREATE_INSTANCE, permissions.application(application_id), *touched)

    def edit_instance(self, instance: InstanceRef) -> bool:
        """Reconfigure, extend and destroy an instance, and set its user data."""
        return self._on(instance, Permission.EDIT_INSTANCE)

    def delete_instance(self, instance: InstanceRef) -> bool:
        return self._on(instance, Permission.DELETE_INSTANCE)

    def run(self, instance: InstanceRef, workflow: str) -> bool:
        """Run a workflow, and cancel and resume its jobs."""
        if workflow == DESTROY:
            return self.edit_instance(instance)
        return self._on(instance, Permission.RUN_INSTANCE_WORKFLOW, workflow)

    def schedule(self, instance: InstanceRef, workflow: str) -> bool:
        """Schedule a workflow, and move and cancel its schedules."""
        if workflow == DESTROY:
            return self.edit_instance(instance)
        return self._on(instance, Permission.SCHEDULE_INSTANCE_WORKFLOW, workflow)

    def schedule_row(self, row: FleetScheduleRow) -> bool:
        """Move and cancel a schedule of the organization's list."""
        environment = permissions.environment(row.environment_id)
        if row.workflow == DESTROY:
            instance = permissions.instance(row.application_id, row.instance_id)
            return self._permitted.allows(Permission.EDIT_INSTANCE, instance, environment)
        workflow = permissions.workflow(row.application_id, row.instance_id, row.workflow)
        return self._permitted.allows(Permission.SCHEDULE_INSTANCE_WORKFLOW, workflow, environment)

    def resume_job(self, row: FleetJobRow) -> bool:
        """Resume a job of the organization's list, unless it belongs to another job."""
        environment = permissions.environment(row.environment_id)
        workflow = permissions.workflow(row.application_id, row.instance_id, row.name)
        may = self._permitted.allows(Permission.RUN_INSTANCE_WORKFLOW, workflow, environment)
        return may and row.name != DESTROY and row.parent_job_id is None

    def offer(self, instance: InstanceRef, environment_id: str) -> bool:
        """Offer an instance in an environment, or withdraw it."""
        assert instance.id is not None, "only the row of an empty list has no instance"
        return self.edit_instance(instance) and self._permitted.allows(
            Permission.EDIT_ENVIRONMENT,
            permissions.environment(environment_id),
            permissions.instance(instance.application_id, instance.id),
        )

    def answer(self, approval: ApprovalRow, user_id: str) -> bool:
        """Answer an approval."""
        return may_answer(self._permitted, approval, user_id)

    def read_instance_of(self, approval: ApprovalRow) -> bool:
        """See the instance that an approval is about."""
        target = permissions.instance(approval.application_id, approval.instance_id)
        return self._permitted.allows(Permission.READ, target, permissions.environment(approval.environment_id))

    def act_on_many(self) -> bool:
        """Select instances for one act on all of them; each may refuse it."""
        return self._permitted.holds(Permission.EDIT_INSTANCE) or self._permitted.holds(
            Permission.RUN_INSTANCE_WORKFLOW
        )

    def roll_out(self) -> bool:
        """Roll out a version; each instance may refuse it."""
        return self._permitted.holds(Permission.EDIT_INSTANCE)

    def control(self, begun: Begun, actor: Actor) -> bool:
        """Control what somebody began, such as a bulk run or a rollout."""
        return may_control(self._permitted.lookup.grants(self._permitted.organization_id), actor, begun)

    def apply_change_set(self, rows: Iterable[Concerned]) -> bool:
        """Apply a change set to these instances."""
        return all(
            self.launch(row.application_id, row.environment_id)
            if row.instance_id is None
            else self._permitted.allows(
                Permission.EDIT_INSTANCE,
                permissions.instance(row.application_id, row.instance_id),
                permissions.environment(row.environment_id),
            )
            for row in rows
        )

    def create_environment(self) -> bool:
        return self._permitted.allows(Permission.CREATE_ENVIRONMENT, permissions.environment(new_id()))

    def edit_environment(self, environment_id: str) -> bool:
        return self._permitted.allows(Permission.EDIT_ENVIRONMENT, permissions.environment(environment_id))

    def delete_environment(self, environment_id: str) -> bool:
        return self._permitted.allows(Permission.DELETE_ENVIRONMENT, permissions.environment(environment_id))

    def offer_service(self, environment_id: str, service_id: str) -> bool:
        """Offer a service in an environment, or withdraw it."""
        return self._permitted.allows(
            Permission.EDIT_ENVIRONMENT, permissions.environment(environment_id), permissions.service(service_id)
        )

    def forget_host_keys(self) -> bool:
        """See and forget the pinned keys of hosts, which count in every environment."""
        return self._permitted.allows(Permission.EDIT_ENVIRONMENT, permissions.environment(permissions.EVERY))

    def create_service(self) -> bool:
        return self._permitted.allows(Permission.CREATE_SERVICE, permissions.service(new_id()))

    def edit_service(self, service_id: str) -> bool:
        return self._permitted.allows(Permission.EDIT_SERVICE, permissions.service(service_id))

    def run_command(self, service_id: str) -> bool:
        return self._permitted.allows(Permission.RUN_SERVICE_COMMAND, permissions.service(service_id))

    def reveal_service(self, service_id: str) -> bool:
        """Reveal secret parameters of a service."""
        return self._permitted.allows(Permission.REVEAL_SECRETS, permissions.service(service_id))

    def reveal_instance(self, instance: InstanceRef) -> bool:
        """Reveal masked values of an instance."""
        return self._on(instance, Permission.REVEAL_SECRETS)

    def edit_rules(self, kind: Literal["organization", "application", "environment"], object_id: str) -> bool:
        """Write rules about changes."""
        if kind == "organization":
            everything = (permissions.application(permissions.EVERY), permissions.environment(permissions.EVERY))
            return all(self._permitted.allows(Permission.EDIT_RULES, each) for each in everything)
        path = permissions.environment if kind == "environment" else permissions.application
        return self._permitted.allows(Permission.EDIT_RULES, path(object_id))

    def override_freeze(self, kind: FrozenKind, object_id: str) -> bool:
        """Change what is frozen."""
        path = permissions.environment if kind == "environment" else permissions.application
        return self._permitted.allows(Permission.OVERRIDE_FREEZE, path(object_id))

    def create_role(self) -> bool:
        return self._permitted.allows(Permission.MANAGE_ROLES, permissions.role(new_id()))

    def edit_role(self, role_id: str) -> bool:
        return self._permitted.allows(Permission.MANAGE_ROLES, permissions.role(role_id))

    def assign_role(self, user_id: str | None, role_id: str) -> bool:
        """Assign a role to a user (None: a new one), and revoke it."""
        return self._permitted.allows(
            Permission.MANAGE_ROLES, permissions.user(user_id or new_id()), permissions.role(role_id)
        )

    def give_role(self, user_id: str | None, role: Role) -> bool:
        """Assign a role to a user (None: a new one).

        It must not allow more than the caller may do.
        """
        return self.assign_role(user_id, role.id) and self._permitted.has_all_of(role)

    def map_groups(self, roles: Collection[Role]) -> bool:
        """Map groups of the identity provider to one of these roles."""
        return any(self.assign_role(None, role.id) for role in roles)

    def ask_about(self, user_id: str) -> bool:
        """Ask for an explanation of a user's permissions."""
        return self._permitted.allows(Permission.MANAGE_ROLES, permissions.user(user_id))

    def create_user(self) -> bool:
        return self._permitted.allows(Permission.MANAGE_USERS, permissions.user(new_id()))

    def create_token_for(self, account_id: str, held: Collection[str], roles: Collection[Role]) -> bool:
        """Create an access token without a scope for a service account with these roles."""
        assignable = {role.name for role in roles if self.give_role(account_id, role)}
        manages = self._permitted.allows(Permission.MANAGE_ROLES, permissions.user(account_id))
        return manages and assignable.issuperset(held)

    def manage_user(self, user_id: str) -> bool:
        return self._permitted.allows(Permission.MANAGE_USERS, permissions.user(user_id))

    def _on(self, instance: InstanceRef, permission: Permission, workflow: str | None = None) -> bool:
        assert instance.id is not None, "only the row of an empty list has no instance"
        target = (
            permissions.instance(instance.application_id, instance.id)
            if workflow is None
            else permissions.workflow(instance.application_id, instance.id, workflow)
        )
        return self._permitted.allows(permission, target, permissions.environment(instance.environment_id))
