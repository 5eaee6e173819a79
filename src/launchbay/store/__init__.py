"""The only SQL: the pool, the statements, the rows, the migrations, and the PostgreSQL that comes with the product."""
