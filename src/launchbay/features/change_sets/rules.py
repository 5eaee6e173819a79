"""The policy of an environment: which changes need a change set, approved by whom."""

from collections.abc import Collection, Mapping
from typing import Literal

import msgspec

from launchbay.model.changes import ChangeKind, Refusal
from launchbay.model.job import Cause

FollowUpAct = Literal["version", "relaunch", "destroy"]

# What a change set, or a directory that one applies, can do instead. A command of a manifest runs as before: no change
# set holds it.
_COVERED = frozenset({"launch", "reconfigure", "destroy", "end", "edit"})

# Neither a change set nor a directory contains these.
WITHOUT_CHANGE_SET = frozenset(
    {
        "adopt_instance",
        "set_destroy_at",
        "replace_instance_environments",
        "replace_environment_audiences",
        "rename_environment",
    }
)


class ChangePolicy(msgspec.Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """How many approve change sets of an environment, and their role, if any.

    A plan runs code that nobody has approved yet, so the policy has to say that it may. Unset means no; a server of the
    version before reads such a policy too.
    """

    approvals: int = 0
    role_id: str | None = None
    plans_before_approval: bool | msgspec.UnsetType = msgspec.UNSET

    @property
    def refuses_plans(self) -> bool:
        """Whether plans of change sets are not made."""
        return self.approvals > 0 and self.plans_before_approval is not True


read_policy = msgspec.json.Decoder(ChangePolicy).decode


def is_covered(kind: ChangeKind, cause: Cause | None) -> bool:
    """Return whether the policy of an environment is about a change.

    The end of an idle instance by the rule of the environment needs no change set: the rule needed one. Who edits an
    application needs none, so its rule ends nothing there.
    """
    return kind in _COVERED and (cause is None or cause.kind != "idle" or cause.name == "application")


# With what a change that stopped is planned again. The instance has the configuration already that it was given, so
# `version` with its present one brings it there; what was taken over is no longer observed.
_FOLLOWED_BY: Mapping[str, FollowUpAct] = {
    "launch": "version",
    "reconfigure": "version",
    "version": "version",
    "relaunch": "relaunch",
    "manage": "relaunch",
    "destroy": "destroy",
}
AGAIN = "Plan again"


def follow_up_act(kind: str, *, is_running: bool) -> FollowUpAct:
    """Return the act of the change set that follows one of a kind.

    Only an instance that is running launches again; otherwise a reconfiguration launches what is left.
    """
    act = _FOLLOWED_BY[kind]
    return "version" if act == "relaunch" and not is_running else act


def follow_up_comment(comment: str, most_chars: int) -> str:
    """Return the comment of the change set that follows one with a comment."""
    text = comment if comment.startswith(AGAIN) else f"{AGAIN}: {comment}" if comment.strip() else AGAIN
    return text[:most_chars]


def missing_approval(
    policy: ChangePolicy,
    environment: str,
    operation: str,
    *,
    change_set: str | None,
    approvals: int,
    role_ids: Collection[str],
) -> Refusal | None:
    """Return why a change set, if there is one, isn't enough for a policy."""
    if policy.approvals == 0:
        return None
    wanted = "1 approval" if policy.approvals == 1 else f"{policy.approvals} approvals"
    rule = f"The policy of the environment {environment!r} asks for a change set with {wanted}"
    if change_set is None and operation in WITHOUT_CHANGE_SET:
        remedy = "No change set can do this. Whoever may edit the environment can set the policy to 0 approvals for it."
        if operation == "set_destroy_at":
            destroys = "To destroy the instance, create a change set: launchbay change-set create destroy."
            remedy = f"{remedy} {destroys}"
        return Refusal("needs", "ChangeSetRequired", f"{rule}.", remedy)
    if change_set is None:
        return Refusal(
            "needs",
            "ChangeSetRequired",
            f"{rule}.",
            "Create a change set: launchbay change-set create, or Save as change set in the console.",
        )
    if approvals < policy.approvals or (policy.role_id is not None and policy.role_id not in role_ids):
        return Refusal(
            "needs",
            "ChangeSetRequired",
            f"{rule}. This one was created under another policy.",
            "Create it again, and have it approved.",
        )
    return None
