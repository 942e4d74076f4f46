"""Publishing with Hub failures, foreign changes and existing repositories."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import time
import tracemalloc
from datetime import UTC, datetime
from pathlib import Path

import pytest

from medfaith.cards.publish import hub_client, upload, upload_plan
from medfaith.loaders.errors import InputError, MedfaithError
from tests.hub.repositories import File, Repository
from tests.hub.server import Account
from tests.support.publishing import CHEXPERT, METRIC, OPENI


def copy_edited(staged: Path, folder: Path, change) -> Path:
    """Copy a staged folder and change its build.json."""
    copy = shutil.copytree(staged, folder / staged.name)
    record = json.loads((copy / "build.json").read_text())
    change(record)
    (copy / "build.json").write_text(json.dumps(record))
    return copy


def add_commit(repository, title: str, files: dict[str, bytes | None]) -> None:
    changes = {path: None if content is None else File(content, lfs=False) for path, content in files.items()}
    repository.commit(title, changes)


# Failed requests.


@pytest.mark.parametrize(
    ("fault", "method", "pattern", "more"),
    [
        ("fail", "PUT", "lfs", {"status": 403}),  # the client itself retries status 500 and a cut connection
        ("fail", "POST", "/validate-yaml", {"status": 502}),
        ("fail", "POST", "/commit/", {"status": 500}),
        ("drop", "POST", "/commit/", {}),
    ],
)
def test_an_upload_that_breaks_off_changes_nothing_and_its_repetition_is_whole(
    hub, put, staged, fault, method, pattern, more
):
    getattr(hub, fault)(method, pattern, **more)
    with pytest.raises(MedfaithError, match="what to do: "):
        put(staged)
    (repository,) = hub.repositories.values()
    assert list(repository.files) == [".gitattributes"]

    hub._faults.clear()
    arrived, before = len(repository.blobs), len(hub.requests)
    put(staged)
    assert get_parquet_files(repository) == read_parquet_files(staged)
    assert len(hub.asked("PUT", since=before)) == len(repository.blobs) - arrived  # received files are not sent again


@pytest.mark.parametrize("fault", ["fail", "drop"])
def test_a_large_file_that_does_not_arrive_at_once_is_sent_again(hub, put, staged, fault, monkeypatch):
    monkeypatch.setattr(time, "sleep", lambda _: None)  # between the client's attempts
    getattr(hub, fault)("PUT", "lfs")
    put(staged)
    (repository,) = hub.repositories.values()
    assert get_parquet_files(repository) == read_parquet_files(staged)


def get_parquet_files(repository) -> dict[str, bytes]:
    return {path: content for path, content in repository.files.items() if path.endswith(".parquet")}


def read_parquet_files(folder: Path) -> dict[str, bytes]:
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*.parquet")}


# Unreadable contents of the repository.


@pytest.mark.parametrize(
    ("path", "fault", "more", "complaint"),
    [
        (
            "/api/datasets/.*openi$",
            "fail",
            {"status": 501},
            "the Hub answers 501",
        ),  # the client retries status 500 for minutes
        ("/api/datasets/.*openi$", "drop", {}, "cannot be reached"),
        ("/tree/", "fail", {"status": 501}, "the Hub answers 501"),
        ("/build.json", "fail", {"status": 501}, "the Hub answers 501"),
        ("/build.json", "fail", {"status": 404}, "the Hub answers 404"),
        ("/build.json", "fail", {"status": 403}, "log in with a token"),
        ("/build.json", "drop", {}, "cannot be reached"),
    ],
)
def test_rows_are_not_exchanged_where_the_hub_does_not_say_which_ones_are_there(
    path, fault, more, complaint, hub, put, staged, tmp_path
):
    put(staged)
    edited_folder = copy_edited(staged, tmp_path, lambda record: record["splits"].clear())
    for method in ("GET", "HEAD"):
        getattr(hub, fault)(method, path, times=50, **more)
    with pytest.raises(MedfaithError, match=complaint):
        put(edited_folder)
    (repository,) = hub.repositories.values()
    assert len(repository.commits) == 2


@pytest.mark.parametrize(
    "content",
    [b"not JSON", b"[]", b"{}", b'{"benchmark": "b", "splits": {}}', "\N{SNOWMAN}".encode("utf-16")],
)
def test_a_record_that_cannot_be_read_stops_an_upload(content, hub, put, staged):
    hub.add("dataset", OPENI, {"build.json": content})
    with pytest.raises(InputError, match="medfaith did not publish it"):
        put(staged)
    assert put(staged, force=True)


# Foreign files in the repository.


def test_a_data_set_of_another_benchmark_is_not_replaced_unasked(hub, put, staged, tmp_path):
    def other(record):
        record["source"] = "chexpert"
        record["sources"] = {"chexpert": record["sources"]["openi"]}

    files = {"build.json": (copy_edited(staged, tmp_path, other) / "build.json").read_bytes()}
    repository = hub.add("dataset", OPENI, files)
    with pytest.raises(InputError, match=r"its build.json is of cxr-contrabench-chexpert: medfaith did not publish it"):
        put(staged)
    assert len(repository.commits) == 2


def test_a_space_is_replaced_unasked_only_with_the_tag_of_our_metrics(medfaith, hub):
    files = {"README.md": b"---\ntitle: mine\nsdk: gradio\ntags: [evaluate]\n---\n", "tpt.py": b"mine = 1\n"}
    theirs = hub.add("space", "tpt", files)
    status, _, err = medfaith(*METRIC)
    assert (status, "is no metric tagged medfaith: medfaith did not publish it" in err) == (2, True)
    assert theirs.files["tpt.py"] == files["tpt.py"]
    assert medfaith(*METRIC, "--force")[0] == 0
    add_commit(theirs, "medfaith 0.0: tpt", {"tpt.py": b"older = 1\n"})
    status, out, err = medfaith(*METRIC)
    assert status == 0, err
    assert "tpt.py" in out
    assert b"older" not in theirs.files["tpt.py"]


def test_what_the_hub_itself_put_into_a_new_space_is_no_obstacle(medfaith, hub):
    hub.fail("POST", "/commit/")
    assert medfaith(*METRIC)[0] == 2
    assert list(hub.repositories["space", "clinic/tpt"].files) == [".gitattributes", "README.md"]
    assert medfaith(*METRIC)[0] == 0


def test_a_card_that_was_edited_on_the_hub_is_replaced_only_with_force(hub, put, staged):
    put(staged)
    repository = hub.repositories["dataset", f"clinic/{OPENI}"]
    mine = repository.files["README.md"] + b"\nAsk us.\n"
    add_commit(repository, "Update README.md", {"README.md": mine})
    with pytest.raises(InputError, match=r"README\.md was changed there by another commit \('Update README\.md'\)"):
        put(staged)
    assert repository.files["README.md"] == mine
    assert put(staged, force=True).at
    assert repository.files["README.md"] != mine
    assert put(staged).at is None


def test_files_of_others_beside_ours_are_kept_and_no_obstacle(hub, plan, put, staged, tmp_path):
    theirs = {"eval.yaml": b"name: x\n", ".gitignore": b"*.tmp\n"}
    repository = hub.add("dataset", OPENI, theirs)
    assert put(staged).at
    theirs |= {"notes/method.md": b"# How\n", "figure.png": b"\x89PNG\0"}
    add_commit(repository, "Add notes", theirs)
    assert put(staged).at is None
    assert put(copy_edited(staged, tmp_path, lambda record: record | {})).at
    assert theirs.items() <= repository.files.items()
    assert {change.path for change in plan(staged).changes if change.kind == upload_plan.KEPT} == set(theirs)


def test_rows_of_others_among_ours_are_an_obstacle(hub, put, staged):
    put(staged)
    parquet_path = next(staged.glob("*/*.parquet"))
    added_path = (
        parquet_path.relative_to(staged).with_name(f"{parquet_path.name.split('-')[0]}-more.parquet").as_posix()
    )
    repository = hub.repositories["dataset", f"clinic/{OPENI}"]
    add_commit(repository, "Add rows", {added_path: b"PAR1"})
    with pytest.raises(InputError, match=f"{added_path} would be deleted"):
        put(staged)
    put(staged, force=True)
    assert added_path not in repository.files


# Contents of the repository after the commit.


def test_files_that_the_hub_leaves_out_are_named_and_the_next_run_is_whole(hub, put, staged):
    repository = hub.add("dataset", OPENI, {".gitignore": b"*.parquet\nbuild.json\n"})
    with pytest.raises(MedfaithError) as caught:
        put(staged)
    assert "build.json is missing; fewshot_absence/train-00000-of-00001.parquet is missing" in str(caught.value)
    assert f"delete .gitignore on {hub.url}/datasets/clinic/{OPENI}/tree/main" in str(caught.value)
    assert "build.json" not in repository.files
    add_commit(repository, "Delete .gitignore", {".gitignore": None})
    put(staged)
    assert "build.json" in repository.files


def test_files_that_the_hub_changes_are_named(hub, put, staged, monkeypatch):
    original_commit = Repository.commit

    def changing(self, title, changes):
        return original_commit(self, title, {**changes, "build.json": File(b"{}", lfs=False)})

    monkeypatch.setattr(Repository, "commit", changing)
    with pytest.raises(MedfaithError, match=r"does not hold what was sent: build.json is other\n.*run it again"):
        put(staged)


def test_splits_are_given_up_or_exchanged_only_with_force(hub, put, staged, tmp_path):
    put(staged)
    split = sorted(json.loads((staged / "build.json").read_text())["splits"])[0]
    less = copy_edited(staged, tmp_path / "less", lambda record: record["splits"].pop(split))
    changed_folder = copy_edited(
        staged, tmp_path / "other", lambda record: record["splits"][split].update(sha256="0" * 64)
    )
    for folder, message in ((less, "would be gone"), (changed_folder, "are others")):
        with pytest.raises(InputError, match=f"the rows of {split} {message}"):
            put(folder)
    assert len(hub.repositories["dataset", f"clinic/{OPENI}"].commits) == 2
    assert put(less, force=True).at
    assert put(staged).at  # more of the same


def test_hashes_with_keys_of_an_earlier_release_are_replaced_by_force_only(medfaith, hub, chexpert):
    publish = ("publish", chexpert, "--few-studies", "--org", hub.organisation)
    assert medfaith(*publish)[0] == 0
    repository = hub.repositories["dataset", f"clinic/{CHEXPERT}"]
    record = json.loads(repository.files["build.json"])
    del record["key_locks"]
    title = repository.commits[-1].title
    add_commit(repository, title, {"build.json": json.dumps(record).encode()})
    status, _, err = medfaith(*publish)
    assert status == 2
    assert "its hashes have keys of an earlier release" in err
    assert medfaith(*publish, "--force")[0] == 0


@pytest.mark.parametrize("is_new", [True, False])
def test_what_has_changed_since_the_plan_is_not_written_over(is_new, hub, plan, put, staged, tmp_path):
    if not is_new:
        put(staged)
    planned = plan(later := copy_edited(staged, tmp_path, lambda record: record | {}))
    if is_new:
        hub.add("dataset", OPENI, {"mine.csv": b"a\n"})
    else:
        add_commit(hub.repositories["dataset", f"clinic/{OPENI}"], "Add mine.csv", {"mine.csv": b"a\n"})
    with pytest.raises(MedfaithError, match="has changed meanwhile: run it again"):
        upload.upload(hub_client.get_client(), planned, later, message="later")
    repository = hub.repositories["dataset", f"clinic/{OPENI}"]
    assert repository.files["mine.csv"] == b"a\n"
    assert repository.commits[-1].title != "later"


# Contents of the build.


def test_two_builds_of_one_repository_are_not_published_together(openi, medfaith, hub, phantom_build, tmp_path):
    for name in (OPENI, f"{OPENI}.bak", f".{OPENI}-1234.old"):  # a killed build may leave the last one
        shutil.copytree(phantom_build / OPENI, tmp_path / "data" / name)
    publish = ["publish", tmp_path / "data", *openi[2:]]
    status, _, err = medfaith(*publish)
    assert status == 2
    assert f"{OPENI}.bak: is a build of {OPENI}, as {OPENI} is" in err
    shutil.rmtree(tmp_path / "data" / f"{OPENI}.bak")
    assert medfaith(*publish)[0] == 0


def test_reports_of_another_copy_prove_nothing(openi, medfaith, hub, phantom_roots, tmp_path):
    reports = shutil.copytree(phantom_roots["openi"], tmp_path / "openi", ignore=shutil.ignore_patterns("*.png"))
    next(reports.rglob("*.xml")).unlink()
    status, _, err = medfaith(*openi[:-1], f"openi={reports}")
    assert status == 2
    assert f"{reports}: holds other reports than those that {OPENI} was built from" in err
    assert not hub.repositories


# Visibility and access.


@pytest.mark.full  # two more publishes
def test_a_gate_is_switched_on_before_anything_is_there_to_read_and_stays_what_it_is(openi, medfaith, hub):
    assert "would ask for access" in medfaith(*openi, "--gated", "--dry-run")[1]
    assert not hub.repositories
    status, out, err = medfaith(*openi, "--gated")
    assert status == 0, err
    assert f"readers ask for access on {hub.url}/datasets/clinic/{OPENI}" in out
    (repository,) = hub.repositories.values()
    assert repository.gated == "manual"
    routes = [r.route for r in hub.requests if r.route in {"create", "settings", "commit"}]
    assert routes == ["create", "settings", "commit"]
    repository.gated = "auto"
    hub.requests.clear()
    assert medfaith(*openi, "--gated")[1].splitlines()[-1] == f"clinic/{OPENI}: nothing to change"
    assert (repository.gated, hub.asked("PUT")) == ("auto", [])


def test_a_repository_is_gated_only_when_asked(hub, put, staged):
    put(staged)
    (repository,) = hub.repositories.values()
    assert not hub.asked("PUT", "/settings")
    put(staged, gated=True)
    assert repository.gated == "manual"


def test_a_gate_that_keeps_us_out_is_named(hub, put, staged, tmp_path, monkeypatch):
    put(staged, gated=True)
    hub.tokens["hf_other"] = Account("bob")
    edited_folder = copy_edited(staged, tmp_path, lambda record: record["splits"].clear())
    for token in ("hf_other", ""):
        monkeypatch.setenv("HF_TOKEN", token)
        with pytest.raises(InputError, match=f"is gated.*\n.*{hub.url}/datasets/clinic/{OPENI}, and log in"):
            put(edited_folder)


@pytest.mark.parametrize(("current_visibility", "requested_visibility"), [("public", "private"), ("private", "public")])
def test_a_repository_stays_as_public_or_private_as_it_is(current_visibility, requested_visibility, medfaith, hub):
    assert medfaith(*METRIC, f"--{current_visibility}")[0] == 0
    n = len(hub.requests)
    for more in ((), ("--dry-run",)):
        status, _, err = medfaith(*METRIC, f"--{requested_visibility}", *more)
        assert status == 2
        assert f"exists and is {current_visibility}" in err
        assert f"{hub.url}/spaces/clinic/tpt/settings, or leave out --{requested_visibility}" in err
    assert not hub.asked("POST", since=n)


@pytest.mark.parametrize(
    ("options", "private", "private_by_default"),
    [
        ((), None, False),
        ((), None, True),
        (("--public",), False, True),
        pytest.param(("--private",), True, False, marks=pytest.mark.full),
        pytest.param(("--public",), False, False, marks=pytest.mark.full),
        pytest.param(("--private",), True, True, marks=pytest.mark.full),
    ],
)
def test_who_sees_a_new_repository_is_the_organisations_default_unless_asked(
    private_by_default, options, private, medfaith, hub
):
    hub.private_by_default |= {"clinic"} if private_by_default else set()
    publish = (*METRIC, *options)
    expected = private_by_default if private is None else private
    assert ("as visible as clinic's settings" in medfaith(*publish, "--dry-run")[1]) == (private is None)
    status, out, err = medfaith(*publish)
    assert status == 0, err
    assert hub.repositories["space", "clinic/tpt"].private == expected
    assert ("is private: nobody outside clinic sees it" in out) == (expected and private is None)


def test_public_and_private_are_not_asked_together(medfaith, capsys):
    with pytest.raises(SystemExit):
        medfaith("publish-metrics", "--org", "clinic", "--public", "--private")
    assert "not allowed with argument" in capsys.readouterr().err


def test_a_repository_that_a_failed_run_left_private_is_said_to_be(medfaith, hub):
    hub.fail("POST", "/commit/")
    assert medfaith(*METRIC, "--private")[0] == 2
    status, out, _ = medfaith(*METRIC)
    assert status == 0
    assert "clinic/tpt: is private: nobody outside clinic sees it" in out
    assert "is private" not in medfaith(*METRIC, "--private")[1]


# Unchanged files.


@pytest.mark.parametrize("content", [b"", b"a\n", "\N{SNOWMAN}\0".encode() * 100_000])
def test_files_are_known_by_the_names_that_git_and_sha256sum_give_them(content, tmp_path):
    path = tmp_path / "file"
    path.write_bytes(content)
    git = subprocess.run(["git", "hash-object", str(path)], capture_output=True, text=True, check=True)
    assert upload_plan._compute_digest(path, lfs=False) == git.stdout.strip()
    assert upload_plan._compute_digest(path, lfs=True) == hashlib.sha256(content).hexdigest()


def test_a_large_file_is_not_held_in_memory(hub, plan, tmp_path):
    folder = tmp_path / OPENI
    folder.mkdir()
    (folder / "large.parquet").touch()
    os.truncate(folder / "large.parquet", 64_000_000)
    hub.add("dataset", OPENI, {"large.parquet": b"PAR1\0"})
    tracemalloc.start()
    try:
        planned = plan(folder)
    finally:
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    assert planned.changes == (upload_plan.Change("large.parquet", 64_000_000, upload_plan.CHANGED),)
    assert peak < 16_000_000


@pytest.mark.full  # two more publishes
def test_a_later_upload_keeps_the_date_of_the_first(openi, medfaith, hub):
    assert medfaith(*openi)[0] == 0
    repository = hub.repositories["dataset", f"clinic/{OPENI}"]
    croissant = json.loads(repository.files["croissant.json"])
    assert croissant["datePublished"] == datetime.now(UTC).date().isoformat()
    older = json.dumps(croissant | {"datePublished": "2026-01-02"}, indent=2, ensure_ascii=False) + "\n"
    add_commit(repository, repository.commits[-1].title, {"croissant.json": older.encode()})
    n_commits = len(repository.commits)
    assert medfaith(*openi)[0] == 0
    assert len(repository.commits) == n_commits  # nothing is different
