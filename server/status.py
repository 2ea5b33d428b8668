"""Routes about the service itself."""

from __future__ import annotations

import platform
from importlib.metadata import PackageNotFoundError, version
from typing import Literal

from fastapi import APIRouter, Response
from pydantic import BaseModel, Field
from sqlalchemy import func, select, text

from server.db.tables import JobRow
from server.http.problems import Problem, responses
from server.metrics import CONTENT_TYPE
from server.notifying import free_bytes
from server.services import Ctx
from tuner.states import JobState

_METRICS = {
    "text/plain": {
        "example": 'tilefleet_trials_total{outcome="ok"} 271.0\ntilefleet_jobs{state="running"} 1.0\n'
    }
}


def _version_of(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "not installed"


VERSION = _version_of("tilefleet")
router = APIRouter(tags=["service"])


class ServiceHealth(BaseModel):
    """The service answers and so does its database."""

    status: Literal["ok"] = "ok"


class Version(BaseModel):
    """What runs here."""

    version: str = Field(description="Tilefleet's version.", examples=["0.1.0"])
    api: Literal["v1"] = Field(default="v1", description="The API's version, as in its paths.")
    python: str = Field(description="The interpreter's version.", examples=["3.11.2"])
    toolchain: dict[str, str] = Field(
        description="Versions of what builds candidates.", examples=[{"tvm": "0.27.0.post1", "zig": "0.16.0"}]
    )


@router.get("/health", summary="Health", responses=responses(503))
def get_health(ctx: Ctx) -> ServiceHealth:
    """Whether the service and its database answer; 503 when they do not."""
    try:
        with ctx.db.read() as session:
            session.execute(text("select 1"))
    except Exception as error:  # whatever a driver raises means the same here
        raise Problem(503, f"the database does not answer ({type(error).__name__})") from error
    return ServiceHealth()


@router.get("/version", summary="Version")
def get_version() -> Version:
    """Versions of the service and of its tool chain."""
    packages = {"tvm": "apache-tvm", "tvm-ffi": "apache-tvm-ffi", "zig": "ziglang", "onnx": "onnx"}
    return Version(
        version=VERSION,
        python=platform.python_version(),
        toolchain={name: _version_of(package) for name, package in packages.items()},
    )


@router.get(
    "/metrics",
    summary="Prometheus metrics",
    response_class=Response,
    responses={
        200: {"description": "Prometheus' text format.", "content": {"text/plain": {"example": _METRICS}}}
    },
)
def get_metrics(ctx: Ctx) -> Response:
    """Trials by outcome, jobs by state, boards and who waits for one, HTTP requests."""
    counts = select(JobRow.state, func.count()).group_by(JobRow.state)
    with ctx.db.read() as session:
        jobs: dict[str, int] = dict(session.execute(counts).all())
    for state in JobState:
        ctx.metrics.jobs.labels(state.value).set(jobs.get(state.value, 0))
    ctx.metrics.boards.show(ctx.boards.all(), len(ctx.engine.dispatcher.waiting()))
    ctx.metrics.free.set(free_bytes(ctx.settings.home_dir))
    return Response(ctx.metrics.text(), media_type=CONTENT_TYPE)
