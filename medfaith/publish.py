"""`medfaith publish`, `medfaith publish-metrics`, and `medfaith verify --against`: what has to do with the Hub."""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from medfaith import build
from medfaith.loaders.errors import InputError
from medfaith.printing import table

EQUAL, MISSING, EXTRA, DIFFERENT = 0, 3, 4, 5  # exit status of verify --against; the highest that applies
SHOWN = 5  # ids of a kind


def add_jobs(jobs: Any) -> None:
    """Adds `publish` and `publish-metrics` to the command's jobs."""
    job = jobs.add_parser(
        "publish", help="upload what medfaith build wrote to the Hugging Face Hub: rows, or the recipe"
    )
    job.add_argument("directory", type=Path, metavar="DIR", help="what medfaith build wrote: one repository or several")
    _upload_arguments(job)
    build.root_argument(job)
    job.set_defaults(job=_publish)

    job = jobs.add_parser("publish-metrics", help="upload the metrics as Spaces, for evaluate.load")
    job.add_argument("--metric", action="append", metavar="M", help="this one only (repeatable; default: all)")
    _upload_arguments(job)
    job.set_defaults(job=_publish_metrics)


def _upload_arguments(job: argparse.ArgumentParser) -> None:
    job.add_argument("--org", required=True, help="organisation or user on the Hub")
    job.add_argument("--dry-run", action="store_true", help="print every file and what would change; upload nothing")
    job.add_argument("--private", action="store_true", help="create new repositories as private ones")
    job.add_argument("--force", action="store_true", help="replace other content that a repository has")


def print_against(folders: Sequence[Path], repo_id: str) -> int:
    """Prints how a build differs from a published one; returns the exit status. folders: one of them is the build."""
    from medfaith.cards import publication
    from medfaith.cards.against import against

    name = repo_id.rsplit("/", 1)[-1]
    folder = folders[0] if len(folders) == 1 else next((one for one in folders if one.name == name), None)
    if folder is None:
        raise InputError(
            repo_id, f"none of {', '.join(one.name for one in folders)} is called {name}", action="name it"
        )
    differences, notes = against(publication.read(folder), repo_id)
    header = ["config", "split", "equal", "missing", "extra", "different"]
    kinds = ("missing", "extra", "different")
    counts = [(d.n_equal, *(len(getattr(d, kind)) for kind in kinds)) for d in differences]
    print(
        table(header, [[d.config, d.split, *map("{:,}".format, n)] for d, n in zip(differences, counts, strict=True)])
    )
    for d in differences:
        for kind in kinds:
            ids = getattr(d, kind)
            more = f" and {len(ids) - SHOWN:,} more" if len(ids) > SHOWN else ""
            if ids:
                print(f"{d.config}/{d.split}: {kind}: {', '.join(ids[:SHOWN])}{more}")
    for note in notes:
        print(f"{repo_id}: {note}")
    statuses = {"missing": MISSING, "extra": EXTRA, "different": DIFFERENT}
    status = max((statuses[kind] for d in differences for kind in kinds if getattr(d, kind)), default=EQUAL)
    print(f"{folder}: {'equal to' if status == EQUAL else 'not equal to'} {repo_id}")
    return status


def _publish(arguments: argparse.Namespace, _: Sequence[str]) -> int:
    from medfaith.builders.verify import repositories
    from medfaith.cards import publication, reports, staging

    roots = build.roots(arguments)
    with tempfile.TemporaryDirectory(prefix="medfaith-publish-") as temporary:
        staged = []
        for folder in repositories(arguments.directory):
            of_folder = publication.read(folder)
            into = Path(temporary) / of_folder.name
            into.mkdir()
            repo_id = f"{arguments.org}/{of_folder.name}"
            staging.stage(of_folder, into, repo_id=repo_id, texts=reports.texts(of_folder, roots))
            staged.append((into, f"published as {of_folder.policy}"))
        return _send(arguments, "dataset", staged)


def _publish_metrics(arguments: argparse.Namespace, _: Sequence[str]) -> int:
    from medfaith.cards import spaces

    known = {folder.name: folder for folder in spaces.metrics()}
    for name in arguments.metric or ():
        if name not in known:
            raise InputError(f"--metric {name}", "no such metric", expected=f"one of {', '.join(known)}")
    with tempfile.TemporaryDirectory(prefix="medfaith-publish-") as temporary:
        staged = []
        for name in dict.fromkeys(arguments.metric or known):
            into = Path(temporary) / name
            into.mkdir()
            spaces.stage(known[name], into, f"{arguments.org}/{name}")
            staged.append((into, "a metric"))
        return _send(arguments, "space", staged)


def _send(arguments: argparse.Namespace, repo_type: str, staged: Sequence[tuple[Path, str]]) -> int:
    """Plans all uploads before the first one; prints each file and what becomes of it."""
    from huggingface_hub import HfApi
    from huggingface_hub.utils import logging

    from medfaith.cards import hub

    logging.set_verbosity_error()  # its warnings about what it tries again show tracebacks
    api = HfApi()
    if not arguments.dry_run:
        hub.check_access(api, arguments.org)
    plans = [hub.plan(api, f"{arguments.org}/{folder.name}", repo_type, folder) for folder, _ in staged]
    for plan, (_, what) in zip(plans, staged, strict=True):
        print(f"{plan.repo_id} ({'' if plan.exists else 'new '}{repo_type}, {what})")
        print(table(["file", "bytes", "change"], [[c.path, f"{c.size:,}", c.kind] for c in plan.changes]))
        for obstacle in plan.obstacles:
            print(f"needs --force: {obstacle}")
        print()
    refused = [plan for plan in plans if plan.obstacles and not arguments.force]
    if refused and not arguments.dry_run:
        raise hub.other_content(refused[0])
    for plan, (folder, _) in zip(plans, staged, strict=True):
        n = len(plan.pending)
        size = sum(change.size for change in plan.pending if change.kind != hub.GONE)
        if not n:
            print(f"{plan.repo_id}: nothing to change")
        elif arguments.dry_run:
            print(f"{plan.repo_id}: {n} files ({size:,} bytes) would change; nothing was uploaded")
        else:
            message = f"medfaith {_version()}: {folder.name}"
            at = hub.upload(api, plan, folder, message=message, private=arguments.private, force=arguments.force)
            print(f"{plan.repo_id}: {n} files ({size:,} bytes): {at}")
            sys.stdout.flush()
    return 0


def _version() -> str:
    import importlib.metadata

    return importlib.metadata.version("medfaith")
