"""The job engine: the queue on PostgreSQL, its workers, recovery and schedules."""
