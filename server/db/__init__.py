"""The database: tables, engine, sessions, schema upgrade."""
