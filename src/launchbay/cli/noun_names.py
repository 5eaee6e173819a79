"""The nouns of the command line with their lines in the help, which must not load what makes their commands."""

from collections.abc import Mapping

NOUNS: Mapping[str, str] = {
    "account": "Your password.",
    "application": "Applications, their launch and their instances.",
    "approval": "What workflows ask people.",
    "audit": "Who changed what, and when.",
    "environment": "Environments: policies, markers, properties, services.",
    "instance": "Instances: status, workflows, schedules, log, events.",
    "job": "Jobs of instances: steps, cancelling, resuming.",
    "manifest": "Manifests of applications, by version.",
    "organization": "Organizations.",
    "page": "The pages of the server, as text.",
    "permission": "Why somebody may do something, or not.",
    "revision": "Named revisions of applications.",
    "role": "Roles and their permissions.",
    "server": "Whether the server is well, and its description.",
    "service": "Services, their types and commands.",
    "token": "Refresh tokens.",
    "user": "Users and the roles that they hold.",
    "webhook": "Webhooks and their deliveries.",
    "zone": "Zones that services can be in.",
}
