"""The OpenAPI page, with scripts and styles from this server: it must work where nothing else is reached."""

from __future__ import annotations

import secrets
from pathlib import Path

import fastapi_offline
from fastapi import FastAPI
from fastapi.openapi.docs import get_swagger_ui_html
from fastapi.responses import HTMLResponse
from fastapi.staticfiles import StaticFiles

_ASSETS = Path(fastapi_offline.__file__).parent / "static"
_MOUNTED = "/docs-assets"


def install(app: FastAPI) -> None:
    """Serve the page at ``/docs``; ``app`` must have been made without one of its own."""
    app.mount(_MOUNTED, StaticFiles(directory=_ASSETS))

    @app.get("/docs", include_in_schema=False)
    def docs() -> HTMLResponse:
        page = get_swagger_ui_html(
            openapi_url=str(app.openapi_url),
            title=app.title,
            swagger_js_url=f"{_MOUNTED}/swagger-ui-bundle.js",
            swagger_css_url=f"{_MOUNTED}/swagger-ui.css",
            swagger_favicon_url=f"{_MOUNTED}/favicon.png",
        )
        nonce = secrets.token_urlsafe(16)
        text = bytes(page.body).decode().replace("<script>", f'<script nonce="{nonce}">')
        return HTMLResponse(text, headers={"Content-Security-Policy": _policy(nonce)})


def _policy(nonce: str) -> str:
    """Nothing from elsewhere; the page sets styles of its own as it goes."""
    return (
        f"default-src 'none'; script-src 'self' 'nonce-{nonce}'; style-src 'self' 'unsafe-inline'; "
        "img-src 'self' data:; connect-src 'self'; "
        "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    )
