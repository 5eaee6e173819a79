"""How long an upgrade waits for a table, in the migrations and in the queue's schema (docs/decisions/0085)."""

LOCK_TIMEOUT_MS = 1500  # a statement that waits for a table holds up everybody who comes after it
PAUSE_S = 2.0  # between two attempts those have their turn who stood behind the first
ATTEMPTS = 150  # ten minutes; a backup of a large database holds its tables for about as long
