"""The campaign of a worker that is cut off: the way to its database falls silent, without closing a connection."""

import asyncio
import time
from collections.abc import Iterable
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

from tests.durability.campaign import Campaign, under_load
from tests.durability.cutting_proxy import cutting_proxy
from tests.durability.load import Load
from tests.durability.servers import Process, join_postgres, remove_postgres
from tests.durability.verdict import Kill


async def cut_off(directory: Path, seed: int, silences_s: Iterable[float], *, defect: str | None = None) -> Campaign:
    """A server, and a worker that hears nothing for each of these times; then all that was held back arrives late."""
    campaign = Campaign(directory, seed)
    postgres = await asyncio.to_thread(join_postgres, directory)
    sockets = Path(parse_qs(urlsplit(postgres.url).query)["host"][0])
    try:
        async with cutting_proxy(sockets, directory / "p", seed) as proxy:
            shared = ["--data-dir", str(directory), "--database-url"]
            server = Process(["serve", *shared, postgres.url, "--port", "0"], directory, defect)
            worker = Process(["worker", *shared, proxy.url], directory, defect)
            load = Load(lambda: server.port, seed)
            async with under_load(campaign, postgres.url, [server, worker], load):
                for silence_s in silences_s:
                    await asyncio.sleep(campaign.chance.uniform(2.0, 4.0))
                    campaign.kills.append(Kill(worker.pid, time.time()))
                    proxy.flowing.clear()
                    await asyncio.sleep(silence_s)
                    proxy.flowing.set()
                    await asyncio.sleep(3.0)
    finally:
        await asyncio.to_thread(postgres.stop)
        remove_postgres(directory)
    return campaign
