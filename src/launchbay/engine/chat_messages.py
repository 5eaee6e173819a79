"""Events of webhooks as messages of Slack and Microsoft Teams.

Slack takes `text` with its own markup, Teams an Adaptive Card: both show a sentence, an error and a link.
"""

from collections.abc import Mapping
from typing import Any

_SLACK_MARKUP = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;"})
_LINK_TEXT = "Open in the console"


def message(form: str, event: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the body of a request in a format: the event itself for `json`."""
    if form == "slack":
        return {"text": "\n".join([*(line.translate(_SLACK_MARKUP) for line in _lines(event)), *_slack_link(event)])}
    if form == "teams":
        return {
            "type": "message",
            "attachments": [{"contentType": "application/vnd.microsoft.card.adaptive", "content": _card(event)}],
        }
    return event


def _lines(event: Mapping[str, Any]) -> list[str]:
    """Return what happened in one sentence, and what is to be said in addition."""
    kind, instance = event["event"], f"instance '{event.get('instanceName')}'"
    about = event[kind]
    match kind:
        case "job":
            outcome = "failed" if about["status"] == "Failed" else "succeeded"
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
            elif kind == "rollout":
                wave = f"wave {about['wave']} of {about['waves']}"
                sentence = f"A roll-out of version {about['version']} is {about['status']}, in {wave}."
                error = about["comment"]
            return [sentence, *([error] if error else [])]


def _link(event: Mapping[str, Any]) -> str | None:
    """Return the address of the event's job, or of its instance."""
    link: str | None = (event.get("job") or {}).get("link") or event["link"]
    return link


def _slack_link(event: Mapping[str, Any]) -> list[str]:
    return [f"<{link}|{_LINK_TEXT}>"] if (link := _link(event)) else []


def _card(event: Mapping[str, Any]) -> dict[str, Any]:
    first, *others = _lines(event)
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
