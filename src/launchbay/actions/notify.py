"""`notify`: send an email to people, and a notification to the organization's webhooks."""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from launchbay import limits
from launchbay.actions.contract import ActionCall, ActionDefaults, ActionParameter
from launchbay.actions.parameters import flag, optional_mapping, optional_text, optional_texts, wrong_parameter
from launchbay.egress.mail import Email, validate_address
from launchbay.errors import ActionFailed, EgressFailed

_ADDRESSES = "an email address, or a list of them"


class Notify(ActionDefaults):
    """Sends an email, or the event `notification` to webhooks, or both."""

    name = "notify"
    parameters: Mapping[str, ActionParameter] = {
        "subject": ActionParameter("The subject, one line.", type="string", required=True),
        "text": ActionParameter("The message as plain text.", type="string"),
        "html": ActionParameter("The message as HTML.", type="string"),
        "to": ActionParameter("Recipients: an email address, or a list of them."),
        "cc": ActionParameter("Recipients of a copy."),
        "webhook": ActionParameter("true: notify the webhooks that subscribe to the event notification.", type="bool"),
        "data": ActionParameter("Additional data for the webhooks.", type="map<string,object>"),
    }
    outputs: Mapping[str, str] = {
        "messageId": "The Message-ID of the email, the same for every attempt. Null if no email was sent.",
        "refused": "Recipients that the mail server refused, each with the reason.",
        "webhooks": "The number of notified webhooks.",
    }

    async def run(self, call: ActionCall) -> Mapping[str, Any]:
        # All parameters are checked before anything is sent.
        parameters = call.parameters
        to, cc = _addresses(parameters, "to"), _addresses(parameters, "cc")
        is_for_webhooks = flag(parameters, "webhook", default=False)
        if not to and not is_for_webhooks:
            raise ActionFailed("No recipient. Set 'to', or 'webhook: true', or both.", retryable=False)
        subject, text = _subject(parameters), _text(parameters, "text") or ""
        data = optional_mapping(parameters, "data", "a map from names to values")
        notification = {"subject": subject, "text": text, "data": dict(data)}
        if is_for_webhooks and len(msgspec.json.encode(notification)) > limits.NOTIFICATION_BYTES:
            raise wrong_parameter("data", f"at most {limits.NOTIFICATION_BYTES} bytes together with subject and text")
        webhooks = await _notify_webhooks(call, notification) if is_for_webhooks else 0
        if not to:
            return {"messageId": None, "refused": {}, "webhooks": webhooks}
        html = _text(parameters, "html")
        message_id, refused = await _send(call, to=to, cc=cc, subject=subject, text=text, html=html)
        return {"messageId": message_id, "refused": dict(refused), "webhooks": webhooks}


async def _send(
    call: ActionCall, *, to: Sequence[str], cc: Sequence[str], subject: str, text: str, html: str | None
) -> tuple[str, Mapping[str, str]]:
    server = call.context.mail
    message_id = f"<{call.context.idempotency_key}@{server.domain}>"
    email = Email(message_id=message_id, to=to, cc=cc, subject=subject, text=text, html=html)
    try:
        refused = await server.send(email, call.context.clock)
    except EgressFailed as error:
        raise ActionFailed(*error.messages, retryable=error.retryable) from error
    for receiver, why in refused.items():
        call.context.log("warning", f"The mail server refused {receiver}: {why}")
    call.context.log("info", f"Sent the email {message_id} to {len({*to, *cc}) - len(refused)} recipients.")
    return message_id, refused


async def _notify_webhooks(call: ActionCall, notification: Mapping[str, Any]) -> int:
    count = await call.context.notify_webhooks(notification)
    if count == 0:
        raise ActionFailed(
            "No enabled webhook of the organization subscribes to the event notification.",
            "Create or enable one, or remove 'webhook'.",
            retryable=False,
        )
    call.context.log("info", f"Notifying {count} webhooks; see their deliveries for the results.")
    return count


def _addresses(parameters: Mapping[str, Any], name: str) -> list[str]:
    texts = optional_texts(parameters, name, _ADDRESSES) or []
    if len(texts) > limits.MAIL_RECEIVERS:
        raise wrong_parameter(name, f"at most {limits.MAIL_RECEIVERS} addresses")
    try:
        return list(dict.fromkeys(validate_address(text) for text in texts))
    except ValueError as error:
        raise wrong_parameter(name, f"{_ADDRESSES} ({error})") from None


def _subject(parameters: Mapping[str, Any]) -> str:
    expected = f"one line of 1 to {limits.MAIL_SUBJECT_CHARS} characters"
    subject = (optional_text(parameters, "subject", expected) or "").strip()
    # A line break would start another header.
    if not subject or len(subject) > limits.MAIL_SUBJECT_CHARS or not subject.isprintable():
        raise wrong_parameter("subject", expected)
    return subject


def _text(parameters: Mapping[str, Any], name: str) -> str | None:
    text = optional_text(parameters, name, "a string")
    if text is not None and len(text) > limits.MAIL_TEXT_CHARS:
        raise wrong_parameter(name, f"at most {limits.MAIL_TEXT_CHARS} characters")
    return text
