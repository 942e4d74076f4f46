"""`medfaith publish`, `medfaith publish-metrics`, and `medfaith verify --against`: the commands that use the Hub."""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from medfaith import build_command
from medfaith.loaders.atomic import scratch_folder
from medfaith.loaders.errors import InputError, MedfaithError
from medfaith.printing import table

if TYPE_CHECKING:
    from huggingface_hub import HfApi

    from medfaith.cards.publication import Publication
    from medfaith.cards.publish.upload import Done
    from medfaith.cards.publish.upload_plan import Plan

EQUAL, MISSING, EXTRA, DIFFERENT, OTHER_MASKS, OTHER_ORDER = 0, 3, 4, 5, 6, 7  # exit status of verify --against
SHOWN = 5  # ids of a kind


def add_jobs(jobs: Any) -> None:
    """Add `publish` and `publish-metrics` to the command's jobs.

    Args:
        jobs: The sub-parsers of the command.
    """
    job = jobs.add_parser(
        "publish",
        help="publish a build on the Hugging Face Hub: its rows, or the recipe that makes them",
        description="Publish a build on the Hugging Face Hub. The licence of the source decides whether its rows go "
        "there or only the recipe: the command, the counts and a hash of each row. A guard reads every file first.",
        epilog="Example: medfaith publish medfaith-data --org ORG --root openi=PATH --dry-run",
    )
    job.add_argument(
        "directory", type=Path, metavar="DIR", help="folder that medfaith build wrote: one repository, or several"
    )
    _add_upload_arguments(job)
    job.add_argument(
        "--gated",
        action="store_true",
        help="make readers ask for access, which you grant one by one on the Hub (default: everyone can read)",
    )
    job.add_argument(
        "--register",
        action="store_true",
        help="with published rows: also upload eval.yaml, which registers the data set as a benchmark of the Hub; ask "
        "the Hub's team first (default: do not upload it)",
    )
    job.add_argument(
        "--few-studies",
        action="store_true",
        help="publish a recipe of fewer than 50 studies, too: all its rows can be guessed, and its hashes say which "
        "guess is right (default: stop)",
    )
    build_command.root_argument(job)
    job.set_defaults(job=_run_publish, sdk=None)

    job = jobs.add_parser(
        "publish-metrics",
        help="publish the metrics as Spaces, so that evaluate.load finds them",
        description='Publish each metric as a Space on the Hugging Face Hub. evaluate.load("ORG/METRIC") then finds '
        "it.",
    )
    job.add_argument(
        "--metric",
        action="append",
        metavar="NAME",
        help="publish this metric, such as tpt (repeatable; default: all metrics)",
    )
    job.add_argument(
        "--sdk",
        choices=("gradio", "static"),
        default="gradio",
        help="kind of each Space: gradio computes scores, and the Hub may demand a paid plan; static shows the card "
        "and the scores of its examples, and is free (default: %(default)s)",
    )
    _add_upload_arguments(job)
    job.set_defaults(job=_run_publish_metrics, gated=False)


def _add_upload_arguments(job: argparse.ArgumentParser) -> None:
    job.add_argument(
        "--org",
        required=True,
        metavar="ORG",
        help="organisation or user on the Hub that owns the repositories (required)",
    )
    job.add_argument(
        "--dry-run",
        action="store_true",
        help="print every file, every change and the card, and upload nothing; without a connection to the Hub, skip "
        "the comparison with it",
    )
    seen_by = job.add_mutually_exclusive_group()
    unasked = "(default: the visibility that the owner has set on the Hub)"
    for name, private in (("public", False), ("private", True)):
        seen_by.add_argument(
            f"--{name}",
            action="store_const",
            const=private,
            dest="private",
            help=f"make new repositories {name} {unasked}",
        )
    job.add_argument(
        "--force",
        action="store_true",
        help="replace the files of a repository that medfaith did not write, or whose rows differ (default: stop)",
    )


def print_against(folders: Sequence[Path], repo_id: str) -> int:
    """Print the differences between a build and a published one.

    Args:
        folders: Repositories; one of them is the build.
        repo_id: ORG/NAME of the published data set.

    Returns:
        The exit status.

    Raises:
        InputError: The name is malformed, or no folder has it.
    """
    from medfaith.cards import publication
    from medfaith.cards.publish.comparison import against

    if not re.fullmatch(r"[\w.-]+/[\w.-]+", repo_id):
        fault, action = "is no name of a data set on the Hub", "name the published one"
        raise InputError(f"--against {repo_id!r}", fault, expected="ORG/NAME", action=action)
    name = repo_id.rsplit("/", 1)[-1]
    folder = (
        folders[0] if len(folders) == 1 else next((candidate for candidate in folders if candidate.name == name), None)
    )
    if folder is None:
        fault = f"none of {', '.join(candidate.name for candidate in folders)} is called {name}"
        raise InputError(repo_id, fault, action="name the folder of the one build that it is compared with")
    compared = against(publication.read(folder), repo_id)
    differences = compared.differences
    kinds = ("missing", "extra", "different")
    if any(d.other_masks for d in differences):
        kinds += ("other_masks",)
    header = ["config", "split", "equal", *(kind.replace("_", " ") for kind in kinds)]
    counts = [(d.n_equal, *(len(getattr(d, kind)) for kind in kinds)) for d in differences]
    print(
        table(header, [[d.config, d.split, *map("{:,}".format, n)] for d, n in zip(differences, counts, strict=True)])
    )
    for d in differences:
        for kind in kinds:
            ids = getattr(d, kind)
            more = f" and {len(ids) - SHOWN:,} more" if len(ids) > SHOWN else ""
            if ids:
                print(f"{d.config}/{d.split}: {kind.replace('_', ' ')}: {', '.join(ids[:SHOWN])}{more}")
        if d.other_order:
            print(f"{d.config}/{d.split}: all rows are equal, in another order: --limit takes other ones")
    for note in compared.notes:
        print(f"{repo_id}: {note}")
    statuses = {"missing": MISSING, "extra": EXTRA, "different": DIFFERENT}
    order = OTHER_ORDER if any(d.other_order for d in differences) else EQUAL
    masks_or_order = OTHER_MASKS if "other_masks" in kinds else order  # where nothing else is wrong
    status = max((statuses[kind] for d in differences for kind in statuses if getattr(d, kind)), default=masks_or_order)
    verdict = "equal to" if status == EQUAL else "not equal to"
    print(f"{folder}: {verdict} {repo_id} at its commit {compared.revision[:7]}")
    return status


def _run_publish(arguments: argparse.Namespace, _: Sequence[str]) -> int:
    from medfaith.builders.verify import repositories
    from medfaith.cards import publication
    from medfaith.cards.publish import reports, staging

    roots = build_command.roots(arguments)
    with scratch_folder() as temporary:
        staged, folder_by_name = [], dict[str, Path]()
        for folder in repositories(arguments.directory):
            publication_of_folder = publication.read(folder)
            if (other_folder := folder_by_name.setdefault(publication_of_folder.name, folder)) != folder:
                fault = f"is a build of {publication_of_folder.name}, as {other_folder.name} is"
                raise InputError(folder, fault, expected="one of each", action="move one of them elsewhere")
            into = temporary / publication_of_folder.name
            into.mkdir()
            repo_id = f"{arguments.org}/{publication_of_folder.name}"
            publication_of_folder = replace(publication_of_folder, published_on=_find_date(repo_id))
            if not arguments.few_studies:
                _check_size(publication_of_folder)
            texts = reports.texts(publication_of_folder, roots)
            staging.stage(publication_of_folder, into, repo_id=repo_id, texts=texts, register=arguments.register)
            staged.append((into, f"published as {publication_of_folder.policy}"))
        return _send_all(arguments, "dataset", staged)


def _find_date(repo_id: str) -> str:
    """Find the date of the first publication: that of the published croissant.json, else today's (UTC)."""
    from medfaith.cards.publish import hub_client, hub_content
    from medfaith.tasks.hub_access import can_reach_hub

    published = None
    if can_reach_hub():
        with suppress(MedfaithError):  # the plan of the upload says why the Hub cannot be asked
            published = hub_content.read_publication_date(hub_client.get_client(), repo_id)
    return published or datetime.now(UTC).date().isoformat()


def _check_size(publication: Publication) -> None:
    """Require a recipe whose rows are too many to be guessed.

    Raises:
        InputError: A split has rows of too few studies.
    """
    from medfaith.cards.row_keys import BLOCK

    for name, key in publication.split_keys.items():
        if key.n_studies < BLOCK:
            raise InputError(
                f"{publication.folder}, {'/'.join(name)}",
                f"has rows of {key.n_studies} studies or images",
                expected=f"{BLOCK} or more: all rows of fewer can be guessed, and the published hashes say which guess "
                "is right",
                action="leave the config out of the build, or accept this with --few-studies",
            )


def _run_publish_metrics(arguments: argparse.Namespace, _: Sequence[str]) -> int:
    from medfaith.cards.publish import spaces

    metric_folders = {folder.name: folder for folder in spaces.list_metrics()}
    for name in arguments.metric or ():
        if name not in metric_folders:
            expected = f"one of {', '.join(metric_folders)}"
            raise InputError(f"--metric {name}", "no such metric", expected=expected, action="correct the name")
    with scratch_folder() as temporary:
        staged = []
        for name in dict.fromkeys(arguments.metric or metric_folders):
            into = temporary / name
            into.mkdir()
            spaces.stage(metric_folders[name], into, f"{arguments.org}/{name}", arguments.sdk)
            staged.append((into, "a metric"))
        return _send_all(arguments, "space", staged)


def _send_all(arguments: argparse.Namespace, repo_type: str, staged: Sequence[tuple[Path, str]]) -> int:
    """Plan all uploads before the first one, print each file and what becomes of it, and upload unless it is a dry run.

    Raise InputError before any upload if a repository has another visibility than asked for, or needs --force.
    """
    from huggingface_hub.utils import logging

    from medfaith.cards.publish import hub_client, hub_content, spaces, upload

    logging.set_verbosity_error()  # its warnings about retries show tracebacks
    api = hub_client.get_client()
    plans = _make_plans(arguments, api, repo_type, [folder for folder, _ in staged])
    for plan in plans:
        if plan.exists and arguments.private not in {None, plan.private}:
            visibility, requested = ("private", "public") if plan.private else ("public", "private")
            action = f"change that on its settings page, {plan.page}/settings, or leave out --{requested}"
            raise InputError(plan.repo_id, f"exists and is {visibility}", expected="a new repository", action=action)
    for plan, (folder, description) in zip(plans, staged, strict=True):
        new = "new " if plan.compared and not plan.exists else ""
        print(f"{plan.repo_id} ({new}{repo_type}, {description})")
        print(table(["file", "bytes", "change"], [[c.path, f"{c.size:,}", c.kind] for c in plan.changes]))
        for obstacle in plan.obstacles:
            print(f"needs --force: {obstacle}")
        print()
        if arguments.dry_run:
            print(f"the card of {plan.repo_id}:\n{(folder / spaces.CARD).read_text(encoding='utf-8')}")
    refused = [plan for plan in plans if plan.obstacles and not arguments.force]
    if refused and not arguments.dry_run:
        raise upload.build_content_error(refused[0])
    for plan, (folder, _) in zip(plans, staged, strict=True):
        done = upload.Done(None, plan.private)
        if not arguments.dry_run:
            message = hub_content.format_title(_get_version(), folder.name)
            options = {name: getattr(arguments, name) for name in ("private", "gated", "force", "sdk")}
            done = upload.upload(api, plan, folder, message=message, **options)
        print("\n".join(f"{plan.repo_id}: {line}" for line in _describe_outcome(arguments, plan, done)), flush=True)
    return 0


def _make_plans(arguments: argparse.Namespace, api: HfApi, repo_type: str, folders: Sequence[Path]) -> list[Plan]:
    """Plan the upload of each folder. A dry run needs neither the Hub nor a token."""
    from huggingface_hub import get_token

    from medfaith.cards.publish import hub_client, upload_plan
    from medfaith.tasks.hub_access import can_reach_hub

    if arguments.dry_run and not can_reach_hub():
        print("the Hub cannot be reached: what it holds was not compared with these files\n")
        return [
            upload_plan.build_uncompared_plan(f"{arguments.org}/{folder.name}", repo_type, folder) for folder in folders
        ]
    if arguments.dry_run and get_token() is None:
        print(f"access to {arguments.org} was not checked: no token is known")
    else:
        hub_client.check_access(api, arguments.org)
    return [upload_plan.build_plan(api, f"{arguments.org}/{folder.name}", repo_type, folder) for folder in folders]


def _describe_outcome(arguments: argparse.Namespace, plan: Plan, done: Done) -> Iterator[str]:
    """Describe the outcome for a repository, in lines."""
    files = f"{len(plan.pending)} files ({plan.size:,} bytes)"
    if not plan.compared:
        yield f"{files} at most would change: the comparison with the Hub was not made; nothing was uploaded"
    elif not plan.pending:
        yield "nothing to change"
    else:
        yield f"{files} would change; nothing was uploaded" if arguments.dry_run else f"{files}: {done.at}"
    if arguments.gated and not plan.gated:
        yield f"readers {'would ' if arguments.dry_run else ''}ask for access on {plan.page}"
    if arguments.dry_run and arguments.private is None and plan.compared and not plan.exists:
        yield f"would be as visible as {arguments.org}'s settings on the Hub make new repositories"
    if done.private and not arguments.private:
        yield f"is private: nobody outside {arguments.org} sees it"


def _get_version() -> str:
    import importlib.metadata

    return importlib.metadata.version("medfaith")
