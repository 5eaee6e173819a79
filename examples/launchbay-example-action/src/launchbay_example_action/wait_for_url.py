"""`waitForUrl`: request a URL until it returns the expected status."""

from collections.abc import Mapping
from typing import Any

from launchbay.actions.contract import ActionCall, ActionParameter
from launchbay.actions.parameters import optional_duration_s, required_text, whole_number
from launchbay.errors import ActionFailed, EgressFailed


class WaitForUrl:
    """Succeeds when a GET of `url` returns a 2xx status, or `status` if that is set."""

    name = "waitForUrl"
    aliases: tuple[str, ...] = ()
    pure = False
    parameters: Mapping[str, ActionParameter] = {
        "url": ActionParameter("The URL to request.", type="string", required=True),
        "status": ActionParameter("The status to wait for. Default: 200 to 299.", type="int"),
        "timeout": ActionParameter('The maximum time to wait, in seconds or as a string. Default: "5 minutes".'),
        "interval": ActionParameter("The time between two requests. Default: 2 seconds."),
    }
    outputs: Mapping[str, str] = {"status": "The last status.", "attempts": "The number of requests."}

    async def run(self, call: ActionCall) -> Mapping[str, Any]:
        """Repeat the request until the status matches. The timeout starts at the step's first start."""
        context = call.context
        url = required_text(call.parameters, "url", "a URL that starts with http:// or https://")
        wanted = call.parameters.get("status")
        statuses = range(200, 300) if wanted is None else (whole_number(wanted, "status", minimum=100, maximum=599),)
        timeout_s = optional_duration_s(call.parameters, "timeout") or 300.0
        interval_s = optional_duration_s(call.parameters, "interval") or 2.0
        attempts = 0
        while True:
            attempts += 1
            status, seen = await _request(call, url, min(timeout_s, 10.0))
            if status in statuses:
                return {"status": status, "attempts": attempts}
            context.log("info", f"Attempt {attempts}: {seen}")
            passed_s = (context.clock.now() - context.started_at).total_seconds()
            if passed_s + interval_s > timeout_s:
                raise ActionFailed(f"Not available within {timeout_s:g} seconds: {seen}", retryable=False)
            await context.progress(min(99, max(0, int(100 * passed_s / timeout_s))))
            await context.sleep(interval_s)


async def _request(call: ActionCall, url: str, timeout_s: float) -> tuple[int | None, str]:
    """Return the status and a description. Raises ActionFailed if another request can't help."""
    try:
        response = await call.context.egress.request("GET", url, timeout_s=timeout_s)
    except EgressFailed as error:
        if not error.retryable:
            raise ActionFailed(*error.messages, retryable=False) from error
        return None, str(error)
    return response.status, f"{response.url} returned {response.status}."
