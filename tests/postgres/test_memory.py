"""The embedded PostgreSQL is as large as the machine allows (decision 0179)."""

from pathlib import Path

import psycopg
import pytest

from launchbay.limits import MIB
from launchbay.postgres.memory import Memory, Sizes, as_overrides, read_memory, sized, sizes_of
from launchbay.postgres.server import EmbeddedPostgres
from launchbay.settings import Settings

MACHINE = {"proc/meminfo": "MemTotal:       16777216 kB\nMemFree: 1 kB\n"}
GIB = 1024 * MIB
UNIT = "system.slice/launchbay.service"


def made(root: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return root


@pytest.mark.parametrize(
    ("files", "memory"),
    [
        ({}, None),
        (MACHINE, Memory(16 * GIB, is_bounded=False)),
        (MACHINE | {"sys/fs/cgroup/memory.max": "max\n"}, Memory(16 * GIB, is_bounded=False)),
        (MACHINE | {"sys/fs/cgroup/memory.max": f"{2 * GIB}\n"}, Memory(2 * GIB, is_bounded=True)),
        (MACHINE | {"sys/fs/cgroup/memory.max": f"{64 * GIB}\n"}, Memory(16 * GIB, is_bounded=False)),
        ({"sys/fs/cgroup/memory.max": f"{2 * GIB}\n"}, Memory(2 * GIB, is_bounded=True)),
        (
            MACHINE | {"proc/self/cgroup": f"0::/{UNIT}\n", f"sys/fs/cgroup/{UNIT}/memory.max": f"{GIB}\n"},
            Memory(GIB, is_bounded=True),
        ),
        (
            MACHINE
            | {
                "proc/self/cgroup": f"0::/{UNIT}\n",
                f"sys/fs/cgroup/{UNIT}/memory.max": "max\n",
                "sys/fs/cgroup/system.slice/memory.max": f"{4 * GIB}\n",
            },
            Memory(4 * GIB, is_bounded=True),
        ),
        (
            MACHINE | {"proc/self/cgroup": "0::/on/the/host\n", "sys/fs/cgroup/memory.max": f"{3 * GIB}\n"},
            Memory(3 * GIB, is_bounded=True),
        ),
        (
            MACHINE
            | {
                "proc/self/cgroup": "5:cpu,cpuacct:/other\n4:memory:/bay\n",
                "sys/fs/cgroup/memory/bay/memory.limit_in_bytes": f"{GIB}\n",
                "sys/fs/cgroup/memory/memory.limit_in_bytes": "9223372036854771712\n",
            },
            Memory(GIB, is_bounded=True),
        ),
    ],
)
def test_the_memory_is_that_of_the_machine_or_of_the_narrowest_group(
    files: dict[str, str], memory: Memory | None, tmp_path: Path
) -> None:
    assert read_memory(made(tmp_path, files)) == memory


@pytest.mark.parametrize(
    ("memory_mib", "sizes"),
    [
        (384, Sizes(128, 256, 4, 64, 1_024)),
        (2_048, Sizes(256, 1_024, 4, 64, 1_024)),
        (4_096, Sizes(512, 2_048, 8, 128, 1_024)),
        (8_192, Sizes(1_024, 4_096, 16, 256, 1_024)),
        (16_384, Sizes(2_048, 8_192, 32, 512, 2_048)),
        (65_536, Sizes(8_192, 32_768, 32, 1_024, 2_048)),
        (1_048_576, Sizes(8_192, 524_288, 32, 1_024, 2_048)),
    ],
)
def test_sizes_grow_with_the_memory_between_bounds(memory_mib: int, sizes: Sizes) -> None:
    assert sized(memory_mib) == sizes


def test_what_is_reserved_is_never_more_than_a_third_of_two_gigabytes_or_more() -> None:
    for memory_mib in range(2_048, 65_537, 512):
        sizes = sized(memory_mib)
        assert 3 * (sizes.shared_buffers + 3 * sizes.maintenance_work_mem) <= memory_mib


def test_each_size_can_be_set(tmp_path: Path) -> None:
    root = made(tmp_path, MACHINE)
    assert sizes_of(Settings(), root) == sized(16_384)
    assert sizes_of(Settings(postgres_memory_mib=4_096), root) == sized(4_096)
    assert sizes_of(Settings(postgres_work_mem_mib=7), root) == sized(16_384)._replace(work_mem=7)
    own = Settings(
        postgres_shared_buffers_mib=1,
        postgres_effective_cache_size_mib=2,
        postgres_work_mem_mib=3,
        postgres_maintenance_work_mem_mib=4,
        postgres_max_wal_size_mib=32,
    )
    assert sizes_of(own, root) == Sizes(1, 2, 3, 4, 32)
    assert sizes_of(Settings(), tmp_path / "silent") == sized(1_024)


@pytest.mark.slow
def test_the_real_server_has_these_sizes(tmp_path: Path) -> None:
    sizes = sizes_of(Settings(postgres_memory_mib=4_096, postgres_work_mem_mib=9))
    with (
        EmbeddedPostgres.start(tmp_path / "data", overrides=as_overrides(sizes)) as embedded,
        psycopg.connect(embedded.url) as connection,
    ):
        rows = connection.execute(
            "SELECT name, setting::bigint * pg_size_bytes('1' || CASE unit WHEN '8kB' THEN 'kB' ELSE unit END)"
            " * CASE unit WHEN '8kB' THEN 8 ELSE 1 END / 1048576 FROM pg_settings WHERE name = ANY(%s)",
            [list(Sizes._fields)],
        ).fetchall()
    assert dict(rows) == sized(4_096)._replace(work_mem=9)._asdict()
