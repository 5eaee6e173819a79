"""The limit for reads: a bare ASGI application with one indexed query, under the product's own server and pool.

`python -m benchmarks.bare URL INSTANCE` serves it on a free port of 127.0.0.1, and prints the port. The path `/empty`
answers without the query.

The query goes through psycopg's ordinary cursor, as in an application that somebody writes on the same driver.
"""

import socket
import sys
from typing import Any

import uvicorn
import uvloop

from launchbay.store.database import Database

QUERY = b"SELECT id, name, status, return_values, parameters, components FROM instances WHERE id = %(id)s"


async def serve(url: str, instance: str) -> None:
    async with Database(url) as database:

        async def app(scope: dict[str, Any], _receive: Any, send: Any) -> None:
            if scope["type"] != "http":
                return
            row: Any = ()
            if scope["path"] != "/empty":
                async with database.connection() as connection:
                    row = await (await connection.execute(QUERY, {"id": instance})).fetchone()
            assert row is not None
            body = ("{" + ",".join(f'"{n}":"{str(value)[:200]}"' for n, value in enumerate(row)) + "}").encode()
            headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
            await send({"type": "http.response.start", "status": 200, "headers": headers})
            await send({"type": "http.response.body", "body": body})

        with socket.socket() as listener:
            listener.bind(("127.0.0.1", 0))
            print(listener.getsockname()[1], flush=True)
            config = uvicorn.Config(
                app, http="httptools", loop="none", lifespan="off", log_level="warning", access_log=False
            )
            await uvicorn.Server(config).serve([listener])


if __name__ == "__main__":
    uvloop.run(serve(sys.argv[1], sys.argv[2]))
