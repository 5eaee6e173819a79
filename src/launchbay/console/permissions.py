"""What the person at the browser may do: pages offer nothing else.

Here stands which permission, for what, each act of a page takes; whether it is held is the gate's decision, the same
that the act itself meets (`tests/console/test_offered_acts.py` holds every form of every page against it).
"""

from typing import Protocol

from launchbay.auth import permissions
from launchbay.auth.permissions import Permission
from launchbay.ids import new_id
from launchbay.planning import DESTROY
from launchbay.store.approvals import ApprovalRow
from launchbay.usecases.approvals import may_answer
from launchbay.usecases.permissions import Permitted, manages_every_user


class InstanceRef(Protocol):
    """An instance, whatever else is known of it."""

    @property
    def id(self) -> str:
        """Its id."""

    @property
    def application_id(self) -> str:
        """What it was launched from."""

    @property
    def environment_id(self) -> str:
        """Where it runs."""


class UiPermissions:
    """The acts by name, for handlers and templates. What comes into being is asked about as anything new."""

    def __init__(self, permitted: Permitted) -> None:
        self._permitted = permitted

    def section(self, key: str) -> bool:
        """Whether a section of the navigation has anything for them."""
        return {"webhooks": self.manage_all_users, "audit": self.view_audit}.get(key, lambda: True)()

    def manage_all_users(self) -> bool:
        """Whether they may rename the organization, and see and change its webhooks."""
        return manages_every_user(self._permitted)

    def view_audit(self) -> bool:
        """Whether they may read the audit log."""
        return self._permitted.holds(Permission.VIEW_AUDIT)

    def create_application(self) -> bool:
        """Whether they may create applications."""
        return self._permitted.allows(Permission.CREATE_APPLICATION, permissions.application(new_id()))

    def edit_application(self, application_id: str) -> bool:
        """Whether they may change an application, its manifest and its revisions."""
        return self._permitted.allows(Permission.EDIT_APPLICATION, permissions.application(application_id))

    def delete_application(self, application_id: str) -> bool:
        """Whether they may delete it."""
        return self._permitted.allows(Permission.DELETE_APPLICATION, permissions.application(application_id))

    def launch_something(self) -> bool:
        """Whether they may launch anything at all."""
        return self._permitted.holds(Permission.CREATE_INSTANCE)

    def launch(self, application_id: str, environment_id: str | None = None) -> bool:
        """Whether they may launch it, anywhere or in this environment."""
        touched = () if environment_id is None else (permissions.environment(environment_id),)
        return self._permitted.allows(Permission.CREATE_INSTANCE, permissions.application(application_id), *touched)

    def edit_instance(self, instance: InstanceRef) -> bool:
        """Whether they may reconfigure, extend and destroy it, and set its user data."""
        return self._on(instance, Permission.EDIT_INSTANCE)

    def delete_instance(self, instance: InstanceRef) -> bool:
        """Whether they may delete its records."""
        return self._on(instance, Permission.DELETE_INSTANCE)

    def run(self, instance: InstanceRef, workflow: str) -> bool:
        """Whether they may run a workflow, and cancel and resume its jobs."""
        if workflow == DESTROY:
            return self.edit_instance(instance)
        return self._on(instance, Permission.RUN_INSTANCE_WORKFLOW, workflow)

    def schedule(self, instance: InstanceRef, workflow: str) -> bool:
        """Whether they may schedule a workflow, and move or cancel its schedules."""
        if workflow == DESTROY:
            return self.edit_instance(instance)
        return self._on(instance, Permission.SCHEDULE_INSTANCE_WORKFLOW, workflow)

    def offer(self, instance: InstanceRef, environment_id: str) -> bool:
        """Whether they may offer it in an environment, or withdraw it from there."""
        return self.edit_instance(instance) and self._permitted.allows(
            Permission.EDIT_ENVIRONMENT,
            permissions.environment(environment_id),
            permissions.instance(instance.application_id, instance.id),
        )

    def answer(self, approval: ApprovalRow, user_id: str) -> bool:
        """Whether they are among those whom a step asks."""
        return may_answer(self._permitted, approval, user_id)

    def create_environment(self) -> bool:
        """Whether they may create environments, as a copy too."""
        return self._permitted.allows(Permission.CREATE_ENVIRONMENT, permissions.environment(new_id()))

    def edit_environment(self, environment_id: str) -> bool:
        """Whether they may change an environment."""
        return self._permitted.allows(Permission.EDIT_ENVIRONMENT, permissions.environment(environment_id))

    def delete_environment(self, environment_id: str) -> bool:
        """Whether they may delete it."""
        return self._permitted.allows(Permission.DELETE_ENVIRONMENT, permissions.environment(environment_id))

    def offer_service(self, environment_id: str, service_id: str) -> bool:
        """Whether they may have an environment offer a service, or not any more."""
        return self._permitted.allows(
            Permission.EDIT_ENVIRONMENT, permissions.environment(environment_id), permissions.service(service_id)
        )

    def create_service(self) -> bool:
        """Whether they may create services."""
        return self._permitted.allows(Permission.CREATE_SERVICE, permissions.service(new_id()))

    def edit_service(self, service_id: str) -> bool:
        """Whether they may change a service, and delete it."""
        return self._permitted.allows(Permission.EDIT_SERVICE, permissions.service(service_id))

    def run_command(self, service_id: str) -> bool:
        """Whether they may run the commands of a service."""
        return self._permitted.allows(Permission.RUN_SERVICE_COMMAND, permissions.service(service_id))

    def create_role(self) -> bool:
        """Whether they may create roles."""
        return self._permitted.allows(Permission.MANAGE_ROLES, permissions.role(new_id()))

    def edit_role(self, role_id: str) -> bool:
        """Whether they may change a role, and delete it."""
        return self._permitted.allows(Permission.MANAGE_ROLES, permissions.role(role_id))

    def assign_role(self, user_id: str | None, role_id: str) -> bool:
        """Whether they may give a role to a user, or to a new one, and take it away."""
        return self._permitted.allows(
            Permission.MANAGE_ROLES, permissions.user(user_id or new_id()), permissions.role(role_id)
        )

    def ask_about(self, user_id: str) -> bool:
        """Whether they may ask why somebody is allowed something."""
        return self._permitted.allows(Permission.MANAGE_ROLES, permissions.user(user_id))

    def create_user(self) -> bool:
        """Whether they may add users."""
        return manages_every_user(self._permitted)

    def manage_user(self, user_id: str) -> bool:
        """Whether they may disable, enable and remove a user."""
        return self._permitted.allows(Permission.MANAGE_USERS, permissions.user(user_id))

    def _on(self, instance: InstanceRef, permission: Permission, workflow: str | None = None) -> bool:
        target = (
            permissions.instance(instance.application_id, instance.id)
            if workflow is None
            else permissions.workflow(instance.application_id, instance.id, workflow)
        )
        return self._permitted.allows(permission, target, permissions.environment(instance.environment_id))
