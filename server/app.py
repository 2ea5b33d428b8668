"""The application."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from typing import Any

from fastapi import Depends, FastAPI
from fastapi.routing import APIRoute
from starlette.concurrency import run_in_threadpool

from server import status
from server.boards.book import SqlBook
from server.boards.changes import tell_of_boards
from server.boards.presence import watching
from server.boards.pruning import pruning
from server.boards.service import Boards
from server.db.database import Database
from server.engine import Engine, open_engine
from server.events.base import Events, LocalEvents
from server.fleet_file import FleetFile
from server.http import dashboard_page, docs_page, problems
from server.http.door import LEAST
from server.http.event_stream import Streams
from server.http.limits import BodyLimit
from server.http.links import add_links
from server.http.origin import KnownHosts, SameOrigin
from server.http.pages import known_parameters
from server.http.problems import responses
from server.http.safe_headers import SafeHeaders
from server.jobs.manager import JobManager
from server.jobs.orphans import Orphans
from server.jobs.queue import Queue
from server.jobs.service import Jobs
from server.jobs.store import SqlStore
from server.metrics import CountRequests, Metrics
from server.models.service import Models
from server.notifying import notifying
from server.profiles.schemas import PROFILE_BYTES
from server.routes import (
    baselines,
    boards,
    configs,
    fleet,
    jobs,
    models,
    profiles,
    records,
    strategies,
    targets,
    workloads,
)
from server.services import Services
from server.settings import Settings
from server.targets.service import Targets
from worker.children.nursery import Nursery
from worker.fleet.book import Book

OpenEngine = Callable[[Settings, Book], AbstractAsyncContextManager[Engine]]
_DESCRIPTION = """Upload a model, tune its convolutions and matrix products for a kind of board, and get the
best configs back. Times are seconds, timestamps ISO 8601 UTC. Errors are problem bodies (RFC 9457). Beside
those that are listed, any request may be answered by 400 (a `Host` header that this server does not know),
403 (a page of another site asks for it), 500, or 503 (the database does not answer)."""
_ROUTES = (models, jobs, strategies, profiles, targets, records, configs, workloads, baselines, boards, fleet)
_TAGS = [
    {"name": "models", "description": "Uploaded models and what there is to tune in them."},
    {"name": "jobs", "description": "Tuning one model or workload for one target within a budget."},
    {"name": "strategies", "description": "Ways in which a job chooses what to try."},
    {"name": "profiles", "description": "A model run whole on a board."},
    {"name": "targets", "description": "Kinds of machines that can be tuned for."},
    {"name": "records", "description": "Measurements: lists and logs."},
    {"name": "configs", "description": "The best config of a workload."},
    {"name": "boards", "description": "Devices that run candidates: who has them, how they are."},
    {"name": "service", "description": "Health, version, metrics."},
]


def create_app(
    settings: Settings,
    make_engine: OpenEngine = open_engine,
    nursery: Nursery | None = None,
    connections: int = LEAST,
) -> FastAPI:
    """The service; its database, engine and jobs live from start-up to shutdown of the application.

    Args:
        settings: the operator's choices.
        make_engine: opens the engine that builds and measures.
        nursery: where models are parsed; by default that of the engine.
        connections: how many may be open at a time.
    """
    metrics = Metrics()

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        async with AsyncExitStack() as stack:
            settings.keep_private()
            db = Database(settings.database)
            stack.callback(db.close)
            await run_in_threadpool(db.upgrade)
            engine = await stack.enter_async_context(
                make_engine(settings, SqlBook(db, lease_s=settings.times.lease_s))
            )
            parser = nursery or engine.nursery
            events = _events(settings)
            stack.push_async_callback(events.close)
            await stack.enter_async_context(pruning(db))
            await stack.enter_async_context(watching(db, engine))
            await stack.enter_async_context(notifying(settings, db, engine, metrics))
            models = Models(db, settings.models_dir, parser, settings.max_model_mb << 20)
            targets = Targets(engine, settings.plan.targets)
            jobs = Jobs(db, models, targets, engine)
            queue, orphans = Queue(db, jobs, engine), Orphans(db, settings.resume)
            store = SqlStore(db, metrics)
            manager = JobManager(db, store, engine, events, queue, orphans, settings.home_dir, parser)
            tell_of_boards(engine, events, manager.board_changed)
            stack.push_async_callback(manager.close)
            await manager.start()
            app.state.services = Services(
                settings=settings,
                db=db,
                engine=engine,
                metrics=metrics,
                events=events,
                targets=targets,
                models=models,
                nursery=parser,
                jobs=jobs,
                boards=Boards(db, engine),
                fleet=FleetFile(settings, engine, targets),
                manager=manager,
                streams=Streams(connections * 5 // 8, connections // 2),
            )
            yield

    app = _App(
        title="Tilefleet",
        version=status.VERSION,
        description=_DESCRIPTION,
        openapi_tags=_TAGS,
        lifespan=lifespan,
        generate_unique_id_function=_operation_id,
        docs_url=None,
        redoc_url=None,
    )
    docs_page.install(app)
    problems.install(app)
    # The document of the API says the same, but takes seconds to make: no wrong request waits for it.
    app.state.methods = problems.methods_of("/api/v1", (module.router for module in _ROUTES))
    app.state.methods |= problems.methods_of("", [status.router])
    for module in _ROUTES:
        app.include_router(
            module.router,
            prefix="/api/v1",
            responses=responses(422),
            dependencies=[Depends(known_parameters)],
        )
    app.include_router(status.router)
    dashboard_page.install(app)
    limits = {
        "/api/v1/models": (settings.max_model_mb << 20, "TILEFLEET_MAX_MODEL_MB"),
        "/api/v1/records": (settings.max_log_mb << 20, "TILEFLEET_MAX_LOG_MB"),
        "/api/v1/profiles": (PROFILE_BYTES, ""),
    }
    app.add_middleware(BodyLimit, limits=limits)
    app.add_middleware(SameOrigin)
    app.add_middleware(CountRequests, metrics=metrics)
    app.add_middleware(KnownHosts, hosts=settings.allowed_hosts)
    app.add_middleware(SafeHeaders)
    return app


class _App(FastAPI):
    def openapi(self) -> dict[str, Any]:
        """The schema with its links; errors are problems alone, though FastAPI adds the route's own type."""
        schema = super().openapi()
        add_links(schema)
        for path in schema["paths"].values():
            for operation in path.values():
                for answer in operation["responses"].values():
                    if problems.MEDIA_TYPE in answer.get("content", {}):
                        answer["content"] = {problems.MEDIA_TYPE: answer["content"][problems.MEDIA_TYPE]}
        return schema


def _events(settings: Settings) -> Events:
    if not settings.redis_url:
        return LocalEvents()
    from server.events.redis import RedisEvents  # brings Redis's client along, which few need

    return RedisEvents(settings.redis_url)


def _operation_id(route: APIRoute) -> str:
    return route.name
