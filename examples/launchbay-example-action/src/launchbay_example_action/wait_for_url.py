"""`waitForUrl`: ask a URL again and again until it answers as expected."""

from collections.abc import Mapping
from typing import Any

from launchbay.actions.contract import ActionCall, ActionParameter
from launchbay.actions.parameters import optional_duration_s, required_text, whole_number
from launchbay.errors import ActionFailed, EgressFailed


class WaitForUrl:
    """Succeeds when a GET of `url` answers with a 2xx status, or with `status` where that is given."""

    name = "waitForUrl"
    aliases: tuple[str, ...] = ()
    pure = False
    parameters: Mapping[str, ActionParameter] = {
        "url": ActionParameter("What to ask.", type="string", required=True),
        "status": ActionParameter("The status to wait for; any from 200 to 299 if left out.", type="int"),
        "timeout": ActionParameter('When to give up: seconds, or a text such as "5 minutes" (the default).'),
        "interval": ActionParameter("The pause between two questions; 2 seconds if left out."),
    }
    outputs: Mapping[str, str] = {"status": "The status of the last answer.", "attempts": "How often it was asked."}

    async def run(self, call: ActionCall) -> Mapping[str, Any]:
        """Ask until the answer fits or the time, counted from the step's first start, is over."""
        context = call.context
        url = required_text(call.parameters, "url", "a URL that starts with http:// or https://")
        wanted = call.parameters.get("status")
        statuses = range(200, 300) if wanted is None else (whole_number(wanted, "status", minimum=100, maximum=599),)
        timeout_s = optional_duration_s(call.parameters, "timeout") or 300.0
        interval_s = optional_duration_s(call.parameters, "interval") or 2.0
        attempts = 0
        while True:
            attempts += 1
            status, seen = await _asked(call, url, min(timeout_s, 10.0))
            if status in statuses:
                return {"status": status, "attempts": attempts}
            context.log("info", f"Attempt {attempts}: {seen}")
            passed_s = (context.clock.now() - context.started_at).total_seconds()
            if passed_s + interval_s > timeout_s:
                raise ActionFailed(f"Not there within {timeout_s:g} seconds: {seen}", retryable=False)
            await context.progress(min(99, max(0, int(100 * passed_s / timeout_s))))
            await context.sleep(interval_s)


async def _asked(call: ActionCall, url: str, timeout_s: float) -> tuple[int | None, str]:
    """Return the status and a sentence about the answer; what cannot help by waiting fails at once."""
    try:
        answer = await call.context.egress.request("GET", url, timeout_s=timeout_s)
    except EgressFailed as error:
        if not error.retryable:
            raise ActionFailed(*error.messages, retryable=False) from error
        return None, str(error)
    return answer.status, f"{answer.url} answered {answer.status}."
