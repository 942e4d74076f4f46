"""The loopback Hub, tested with the real clients."""

from __future__ import annotations

from pathlib import Path

import pytest
from huggingface_hub import CommitOperationAdd, HfApi, hf_hub_download
from huggingface_hub.errors import (
    HfHubHTTPError,
    RemoteEntryNotFoundError,
    RepositoryNotFoundError,
    RevisionNotFoundError,
)
from huggingface_hub.utils.sha import git_hash
from hypothesis import given
from hypothesis import strategies as st

from tests.hub.endpoints import SIGNATURE, answer
from tests.hub.repositories import File, Repository
from tests.hub.server import Account, Hub

ID = "clinic/audit"
CARD = b"---\nconfigs:\n- config_name: presence\n  data_files: presence/*.parquet\n---\n# Audit\n"
TABLE = b"PAR1" + bytes(3000) + b"PAR1"


@pytest.fixture
def api(hub: Hub) -> HfApi:
    return HfApi(endpoint=hub.url, token=hub.token)


@pytest.fixture
def dataset(hub: Hub, api: HfApi) -> Repository:
    """Empty dataset repository created by the client."""
    assert api.create_repo(ID, repo_type="dataset") == f"{hub.url}/datasets/{ID}"
    return hub.repositories["dataset", ID]


def write(api: HfApi, files: dict[str, bytes], **more) -> str:
    operations = [CommitOperationAdd(path, content) for path, content in files.items()]
    return api.create_commit(ID, operations, repo_type="dataset", commit_message="more", **more).oid


def test_a_commit_of_a_text_and_a_parquet_file(hub, api, dataset, tmp_path):
    files = {"README.md": CARD, "presence/test-0.parquet": TABLE}
    oid = write(api, files)
    listed = {f.path: f for f in api.list_repo_tree(ID, repo_type="dataset", recursive=True)}
    assert set(listed) == {".gitattributes", "presence", *files}
    assert listed["README.md"].blob_id == git_hash(CARD)
    assert listed["README.md"].lfs is None
    lfs = listed["presence/test-0.parquet"].lfs
    assert (lfs.size, lfs.sha256) == (len(TABLE), File(TABLE, lfs=True).sha256)
    for path, content in files.items():
        downloaded_path = hf_hub_download(
            ID, path, repo_type="dataset", endpoint=hub.url, token=hub.token, cache_dir=tmp_path
        )
        assert Path(downloaded_path).read_bytes() == content
        assert oid in downloaded_path
    dataset_info = api.dataset_info(ID, files_metadata=True)
    assert dataset_info.sha == oid == dataset.commits[-1].oid
    assert dataset_info.card_data.configs[0]["config_name"] == "presence"
    assert {s.rfilename: s.size for s in dataset_info.siblings if s.rfilename in files} == {
        p: len(c) for p, c in files.items()
    }
    # The client requests this once in a process when an agent runs it.
    assert {r.path for r in hub.requests if not r.route} <= {"/api/agent-harnesses"}
    # The commit carries the text, the store carries the table, and the store receives no token.
    assert [(r.method, r.status, r.has_token) for r in hub.requests if r.store] == [
        ("PUT", 200, False), ("GET", 200, False)
    ]  # fmt: skip
    assert {(r.status, r.has_token) for r in hub.requests if r.route and not r.store} == {
        (200, True),
        (302, True),
        (307, True),
    }


def make_client(api: HfApi, token: str | bool) -> HfApi:
    return HfApi(endpoint=api.endpoint, token=token)


@pytest.mark.parametrize(
    ("call", "error", "status"),
    [
        (lambda api: make_client(api, "hf_unknown").whoami(), HfHubHTTPError, 401),
        (lambda api: make_client(api, "hf_unknown").create_repo("clinic/x"), HfHubHTTPError, 401),
        (lambda api: make_client(api, False).create_repo("clinic/x"), HfHubHTTPError, 401),
        (lambda api: make_client(api, "hf_reader").create_repo("clinic/x"), HfHubHTTPError, 403),
        (lambda api: api.create_repo("elsewhere/x"), HfHubHTTPError, 403),
        (lambda api: api.create_repo(ID, repo_type="dataset"), HfHubHTTPError, 409),
        (lambda api: api.dataset_info("clinic/none"), RepositoryNotFoundError, 404),
        (lambda api: make_client(api, False).dataset_info("clinic/none"), RepositoryNotFoundError, 401),
        (lambda api: make_client(api, "hf_bob").dataset_info("clinic/hidden"), RepositoryNotFoundError, 404),
        (lambda api: api.dataset_info(ID, revision="v9"), RevisionNotFoundError, 404),
        (lambda api: list(api.list_repo_tree(ID, "none", repo_type="dataset")), RemoteEntryNotFoundError, 404),
        (lambda api: api.hf_hub_download(ID, "none.txt", repo_type="dataset"), RemoteEntryNotFoundError, 404),
        (lambda api: api.delete_file("none.txt", ID, repo_type="dataset"), RemoteEntryNotFoundError, 404),
        (lambda api: write(api, {"a.txt": b""}, parent_commit="0" * 40), HfHubHTTPError, 412),
        (lambda api: write(make_client(api, "hf_bob"), {"a.txt": b""}), HfHubHTTPError, 403),
        (lambda api: write(api, {"README.md": b"---\nconfigs: [\n---\n"}), ValueError, None),
    ],
)
def test_refusals_are_the_clients_own_errors(hub, api, dataset, call, error, status):
    hub.tokens |= {"hf_bob": Account("bob"), "hf_reader": Account("carol", ("clinic",), write=False)}
    hub.add("dataset", "hidden", {"a.txt": b"a"}, private=True)
    with pytest.raises(error) as caught:
        call(api)
    assert status is None or caught.value.response.status_code == status
    assert set(dataset.files) == {".gitattributes"}
    assert set(hub.repositories) == {("dataset", ID), ("dataset", "clinic/hidden")}


@pytest.mark.parametrize(
    ("headers", "query", "status"),
    [
        ({}, f"?signature={SIGNATURE}", 200),
        ({"Authorization": "Bearer x"}, f"?signature={SIGNATURE}", 400),
        ({}, "", 400),
    ],
)
def test_the_store_takes_signed_addresses_and_no_token(headers, query, status):
    hub = Hub()
    repository = hub.add("dataset", "audit", {"a.parquet": TABLE})
    (oid,) = repository.blobs
    assert answer(hub, "GET", f"/lfs/datasets/{ID}/{oid}{query}", headers, b"", store=True)[1].status == status


@given(st.binary(min_size=1, max_size=40), st.integers(0, 50), st.integers(0, 50))
def test_a_range_is_a_slice(content, first_byte, last_byte):
    hub = Hub()
    oid = hub.add("model", "m", {"f": content}).commits[-1].oid
    for header, expected in {
        f"bytes={first_byte}-{last_byte}": content[first_byte : last_byte + 1],
        f"bytes={first_byte}-": content[first_byte:],
        f"bytes=-{last_byte}": content[-last_byte:] if last_byte else b"",
    }.items():
        _, reply = answer(hub, "GET", f"/api/resolve-cache/models/clinic/m/{oid}/f", {"Range": header}, b"")
        assert (reply.status, reply.body) == (206, expected) if expected else reply.status == 416
