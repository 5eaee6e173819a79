#!/usr/bin/env bash
# nats-server 2.9.10 (Debian 12) with nats-py 2.11.0: a server alone accepts three replicas when a stream is changed.
#
# Expected: a server without a cluster refuses a stream with three replicas, whether it is created or changed.
# Seen: creating one is refused (error 10074). Changing the replicas of an existing stream from 1 to 3 is accepted, and the stream says
# from then on that it has 3, though there is one server and no copy. The storage type, on the other hand, can't be changed (error 10052).
# What to do: don't conclude from num_replicas that there are copies. Look at the stream's cluster and its replicas.
set -euo pipefail
work=$(mktemp -d)
server=
trap '[ -z "$server" ] || kill "$server"; rm -rf "$work"' EXIT
cd "$work"
apt-get -qq download 'nats-server=2.9.10-*'
dpkg -x nats-server_*.deb .
program=$(find . -type f -name nats-server | head -n 1)
"$program" --version | grep -F 'v2.9.10'
python3 -m venv venv
venv/bin/pip --quiet install nats-py==2.11.0
port=$(python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
"$program" -a 127.0.0.1 -p "$port" -js -sd store >/dev/null 2>&1 &
server=$!
sleep 2
cat >run.py <<'END'
import asyncio
import sys

import nats
from nats.js import api, errors


async def main() -> None:
    client = await nats.connect(f"127.0.0.1:{sys.argv[1]}")
    at = client.jetstream()
    try:
        await at.add_stream(name="created", subjects=["created"], num_replicas=3)
    except errors.APIError as error:
        print("created with 3:", error.err_code, error.description)
    await at.add_stream(name="changed", subjects=["changed"], num_replicas=1)
    changed = await at.update_stream(name="changed", subjects=["changed"], num_replicas=3)
    print("changed to", changed.config.num_replicas, "with the cluster", changed.cluster)
    try:
        await at.update_stream(name="changed", subjects=["changed"], storage=api.StorageType.MEMORY)
    except errors.APIError as error:
        print("storage:", error.err_code, error.description)
    await client.close()


asyncio.run(main())
END
venv/bin/python run.py "$port" | tee out
grep -q 'created with 3: 10074' out
grep -q 'changed to 3' out
grep -q 'storage: 10052' out
