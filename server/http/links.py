"""Links of the OpenAPI document: which value of an answer names what in the next requests."""

from __future__ import annotations

from typing import Any

_SOURCES = (
    ("post", "/api/v1/models", "model_hash", "hash"),
    ("post", "/api/v1/jobs", "job_id", "id"),
    ("get", "/api/v1/workloads", "key", "items/0/key"),
    ("get", "/api/v1/records", "record_id", "items/0/id"),
    ("get", "/api/v1/boards", "board_id", "items/0/id"),
    ("get", "/api/v1/targets", "name", "items/0/name"),
)
"""Whose answer has, at which place, a value for which path parameter."""


def add_links(schema: dict[str, Any]) -> None:
    """Link each of these to every operation whose path takes its value; again and again, if need be."""
    for method, path, parameter, place in _SOURCES:
        links = {
            operation["operationId"]: {
                "operationId": operation["operationId"],
                "parameters": {f"path.{parameter}": f"$response.body#/{place}"},
            }
            for other, operations in schema["paths"].items()
            if f"{{{parameter}}}" in other
            for operation in operations.values()
        }
        for status, answer in schema["paths"][path][method]["responses"].items():
            if status.startswith("2"):
                answer["links"] = links
