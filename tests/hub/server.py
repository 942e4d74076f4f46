"""A Hugging Face Hub on 127.0.0.1, for tests that publish to it and load from it with the real clients.

It keeps everything in memory, records every request, and fails on demand. Large files use a store at another address,
which accepts no token. It has no Xet (HF_HUB_DISABLE_XET=1), no pull requests and only the branch main; a listing has
one page, and a large file is uploaded in one piece.
"""

from __future__ import annotations

import json
import os
import re
import socket
import sys
import threading
import traceback
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Literal

from tests.hub.endpoints import Answer, answer
from tests.hub.repositories import File, Repository, is_lfs, make_first_files


@dataclass(frozen=True)
class Account:
    """The owner of a token.

    Attributes:
        organisations: Organisations that the token may write to.
        write: False for a read-only token.
    """

    name: str
    organisations: tuple[str, ...] = ()
    write: bool = True

    def may_write(self, namespace: str) -> bool:
        return self.write and self.belongs_to(namespace)

    def belongs_to(self, namespace: str) -> bool:
        return namespace in {self.name, *self.organisations}


@dataclass(frozen=True)
class Request:
    """A recorded request.

    Attributes:
        status: The HTTP status, or None if the connection was cut.
        route: The endpoint's name, or "" if this Hub does not have the endpoint.
        store: Whether the request went to the store.
        has_token: Whether the request had a token.
    """

    method: str
    path: str
    status: int | None
    route: str
    store: bool = False
    has_token: bool = False


@dataclass
class _Fault:
    method: str
    pattern: str
    remaining: int
    kind: int | Literal["drop"]
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass
class Hub:
    """A Hub with one organisation and a token that may write to it; `with Hub() as hub` serves it.

    Tests may change the following attributes while the Hub runs.

    Attributes:
        tokens: Accounts by token.
        repositories: Repositories by kind and id.
        private_by_default: Owners whose new repositories are private unless the client sets the visibility.
        unpaid: Owners without a plan for Spaces that compute.
    """

    organisation: str = "clinic"
    token: str = "hf_writer"
    tokens: dict[str, Account] = field(default_factory=dict)
    repositories: dict[tuple[str, str], Repository] = field(default_factory=dict)
    requests: list[Request] = field(default_factory=list)
    crashes: list[str] = field(default_factory=list)
    lock: threading.RLock = field(default_factory=threading.RLock)
    private_by_default: set[str] = field(default_factory=set)
    unpaid: set[str] = field(default_factory=set)
    _faults: list[_Fault] = field(default_factory=list)
    _server: _Server | None = None
    _store: _Server | None = None

    def __post_init__(self) -> None:
        self.tokens.setdefault(self.token, Account("alice", (self.organisation,)))

    def __enter__(self) -> Hub:
        self._server, self._store = _Server(self), _Server(self, store=True)
        for server in (self._server, self._store):
            threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def stop(self) -> None:
        """Stop serving; repeated calls have no effect."""
        for server in (self._server, self._store):
            if server and not server.stopped:
                server.stopped = True
                server.shutdown()
                server.server_close()

    @property
    def url(self) -> str:
        assert self._server, "the Hub is not served: `with Hub() as hub`"
        return self._server.url

    @property
    def store_url(self) -> str:
        assert self._store, "the Hub is not served: `with Hub() as hub`"
        return self._store.url

    def environment(self, home: Path, token: str | None = None) -> dict[str, str]:
        """Return the environment of a subprocess that uses only this Hub, with its caches under `home`.

        Args:
            home: The folder of the caches.
            token: The token instead of `self.token`; "" for no token.
        """
        ours = ("HF_", "HUGGING", "TRANSFORMERS_OFFLINE")
        variables = {name: value for name, value in os.environ.items() if not name.startswith(ours)}
        variables = {name: value for name, value in variables.items() if not name.lower().endswith("_proxy")}
        settings = {
            "HF_ENDPOINT": self.url,
            "HF_HOME": str(home),
            "HF_HUB_DISABLE_XET": "1",
            "HF_HUB_DISABLE_TELEMETRY": "1",
            "HF_HUB_DISABLE_PROGRESS_BARS": "1",
            "HF_UPDATE_DOWNLOAD_COUNTS": "0",  # evaluate counts downloads at another host
            "NO_PROXY": "127.0.0.1",
        }
        token = self.token if token is None else token
        return {**variables, **settings, **({"HF_TOKEN": token} if token else {})}

    def add(
        self, kind: str, name: str, files: Mapping[str, bytes], private: bool = False, sdk: str = "gradio"
    ) -> Repository:
        """Create a repository of the organisation with `files` (contents by path), without a request."""
        repository = self.create(kind, f"{self.organisation}/{name}", private, sdk if kind == "space" else None)
        changes = {path: File(content, is_lfs(path, len(content), content[:512])) for path, content in files.items()}
        repository.blobs |= {file.sha256: file.content for file in changes.values() if file.lfs}
        repository.commit("files", changes)
        return repository

    def create(self, kind: str, identifier: str, private: bool, sdk: str | None) -> Repository:
        repository = Repository(kind, identifier, private, sdk)
        repository.commit("initial commit", make_first_files(kind, identifier.split("/")[1], sdk))
        self.repositories[kind, identifier] = repository
        return repository

    def fail(self, method: str, pattern: str, times: int = 1, status: int = 500, **headers: str) -> None:
        """Fail the next requests of a method and path pattern.

        Args:
            method: The HTTP method.
            pattern: A regular expression that is searched in the path.
            times: The number of requests that fail.
            status: The HTTP status of the response.
            headers: Additional response headers, with _ for -.
        """
        reply_headers = {name.replace("_", "-"): value for name, value in headers.items()}
        self._faults.append(_Fault(method, pattern, times, status, reply_headers))

    def drop(self, method: str, pattern: str, times: int = 1) -> None:
        """Cut the connection in the middle of the request body instead of a reply; otherwise like `fail`."""
        self._faults.append(_Fault(method, pattern, times, "drop"))

    def fault(self, method: str, path: str) -> _Fault | None:
        """Return the fault for this request and count it down; None without a fault."""
        with self.lock:
            for fault in self._faults:
                if fault.remaining and fault.method == method and re.search(fault.pattern, path):
                    fault.remaining -= 1
                    return fault
        return None

    def asked(self, method: str, pattern: str = "", since: int = 0) -> list[Request]:
        """List the requests of `method` whose path matches `pattern`, from number `since` on."""
        return [r for r in self.requests[since:] if r.method == method and re.search(pattern, r.path)]


class _Server(ThreadingHTTPServer):
    def __init__(self, hub: Hub, store: bool = False) -> None:
        self.hub, self.store = hub, store
        self.stopped = False
        super().__init__(("127.0.0.1", 0), _Handler)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"

    def handle_error(self, request: Any, client_address: Any) -> None:
        if not isinstance(sys.exception(), ConnectionError):  # clients may hang up
            self.hub.crashes.append(traceback.format_exc())


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    wbufsize = -1  # send head and body together
    server: _Server  # pyrefly: ignore[bad-override-mutable-attribute] (only a _Server makes handlers)

    def log_message(self, format: str, *args: Any) -> None:
        pass  # `Hub.requests` is the log

    def _serve(self) -> None:
        hub = self.server.hub
        if self.server.stopped:  # a keep-alive connection
            return self._hang_up()
        fault = hub.fault(self.command, self.path)
        if fault and fault.kind == "drop":
            self.rfile.read(int(self.headers.get("Content-Length", 0)) // 2)
            self._note(None, "fault")
            return self._hang_up()
        body = self._body()
        if fault and fault.kind != "drop":
            message = "the test wants this to fail"  # plain text, like that of a gateway, or JSON
            message = message if fault.kind >= 500 else json.dumps({"error": message})
            route, reply = "fault", Answer(fault.kind, message.encode(), fault.headers)
        else:
            try:
                with hub.lock:
                    route, reply = answer(hub, self.command, self.path, self.headers, body, self.server.store)
            except Exception:
                hub.crashes.append(traceback.format_exc())
                route, reply = "crash", Answer(501, b"the test's Hub crashed")  # a status that no client retries
        self._note(reply.status, route)
        self.send_response(reply.status)
        for name, value in {"Content-Length": str(len(reply.body)), **reply.headers}.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(reply.body)
        return None

    do_GET = do_HEAD = do_POST = do_PUT = do_DELETE = _serve  # noqa: N815

    def _note(self, status: int | None, route: str) -> None:
        has_token = "Authorization" in self.headers
        request = Request(self.command, self.path, status, route, self.server.store, has_token)
        self.server.hub.requests.append(request)

    def _body(self) -> bytes:
        if "chunked" not in self.headers.get("Transfer-Encoding", ""):
            return self.rfile.read(int(self.headers.get("Content-Length", 0)))
        return b"".join(self._chunks())

    def _chunks(self) -> Iterable[bytes]:
        while size := int(self.rfile.readline().split(b";")[0], 16):
            yield self.rfile.read(size)
            self.rfile.readline()
        self.rfile.readline()

    def _hang_up(self) -> None:
        self.close_connection = True
        self.connection.shutdown(socket.SHUT_RDWR)
