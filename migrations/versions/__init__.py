"""The revisions of the schema, in order."""
