"""The upload of a plan to the Hub, in one commit, and the check that all of it has arrived.

A commit is atomic: an interrupted upload leaves the repository unchanged, and large files that have arrived are not
sent again by the next one.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from huggingface_hub import CommitOperationAdd, CommitOperationDelete, HfApi

from ...loaders.errors import InputError, MedfaithError
from .hub_client import reachable, retry
from .hub_content import list_remote_files
from .upload_plan import GONE, NEW, SAME, Plan, compare_file, list_files

RETRY = "try again: large files that have arrived are not sent twice"


class Done(NamedTuple):
    """The result of an upload.

    Attributes:
        at: The commit's address; None if no file had to change.
        private: Whether only its owner's members see the repository.
    """

    at: str | None
    private: bool


def upload(  # noqa: PLR0913 (one for each option of `medfaith publish`)
    api: HfApi,
    intended: Plan,
    staged: Path,
    *,
    message: str,
    private: bool | None = None,
    gated: bool = False,
    force: bool = False,
    sdk: str | None = None,
) -> Done:
    """Carry out a plan.

    Args:
        api: The Hub's client.
        intended: The plan.
        staged: The folder of the files.
        message: The title of the commit.
        private: Whether a new repository is private; by default, the owner's settings on the Hub decide.
        gated: Whether readers have to ask for access. The gate is set before the upload.
        force: Replace other content.
        sdk: The SDK of a new Space (`spaces.stage`).

    Returns:
        The result.

    Raises:
        InputError: The repository has other content, and `force` is not set.
        MedfaithError: The Hub refuses or cannot be reached, or the repository has changed since the plan; its files are
            then unchanged. Or the files after the commit are not those that were sent.
    """
    if intended.obstacles and not force:
        raise build_content_error(intended)
    repo_id, repo_type = intended.repo_id, intended.repo_type
    operations = [
        CommitOperationDelete(change.path) if change.kind == GONE
        else CommitOperationAdd(change.path, str(staged / change.path))
        for change in intended.pending
    ]  # fmt: skip
    is_private = intended.private
    with reachable(repo_id, retry_action=RETRY):
        if not intended.exists:
            retry(api.create_repo, repo_id, repo_type=repo_type, private=private, space_sdk=sdk)
            is_private = bool(retry(api.repo_info, repo_id, repo_type=repo_type).private)
    with _naming_empty(intended), reachable(repo_id, retry_action=RETRY):
        if gated and not intended.gated:
            retry(api.update_repo_settings, repo_id, gated="manual", repo_type=repo_type)
        if not operations:
            return Done(None, is_private)
        done = retry(
            api.create_commit,
            repo_id,
            operations,
            commit_message=message,
            repo_type=repo_type,
            parent_commit=intended.head,
        )
    with reachable(repo_id, retry_action=RETRY):
        _check_arrived(api, intended, str(done.oid), staged)
    return Done(str(done.commit_url), is_private)


@contextmanager
def _naming_empty(intended: Plan) -> Iterator[None]:
    """Add to an error that the repository, which this upload created, is empty."""
    try:
        yield
    except MedfaithError as error:
        if intended.exists:
            raise
        note = f"{intended.page} is new and still empty: run it again, or delete it on its settings page"
        raise MedfaithError(f"{error}\n  {note}") from error


def build_content_error(intended: Plan) -> InputError:
    """Build the error for a repository that is not overwritten.

    Args:
        intended: The plan.

    Returns:
        The error.
    """
    problem = f"holds other content: {'; '.join(intended.obstacles)}"
    return InputError(intended.repo_id, problem, action="choose another --org, or replace it with --force")


def _check_arrived(api: HfApi, intended: Plan, revision: str, staged: Path) -> None:
    """Raise MedfaithError if a commit differs from the staged folder: the Hub does not report skipped files."""
    remote_files = list_remote_files(api, intended.repo_id, intended.repo_type, revision, expand=False)
    gone = {change.path for change in intended.changes if change.kind == GONE}
    kinds = {name: compare_file(path, name, remote_files.get(name)).kind for name, path in list_files(staged).items()}
    wrong = [f"{name} is {'missing' if kind == NEW else 'other'}" for name, kind in kinds.items() if kind != SAME]
    wrong += [f"{name} is still there" for name in sorted(gone & set(remote_files))]
    if wrong:
        action = "run it again"
        if ".gitignore" in remote_files:
            action = (
                f"delete .gitignore on {intended.page}/tree/main, or the lines that leave these files out; {action}"
            )
        problem = f"{intended.repo_id}: its commit {revision[:7]} does not hold what was sent: {'; '.join(wrong)}"
        raise MedfaithError(f"{problem}\n  what to do: {action}")
