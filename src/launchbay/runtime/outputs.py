"""What an action may return: JSON values within bounds."""

from typing import Any

import msgspec

from launchbay import limits
from launchbay.errors import ActionFailed


def checked_outputs(outputs: object) -> dict[str, Any]:
    """Return the outputs as they will be read back from the journal.

    The same form on the first run and after a crash keeps a rerun from deciding differently. Raises ActionFailed when
    they are no map, no JSON or too large.
    """
    try:
        encoded = msgspec.json.encode(outputs)
    except (TypeError, ValueError, RecursionError) as error:
        raise ActionFailed(f"The action returned something that is no JSON value: {error}", retryable=False) from error
    if len(encoded) > limits.STEP_OUTPUT_BYTES:
        raise ActionFailed(
            f"The action returned {len(encoded)} bytes; at most {limits.STEP_OUTPUT_BYTES} are kept.",
            retryable=False,
        )
    try:
        decoded: dict[str, Any] = msgspec.json.decode(encoded, type=dict[str, Any])
    except (ValueError, RecursionError) as error:
        raise ActionFailed(f"The action did not return a map of outputs: {error}", retryable=False) from error
    return decoded
