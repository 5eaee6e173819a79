"""When an object of a cluster is ready, by what its kind's controller says of it. Pure."""

from collections.abc import Callable, Mapping
from typing import Any


class NeverReady(Exception):
    """The object has failed for good; the text says how."""


def waits_for(found: Mapping[str, Any]) -> str | None:
    """Return what an object still waits for, None when it is ready. Raises NeverReady."""
    metadata, status = _map(found, "metadata"), _map(found, "status")
    if metadata.get("deletionTimestamp"):
        return "it is being deleted"
    if _count(metadata, "generation") > _count(status, "observedGeneration") and "observedGeneration" in status:
        return "its controller has not seen the change yet"
    rule = _RULES.get(str(found.get("kind")), _by_conditions)
    return rule(found, status)


def _deployment(found: Mapping[str, Any], status: Mapping[str, Any]) -> str | None:
    wanted = _wanted(found)
    if "observedGeneration" not in status:
        return "its controller has not seen it yet"
    for condition in _conditions(status):
        if condition.get("type") == "Progressing" and condition.get("reason") == "ProgressDeadlineExceeded":
            raise NeverReady(str(condition.get("message") or "it makes no progress"))
    updated, available = _count(status, "updatedReplicas"), _count(status, "availableReplicas")
    if updated < wanted or available < wanted or _count(status, "replicas") > updated:
        return f"{available} of {wanted} replicas are available, {updated} of the new kind"
    return None


def _stateful_set(found: Mapping[str, Any], status: Mapping[str, Any]) -> str | None:
    wanted, ready = _wanted(found), _count(status, "readyReplicas")
    if "observedGeneration" not in status:
        return "its controller has not seen it yet"
    if ready < wanted or status.get("updateRevision") != status.get("currentRevision"):
        return f"{ready} of {wanted} replicas are ready"
    return None


def _daemon_set(_: Mapping[str, Any], status: Mapping[str, Any]) -> str | None:
    if "observedGeneration" not in status:
        return "its controller has not seen it yet"
    wanted = _count(status, "desiredNumberScheduled")
    available, updated = _count(status, "numberAvailable"), _count(status, "updatedNumberScheduled")
    return None if min(available, updated) >= wanted else f"{available} of {wanted} are available"


def _job(_: Mapping[str, Any], status: Mapping[str, Any]) -> str | None:
    for condition in _conditions(status):
        if condition.get("status") == "True" and condition.get("type") == "Failed":
            raise NeverReady(str(condition.get("message") or "it failed"))
        if condition.get("status") == "True" and condition.get("type") == "Complete":
            return None
    return "it is not complete"


def _pod(_: Mapping[str, Any], status: Mapping[str, Any]) -> str | None:
    if status.get("phase") == "Failed":
        raise NeverReady(str(status.get("message") or "it failed"))
    if status.get("phase") == "Succeeded":
        return None
    return None if _is_true(status, "Ready") else f"it is {status.get('phase') or 'Pending'}"


def _claim(_: Mapping[str, Any], status: Mapping[str, Any]) -> str | None:
    return None if status.get("phase") == "Bound" else "it is not bound"


def _definition(_: Mapping[str, Any], status: Mapping[str, Any]) -> str | None:
    return None if _is_true(status, "Established") else "it is not established"


def _by_conditions(_: Mapping[str, Any], status: Mapping[str, Any]) -> str | None:
    """Take the condition Ready or Available where there is one; what says nothing of itself is ready."""
    for condition in _conditions(status):
        if condition.get("type") in ("Ready", "Available") and condition.get("status") != "True":
            return str(condition.get("message") or condition.get("reason") or f"it is not {condition['type']}")
    return None


_RULES: Mapping[str, Callable[[Mapping[str, Any], Mapping[str, Any]], str | None]] = {
    "Deployment": _deployment,
    "StatefulSet": _stateful_set,
    "DaemonSet": _daemon_set,
    "Job": _job,
    "Pod": _pod,
    "PersistentVolumeClaim": _claim,
    "CustomResourceDefinition": _definition,
}


def _map(found: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    value = found.get(name)
    return value if isinstance(value, Mapping) else {}


def _conditions(status: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    several = status.get("conditions")
    return [each for each in several if isinstance(each, Mapping)] if isinstance(several, list) else []


def _is_true(status: Mapping[str, Any], kind: str) -> bool:
    return any(each.get("type") == kind and each.get("status") == "True" for each in _conditions(status))


def _count(status: Mapping[str, Any], name: str) -> int:
    value = status.get(name)
    return value if isinstance(value, int) else 0


def _wanted(found: Mapping[str, Any]) -> int:
    replicas = _map(found, "spec").get("replicas", 1)
    return replicas if isinstance(replicas, int) else 1
