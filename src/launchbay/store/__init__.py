"""The SQL of the kernel: the pool, the statements, the rows, the migrations."""
