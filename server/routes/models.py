"""Routes of the models."""

from __future__ import annotations

from functools import partial
from pathlib import Path as FilePath
from typing import Annotated

from fastapi import APIRouter, Path, Query, Request, Response
from fastapi.responses import FileResponse
from starlette.concurrency import run_in_threadpool

from compiler.intake.extraction import Extraction
from server import lengths
from server.db.documents import readable
from server.db.tables import ModelRow
from server.http.json_text import JsonRoute
from server.http.pages import Limit, Threads
from server.http.problems import invalid, responses
from server.http.uploads import received
from server.models import build_check, forecast, views
from server.models.schemas import (
    BuildCheck,
    BuildRequest,
    Forecast,
    GraphNode,
    Model,
    ModelGraph,
    ModelPage,
    Workloads,
)
from server.models.service import Shapes, parse_shapes, parse_values
from server.services import Ctx, Services
from worker.children.nursery import Flag

router = APIRouter(prefix="/models", tags=["models"], route_class=JsonRoute)
_BINARY = {"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}}

ModelHash = Annotated[str, Path(description="The model's hash, or its first 8 digits and more.")]
ShapesText = Annotated[
    str | None,
    Query(
        description="Shapes of dynamic inputs, a JSON object, or a list of such for a module that takes any.",
        max_length=10_000,
        examples=['{"data_0": [1, 3, 224, 224]}', '[{"ids": [1, 64]}, {"ids": [1, 128]}]'],
    ),
]


@router.post(
    "",
    status_code=201,
    summary="Upload a model",
    responses={
        200: {"model": Model, "description": "The same bytes are stored already."},
        **responses(400, 409, 413, 415, 422, 503),
    },
    openapi_extra={
        "requestBody": {
            "required": True,
            "description": "The ONNX or TFLite file, or a zip.",
            "content": _BINARY,
        }
    },
)
async def upload_model(
    request: Request,
    response: Response,
    ctx: Ctx,
    name: Annotated[
        str, Query(min_length=1, max_length=200, pattern=lengths.FILE_NAME, description="The file's name.")
    ] = "model.onnx",
    shapes: ShapesText = None,
    values: Annotated[
        str | None,
        Query(
            description="Values that inputs shall always have, a JSON object: they become constants.",
            max_length=10_000,
            examples=['{"sample_rate": [16000]}'],
        ),
    ] = None,
) -> Model:
    """Store a model and find out what there is to tune; the body is the file's bytes.

    ONNX and TFLite are told apart by the content. Inputs and outputs are as in the file: the images of a
    TFLite model stay NHWC. A zip holds one file that ends with `.onnx` and those that it keeps weights in,
    and is stored as one model that has them. A model given `values` is stored with them in it, and is
    another than without.
    """
    given, constants = parse_shapes(shapes), parse_values(values)
    async with received(request, ctx.models.incoming) as upload, ctx.reading.turn(request) as gone:
        row, new = await run_in_threadpool(ctx.models.add, upload, name, given, constants, gone)
    response.status_code = 201 if new else 200
    response.headers["Location"] = f"/api/v1/models/{row.hash}"
    return views.show(row)


@router.get("", summary="List models", responses=responses(404, 422))
def list_models(
    ctx: Ctx,
    limit: Limit = 50,
    after: Annotated[str | None, Query(description="The `next` of the page before.")] = None,
) -> ModelPage:
    """Models, the newest first."""
    rows = ctx.models.page(after, limit + 1)
    shown = [readable(partial(views.show, row), None, "the list of models") for row in rows[:limit]]
    items = [each for each in shown if each is not None]
    return ModelPage(items=items, next=rows[limit - 1].hash if len(rows) > limit else None)


@router.get("/{model_hash}", summary="Read a model", responses=responses(404))
def get_model(model_hash: ModelHash, ctx: Ctx) -> Model:
    """One model by its hash."""
    with ctx.db.read() as session:
        return views.show(ctx.models.get(session, model_hash))


@router.get(
    "/{model_hash}/file",
    summary="Download a model",
    response_class=FileResponse,
    responses={200: {"description": "The stored file.", "content": _BINARY}, **responses(404)},
)
def get_model_file(model_hash: ModelHash, ctx: Ctx) -> FileResponse:
    """The bytes that were uploaded."""
    with ctx.db.read() as session:
        row = ctx.models.get(session, model_hash)
    return FileResponse(ctx.models.file(row), media_type="application/octet-stream", filename=row.name)


@router.get("/{model_hash}/workloads", summary="List a model's workloads", responses=responses(404))
def list_workloads(model_hash: ModelHash, ctx: Ctx) -> Workloads:
    """The distinct workloads with their counts, and what cannot be tuned and why."""
    with ctx.db.read() as session:
        row = ctx.models.get(session, model_hash)
    return views.show_workloads(ctx.models.extraction(row, None))


@router.post(
    "/{model_hash}/workloads",
    summary="List a model's workloads with other shapes",
    responses=responses(400, 404, 422, 503),
)
async def read_with_shapes(
    request: Request, model_hash: ModelHash, ctx: Ctx, shapes: ShapesText = None
) -> Workloads:
    """The same with other input shapes than those of the upload: the model is read again, if need be."""
    given = parse_shapes(shapes)

    async with ctx.reading.turn(request) as gone:
        _, extraction = await run_in_threadpool(_extracted, ctx, model_hash, given, gone)
    return views.show_workloads(extraction)


TargetName = Annotated[str, Query(description="The target's name.", examples=["rpi4"])]


@router.get("/{model_hash}/forecast", summary="Foretell a model's time", responses=responses(404, 422, 503))
async def read_forecast(
    request: Request, model_hash: ModelHash, ctx: Ctx, target: TargetName, threads: Threads = 1
) -> Forecast:
    """What its layers may take on a target before anything is tuned: by records where there are some, else by
    the machine model. What is not tuned is not in it."""
    row, extraction = await run_in_threadpool(_extracted, ctx, model_hash, None, None)
    return await _forecast(request, ctx, (row.hash, None), extraction, target, threads)


@router.post(
    "/{model_hash}/forecast",
    summary="Foretell a model's time with other shapes",
    responses=responses(400, 404, 422, 503),
)
async def read_forecast_with_shapes(
    request: Request,
    model_hash: ModelHash,
    ctx: Ctx,
    target: TargetName,
    threads: Threads = 1,
    shapes: ShapesText = None,
) -> Forecast:
    """The same with other input shapes than those of the upload: the model is read again, if need be."""
    given = parse_shapes(shapes)
    async with ctx.reading.turn(request) as gone:
        row, extraction = await run_in_threadpool(_extracted, ctx, model_hash, given, gone)
    return await _forecast(request, ctx, (row.hash, str(given)), extraction, target, threads)


def _extracted(
    ctx: Services, model_hash: str, shapes: Shapes | None, gone: Flag | None
) -> tuple[ModelRow, Extraction]:
    with ctx.db.read() as session:
        row = ctx.models.get(session, model_hash)
    return row, ctx.models.extraction(row, shapes, gone)


async def _forecast(
    request: Request,
    ctx: Services,
    model: tuple[str, str | None],
    extraction: Extraction,
    target: str,
    threads: int,
) -> Forecast:
    machine = ctx.targets.get(target, "query", "target")
    clocks = sorted({board.clock for board in ctx.engine.boards() if board.target.key == machine.key})
    clock = "wall" if "wall" in clocks or not clocks else clocks[0]

    def read() -> Forecast:
        seconds = ctx.forecasts.get(
            (*model, machine.key, threads),
            lambda: forecast.predicted(ctx.nursery, extraction, machine, threads, gone),
        )
        with ctx.db.read() as session:
            return forecast.forecast(session, extraction, seconds, machine, clock, threads)

    async with ctx.learning.turn(request) as gone:
        return await run_in_threadpool(read)


@router.post("/{model_hash}/graph", summary="Read a model's graph", responses=responses(400, 404, 422, 503))
async def read_graph(
    request: Request, model_hash: ModelHash, ctx: Ctx, shapes: ShapesText = None
) -> ModelGraph:
    """What the model is made of, and what reads what; of several sets of shapes, with the first.

    The model is read for it, unless that was asked lately.
    """
    given = parse_shapes(shapes)

    def read() -> ModelGraph:
        with ctx.db.read() as session:
            row = ctx.models.get(session, model_hash)
        nodes = ctx.models.graph(row, given, gone)
        return ModelGraph(items=[GraphNode.model_validate(node) for node in nodes])

    async with ctx.reading.turn(request) as gone:
        return await run_in_threadpool(read)


@router.post("/{model_hash}/checks", summary="Check a build on a board", responses=responses(404, 409, 422))
async def check_build(model_hash: ModelHash, asked: BuildRequest, request: Request, ctx: Ctx) -> BuildCheck:
    """Build a model and run it on a free board of the target, beside the model's own definition.

    Nothing is stored. It takes as long as that takes; 409 when no board came to an answer.
    """

    def path() -> FilePath:
        with ctx.db.read() as session:
            return ctx.models.file(ctx.models.get(session, model_hash))

    model = await run_in_threadpool(path)
    target = ctx.targets.get(asked.target, "body", "target")
    library = []
    if asked.library is not None:
        library = [ctx.targets.get(each, "body", "library", "targets") for each in asked.library.targets]
        if [each.key for each in library][asked.library.level :][:1] != [target.key]:
            raise invalid("`level` is not the place of `target` in `targets`", "body", "library", "level")
    return await build_check.check_build(ctx.engine, model, target, library, asked, request.is_disconnected)
