"""The three steps as a workflow of DBOS, behind the thinnest HTTP server that launches and reads them.

Runs in an environment of its own that has DBOS: python dbos_steps.py PORT DATABASE_URL
"""

# mypy: disable-error-code="untyped-decorator"

import json
import sys
from typing import Any

import uvicorn
from dbos import DBOS


@DBOS.step()
async def first() -> None:
    return None


@DBOS.step()
async def second() -> None:
    return None


@DBOS.step()
async def third() -> None:
    return None


@DBOS.workflow()
async def steps() -> str:
    await first()
    await second()
    await third()
    return "yes"


async def respond(scope: dict[str, Any], _receive: Any, send: Any) -> None:
    """Launch at POST, and say at GET /ID whether that workflow has ended."""
    if scope["method"] == "POST":
        handle = await DBOS.start_workflow_async(steps)
        status, answer = 200, {"id": handle.workflow_id}
    else:
        found = await DBOS.get_workflow_status_async(scope["path"].strip("/"))
        status, answer = (404, {}) if found is None else (200, {"status": found.status})
    body = json.dumps(answer).encode()
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


def main() -> None:
    port, url = int(sys.argv[1]), sys.argv[2]
    DBOS(config={"name": "steps", "system_database_url": url, "log_level": "WARNING"})
    DBOS.launch()
    uvicorn.run(respond, host="127.0.0.1", port=port, log_level="warning", lifespan="off", http="httptools")


if __name__ == "__main__":
    main()
