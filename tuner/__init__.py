"""From a model to its best configs: extraction, search, tuning log, whole-model build."""
