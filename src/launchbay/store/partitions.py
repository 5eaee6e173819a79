"""Partitions by time of history (docs/decisions/0093).

The numbers of these rows come from a sequence that counts within blocks. `begin_block` moves it to the next block when
the newest one is old enough, so that a range of numbers is a range of time. A partition is a range of blocks.
"""

from launchbay.store.statements import load

_sql = load("partitions")

begin_block = _sql.value("begin_block", bool)
drop_old = _sql.value("drop_old", int)
