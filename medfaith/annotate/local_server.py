"""Serves the page to one person on this machine: 127.0.0.1, an address with a token, no share link.

Nothing is fetched from or sent to anywhere else.
"""

from __future__ import annotations

import errno
import logging
import os
import secrets
import socket
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from medfaith.loaders.errors import InputError, MedfaithError

if TYPE_CHECKING:
    import gradio as gr

HOST = "127.0.0.1"
REFUSED = "This page has an address with a token. The terminal of medfaith annotate prints it: open that address.\n"
POLICY = (
    "default-src 'self'; script-src 'self' 'unsafe-inline' 'unsafe-eval' blob:; style-src 'self' 'unsafe-inline'; "
    "img-src 'self' data: blob:; font-src 'self' data:; connect-src 'self' data: blob:; worker-src 'self' blob:"
)


def require_gradio() -> None:
    """Gradio with its reports to its makers switched off, which it asks for when it is first imported.

    Raises MedfaithError where it is not installed.
    """
    os.environ["GRADIO_ANALYTICS_ENABLED"] = "False"
    os.environ["HF_HUB_DISABLE_TELEMETRY"] = "1"
    try:
        import gradio  # noqa: F401
    except ImportError as error:
        raise MedfaithError(
            'gradio is not installed\n  what to do: install medfaith with its extra: pip install "medfaith[annotate]"'
        ) from error


def listen(port: int) -> socket.socket:
    """A socket on this machine's loopback. port 0: any that is free. Raises InputError where the port is taken."""
    listening = socket.socket()
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((HOST, port))
        listening.listen()
    except (OSError, OverflowError) as error:
        listening.close()
        taken = getattr(error, "errno", None) == errno.EADDRINUSE
        found = "is in use" if taken else f"cannot be used ({error})"
        raise InputError(f"port {port}", found, action="choose another --port; 0 takes any that is free") from None
    return listening


def serve(page: gr.Blocks, listening: socket.socket) -> None:
    """Prints the page's address, and answers whoever has it until Ctrl+C."""
    import gradio as gr
    import uvicorn
    from fastapi import FastAPI
    from starlette.middleware.trustedhost import TrustedHostMiddleware

    from .app import STYLE

    port, token = listening.getsockname()[1], secrets.token_urlsafe(16)
    site = FastAPI(openapi_url=None)
    # Browsers keep a cookie for a host, whatever its port: two pages need two names.
    site.add_middleware(_Guarded, token=token, cookie=f"medfaith-{port}")
    # A page elsewhere that names this machine as its own host gets nothing.
    site.add_middleware(TrustedHostMiddleware, allowed_hosts=[HOST, "localhost"])
    themes: Any = gr.themes  # pyright: ignore[reportPrivateImportUsage]
    theme = themes.Default(primary_hue="blue", font=["system-ui", "sans-serif"], font_mono=["monospace"])
    theme.set(
        block_info_text_color="*neutral_600", block_title_text_color="*body_text_color",
        # As the report's page (medfaith/report/page/page.css).
        body_background_fill="#ffffff", body_background_fill_dark="#0d1117", background_fill_primary="#ffffff",
        background_fill_primary_dark="#0d1117", background_fill_secondary="#f6f8fa",
        background_fill_secondary_dark="#161b22", body_text_color="#1b1f24", body_text_color_dark="#e6edf3",
        border_color_primary="#d0d7de", border_color_primary_dark="#3d444d", button_primary_background_fill="#0550ae",
        button_primary_background_fill_hover="#033d8b", button_primary_background_fill_dark="#0550ae",
        button_primary_text_color="#ffffff", block_background_fill_dark="#161b22",
    )  # fmt: skip
    site = gr.mount_gradio_app(
        site, page, path="/", server_name=HOST, server_port=port, show_error=False,
        footer_links=[], ssr_mode=False, enable_monitoring=False, mcp_server=False, pwa=False, theme=theme, css=STYLE,
    )  # fmt: skip

    class Server(uvicorn.Server):
        async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
            logging.getLogger("uvicorn.error").setLevel(logging.CRITICAL)  # a page that is still open is cut off
            await super().shutdown(sockets)

    print(f"open http://{HOST}:{port}/?token={token} in a browser; Ctrl+C ends", flush=True)
    with suppress(KeyboardInterrupt):
        Server(uvicorn.Config(site, log_level="warning", timeout_graceful_shutdown=1)).run(sockets=[listening])


class _Guarded:
    """Answers a browser that came by the address with the token, which a cookie holds from then on; nobody else.

    Other users and programs of this machine can ask at 127.0.0.1, too. With every answer it tells the browser to ask
    nobody else. In ASGI's own form, which does not hold up streams.
    """

    def __init__(self, app: Any, token: str, cookie: str) -> None:
        self._app, self._token, self._cookie = app, token.encode(), cookie

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "lifespan":
            return await self._app(scope, receive, send)
        from starlette.requests import HTTPConnection
        from starlette.responses import PlainTextResponse

        asked = HTTPConnection(scope)
        if not self._is_token(asked.query_params.get("token")) and not self._is_token(asked.cookies.get(self._cookie)):
            return await PlainTextResponse(REFUSED, 403)(scope, receive, send)
        cookie = f"{self._cookie}={self._token.decode()}; HttpOnly; SameSite=Strict; Path=/"
        told = {"content-security-policy": POLICY, "referrer-policy": "no-referrer", "set-cookie": cookie}

        async def guarded(message: Any) -> None:
            if message["type"] == "http.response.start":
                headers = [(name.encode(), value.encode()) for name, value in told.items()]
                message["headers"] = [*message["headers"], *headers]
            await send(message)

        return await self._app(scope, receive, guarded)

    def _is_token(self, given: str | None) -> bool:
        return given is not None and secrets.compare_digest(given.encode("utf-8", "surrogateescape"), self._token)
