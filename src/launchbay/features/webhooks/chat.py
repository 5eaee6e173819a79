"""Events of webhooks as messages of Slack and Microsoft Teams.

Slack takes `text` with its own markup, Teams an Adaptive Card: both show a sentence, an error and a link. People read
them, so equal failures share a message. Programs, which take `json`, get each event.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from launchbay import limits
from launchbay.clock import from_ms
from launchbay.model.failures import Affected, Reason, failure_id, shared_reason
from launchbay.model.job import is_cancellation

_SLACK_MARKUP = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;"})
_LINK_TEXT = "Open in the console"


def message(form: str, event: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the body of a request in a format: the event itself for `json`."""
    if form == "slack":
        lines = [line.translate(_SLACK_MARKUP) for line in _said(event)]
        return {"text": "\n".join([*lines, *_slack_link(event)])}
    if form == "teams":
        return {
            "type": "message",
            "attachments": [{"contentType": "application/vnd.microsoft.card.adaptive", "content": _card(event)}],
        }
    return event


def failure_key(event: Mapping[str, Any], application: str = "", environment: str = "") -> str | None:
    """Return the ID that an event shares with equal failures.

    Those of other applications and environments can be equal too. The two are the names of the event's. None if it is
    about no failed job or instance.
    """
    kind, job = event["event"], event.get("job") or {}
    if kind not in ("job", "status") or (job if kind == "job" else event).get("status") != "Failed":
        return None
    reason = shared_reason(
        job.get("errorMessage") or "", Affected(event.get("instanceName") or "", application, environment)
    )
    return failure_id(Reason(f"{kind} {job.get('name')} {reason.place}", reason.text))


def counted(event: Mapping[str, Any], others: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return an event with the facts of its equal failures.

    They are `failures`: the number of jobs or instances, the first and last time, and the names of some instances. An
    instance that failed twice is one, and two of one name are two.
    """
    events = [event, *others]
    times = [each["at"] for each in events]
    instances = {each["instance"]: each["instanceName"] for each in events}
    jobs = {each["job"]["id"] for each in events} if event["event"] == "job" else set()
    names = list(instances.values())
    return {
        **event,
        "failures": {
            "count": len(jobs or instances),
            "first": min(times),
            "last": max(times),
            "instances": names[: limits.CHAT_INSTANCES_NAMED],
            "unnamed": len(names[limits.CHAT_INSTANCES_NAMED :]),
        },
    }


def _failure_lines(event: Mapping[str, Any]) -> list[str]:
    """Return what several equal failures are, and the error of one."""
    failures, job = event["failures"], event.get("job") or {}
    first, last = (f"{from_ms(failures[name]):%H:%M:%S}" for name in ("first", "last"))
    when = f"at {first}" if first == last else f"first at {first}, last at {last}"
    names = ", ".join(f"'{name}'" for name in failures["instances"])
    unnamed = f" and {failures['unnamed']} more" if failures["unnamed"] else ""
    what = "instance" if event["event"] == "status" else "job"
    several = "" if failures["count"] == 1 else "s"
    which = "" if event["event"] == "status" else f" '{job.get('name')}'"
    error = job.get("errorMessage")
    outcome = "failed" if event["event"] == "status" else _failed(job, "was" if failures["count"] == 1 else "were")
    return [
        f"{failures['count']} more {what}{several}{which} {outcome} in the same way, {when} UTC: {names}{unnamed}.",
        *([error] if error else []),
    ]


def _failed(job: Mapping[str, Any], were: str = "was") -> str:
    return f"{were} cancelled" if is_cancellation(job.get("errorMessage")) else "failed"


def _said(event: Mapping[str, Any]) -> list[str]:
    return _failure_lines(event) if "failures" in event else _lines(event)


def _lines(event: Mapping[str, Any]) -> list[str]:
    """Return what happened in one sentence, and what is to be said in addition."""
    kind, instance = event["event"], f"instance '{event.get('instanceName')}'"
    about = event[kind]
    match kind:
        case "job":
            outcome = "succeeded" if about["status"] != "Failed" else _failed(about)
            error = about.get("errorMessage")
            return [f"Job '{about['name']}' of {instance} {outcome}.", *([error] if error else [])]
        case "notification":
            return [f"{about['subject']} ({instance})", *([about["text"]] if about["text"] else [])]
        case "approval":
            return [f"An approval of {instance} is {about['status']}.", about["text"]]
        case "signal":
            return [f"The signals of {instance} have changed: {', '.join(about)}."]
        case "test":
            return [f"A test of the webhook by {about['by']}. It works."]
        case _:
            error = (event.get("job") or {}).get("errorMessage")
            sentence = f"Status of {instance}: {about}."
            if kind == "expiry":
                sentence = (
                    f"The {instance} ends in {'an hour' if about['hours'] == 1 else str(about['hours']) + ' hours'}."
                )
            elif kind == "changeSet":
                sentence, error = f"A change set ({about['act']}) is {about['status']}.", about["comment"]
            elif kind == "drift":
                many = "1 thing" if about["new"] == 1 else f"{about['new']} things"
                sentence = f"Somebody changed {many} behind the {instance}."
            elif kind == "rollout":
                wave = f"wave {about['wave']} of {about['waves']}"
                sentence = f"A rollout of version {about['version']} is {about['status']}, in {wave}."
                error = about["comment"]
            elif kind == "override":
                sentence, error = f"{about['by']} overrode a freeze ({about['operation']}).", about["reason"]
            return [sentence, *([error] if error else [])]


def _link(event: Mapping[str, Any]) -> str | None:
    """Return the address of the event's job, or of its instance.

    Several failures are on the overview.
    """
    if "failures" in event:
        overview: str | None = event["link"]
        return overview
    link: str | None = (event.get("job") or {}).get("link") or event["link"]
    return link


def _slack_link(event: Mapping[str, Any]) -> list[str]:
    return [f"<{link}|{_LINK_TEXT}>"] if (link := _link(event)) else []


def _card(event: Mapping[str, Any]) -> dict[str, Any]:
    first, *others = _said(event)
    blocks = [{"type": "TextBlock", "text": first, "wrap": True, "weight": "bolder"}]
    blocks += [{"type": "TextBlock", "text": text, "wrap": True} for text in others]
    link = _link(event)
    return {
        "$schema": "http://adaptivecards.io/schemas/adaptive-card.json",
        "type": "AdaptiveCard",
        "version": "1.4",
        "body": blocks,
        "actions": [{"type": "Action.OpenUrl", "title": _LINK_TEXT, "url": link}] if link else [],
    }
