"""The functions that `import medfaith` offers. Each calls what the command of its name calls (docs/python.md)."""

from __future__ import annotations

import os
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from medfaith.interface_arguments import PathLike, Roots, collect_metadata, make_model, name_type, resolve_roots
from medfaith.loaders.errors import InputError, MedfaithError

if TYPE_CHECKING:
    from datasets import Dataset
    from lm_eval.api.model import LM
    from PIL.Image import Image

    from medfaith.reporting.write import Report
    from medfaith.tasks.models.function_lm import AnswerFunction


class AuditVerdict(NamedTuple):
    """The verdict on one benchmark.

    Attributes:
        model: Name of the model.
        benchmark: Name of the benchmark.
        image: Whether the model uses the image: "uses", "recalls", "reacts", "no use", "harmed", "open", "unanswered"
            or "undefined".
        place: Whether its answers depend on the place that a question asks about: "depends", "no dependence",
            "elsewhere", "open" or "undefined".
        findings: Finding, anatomy or instrument -> the same as `image` for it.
        sentences: The figures and the verdicts in words.
    """

    model: str
    benchmark: str
    image: str
    place: str
    findings: Mapping[str, str]
    sentences: Sequence[str]


def build(
    benchmark: str,
    out: PathLike,
    *,
    roots: Roots | None = None,
    configs: Sequence[str] | None = None,
    seed: int = 0,
    workers: int = 1,
    **options: Any,
) -> list[Path]:
    """Build a benchmark's splits from licensed sources, and verify them.

    The bytes written do not depend on `workers`. A `UserWarning` names splits without rows, and images that are
    missing, broken or resized.

    Args:
        benchmark: "cxr-contrabench", "heal-medvqa", "surgxbench" or "wrong-lung".
        out: Folder to write to; one repository for each source.
        roots: Source -> its folder; the user's settings add to them (docs/data.md).
        configs: Configs to build; by default all whose sources have roots.
        seed: Seed of the random choices.
        workers: Number of processes or threads.
        **options: Options of the benchmark, as `medfaith build BENCHMARK --help` lists them, with underscores.

    Returns:
        The folders of the repositories.

    Raises:
        InputError: A benchmark, config or option is unknown, a value is out of range, or a source is faulty.
        MissingSourceError: No config has all its sources.
        MedfaithError: A split is not sound, or differs from its reference; or an option lacks the one that it changes.

    Example:
        >>> import medfaith
        >>> medfaith.build("heal-medvqa", "medfaith-data", roots={"vindr_cxr": "/data/vindr-cxr"})  # doctest: +SKIP
    """
    from medfaith import build_command, cards
    from medfaith.builders.options import check, declared, groups
    from medfaith.builders.registry import BENCHMARKS
    from medfaith.loaders import sources

    if benchmark not in BENCHMARKS:
        raise InputError(f"benchmark {benchmark!r}", "is unknown", expected=f"one of {', '.join(BENCHMARKS)}")
    chosen, folder = BENCHMARKS[benchmark], Path(out)
    classes = [chosen.options, *groups(chosen.options).values()]
    names = [name for option_class in classes for name in declared(option_class)]
    if unknown := [name for name in options if name not in names]:
        raise InputError(f"option {unknown[0]}", f"{benchmark} has none", expected=f"one of {', '.join(names)}")
    instance = build_command.read_options(options, chosen.options, folder)
    check(instance)
    source_roots = resolve_roots(roots)
    with sources.reading(source_roots):
        folders = chosen.build(
            source_roots, folder, configs=configs, seed=seed, options=instance, workers=workers, card=cards.read_body
        )
    verdicts = [verdict for group in build_command.verify_folders(folders).values() for verdict in group]
    faulty = [f"{v.repository} {v.config}/{v.split}" for v in verdicts if not build_command.is_sound(v)]
    if faulty:
        action = f"medfaith verify {folder} shows what is wrong"
        raise MedfaithError(f"{', '.join(faulty)}: not sound\n  what to do: {action}")
    for repository in folders:
        for warning in build_command.find_missing_parts(repository, source_roots):
            warnings.warn(f"{repository.name}: {warning}", stacklevel=2)
    return folders


def load_rows(repository: str, config: str, split: str, data: PathLike) -> Dataset:
    """Load the rows of one split. They refer to images and hold no pixels.

    Args:
        repository: `<benchmark>-<source>`, such as "heal-medvqa-vindr_cxr".
        config: Config of the rows.
        split: Split of the rows.
        data: Folder that `build` wrote, or an organisation on the Hub that published the rows.

    Returns:
        The rows.

    Raises:
        InputError: The rows do not exist, cannot be read, or may not be downloaded.
    """
    from medfaith.tasks import row_store

    return row_store.read(repository, config, split, str(data))


def open_images(row: Mapping[str, Any], roots: Roots | None = None) -> list[Image]:
    """Open the images of one row as a model sees them.

    Args:
        row: A row of any benchmark from `load_rows` or `datasets.load_dataset`. A TPT or VPT partner of HEAL-MedVQA
            refers to its original and names no image: pass `original | partner`, and the image shows the other
            patient's region.
        roots: Source -> folder with the licensed images; the user's settings add to them (docs/data.md).

    Returns:
        The images in the order of the row, mode RGB.

    Raises:
        InputError: A row without images, or a root that does not exist.
        MissingSourceError: The folder of a source is unknown.
        ImageError: An image is missing or broken, or differs in size from its masks.
    """
    from functools import partial

    from medfaith.tasks.heal.rows import TRANSPLANT
    from medfaith.tasks.lazy_images import LazyImages

    references = row["images"] if "images" in row else [row["image"]] if "image" in row else None
    if references is None:
        action = "of a partner in HEAL-MedVQA pass original | partner; original_id names the original"
        raise InputError(f"row {row.get('id')}", "names no image", expected="a column images or image", action=action)
    edit = partial(TRANSPLANT.apply, row) if "donor" in row else None
    return list(LazyImages(row["id"], references, resolve_roots(roots), edit, hint=""))


def evaluate(  # noqa: PLR0913 (one for each option of `medfaith eval`)
    model: str | LM | AnswerFunction,
    tasks: str | Sequence[str],
    *,
    data: PathLike,
    out: PathLike | None = None,
    model_args: str | Mapping[str, Any] = "",
    roots: Roots | None = None,
    control: str | None = None,
    wording: int | None = None,
    box_format: str | None = None,
    rows: PathLike | None = None,
    images: Literal["all", "first"] = "all",
    skip_missing_images: bool = False,
    model_name: str | None = None,
    heatmaps: PathLike | None = None,
    limit: int | None = None,
    **lm_eval_options: Any,
) -> dict[str, dict[str, Any]]:
    """Score a model with medfaith's tasks, as `medfaith eval` does.

    Args:
        model: A model type (`medfaith eval --help`), a function that returns the answer to a list of images and a text,
            or an instance of lm-eval's `LM`.
        tasks: Names of tasks or groups (`medfaith tasks --list`).
        data: Folder that `build` wrote, or an organisation on the Hub that published the rows.
        out: Folder for results and sample logs, which `report` reads; by default nothing is written.
        model_args: Arguments of the model type, as text or by name.
        roots: Source -> folder with the licensed images; the user's settings add to them (docs/data.md).
        control: Control that changes or removes the image (`medfaith tasks --controls`).
        wording: Number of a paraphrase of each question.
        box_format: Form in which the model writes boxes or points, for tasks that ask where something is.
        rows: CSV file that names the rows to ask in its column id.
        images: Which images of a study the model sees.
        skip_missing_images: Whether to leave out and count rows whose images are missing.
        model_name: Name of the model in tables.
        heatmaps: Folder for heatmaps, for models that make them.
        limit: Number of rows of each task; by default all.
        **lm_eval_options: Options of `lm_eval run` about the model and its prompts, such as apply_chat_template=True or
            batch_size=8; and the further options of `medfaith eval`, such as send_images_to.

    Returns:
        Task or group -> metric -> score, as lm-eval names them.

    Raises:
        InputError: The data, rows or images cannot be read.
        MedfaithError: A task, model or option is unknown or does not fit the others.

    Example:
        >>> import medfaith
        >>> medfaith.evaluate("oracle", "medfaith_heal_vindr_closed", data="medfaith-data")  # doctest: +SKIP
    """
    from medfaith.tasks.controls import split_dose
    from medfaith.tasks.index import select_tasks
    from medfaith.tasks.models.answer_counts import tally, warn_unanswered
    from medfaith.tasks.run import answer, load_tasks

    names = [tasks] if isinstance(tasks, str) else [*tasks]
    settings = {
        "control": control, "wording": wording, "box_format": box_format, "rows": rows, "images": images,
        "model_name": model_name, "skip_missing_images": skip_missing_images,
        "heatmaps": None if heatmaps is None else str(heatmaps),
    }  # fmt: skip
    folder = None if out is None else Path(out)
    if control is not None:
        split_dose(control)
    metadata, lm_eval_options = collect_metadata("evaluate", model, model_args, data, roots, settings, lm_eval_options)
    if unknown := [name for name in names if not select_tasks([name])]:
        raise MedfaithError(f"{unknown[0]}: medfaith has no such task\n  what to do: medfaith tasks --list")
    # A function that was changed keeps its name, so only an audit, which continues, keeps the answers of a function.
    answers = folder if isinstance(model, str) else None
    lm_eval_model = make_model(model, model_args, lm_eval_options, names, metadata, settings["heatmaps"], answers)
    with tally() as outcomes:
        results = answer(load_tasks(names, metadata), lm_eval_model, folder, limit)
    warn_unanswered(outcomes)
    return results["results"]


def audit(  # noqa: PLR0913 (one for each option of `medfaith audit`)
    model: str | LM | AnswerFunction,
    *,
    data: PathLike,
    out: PathLike,
    model_args: str | Mapping[str, Any] = "",
    roots: Roots | None = None,
    benchmarks: Sequence[str] | None = None,
    controls: Sequence[str] | None = None,
    thorough: bool = False,
    wordings: int = 0,
    rule: Literal[1, 2] = 2,
    limit: int | None = None,
    margin: float = 5.0,
    rows: PathLike | None = None,
    images: Literal["all", "first"] = "all",
    skip_missing_images: bool = False,
    model_name: str | None = None,
    also: Sequence[PathLike] = (),
    **lm_eval_options: Any,
) -> list[AuditVerdict]:
    """Ask a model the same rows with the image and under controls, and judge whether it uses the image (docs/audit.md).

    An audit that was stopped goes on where it stopped. Benchmarks that an earlier call with the same `out` has judged
    are judged again, with this margin, and are among the verdicts.

    Args:
        model: A model type (`medfaith eval --help`), a function that returns the answer to a list of images and a text,
            or an instance of lm-eval's `LM`.
        data: Folder that `build` wrote, or an organisation on the Hub that published the rows.
        out: Folder for the logs, the tables, report.html and blind_clean.csv.
        model_args: Arguments of the model type, as text or by name.
        roots: Source -> folder with the licensed images; the user's settings add to them (docs/data.md).
        benchmarks: Benchmarks to ask; by default all of which the data have rows.
        controls: Controls under which to ask; by default those of the rule.
        thorough: Whether to ask under all controls that the verdicts or the tables can use.
        wordings: Number of paraphrases of each question.
        rule: Version of the rule.
        limit: Number of rows of each task; by default all.
        margin: Equivalence margin, in percentage points.
        rows: CSV file that names the rows to ask in its column id.
        images: Which images of a study the model sees.
        skip_missing_images: Whether to leave out and count rows whose images are missing.
        model_name: Name of the model in tables.
        also: Folders of finished audits of other models on the same rows, for blind_clean.csv.
        **lm_eval_options: As for `evaluate`.

    Returns:
        The verdict on each benchmark.

    Raises:
        InputError: The data, rows or images cannot be read, or `out` holds an audit of something else.
        MedfaithError: A control, model or option is unknown or does not fit the others.
    """
    from medfaith.auditing import find_store
    from medfaith.auditing.audit import Request, plan_audit, run_audit
    from medfaith.auditing.sentences import write_sentences
    from medfaith.auditing.wordings import compare_wordings

    if isinstance(margin, bool) or not isinstance(margin, int | float):
        raise InputError("margin", f"is {margin!r:.100}", expected="percentage points, as 5.0")
    folder, model_type = Path(out), name_type(model)
    store = find_store(folder, model_type)
    settings = {
        "rows": rows, "model_name": model_name, "heatmaps": store, "images": images,
        "skip_missing_images": skip_missing_images,
    }  # fmt: skip
    metadata, lm_eval_options = collect_metadata("audit", model, model_args, data, roots, settings, lm_eval_options)
    request = Request(
        folder, benchmarks, controls, thorough, wordings, rule, limit, margin / 100, [Path(path) for path in also]
    )
    audit_plan = plan_audit(request, model_type, metadata)
    names = [task.name for task in audit_plan.tasks]
    lm_eval_model = make_model(model, model_args, lm_eval_options, names, metadata, store, folder)
    result = run_audit(request, audit_plan, lm_eval_model, metadata)
    return [
        AuditVerdict(
            judged.audit.model, judged.audit.benchmark, judged.image.name, judged.place.name,
            {finding: verdict.name for finding, verdict in judged.subjects.items()},
            write_sentences(judged, request.margin, compare_wordings(judged.audit, request.margin)),
        )
        for judged in result.judged
    ]  # fmt: skip


def report(  # noqa: PLR0913 (one for each option of `medfaith report`)
    results: PathLike | Sequence[PathLike],
    out: PathLike | None = None,
    *,
    html: PathLike | None = None,
    rows: PathLike | None = None,
    compare: bool = False,
    annotations: Sequence[PathLike] = (),
    data: PathLike | None = None,
    roots: Roots | None = None,
    with_images: bool = False,
    heatmaps: PathLike | None = None,
    max_cases: int = 200,
) -> Report:
    """Collect the papers' tables from sample logs of one model or of many, as `medfaith report` does.

    Args:
        results: Folders or files that `evaluate`, `audit`, lm-eval or Inspect wrote.
        out: Folder for report.md, each table as CSV and LaTeX, and figures; by default nothing is saved.
        html: File for the report as one page; by default none.
        rows: CSV file that names the rows that count in its column id.
        compare: Whether to compare the model of each entry of `results` with that of the first.
        annotations: Files of answers that `medfaith annotate` wrote.
        data: Folder that `build` wrote, for annotations and images.
        roots: Source -> folder with the licensed images; the user's settings add to them (docs/data.md).
        with_images: Whether to put small pictures of the models' inputs into `html` and `out`. They are licensed.
        heatmaps: Folder of heatmaps, for these pictures.
        max_cases: Largest number of questions with pictures.

    Returns:
        The report: its `sections` have `tables`, `notes` say what to know, and `markdown()` formats all.

    Raises:
        InputError: A log cannot be read, or `out` holds other files.
        MedfaithError: `with_images` without `data`, or without a place to write to.
    """
    from medfaith.logs.inspect_logs import converted_logs
    from medfaith.reporting.benchmark import ReportSources
    from medfaith.reporting.page.pictures import Pixels
    from medfaith.reporting.write import make_report

    paths = [results] if isinstance(results, str | os.PathLike) else results
    pixels = None
    if with_images:
        if data is None or not (html or out):
            action = "give data=, and out= or html="
            raise MedfaithError(f"with_images needs the rows, and a folder or a page\n  what to do: {action}")
        pixels = Pixels(str(data), resolve_roots(roots), None if heatmaps is None else Path(heatmaps), max_cases)
    with converted_logs([Path(path) for path in paths]) as converted:
        return make_report(
            converted,
            None if out is None else Path(out),
            ReportSources([Path(path) for path in annotations], None if data is None else str(data)),
            html=None if html is None else Path(html),
            pixels=pixels,
            compared=compare,
            rows=None if rows is None else Path(rows),
        )
