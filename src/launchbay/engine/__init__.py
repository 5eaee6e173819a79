"""The job engine: the queue on PostgreSQL, and what runs, rescues and stages the jobs in it."""
