"""`notify`: send an email to people, and a notification to the organization's webhooks."""

from collections.abc import Mapping
from typing import Any

import msgspec

from launchbay import limits
from launchbay.actions.contract import ActionCall, ActionDefaults, ActionParameter
from launchbay.actions.parameters import (
    duration_s,
    flag,
    optional_mapping,
    optional_text,
    optional_texts,
    wrong_parameter,
)
from launchbay.egress.mail import Email, Patience, Refusal, validate_address
from launchbay.errors import ActionFailed, EgressFailed
from launchbay.model.durations import parse_duration_s

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
        "timeout": ActionParameter(
            "How long to retry recipients that the mail server temporarily refuses (4xx). Default: 30 min.",
            check=parse_duration_s,
        ),
        "webhook": ActionParameter("true: notify the webhooks that subscribe to the event notification.", type="bool"),
        "data": ActionParameter("Additional data for the webhooks.", type="map<string,object>"),
    }
    outputs: Mapping[str, str] = {
        "messageId": "The Message-ID of the email, the same for every attempt. Null if no email was sent.",
        "refused": "Recipients that didn't get the email, each with what the mail server said last.",
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
        html = _text(parameters, "html")
        timeout_s = duration_s(parameters, "timeout", limits.MAIL_PUT_OFF_S)
        data = optional_mapping(parameters, "data", "a map from names to values")
        notification = {"subject": subject, "text": text, "data": dict(data)}
        if is_for_webhooks and len(msgspec.json.encode(notification)) > limits.NOTIFICATION_BYTES:
            raise wrong_parameter("data", f"at most {limits.NOTIFICATION_BYTES} bytes together with subject and text")
        webhooks = await _notify_webhooks(call, notification) if is_for_webhooks else 0
        if not to:
            return {"messageId": None, "refused": {}, "webhooks": webhooks}
        email = Email(
            message_id=f"<{call.context.idempotency_key}@{call.context.mail.domain}>",
            to=to,
            cc=cc,
            subject=subject,
            text=text,
            html=html,
        )
        refused = await _send(call, email, timeout_s)
        return {"messageId": email.message_id, "refused": dict(refused), "webhooks": webhooks}


async def _send(call: ActionCall, email: Email, timeout_s: float) -> Mapping[str, str]:
    """Send the email; return who didn't get it, with the reasons."""
    context = call.context

    async def pause(answers: Mapping[str, Refusal], delay_s: float) -> None:
        for receiver, why in answers.items():
            context.log("info", f"The mail server puts {receiver} off: {why} Next attempt in {delay_s:g} s.")
        await context.sleep(delay_s)

    # After a crash, the first attempt goes on with what is left of its time.
    since = context.started_at if context.attempt == 1 else context.clock.now()
    try:
        refused = await context.mail.send(email, context.clock, Patience(since, timeout_s, pause))
    except EgressFailed as error:
        raise ActionFailed(*error.messages, retryable=error.retryable) from error
    for receiver, why in refused.items():
        context.log("warning", f"The mail server refused {receiver}: {why}")
    context.log(
        "info", f"Sent the email {email.message_id} to {len({*email.to, *email.cc}) - len(refused)} recipients."
    )
    return refused


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
