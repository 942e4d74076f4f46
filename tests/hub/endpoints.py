"""Endpoints of the Hub and of its store for large files, listed in ROUTES and STORE.

The store has another host; the Hub redirects clients to it for reading and writing large files.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from email.message import Message
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, quote, unquote, urlsplit

from tests.hub.repositories import (
    SDKS,
    HubError,
    Repository,
    find_card_faults,
    is_ignored,
    is_lfs,
    is_within,
    parse_front_matter,
    read_changes,
)  # fmt: skip

if TYPE_CHECKING:
    from tests.hub.server import Account, Hub

Headers = Mapping[str, str] | Message


@dataclass(frozen=True)
class Answer:
    status: int = 200
    body: bytes = b""
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Call:
    """A request; `path_fields` holds the decoded named groups of its path."""

    hub: Hub
    path: str
    path_fields: Mapping[str, str]
    query: Mapping[str, list[str]]
    headers: Headers
    body: bytes

    @property
    def account(self) -> Account | None:
        """Account of the request's token, or None without a token."""
        token = self.headers.get("Authorization", "").removeprefix("Bearer ")
        if token and token not in self.hub.tokens:
            raise HubError(401, "Invalid credentials in Authorization header")
        return self.hub.tokens.get(token)

    @property
    def signed(self) -> Account:
        """Account of the request's token; raises HubError without one."""
        if self.account is None:
            raise HubError(401, "Invalid username or password.")
        return self.account

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    def repository(self, write: bool = False) -> Repository:
        """Return the repository of the path.

        Raises:
            HubError: The repository is missing, or is private and belongs to another account.
        """
        repository = self.hub.repositories.get((self.path_fields.get("kind") or "model", self.path_fields["id"]))
        account, namespace = self.account, self.path_fields["id"].split("/")[0]
        if repository is None or (repository.private and not (account and account.belongs_to(namespace))):
            raise HubError(404 if account else 401, "Repository not found", "RepoNotFound")
        if write and not self.signed.may_write(namespace):
            raise HubError(403, "Forbidden: pass a token with write access to this repository")
        return repository


def _is_on(options: Mapping[str, list[str]], name: str) -> bool:
    return options.get(name, [""])[-1].lower() in {"1", "true"}


def _make_json_answer(value: Any, status: int = 200, **headers: str) -> Answer:
    return Answer(status, json.dumps(value).encode(), {"Content-Type": "application/json", **headers})


def whoami(call: Call) -> Answer:
    account = call.signed
    role = "write" if account.write else "read"
    orgs = [{"type": "org", "name": name, "roleInOrg": role} for name in account.organisations]
    auth = {"type": "access_token", "accessToken": {"displayName": "test", "role": role}}
    return _make_json_answer({"type": "user", "name": account.name, "orgs": orgs, "auth": auth})


def create(call: Call) -> Answer:
    account, request = call.signed, call.json
    namespace, kind = request.get("organization") or account.name, request.get("type") or "model"
    if not account.may_write(namespace):
        raise HubError(403, f'You don\'t have the rights to create a {kind} under the namespace "{namespace}"')
    if kind == "space" and request.get("sdk") not in SDKS:
        raise HubError(400, f'"sdk" must be one of {SDKS}')
    if kind == "space" and request["sdk"] != "static" and namespace in call.hub.unpaid:
        raise HubError(402, "Static Spaces are free for everyone, others on free hardware need a paid plan.")
    identifier = f"{namespace}/{request['name']}"
    existing = call.hub.repositories.get((kind, identifier))
    if existing:
        message = f"You already created this {kind} repo"
        raise HubError(409, message, url=f"{call.hub.url}/{existing.prefix}", name=identifier)
    unsaid = "private" if namespace in call.hub.private_by_default else "public"
    private = request.get("visibility", unsaid) == "private"
    repository = call.hub.create(kind, identifier, private, request.get("sdk"))
    return _make_json_answer({"url": f"{call.hub.url}/{repository.prefix}", "name": identifier, "id": identifier})


def validate_yaml(call: Call) -> Answer:
    request = call.json
    faults = [{"message": fault} for fault in find_card_faults(request["content"], request.get("repoType") or "model")]
    warnings = (
        [] if faults or parse_front_matter(request["content"]) else [{"message": "empty or missing yaml metadata"}]
    )
    return _make_json_answer({"errors": faults, "warnings": warnings}, 400 if faults else 200)


def preupload(call: Call) -> Answer:
    held = call.repository(write=True).at(call.path_fields["revision"]).files
    files = []
    rules = call.json.get("gitIgnore", held[".gitignore"].content.decode() if ".gitignore" in held else "")
    for file in call.json["files"]:
        mode = "lfs" if is_lfs(file["path"], file["size"], base64.b64decode(file["sample"])) else "regular"
        published_file = held.get(file["path"])
        oid = published_file and (
            published_file.sha256 if published_file.lfs else published_file.oid
        )  # lets clients skip unchanged files
        ignored = is_ignored(file["path"], rules)
        files.append({"path": file["path"], "uploadMode": mode, "shouldIgnore": ignored, "oid": oid})
    return _make_json_answer({"files": files})


def lfs_batch(call: Call) -> Answer:
    """Return the upload addresses of large files."""
    repository, objects = call.repository(write=True), []
    for object_request in call.json["objects"]:
        object_reply = {"oid": object_request["oid"], "size": object_request["size"]}
        if object_request["oid"] not in repository.blobs:
            verify = f"{call.hub.url}/{repository.prefix}.git/info/lfs/verify"
            upload = _sign_store_url(call.hub, repository, object_request["oid"])
            object_reply["actions"] = {"upload": {"href": upload}, "verify": {"href": verify}}
        objects.append(object_reply)
    return _make_json_answer({"transfer": "basic", "objects": objects})


def _sign_store_url(hub: Hub, repository: Repository, oid: str) -> str:
    """Sign a store address, which permits one operation without a token."""
    return f"{hub.store_url}/lfs/{repository.prefix}/{oid}?signature={SIGNATURE}"


def put_blob(call: Call) -> Answer:
    """Write a blob to the store."""
    repository = call.hub.repositories[call.path_fields.get("kind") or "model", call.path_fields["id"]]
    if hashlib.sha256(call.body).hexdigest() != call.path_fields["oid"]:
        raise HubError(400, "the content is not what its sha256 says")
    repository.blobs[call.path_fields["oid"]] = call.body
    return Answer()


def get_blob(call: Call) -> Answer:
    """Read a blob from the store."""
    repository = call.hub.repositories[call.path_fields.get("kind") or "model", call.path_fields["id"]]
    return _select_range(
        repository.blobs[call.path_fields["oid"]], call.headers, {"ETag": f'"{call.path_fields["oid"]}"'}
    )


def verify(call: Call) -> Answer:
    blob = call.repository(write=True).blobs.get(call.json["oid"])
    if blob is None or len(blob) != call.json["size"]:
        raise HubError(404, "no such object, or of another size")
    return _make_json_answer({})


def commit(call: Call) -> Answer:
    repository = call.repository(write=True)
    if call.path_fields["revision"] != "main":
        raise HubError(404, f"Invalid rev id: {call.path_fields['revision']}", "RevisionNotFound")
    header, changes = read_changes(repository, iter(call.body.splitlines()))
    if header.get("parentCommit", repository.commits[-1].oid) != repository.commits[-1].oid:
        raise HubError(412, "A commit has happened since. Please refresh and try again.")
    card = changes.get("README.md")
    if card and (faults := find_card_faults(card.content.decode(), repository.kind)):
        raise HubError(400, f"Invalid metadata in README.md: {'; '.join(faults)}")
    new_commit = repository.commit(header["summary"], changes)
    page = f"{call.hub.url}/{repository.prefix}/commit/{new_commit.oid}"
    return _make_json_answer({"success": True, "commitOid": new_commit.oid, "commitUrl": page, "hookOutput": ""})


def info(call: Call) -> Answer:
    repository = call.repository()
    commit = repository.at(call.path_fields.get("revision") or "main")
    siblings = []
    for path, file in commit.files.items():
        more = file.described(path)
        blob = {"size": more["size"], "blobId": more["oid"]}
        if file.lfs:
            blob["lfs"] = {"sha256": file.sha256, "size": more["size"], "pointerSize": more["lfs"]["pointerSize"]}
        siblings.append({"rfilename": path, **(blob if _is_on(call.query, "blobs") else {})})
    card = commit.files.get("README.md")
    details = {
        "id": repository.id, "author": repository.id.split("/")[0], "sha": commit.oid, "siblings": siblings,
        "createdAt": repository.commits[0].date, "lastModified": commit.date, "private": repository.private,
        "gated": repository.gated, "disabled": False, "tags": [], "downloads": 0, "likes": 0,
        "cardData": parse_front_matter(card.content.decode()) if card else None,
    }  # fmt: skip
    return _make_json_answer({**details, "sdk": repository.sdk} if repository.sdk else details)


def tree(call: Call) -> Answer:
    repository, folder = call.repository(), (call.path_fields.get("path") or "").strip("/")
    commit = repository.at(call.path_fields["revision"])
    if folder and folder not in commit.folders:
        raise HubError(404, f"{folder} does not exist on {call.path_fields['revision']}", "EntryNotFound")
    paths = [p for p in (*commit.folders, *commit.files) if p != folder and is_within(p, folder)]
    if not _is_on(call.query, "recursive"):
        paths = [p for p in paths if "/" not in p[len(folder) :].lstrip("/")]
    return _make_json_answer([repository.entry(path, commit, _is_on(call.query, "expand")) for path in paths])


def paths_info(call: Call) -> Answer:
    repository = call.repository()
    commit = repository.at(call.path_fields["revision"])
    form = parse_qs(call.body.decode())
    paths = {*commit.folders, *commit.files}
    return _make_json_answer(
        [repository.entry(p, commit, _is_on(form, "expand")) for p in form.get("paths", ()) if p in paths]
    )


def settings(call: Call) -> Answer:
    repository = call.repository(write=True)
    request = call.json
    if request.get("gated", False) not in ("auto", "manual", False):
        raise HubError(400, '"gated" must be one of auto, manual, false')
    repository.gated = request.get("gated", repository.gated)
    repository.private = request.get("visibility", "private" if repository.private else "public") == "private"
    return _make_json_answer({"gated": repository.gated, "private": repository.private})


def resolve(call: Call) -> Answer:
    """Redirect a download to the store or to the Hub's resolve cache."""
    repository = _require_readable(call)
    commit = repository.at(call.path_fields["revision"])
    headers = {"X-Repo-Commit": commit.oid}
    file = commit.files.get(call.path_fields["path"])
    if file is None:
        raise HubError(404, "Entry not found", "EntryNotFound", headers=headers)
    if file.lfs:
        headers |= {
            "Location": _sign_store_url(call.hub, repository, file.sha256),
            "X-Linked-Size": str(len(file.content)),
        }
        return Answer(302, headers=headers | {"X-Linked-ETag": f'"{file.sha256}"', "ETag": f'"{file.sha256}"'})
    place = f"/api/resolve-cache/{repository.kind}s/{repository.id}/{commit.oid}/{quote(call.path_fields['path'])}"
    return Answer(307, headers=headers | {"Location": place, "ETag": f'"{file.oid}"'})


def resolve_cache(call: Call) -> Answer:
    commit = _require_readable(call).at(call.path_fields["revision"])
    file = commit.files[call.path_fields["path"]]
    return _select_range(file.content, call.headers, {"X-Repo-Commit": commit.oid, "ETag": f'"{file.oid}"'})


def _require_readable(call: Call) -> Repository:
    """Return the repository if the account may read its files.

    A gated repository restricts reading to its organisation; anyone may list its files.
    """
    repository = call.repository()
    if repository.gated and not (call.account and call.account.belongs_to(repository.id.split("/")[0])):
        raise HubError(403 if call.account else 401, f"Access to {repository.id} is restricted", "GatedRepo")
    return repository


def _select_range(content: bytes, request_headers: Headers, headers: Mapping[str, str]) -> Answer:
    """Return the bytes of a file that the request's Range header selects."""
    size = len(content)
    headers = {**headers, "Accept-Ranges": "bytes", "Content-Type": "application/octet-stream"}
    range_match = re.fullmatch(r"bytes=(\d*)-(\d*)", request_headers.get("Range", ""))
    if not range_match or range_match[0] == "bytes=-":
        return Answer(200, content, headers)
    first_byte = int(range_match[1]) if range_match[1] else max(size - int(range_match[2]), 0)
    last_byte = min(int(range_match[2]), size - 1) if range_match[1] and range_match[2] else size - 1
    if first_byte > last_byte:
        raise HubError(416, "Requested range not satisfiable", headers={**headers, "Content-Range": f"bytes */{size}"})
    return Answer(
        206, content[first_byte : last_byte + 1], {**headers, "Content-Range": f"bytes {first_byte}-{last_byte}/{size}"}
    )


def answer(
    hub: Hub, method: str, address: str, headers: Headers, body: bytes, store: bool = False
) -> tuple[str, Answer]:
    """Dispatch a request and return the name of its endpoint ("" for a 404) and the response.

    Args:
        hub: The Hub that receives the request.
        method: The HTTP method.
        address: The path with the query.
        headers: The request headers.
        body: The request body.
        store: Whether the request went to the store.
    """
    url = urlsplit(address)
    query = parse_qs(url.query)
    if store and ("Authorization" in headers or query.get("signature") != [SIGNATURE]):
        return "refused", _make_json_answer({"error": "the store takes signed addresses, and no token"}, 400)
    for route_method, pattern, endpoint in STORE if store else ROUTES:
        match = re.fullmatch(pattern, url.path)
        if not match or route_method != {"HEAD": "GET"}.get(method, method):
            continue
        path_fields = {name: unquote(value) for name, value in match.groupdict().items() if value is not None}
        try:
            return endpoint.__name__, endpoint(Call(hub, url.path, path_fields, query, headers, body))
        except HubError as refused:
            more = dict(refused.details)
            error_headers = {"X-Error-Message": str(refused), **more.pop("headers", {})}
            error_headers |= {"X-Error-Code": refused.code} if refused.code else {}
            return endpoint.__name__, _make_json_answer(
                {"error": str(refused), **more}, refused.status, **error_headers
            )
    return "", _make_json_answer({"error": "this Hub has no such endpoint"}, 404)


SIGNATURE = "good-for-one-request"
_API = r"/api/(?P<kind>model|dataset|space)s/(?P<id>[^/]+/[^/]+)"
_PAGE = r"/(?:(?P<kind>dataset|space)s/)?(?P<id>[^/]+/[^/]+?)"
ROUTES = (
    ("GET", "/api/whoami-v2", whoami),
    ("POST", "/api/repos/create", create),
    ("POST", "/api/validate-yaml", validate_yaml),
    ("POST", _API + "/preupload/(?P<revision>[^/]+)", preupload),
    ("POST", _PAGE + r"\.git/info/lfs/objects/batch", lfs_batch),
    ("POST", _PAGE + r"\.git/info/lfs/verify", verify),
    ("POST", _API + "/commit/(?P<revision>[^/]+)", commit),
    ("GET", _API + "(?:/revision/(?P<revision>[^/]+))?", info),
    ("GET", _API + "/tree/(?P<revision>[^/]+)(?:/(?P<path>.*))?", tree),
    ("POST", _API + "/paths-info/(?P<revision>[^/]+)", paths_info),
    ("PUT", _API + "/settings", settings),
    ("GET", _PAGE + "/resolve/(?P<revision>[^/]+)/(?P<path>.+)", resolve),
    ("GET", _API.replace("/api/", "/api/resolve-cache/") + "/(?P<revision>[0-9a-f]{40})/(?P<path>.+)", resolve_cache),
)
STORE = (
    ("PUT", "/lfs" + _PAGE + "/(?P<oid>[0-9a-f]{64})", put_blob),
    ("GET", "/lfs" + _PAGE + "/(?P<oid>[0-9a-f]{64})", get_blob),
)
