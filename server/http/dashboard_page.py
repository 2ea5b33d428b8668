"""The dashboard: one page and its assets, which `dashboard/` was built into, under a strict policy."""

from __future__ import annotations

import secrets
from pathlib import Path

from fastapi import FastAPI, Request
from fastapi.responses import FileResponse, HTMLResponse
from fastapi.staticfiles import StaticFiles
from starlette.middleware.gzip import GZipMiddleware
from starlette.responses import Response

from server.http import problems

BUILT = Path(__file__).parents[1] / "dashboard"
PATHS = (
    *("/", "/submit", "/jobs", "/jobs/{id}", "/compare", "/workloads", "/workloads/{key}"),
    *("/boards", "/wall", "/records", "/best"),
)
"""Where there is a page; ``dashboard/src/shell.tsx`` has the same."""
_MISSING = """<!doctype html><title>Tilefleet</title><p>The dashboard was not built; <code>make setup</code>
does it. The API is at <a href="/docs">/docs</a>."""


def install(app: FastAPI, folder: Path = BUILT) -> None:
    """Serve the dashboard at ``/`` from ``folder``; what its pages are called is in their own hands."""
    page = folder / "index.html"
    if not page.exists():
        app.add_api_route("/", lambda: HTMLResponse(_MISSING, 503), include_in_schema=False)
        return
    text = page.read_text()

    def dashboard(status: int = 200) -> HTMLResponse:
        nonce = secrets.token_urlsafe(16)
        headers = {"Content-Security-Policy": _policy(nonce), "Cache-Control": "no-cache"}
        headers |= {"X-Content-Type-Options": "nosniff", "Referrer-Policy": "no-referrer"}
        return HTMLResponse(text.replace("__NONCE__", nonce), status, headers)

    async def not_found(request: Request, error: Exception) -> Response:
        return dashboard(404) if _is_lost(request) else await problems.on_http(request, error)

    for path in PATHS:
        app.add_api_route(path, lambda: dashboard(), include_in_schema=False)
    app.add_exception_handler(404, not_found)
    for icon in ("/icon.svg", "/favicon.ico"):  # the latter is asked for by whoever reads no page
        app.add_api_route(icon, lambda: FileResponse(folder / "icon.svg"), include_in_schema=False)
    assets = GZipMiddleware(_Assets(directory=folder / "assets"), minimum_size=1000, compresslevel=6)
    app.mount("/assets", assets)


def _is_lost(request: Request) -> bool:
    """Whether somebody's browser asks for a page that there is not: the dashboard says so, and leads back."""
    reads = request.method in ("GET", "HEAD") and "text/html" in request.headers.get("accept", "")
    # What a route or a folder of files took, and had nothing for, has said so itself.
    unknown = "endpoint" not in request.scope
    return reads and unknown and not f"{request.url.path}/".startswith("/api/")


def _policy(nonce: str) -> str:
    """Nothing from elsewhere, no script or style in the page's text but styles that carry the nonce."""
    return (
        "default-src 'none'; script-src 'self'; connect-src 'self'; img-src 'self' data:; "
        f"style-src 'self' 'nonce-{nonce}'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    )


class _Assets(StaticFiles):
    """Files whose names carry their content's hash: a browser need never ask again."""

    def file_response(self, *args: object, **kwargs: object) -> Response:
        answer: Response = super().file_response(*args, **kwargs)  # type: ignore[arg-type]  # as it came
        answer.headers["Cache-Control"] = "public, max-age=31536000, immutable"
        return answer
