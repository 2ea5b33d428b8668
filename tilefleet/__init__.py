"""What users touch: the command line and the Python client of the REST API."""
