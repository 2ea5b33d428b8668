"""The application."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from fastapi import FastAPI
from fastapi.routing import APIRoute
from starlette.middleware.trustedhost import TrustedHostMiddleware

from server import problems, status
from server.configs import routes as configs
from server.db.database import Database
from server.limits import BodyLimit
from server.metrics import CountRequests, Metrics
from server.models import routes as models
from server.models.service import Models
from server.problems import responses
from server.records import routes as records
from server.services import Services
from server.settings import Settings
from server.targets import routes as targets
from server.targets.service import Targets
from worker.nursery import Nursery

_DESCRIPTION = """Upload a model, tune its convolutions and matrix products for a kind of board, and get the
best configs back. Times are seconds, timestamps ISO 8601 UTC. Errors are problem bodies (RFC 9457)."""
_TAGS = [
    {"name": "models", "description": "Uploaded models and what there is to tune in them."},
    {"name": "jobs", "description": "Tuning one model or workload for one target within a budget."},
    {"name": "targets", "description": "Kinds of machines that can be tuned for."},
    {"name": "records", "description": "Measurements: lists and logs."},
    {"name": "configs", "description": "The best config of a workload."},
    {"name": "boards", "description": "Devices that run candidates."},
    {"name": "service", "description": "Health, version, metrics."},
]


def create_app(settings: Settings) -> FastAPI:
    """The service; its database, engine and jobs live from start-up to shutdown of the application."""
    metrics = Metrics()

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        db = Database(settings.database)
        db.upgrade()
        nursery = Nursery(preload=("tvm", "tuner.extract"))
        app.state.services = Services(
            settings=settings,
            db=db,
            metrics=metrics,
            models=Models(db, settings.home_dir / "models", nursery),
            targets=Targets({}),
        )
        yield
        nursery.close()
        db.close()

    app = FastAPI(
        title="Tilefleet",
        version=status.VERSION,
        description=_DESCRIPTION,
        openapi_tags=_TAGS,
        lifespan=lifespan,
        generate_unique_id_function=_operation_id,
    )
    problems.install(app)
    for module in (models, targets, records, configs):
        app.include_router(module.router, prefix="/api/v1", responses=responses(422))
    app.include_router(status.router)
    limits = {
        "/api/v1/models": (settings.max_model_mb << 20, "TILEFLEET_MAX_MODEL_MB"),
        "/api/v1/records": (settings.max_log_mb << 20, "TILEFLEET_MAX_LOG_MB"),
    }
    app.add_middleware(BodyLimit, limits=limits)
    app.add_middleware(CountRequests, metrics=metrics)
    app.add_middleware(TrustedHostMiddleware, allowed_hosts=list(settings.allowed_hosts))
    return app


def _operation_id(route: APIRoute) -> str:
    return route.name
