"""What a launch writes, in entries of indexes and bytes of WAL, as PostgreSQL's own reader of WAL tells them."""

import re
import subprocess
from collections import Counter

import pytest

from launchbay.postgres.cluster import binaries
from tests.support.databases import Databases
from tests.support.service import Api, running_api

LAUNCHES = 50
# Of the acceptance, three recorded steps and the end. Whoever raises this says in a decision what for.
ENTRIES_MOST = 71
BYTES_MOST = 15_600
THREE_STEPS = "launch:\n  steps:\n" + "".join(
    f"    - s{n}: {{action: wait, parameters: {{delay: 0}}}}\n" for n in range(3)
)
# A leaf that is split gets its entry in the record of the split.
_ENTRY = re.compile(r"^INSERT_(LEAF|POST)|^SPLIT_[LR] level: 0")
_RECORD = re.compile(
    r"rmgr: (?P<kind>\S+)\s+len \(rec/tot\):\s+\d+/\s*(?P<bytes>\d+), tx:.*?, desc: (?P<what>.*?)"
    r"(?:, blkref #0: rel \d+/(?P<database>\d+)/(?P<relation>\d+).*)?$"
)


async def _launched(api: Api, application: str, count: int) -> None:
    for instance in [await api.launch(application) for _ in range(count)]:
        assert (await api.settled(instance))["status"] == "Running"


@pytest.mark.slow  # fifty launches, so that what happens now and then weighs little
async def test_a_launch_writes_so_many_entries_of_indexes_and_bytes_of_wal(databases: Databases) -> None:
    async with running_api(databases.create()) as api:
        application = await api.application(THREE_STEPS)
        await _launched(api, application, 10)
        async with api.database.connection() as connection:

            async def value(query: str) -> str:
                [(found,)] = await (await connection.execute(query)).fetchall()
                return str(found)

            database = await value("SELECT oid FROM pg_database WHERE datname = current_database()")
            begin = await value("SELECT pg_current_wal_insert_lsn()")
            await _launched(api, application, LAUNCHES)
            end = await value("SELECT pg_current_wal_insert_lsn()")
            await connection.execute("SET synchronous_commit = on")
            await value("SELECT pg_current_xact_id()")  # its commit writes all before it into the files
            names = dict(
                await (
                    await connection.execute("SELECT pg_relation_filenode(oid)::text, relname FROM pg_class")
                ).fetchall()
            )
        read = subprocess.run(
            [binaries() / "pg_waldump", "--path", databases.wal_directory, "--start", begin, "--end", end],
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        records = [found for line in read.stdout.splitlines() if (found := _RECORD.match(line))]
        own = [each for each in records if each["database"] == database]
        entries = Counter(
            names[each["relation"]] for each in own if each["kind"] == "Btree" and _ENTRY.match(each["what"])
        )
        assert own, read.stderr
        assert {"jobs_pkey", "steps_pkey", "instances_pkey"} <= entries.keys()
        each_launch = {name: round(count / LAUNCHES, 2) for name, count in entries.most_common()}
        assert sum(entries.values()) / LAUNCHES <= ENTRIES_MOST, each_launch
        assert sum(int(each["bytes"]) for each in own) / LAUNCHES <= BYTES_MOST
