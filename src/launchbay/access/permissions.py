"""Every permission there is (api-decisions, "Organizations, roles, permissions")."""

from enum import StrEnum


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


OTHER_SPELLINGS = {"EnvironmentEdit": Permission.EDIT_ENVIRONMENT}
_BY_NAME = {permission.value: permission for permission in Permission} | OTHER_SPELLINGS


def permission_named(name: str) -> Permission | None:
    """Return the permission with this name or other spelling, None when there is none; names are case-sensitive."""
    return _BY_NAME.get(name)
