"""A tuning job: the runner, its budget, its reports."""
