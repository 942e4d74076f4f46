"""The loopback Hub, asked by the clients that tests use it with."""

from __future__ import annotations

import json
from base64 import b64encode
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from huggingface_hub import CommitOperationAdd, CommitOperationDelete, HfApi, HfFileSystem, hf_hub_download
from huggingface_hub.errors import (
    HfHubHTTPError,
    RemoteEntryNotFoundError,
    RepositoryNotFoundError,
    RevisionNotFoundError,
)
from huggingface_hub.utils.sha import git_hash
from hypothesis import given
from hypothesis import strategies as st

from tests.hub.audit_dataset import CARD, ID, parquet
from tests.hub.endpoints import answer
from tests.hub.repositories import File, Repository
from tests.hub.server import Account, Hub

TABLE = parquet(0)


@pytest.fixture
def api(hub: Hub) -> HfApi:
    return HfApi(endpoint=hub.url, token=hub.token)


@pytest.fixture
def dataset(hub: Hub, api: HfApi) -> Repository:
    """An empty data set, made by the client."""
    assert api.create_repo(ID, repo_type="dataset") == f"{hub.url}/datasets/{ID}"
    return hub.repositories["dataset", ID]


def write(api: HfApi, files: dict[str, bytes], **more) -> str:
    operations = [CommitOperationAdd(path, content) for path, content in files.items()]
    return api.create_commit(ID, operations, repo_type="dataset", commit_message="more", **more).oid


def test_who_holds_the_token(hub):
    told = HfApi().whoami()  # this process takes it for the Hub
    assert (told["name"], [org["name"] for org in told["orgs"]]) == ("alice", [hub.organisation])


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
        there = hf_hub_download(ID, path, repo_type="dataset", endpoint=hub.url, cache_dir=tmp_path)
        assert Path(there).read_bytes() == content
        assert oid in there
    told = api.dataset_info(ID, files_metadata=True)
    assert told.sha == oid == dataset.commits[-1].oid
    assert told.card_data.configs[0]["config_name"] == "presence"
    assert {s.rfilename: s.size for s in told.siblings if s.rfilename in files} == {p: len(c) for p, c in files.items()}
    assert len(hub.asked("PUT")) == 1  # the text travels in the commit
    assert [r for r in hub.requests if not r.route] == []


def test_what_is_there_already_is_not_sent_again(hub, api, dataset):
    first = write(api, {"README.md": CARD, "a.parquet": TABLE})
    sent, commits = len(hub.requests), len(dataset.commits)
    assert write(api, {"README.md": CARD, "a.parquet": TABLE}) == first
    assert len(dataset.commits) == commits
    assert hub.asked("POST", "/commit/", since=sent) == hub.asked("PUT", since=sent) == []
    write(api, {"b.parquet": TABLE})  # the same content under another name
    assert hub.asked("PUT", since=sent) == []
    assert dataset.files["b.parquet"] == TABLE


def test_a_folder_is_published_and_later_published_anew(hub, api, dataset, tmp_path):
    folder = tmp_path / "build"
    (folder / "presence").mkdir(parents=True)
    (folder / "README.md").write_bytes(CARD)
    (folder / "presence" / "old.parquet").write_bytes(TABLE)
    first = api.upload_folder(repo_id=ID, folder_path=folder, repo_type="dataset").oid
    api.create_tag(ID, tag="v1", repo_type="dataset")
    (folder / "presence" / "old.parquet").rename(folder / "presence" / "new.parquet")
    api.upload_folder(repo_id=ID, folder_path=folder, repo_type="dataset", delete_patterns="*.parquet")
    assert set(api.list_repo_files(ID, repo_type="dataset")) == {".gitattributes", "README.md", "presence/new.parquet"}
    for revision in (first, "v1"):
        assert "presence/old.parquet" in api.list_repo_files(ID, repo_type="dataset", revision=revision)
    assert [len(commit.files) for commit in dataset.commits] == [1, 3, 3]
    api.create_commit(ID, [CommitOperationDelete("presence/")], repo_type="dataset", commit_message="less")
    assert set(dataset.files) == {".gitattributes", "README.md"}
    assert [entry.path for entry in api.get_paths_info(ID, ["README.md", "presence"], repo_type="dataset")] == [
        "README.md"
    ]


def test_the_last_change_of_a_file_and_of_its_folder(api, dataset):
    first = write(api, {"a/one.txt": b"1", "b.txt": b"1"})
    second = write(api, {"a/two.txt": b"2"})
    entries = api.list_repo_tree(ID, repo_type="dataset", recursive=True, expand=True)
    changed = {entry.path: entry.last_commit.oid for entry in entries}
    assert (changed["a"], changed["a/one.txt"], changed["b.txt"]) == (second, first, first)


def by(api: HfApi, token: str | bool) -> HfApi:
    return HfApi(endpoint=api.endpoint, token=token)


@pytest.mark.parametrize(
    ("call", "error", "status"),
    [
        (lambda api: by(api, "hf_unknown").whoami(), HfHubHTTPError, 401),
        (lambda api: by(api, "hf_unknown").create_repo("clinic/x"), HfHubHTTPError, 401),
        (lambda api: by(api, False).create_repo("clinic/x"), HfHubHTTPError, 401),
        (lambda api: by(api, "hf_reader").create_repo("clinic/x"), HfHubHTTPError, 403),
        (lambda api: api.create_repo("elsewhere/x"), HfHubHTTPError, 403),
        (lambda api: api.create_repo(ID, repo_type="dataset"), HfHubHTTPError, 409),
        (lambda api: api.dataset_info("clinic/none"), RepositoryNotFoundError, 404),
        (lambda api: by(api, False).dataset_info("clinic/none"), RepositoryNotFoundError, 401),
        (lambda api: by(api, "hf_bob").dataset_info("clinic/hidden"), RepositoryNotFoundError, 404),
        (lambda api: api.dataset_info(ID, revision="v9"), RevisionNotFoundError, 404),
        (lambda api: list(api.list_repo_tree(ID, "none", repo_type="dataset")), RemoteEntryNotFoundError, 404),
        (lambda api: api.hf_hub_download(ID, "none.txt", repo_type="dataset"), RemoteEntryNotFoundError, 404),
        (lambda api: api.delete_file("none.txt", ID, repo_type="dataset"), RemoteEntryNotFoundError, 404),
        (lambda api: write(api, {"a.txt": b""}, parent_commit="0" * 40), HfHubHTTPError, 412),
        (lambda api: write(by(api, "hf_bob"), {"a.txt": b""}), HfHubHTTPError, 403),
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


def test_a_private_repository_is_there_for_its_organisation(hub, api):
    api.create_repo(ID, repo_type="dataset", private=True)
    assert api.dataset_info(ID).private
    api.create_repo(ID, repo_type="dataset", exist_ok=True)
    assert api.repo_exists(ID, repo_type="dataset")
    assert not HfApi(endpoint=hub.url, token=False).repo_exists(ID, repo_type="dataset")


def test_a_space_needs_its_options(hub, api):
    api.create_repo("clinic/twice", repo_type="space", space_sdk="gradio")
    assert hub.repositories["space", "clinic/twice"].files["README.md"].startswith(b"---\ntitle: twice\nsdk: gradio")
    card = b"---\ntitle: twice\nsdk: gradio\ncolorFrom: mauve\n---\n"
    with pytest.raises(ValueError, match="colorFrom"):
        api.upload_file(path_or_fileobj=card, path_in_repo="README.md", repo_id="clinic/twice", repo_type="space")
    assert api.space_info("clinic/twice").sdk == "gradio"


def test_the_file_system_reads_parts_of_a_file(hub):
    hub.add("dataset", "audit", {"a.parquet": TABLE})
    files = HfFileSystem(endpoint=hub.url, token=hub.token, skip_instance_cache=True)
    path = f"datasets/{ID}/a.parquet"
    assert files.cat_file(path, start=10, end=30) == TABLE[10:30]
    assert pq.ParquetFile(files.open(path)).read_row_group(1)["id"][0].as_py() == "row-1000"
    asked = hub.asked("GET", r"a\.parquet$")
    assert asked
    assert {request.status for request in asked} == {206}


@given(st.binary(min_size=1, max_size=40), st.integers(0, 50), st.integers(0, 50))
def test_a_range_is_a_slice(content, first, last):
    hub = Hub()
    hub.add("model", "m", {"f": content})
    for header, expected in {
        f"bytes={first}-{last}": content[first : last + 1],
        f"bytes={first}-": content[first:],
        f"bytes=-{last}": content[-last:] if last else b"",
    }.items():
        _, found = answer(hub, "GET", "/clinic/m/resolve/main/f", {"Range": header}, b"")
        assert (found.status, found.body) == (206, expected) if expected else found.status == 416


def line(key: str, **value) -> bytes:
    return json.dumps({"key": key, "value": value}).encode() + b"\n"


TEXT = line("file", path="a.txt", content=b64encode(b"a").decode(), encoding="base64")


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("PUT", f"/datasets/{ID}.git/lfs/{'0' * 64}", b"other bytes than its sha256"),
        ("POST", f"/api/datasets/{ID}/commit/main", TEXT + line("lfsFile", path="b.parquet", oid="0" * 64, size=1)),
        ("POST", f"/api/datasets/{ID}/commit/main", TEXT + TEXT.replace(b"a.txt", b"a.parquet")),
        ("POST", f"/api/datasets/{ID}/commit/main", TEXT + line("deletedFile", path="none.txt")),
        ("POST", f"/api/datasets/{ID}/commit/v1", line("header", summary="c") + TEXT),
        ("GET", "/api/datasets/unknown", b""),
    ],
)
def test_what_no_client_should_ask_is_refused_and_changes_nothing(method, path, body):
    hub = Hub()
    repository = hub.add("dataset", "audit", {})
    before = len(repository.commits)
    _, found = answer(hub, method, path, {"Authorization": f"Bearer {hub.token}"}, body)
    assert found.status in {400, 404}
    assert (len(repository.commits), repository.blobs) == (before, {})


@given(st.lists(st.dictionaries(st.sampled_from(["a", "b/c", "b/d"]), st.none() | st.binary(max_size=3)), max_size=5))
def test_each_commit_is_a_state_that_stays(changes):
    repository, states = Repository("dataset", ID), []
    for change in changes:
        states.append({**(states[-1] if states else {}), **change})
        repository.commit("c", {path: None if c is None else File(c, lfs=False) for path, c in change.items()})
    expected = [{path: content for path, content in state.items() if content is not None} for state in states]
    oids = [commit.oid for commit in repository.commits]
    assert len(set(oids)) == len(changes)
    assert [{p: f.content for p, f in repository.at(oid).files.items()} for oid in oids] == expected


# What the client does when the Hub fails. Retries inside it wait for a second.


@pytest.mark.parametrize("fault", ["fail", "drop"])
def test_the_client_repeats_a_failed_upload_itself(hub, api, dataset, fault):
    getattr(hub, fault)("PUT", r"\.git/lfs/")
    write(api, {"README.md": CARD, "a.parquet": TABLE})
    assert [r.status for r in hub.asked("PUT")] == [500 if fault == "fail" else None, 200]
    assert dataset.files["a.parquet"] == TABLE
    assert len(dataset.commits) == 2


def test_an_upload_that_is_refused_leaves_no_commit_and_can_be_repeated(hub, api, dataset):
    hub.fail("PUT", r"\.git/lfs/", status=403)  # no retry on this one
    with pytest.raises(RuntimeError, match=r"Error while uploading 'a\.parquet'"):
        write(api, {"README.md": CARD, "a.parquet": TABLE})
    assert len(dataset.commits) == 1
    write(api, {"README.md": CARD, "a.parquet": TABLE})
    assert dataset.files["a.parquet"] == TABLE


def test_a_failed_commit_is_raised_and_its_repeat_uploads_nothing_again(hub, api, dataset):
    hub.fail("POST", "/commit/")
    with pytest.raises(HfHubHTTPError):
        write(api, {"README.md": CARD, "a.parquet": TABLE})
    assert len(dataset.commits) == 1
    write(api, {"README.md": CARD, "a.parquet": TABLE})
    assert len(dataset.commits) == 2
    assert len(hub.asked("PUT")) == 1


def test_a_commit_whose_answer_is_lost_is_not_made_twice(hub, api, dataset):
    hub.lose("POST", "/commit/")
    with pytest.raises(Exception, match=r"disconnected|reset"):
        write(api, {"README.md": CARD, "a.parquet": TABLE})
    assert len(dataset.commits) == 2
    assert write(api, {"README.md": CARD, "a.parquet": TABLE}) == dataset.commits[-1].oid
    assert len(dataset.commits) == 2


def test_after_stop_nobody_is_answered(hub, api, dataset):
    hub.stop()
    with pytest.raises(Exception, match=r"disconnected|refused|reset"):
        api.whoami()
