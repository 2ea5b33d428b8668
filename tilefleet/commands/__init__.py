"""The subcommands of ``tilefleet``, a file a group."""
