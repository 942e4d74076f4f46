"""A server of the page for one person on this machine: 127.0.0.1, an address with a token, no share link.

The page fetches nothing from other hosts, and sends nothing to them.
"""

from __future__ import annotations

import errno
import logging
import os
import secrets
import socket
from contextlib import suppress
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from medfaith.loaders import limits
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
    """Require that gradio is installed, and disable its telemetry, which it checks on its first import.

    Raises:
        MedfaithError: gradio is not installed.
    """
    os.environ["GRADIO_ANALYTICS_ENABLED"] = "False"
    os.environ["HF_HUB_DISABLE_TELEMETRY"] = "1"
    if find_spec("gradio") is None:
        raise MedfaithError(
            'gradio is not installed\n  what to do: install medfaith with its extra: pip install "medfaith[annotate]"'
        )


def listen(port: int) -> socket.socket:
    """Open a socket on the loopback interface.

    Args:
        port: The port; 0 for any free port.

    Returns:
        The listening socket.

    Raises:
        InputError: The port is in use or invalid.
    """
    listening = socket.socket()
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((HOST, port))
        listening.listen()
    except (OSError, OverflowError) as error:
        listening.close()
        in_use = getattr(error, "errno", None) == errno.EADDRINUSE
        problem = "is in use" if in_use else f"cannot be used ({error})"
        raise InputError(f"port {port}", problem, action="choose another --port; 0 takes any that is free") from None
    return listening


def serve(page: gr.Blocks, listening: socket.socket) -> None:
    """Print the address of the page, and serve the page to clients with its token until Ctrl+C.

    Args:
        page: The page.
        listening: The result of `listen`.
    """
    import gradio as gr
    import uvicorn
    from fastapi import FastAPI
    from starlette.middleware.trustedhost import TrustedHostMiddleware

    from .app import STYLE

    port, token = listening.getsockname()[1], secrets.token_urlsafe(16)
    site = FastAPI(openapi_url=None)
    # Browsers store cookies by host, without the port. Two pages need two cookie names.
    site.add_middleware(_Limited)
    site.add_middleware(_Guarded, token=token, cookie=f"medfaith-{port}")
    # Requests from a foreign host name that resolves to this machine are refused.
    site.add_middleware(TrustedHostMiddleware, allowed_hosts=[HOST, "localhost"])
    themes: Any = gr.themes
    theme = themes.Default(primary_hue="blue", font=["system-ui", "sans-serif"], font_mono=["monospace"])
    theme.set(
        block_info_text_color="*neutral_600", block_title_text_color="*body_text_color",
        # The colours of the report page (medfaith/reporting/page/page.css).
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
            logging.getLogger("uvicorn.error").setLevel(
                logging.CRITICAL
            )  # open pages are disconnected without a message
            await super().shutdown(sockets)

    print(f"open http://{HOST}:{port}/?token={token} in a browser; Ctrl+C ends", flush=True)
    with suppress(KeyboardInterrupt):
        Server(uvicorn.Config(site, log_level="warning", timeout_graceful_shutdown=1)).run(sockets=[listening])


class _Limited:
    """Middleware that refuses files, and requests whose body has more than `limits.REQUEST_BYTES`.

    Bytes are counted as they arrive, as a request may state no size or a wrong one.
    """

    def __init__(self, app: Any) -> None:
        self._app = app

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            return await self._app(scope, receive, send)
        from starlette.responses import PlainTextResponse

        if "upload" in scope["path"].split("/"):  # gradio offers it on every page
            return await PlainTextResponse("This page takes no files.\n", 404)(scope, receive, send)
        messages: list[Any] = []
        n_bytes, is_complete = 0, False
        while not is_complete:  # the body is read first, so that no part of a larger one is acted on
            message = await receive()
            messages.append(message)
            n_bytes += len(message.get("body", b""))
            is_complete = message["type"] != "http.request" or not message.get("more_body")
            if n_bytes > limits.REQUEST_BYTES:
                refusal = f"The request has more than {limits.REQUEST_BYTES:,} bytes, which is the limit.\n"
                return await PlainTextResponse(refusal, 413, {"connection": "close"})(scope, receive, send)

        async def replay() -> Any:
            return messages.pop(0) if messages else await receive()

        return await self._app(scope, replay, send)


class _Guarded:
    """Middleware that serves only browsers with the token, from the address or from the cookie that then holds it.

    Other users and programs of this machine can also send requests to 127.0.0.1. Every response forbids the browser to
    contact other hosts. The middleware is plain ASGI, which does not delay streams.
    """

    def __init__(self, app: Any, token: str, cookie: str) -> None:
        self._app, self._token, self._cookie = app, token.encode(), cookie

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "lifespan":
            return await self._app(scope, receive, send)
        from starlette.requests import HTTPConnection
        from starlette.responses import PlainTextResponse

        connection = HTTPConnection(scope)
        if not self._is_token(connection.query_params.get("token")) and not self._is_token(
            connection.cookies.get(self._cookie)
        ):
            return await PlainTextResponse(REFUSED, 403)(scope, receive, send)
        cookie = f"{self._cookie}={self._token.decode()}; HttpOnly; SameSite=Strict; Path=/"
        headers = {"content-security-policy": POLICY, "referrer-policy": "no-referrer", "set-cookie": cookie}

        async def send_guarded(message: Any) -> None:
            if message["type"] == "http.response.start":
                header_pairs = [(name.encode(), value.encode()) for name, value in headers.items()]
                message["headers"] = [*message["headers"], *header_pairs]
            await send(message)

        return await self._app(scope, receive, send_guarded)

    def _is_token(self, token: str | None) -> bool:
        return token is not None and secrets.compare_digest(token.encode("utf-8", "surrogateescape"), self._token)
