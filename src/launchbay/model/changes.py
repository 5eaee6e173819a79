"""Changes that rules govern, and what a rule says to one (decision 0200)."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Literal, NamedTuple

ChangeKind = Literal["launch", "reconfigure", "run", "destroy", "end", "edit", "service"]

# Operations that rules are asked about, by their names in the audit log. A run of `destroy` is a "destroy"; "end" is
# the end of a lifetime, and "edit" a change of an environment or application, or of what they contain. A "service" is
# asked about in each environment that offers it.
GOVERNED: Mapping[str, ChangeKind] = {
    "launch_application": "launch",
    "adopt_instance": "launch",
    "reconfigure_instance": "reconfigure",
    "rollback_instance": "reconfigure",
    "run_workflow": "run",
    "take_over_instance": "reconfigure",
    "schedule_workflow": "run",
    "reschedule_workflow": "run",
    "resume_job": "run",
    "delete_instance": "destroy",
    "set_destroy_at": "end",
    "replace_instance_environments": "edit",
    **dict.fromkeys(("update_service", "delete_service", "run_service_command"), "service"),
    **dict.fromkeys(
        (
            *(
                "rename_application",
                "delete_application",
                "replace_manifest",
                "set_manifest_source",
                "refresh_manifest",
            ),
            *("replace_application_lifetime", "replace_application_sleep", "replace_application_concurrency"),
            *("put_application_labels", "set_failure_policy"),
            *("create_revision", "change_revision", "delete_revision"),
            *("rename_environment", "delete_environment", "set_default_environment"),
            *("replace_policies", "replace_markers", "replace_properties", "replace_environment_services"),
            *("replace_environment_lifetime", "replace_environment_sleep", "replace_environment_concurrency"),
            *("replace_environment_audiences", "put_environment_labels"),
        ),
        "edit",
    ),
}

# Operations on the same kinds of objects that no rule may stop, with the reason.
EXEMPT: Mapping[str, str] = {
    **dict.fromkeys(
        ("create_application", "create_environment", "clone_environment"), "what is new has no rules, and runs nothing"
    ),
    "set_change_policy": "whoever may edit the environment must be able to end the policy in an emergency",
    **dict.fromkeys(
        (
            *("set_freeze", "lift_freeze", "replace_freeze_windows"),
            *("set_application_freeze", "lift_application_freeze", "replace_application_freeze_windows"),
        ),
        "whatever the rules, an emergency needs each of them",
    ),
    **dict.fromkeys(
        ("replace_application_rules", "replace_environment_rules"), "rules that lock everybody out must be able to go"
    ),
    **dict.fromkeys(
        ("replace_promotion_order", "replace_application_promotion_order"),
        "an order whose gates never open must be able to go",
    ),
    "cancel_job": "a run that does damage must be stopped at any time",
    **dict.fromkeys(("undo_destroy", "extend_instance", "keep_awake"), "it keeps what is there"),
    **dict.fromkeys(("approve", "reject", "withdraw_approval"), "a job that runs continues"),
    **dict.fromkeys(
        ("put_user_data", "put_instance_labels"), "notes about an instance, which change nothing that runs"
    ),
    **dict.fromkeys(("reveal_instance_secret", "reveal_service_secret", "test_secret_provider"), "it reads"),
    "create_service": "no environment offers it yet",
    **dict.fromkeys(("put_back_drift", "take_over_drift"), "the change set asks when it is applied"),
    **dict.fromkeys(
        ("set_put_back_rule", "set_application_put_back_rule", "set_environment_put_back_rule"),
        "each change set that it makes asks when it is applied",
    ),
    **dict.fromkeys(
        ("set_drift_schedule", "set_application_drift_schedule", "set_environment_drift_schedule"),
        "checks read what is there",
    ),
    "check_drift": "it reads what is there, with what runs there already",
    **dict.fromkeys(("ignore_drift", "watch_drift"), "notes about a finding"),
    # What starts changes later asks for each of them then.
    **dict.fromkeys(("create_rollout", "stop_rollout", "continue_rollout", "take_back_rollout"), "each instance asks"),
}


# Entries of the audit log that a change has besides its own.
OVERRIDE_FREEZE = "override_freeze"
RECEIVE_RULE_WARNING = "receive_rule_warning"
FrozenKind = Literal["environment", "application"]


class Refusal(NamedTuple):
    """What a rule says to a change that it doesn't allow.

    `outcome` is "needs" if there is a way that the rule accepts. `remedy` says who can do what about it. The rule
    says nothing else before `until`. With a reason, somebody can make the change all the same who may override
    freezes of all that is `overridable`. `details` are further sentences, such as the facts that decided. A change set
    needs `approvals` then. Whoever has the permission `settled_with` for each path of `settled_at` can end it.
    """

    outcome: Literal["deny", "needs"]
    code: str
    sentence: str
    remedy: str
    until: datetime | None = None
    overridable: tuple[FrozenKind, ...] = ()
    details: tuple[str, ...] = ()
    approvals: int = 0
    settled_with: str | None = None
    settled_at: tuple[str, ...] = ()

    @property
    def sentences(self) -> tuple[str, ...]:
        return (self.sentence, self.remedy, *self.details)


class Allowed(NamedTuple):
    """What a rule says to a change that it allows."""

    warnings: tuple[str, ...]


class ProposedSubmodule(NamedTuple):
    """A submodule that a change launches, or to which it brings another version."""

    path: str
    application_id: str
    version: int


class Proposal(NamedTuple):
    """What a change would make, as far as the operation says it.

    `parameters` are the new ones, with secrets in clear. `lifetime_ms` counts from the change on, and is -1 without
    an end.
    """

    name: str | None = None
    labels: Mapping[str, str] = {}
    parameters: Mapping[str, Any] = {}
    workflow: str | None = None
    version: int | None = None
    revision_id: str | None = None
    lifetime_ms: int | None = None
    submodules: Sequence[ProposedSubmodule] = ()


NOTHING_PROPOSED = Proposal()
