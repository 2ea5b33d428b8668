"""The coordinator: REST API, database, events."""
