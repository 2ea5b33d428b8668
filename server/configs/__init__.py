"""Best configs."""
