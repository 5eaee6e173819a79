"""The types of the API's answers.

Made from the endpoint table by `python -m generators`; a test holds that it is up to date.
"""

from launchbay.client.types.account import SessionToken, TokenItem
from launchbay.client.types.applications import ApplicationDocument
from launchbay.client.types.approvals import Approval, GivenAnswer
from launchbay.client.types.audit import AuditActor, AuditEntryShape
from launchbay.client.types.environments import (
    EnvironmentItem,
    Marker,
    Markers,
    OfferedInstance,
    OfferedServices,
    Properties,
    Property,
    ServiceItem,
)
from launchbay.client.types.health import Health
from launchbay.client.types.instances import (
    ComponentDocument,
    InstanceDocument,
    InstanceSummary,
    JobDocument,
    OfferedIn,
    ParameterChange,
    Preview,
    PreviewedComponent,
    StepDocument,
    WorkflowDocument,
)
from launchbay.client.types.jobs import JobDetail, LogLine, StepDetail
from launchbay.client.types.manifests import Findings, FindingShape, ManifestVersion, RefreshedVersion, VersionItem
from launchbay.client.types.organizations import (
    Archive,
    ArchivedApplication,
    ArchivedRevision,
    ArchivedRole,
    ArchivedService,
    ArchivedUser,
    Created,
    Environment,
    HostKey,
    ImportedOrganization,
    InvitedUser,
    Named,
    PropertyEntry,
)
from launchbay.client.types.revisions import RevisionDocument
from launchbay.client.types.roles import Explained, RoleDetail, RoleItem
from launchbay.client.types.services import (
    CommandShape,
    ParameterShape,
    ServiceDocument,
    ServiceStatus,
    ServiceTypeShape,
    TypedName,
)
from launchbay.client.types.users import AddedUser, UserDetail, UserItem
from launchbay.client.types.webhooks import CreatedWebhook, Delivery, Webhook
from launchbay.client.types.workflows import Scheduled, ScheduleEntry, Schedules

__all__ = [
    "AddedUser",
    "ApplicationDocument",
    "Approval",
    "Archive",
    "ArchivedApplication",
    "ArchivedRevision",
    "ArchivedRole",
    "ArchivedService",
    "ArchivedUser",
    "AuditActor",
    "AuditEntryShape",
    "CommandShape",
    "ComponentDocument",
    "Created",
    "CreatedWebhook",
    "Delivery",
    "Environment",
    "EnvironmentItem",
    "Explained",
    "FindingShape",
    "Findings",
    "GivenAnswer",
    "Health",
    "HostKey",
    "ImportedOrganization",
    "InstanceDocument",
    "InstanceSummary",
    "InvitedUser",
    "JobDetail",
    "JobDocument",
    "LogLine",
    "ManifestVersion",
    "Marker",
    "Markers",
    "Named",
    "OfferedIn",
    "OfferedInstance",
    "OfferedServices",
    "ParameterChange",
    "ParameterShape",
    "Preview",
    "PreviewedComponent",
    "Properties",
    "Property",
    "PropertyEntry",
    "RefreshedVersion",
    "RevisionDocument",
    "RoleDetail",
    "RoleItem",
    "ScheduleEntry",
    "Scheduled",
    "Schedules",
    "ServiceDocument",
    "ServiceItem",
    "ServiceStatus",
    "ServiceTypeShape",
    "SessionToken",
    "StepDetail",
    "StepDocument",
    "TokenItem",
    "TypedName",
    "UserDetail",
    "UserItem",
    "VersionItem",
    "Webhook",
    "WorkflowDocument",
]
