"""The action `probe`: writes into a file that nothing rolls back that it ran, then takes its time.

The file is named by LAUNCHBAY_PROBE_LEDGER. A line is on the disk before the action goes on.
"""

import json
import os
import time
from collections.abc import Mapping
from typing import Any

from launchbay.actions.contract import ActionCall, ActionParameter
from launchbay.errors import ActionFailed


class Probe:
    """Leaves a line for each time it runs; `seconds` is how long it takes, `fail` how many attempts fail."""

    name = "probe"
    aliases: tuple[str, ...] = ()
    pure = False
    parameters: Mapping[str, ActionParameter] = {
        "seconds": ActionParameter("How long to take."),
        "fail": ActionParameter("How many attempts fail."),
        "value": ActionParameter("Given back."),
    }
    outputs: Mapping[str, str] = {"value": "What was given."}

    async def run(self, call: ActionCall) -> Mapping[str, Any]:
        """Write the line, wait, and fail or give the value back."""
        context = call.context
        line = {
            "job": context.job_id,
            "path": context.step_path,
            "key": context.idempotency_key,
            "attempt": context.attempt,
            "at": time.time(),
            "pid": os.getpid(),
        }
        ledger = os.open(os.environ["LAUNCHBAY_PROBE_LEDGER"], os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
        try:
            os.write(ledger, json.dumps(line).encode() + b"\n")
            os.fsync(ledger)
        finally:
            os.close(ledger)
        await context.sleep(float(call.parameters.get("seconds", 0)))
        if context.attempt <= int(call.parameters.get("fail", 0)):
            raise ActionFailed(f"attempt {context.attempt} was to fail.")
        return {"value": call.parameters.get("value")}
