"""The noun and verb of each operation, from its id: `list_roles` is `role list`."""

from collections.abc import Mapping
from functools import cache
from types import MappingProxyType
from typing import Any

from launchbay.cli.lazy import NOUNS
from launchbay.client import Operations
from launchbay.client.operation import EventOperation, ListOperation, Operation

AnyOperation = Operation[Any, Any] | ListOperation[Any, Any] | EventOperation[Any]

_VERBS = {"read": "show", "change": "update", "replace": "set", "put": "set"}
# Operations that the rule would name badly: the noun is in the middle of the id, or another word says more.
_NAMES = {
    "accept_invitation": "page accept-invitation",
    "accept_membership": "invitation accept",
    "approve": "approval approve",
    "begin_sign_in": "page sign-in",
    "browse_api": "page docs",
    "change_password": "account change-password",
    "clone_environment": "environment clone",
    "compare_manifest_text": "manifest compare-text",
    "list_used_manifests": "manifest used",
    "read_directory": "organization objects",
    "put_directory_object": "organization put-object",
    "decline_membership": "invitation decline",
    "end_provider_sessions": "page provider-logout",
    "explain_permission": "permission explain",
    "forget_host_key": "organization forget-host-key",
    "finish_sign_in": "page finish-sign-in",
    "generate_token": "token generate",
    "generate_token_with_second_factor": "page second-factor",
    "health_live": "server live",
    "health_ready": "server ready",
    "invitation_page": "page invitation",
    "launch_application": "application launch",
    "leave_organization": "organization leave",
    "list_bulk_instances": "bulk instances",
    "list_git_previews": "git-source previews",
    "receive_git_event": "git-source receive-event",
    "list_git_syncs": "git-source syncs",
    "read_git_drift": "git-source drift",
    "list_application_instances": "application instances",
    "list_audit_entries": "audit list",
    "list_deliveries": "webhook deliveries",
    "list_timeline": "instance timeline",
    "diff_instance": "instance diff",
    "read_delivery": "webhook delivery",
    "retry_deliveries": "webhook retry",
    "list_components": "instance components",
    "list_generations": "instance generations",
    "read_generation": "instance generation",
    "rollback_instance": "instance rollback",
    "read_failure_policy": "application failure-policy",
    "set_failure_policy": "application set-failure-policy",
    "read_application_concurrency": "application concurrency",
    "replace_application_concurrency": "application set-concurrency",
    "read_environment_concurrency": "environment concurrency",
    "replace_environment_concurrency": "environment set-concurrency",
    "list_concurrency_groups": "organization concurrency",
    "read_application_lifetime": "application lifetime",
    "replace_application_lifetime": "application set-lifetime",
    "read_environment_lifetime": "environment lifetime",
    "replace_environment_lifetime": "environment set-lifetime",
    "read_lifetime": "instance lifetime",
    "read_application_sleep": "application sleep",
    "replace_application_sleep": "application set-sleep",
    "read_environment_sleep": "environment sleep",
    "replace_environment_sleep": "environment set-sleep",
    "read_sleep": "instance sleep",
    "keep_awake": "instance keep-awake",
    "undo_destroy": "instance undo-destroy",
    "read_change_policy": "environment change-policy",
    "set_change_policy": "environment set-change-policy",
    "take_back_rollout": "rollout take-back",
    "list_rollout_instances": "rollout instances",
    "read_impact": "application impact",
    "preview_impact": "application preview-impact",
    "read_revision_impact": "revision impact",
    "preview_revision_impact": "revision preview-impact",
    "read_environment_impact": "environment impact",
    "preview_environment_impact": "environment preview-impact",
    "read_service_impact": "service impact",
    "preview_service_impact": "service preview-impact",
    "list_group_roles": "organization group-roles",
    "replace_group_roles": "organization set-group-roles",
    "list_host_keys": "organization host-keys",
    "list_environment_instances": "environment instances",
    "list_environment_offers": "environment offers",
    "list_instance_approvals": "instance approvals",
    "list_organization_instances": "organization instances",
    "list_organization_jobs": "organization jobs",
    "list_failures": "organization failures",
    "resume_failures": "organization resume-failure",
    "list_organization_schedules": "organization schedules",
    "read_views": "organization views",
    "replace_views": "organization set-views",
    "read_summary": "organization summary",
    "list_pending_users": "user invited",
    "list_job_steps": "job steps",
    "list_revision_instances": "revision instances",
    "list_second_factors": "account second-factors",
    "list_schedules": "instance schedules",
    "list_instance_secrets": "instance secrets",
    "list_service_secrets": "service secrets",
    "reveal_instance_secret": "instance reveal",
    "reveal_service_secret": "service reveal",
    "lift_sign_in_block": "user unblock",
    "list_sign_in_blocks": "user blocks",
    "list_service_types": "service types",
    "read_sign_in_policy": "organization sign-in-policy",
    "reset_second_factors": "user reset-second-factors",
    "write_sign_in_policy": "organization set-sign-in-policy",
    "read_metrics": "server metrics",
    "openapi": "server openapi",
    "put_application_labels": "application set-labels",
    "put_environment_labels": "environment set-labels",
    "put_instance_labels": "instance set-labels",
    "preview_configuration": "instance preview",
    "preview_destroy": "instance preview-destroy",
    "preview_version": "instance preview-version",
    "preview_launch": "application preview",
    "sign_in_with_form": "page sign-in-with-form",
    "sign_out_everywhere": "account sign-out-everywhere",
    "put_user_data": "instance set-user-data",
    "read_application_labels": "application labels",
    "read_environment_labels": "environment labels",
    "read_instance_labels": "instance labels",
    "read_environment_name": "environment show-name",
    "read_environment_services": "environment show-services",
    "read_instance_environments": "instance show-environments",
    "read_log": "instance log",
    "read_markers": "environment show-markers",
    "read_policies": "environment show-policies",
    "read_properties": "environment show-properties",
    "read_usage": "organization usage",
    "reconfigure_instance": "instance reconfigure",
    "refresh_token_page": "page refresh-token",
    "replace_environment_services": "environment set-services",
    "replace_instance_environments": "instance offer",
    "replace_manifest": "manifest upload",
    "replace_markers": "environment set-markers",
    "replace_policies": "environment set-policies",
    "replace_properties": "environment set-properties",
    "reschedule_workflow": "instance reschedule",
    "assign_roles": "user assign-roles",
    "reject": "approval reject",
    "revoke_roles": "user revoke-roles",
    "run_service_command": "service run",
    "run_workflow": "instance run",
    "schedule_workflow": "instance schedule",
    "set_default_environment": "environment set-default",
    "set_destroy_at": "instance set-destroy-at",
    "set_manifest_source": "manifest set-source",
    "watch_instance": "instance events",
}


def all_operations() -> Mapping[str, AnyOperation]:
    return {
        name: found
        for name, found in vars(Operations).items()
        if isinstance(found, Operation | ListOperation | EventOperation)
    }


def noun_and_verb(name: str, operation: AnyOperation) -> tuple[str, str]:
    noun, _, verb = _NAMES.get(name, "").partition(" ")
    if noun:
        return noun, verb
    word, _, rest = name.partition("_")
    if operation.row.answer == "text/html":
        return "page", name.replace("_", "-")
    noun = _singular(rest).replace("_", "-")
    if noun in NOUNS:
        return noun, _VERBS.get(word, word)
    return "server", name.replace("_", "-")


@cache
def nouns() -> Mapping[str, Mapping[str, str]]:
    """Return noun → verb → operation id."""
    found: dict[str, dict[str, str]] = {}
    for name, operation in all_operations().items():
        noun, verb = noun_and_verb(name, operation)
        assert noun != "server" or name in _NAMES, f"{name}: its noun isn't in NOUNS; add a name to _NAMES"
        assert verb not in found.get(noun, {}), f"{name}: '{noun} {verb}' is taken; add a name to _NAMES"
        found.setdefault(noun, {})[verb] = name
    return MappingProxyType(found)


def _singular(plural: str) -> str:
    return f"{plural[:-3]}y" if plural.endswith("ies") else plural.removesuffix("s")
