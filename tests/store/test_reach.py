"""Which statements reach over organizations: what has to change if organizations lived in cells (decision 0100).

A statement reaches only one organization if it names it, or an object in it. All others are listed here with a reason.
"""

import re

from launchbay.store import statements

NOUNS = {name.removeprefix("features."): name for name in statements.aggregates()}
# Parameters that name an organization or something in one.
OF_ORGANIZATION = {
    *(
        "organization_id",
        "organization_ids",
        "application_id",
        "environment_id",
        "service_id",
        "service_ids",
        "role_id",
        "role_ids",
    ),
    *("instance_id", "instance_ids", "job_id", "job_ids", "parent_job_id", "approval_id", "approval_ids", "scope_id"),
    *("schedule_id", "schedule_ids", "webhook_id", "delivery_id", "revision_id", "of_id", "account_id", "zone_id"),
    *(
        "bulk_id",
        "source_id",
        "change_set_id",
        "change_set_ids",
        "rollout_id",
        "environment_ids",
        "plan_id",
        "group_id",
    ),
}
# Files whose `id` names something in an organization, and those where it does where an object is found or locked.
BY_ID = {"lookups", "services", "fleet"}
FOUND = re.compile(r"(?:bulk|recurring|change_sets|git_sources|plans|rollouts|webhooks)\.(?:lock_)?\w+")

ACCOUNTS = "accounts and their credentials, which belong to no organization: of the directory"
SERVERS = "the servers and workers of one cell"
UPKEEP = "upkeep of one cell: whatever is old, due or left over in it"
ROTATION = "the keys of one cell, and a pass over everything that they seal"
OPERATORS = "for operators, or at the first start"
LISTED = "rows of one organization that were just listed, by their IDs"

CELL_WIDE: dict[str, set[str]] = {
    ACCOUNTS: {
        "freezes.get_address",
        *("scim.is_service_account", "scim.list_provisioned_in"),
        *("audit.insert_for_actor", "audit.insert_for_home", "audit.insert_idempotency_key"),
        *("audit.set_idempotent_answer", "organizations.administers_server"),
        *("organizations.count_created", "organizations.lock_creator"),
        *("audit.get_idempotency_key", "lookups.caller", "lookups.shared_organizations", "organizations.list_by_user"),
    },
    SERVERS: {
        *(
            "dispatch.register",
            "dispatch.beat",
            "dispatch.list_workers",
            "dispatch.list_unheld",
            "dispatch.claim",
            "dispatch.list_held",
        ),
        *(
            "dispatch.announce",
            "dispatch.unregister",
            "dispatch.rescue",
            "dispatch.wake_due",
            "quotas.exchange_activity",
        ),
        *(
            "instances.announce_new",
            "instances.list_making",
            "freezes.list_launching",
            "change_rules.list_under_way",
            "change_rules.list_still_under_way",
            "events.tell_streams",
            "organizations.list_tenants",
        ),
    },
    UPKEEP: {
        *("audit.delete_idempotency_keys", "events.delete_stale_watches", "jobs.list_orphans"),
        *("jobs.claim_retention_turn", "jobs.begin_block", "jobs.drop_partitions", "quotas.claim_measurement"),
        *("quotas.list_counted_changes", "quotas.fold_instance_counts", "quotas.list_miscounted"),
        *("jobs.delete_log_lines_of_destroyed", "jobs.delete_jobs_of_destroyed", "jobs.delete_destroyed"),
        *("jobs.list_ended_jobs", "jobs.delete_jobs", "machines.claim_sweep", "machines.list_places"),
        *(
            "schedules.get_next_s",
            "schedules.take_due",
            "webhooks.list_due",
            "schedules.unblock_forgotten",
            "webhooks.claim",
            "webhooks.delete_excess",
        ),
        *(
            "webhooks.delete_old_deliveries",
            "webhooks.delete_old_failures",
            "bulk.list_open",
            "recurring.list_due",
            "git_sources.list_due",
            "git_sources.list_due_previews",
            "git_sources.list_due_checks",
            "git_sources.list_due_reports",
            "git_sources.take_preview",
            "git_sources.take_check",
            "git_sources.claim_report",
            "git_sources.note_report",
            "fleet.list_unlisted",
            "fleet.list_old_jobs",
            "generations.list_due",
            "concurrency_limits.list_outrun",
            "lifetimes.list_due_mails",
            "lifetimes.take_mail",
            "lifetimes.warn",
            "lifetimes.add_idle_ends",
            "lifetimes.list_idle_as_expiring",
            "lifetimes.list_idle",
            "sleep_windows.add_launched",
            "sleep_windows.list_with_rules",
            "sleep_windows.list_due",
            "secret_providers.list_due",
            "secret_providers.list_unchecked",
            "secret_providers.renewed",
            "secret_providers.failed",
            "secret_providers.remove",
            "change_sets.list_applying",
            "plans.list_due",
            "plans.list_expired",
            "plans.delete_expired",
            "plans.take",
            "drift.list_due",
            "drift.take",
            "drift.list_due_schedules",
            "drift.list_check_times",
            "drift.list_due_mails",
            "drift.take_mail",
            "drift.list_due_put_backs",
            "change_sets.list_due_replans",
            "promotion.list_due",
            "rollouts.list_open",
        ),
    },
    ROTATION: {
        *("applications.list_unsealed_sources", "webhooks.list_unsealed", "bulk.list_unsealed"),
        "git_sources.list_unsealed",
    },
    LISTED: {"bulk.keep_seen", "change_sets.keep_seen", "rollouts.keep_seen"},
    OPERATORS: {
        *(
            "jobs.sample_load",
            "jobs.count_with_changed_secrets",
            "jobs.note_backup",
            "secret_providers.list_stuck",
            "scim.list_failing",
            "quotas.list_allowed",
            "machines.get_installation",
            "organizations.lock_first_start",
        ),
        *("organizations.any_exists", "organizations.get_id_by_name", "organizations.list_ids_by_name"),
    },
}
WHOLE_FILES = {
    "users": ACCOUNTS,
    "second_factors": ACCOUNTS,
    "access_tokens": ACCOUNTS,
    "wrong_sign_ins": ACCOUNTS,
    "keys": ROTATION,
}
# What features have for a rotation of the key, and for the erasure of a person: both go over the whole cell.
OF_ROTATION_OR_ERASURE = re.compile(r"(?:list_sealed|put_sealed|count_in_|erase_in_|list_ids_of_address)\w*")


def reaching() -> set[str]:
    """Return the statements that name nothing in an organization."""
    found = set()
    for noun, aggregate in NOUNS.items():
        file = statements.load(aggregate)
        for name in file.names():
            given = set(re.findall(r"%\((\w+)\)s", file.text(name).decode()))
            is_found = given <= {"id", "caller_id", "refresh_token_id"} and FOUND.fullmatch(f"{noun}.{name}")
            if OF_ROTATION_OR_ERASURE.fullmatch(name):
                continue
            if not given & (OF_ORGANIZATION | ({"id"} if noun in BY_ID or is_found else set())):
                found.add(f"{noun}.{name}")
    return {name for name in found if name.partition(".")[0] not in WHOLE_FILES}


def test_every_statement_reaches_one_organization_or_says_why_not() -> None:
    listed = set().union(*CELL_WIDE.values())
    found = reaching()
    assert found - listed == set(), "name an object of an organization, or say here why it reaches over all"
    assert listed - found == set(), "these name their organization, or are gone"


def test_no_statement_has_two_reasons() -> None:
    assert sum(map(len, CELL_WIDE.values())) == len(set().union(*CELL_WIDE.values()))
