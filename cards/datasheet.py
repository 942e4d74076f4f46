"""README.md of a published repository: the Hub's header, and the questions of Datasheets for Datasets (Gebru et al.).

cards/<repository>.md has fixed headings for statements on one repository only. Everything else is generated.
"""

from __future__ import annotations

import importlib.metadata
import re
import tomllib
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from ..builders import registry
from ..builders.row_digest import compute_rowset_sha256
from ..builders.write import build_configs_header, front_matter
from . import FOLDER, command, composition, config_text, dictionary, examples, licences, policy, read_body, small_counts
from .publication import WITHOUT_MASKS, Publication
from .publish import reports

WRITTEN = ("Motivation", "Annotations", "Rules", "Intended use", "Misuse", "Biases", "Limits")  # headings of a body
SIZES = ((1_000, "n<1K"), (10_000, "1K<n<10K"), (100_000, "10K<n<100K"), (1_000_000, "100K<n<1M"))
LARGEST = "1M<n<10M"
KEY = "with a key made of all rows of the split"
FUNDING = "None is declared."
ETHICS = (
    "None is declared: no new data of patients was collected for this data set. The publications of the sources state "
    "their reviews and consents, and the terms of the sources hold for the rows (Licences). A score on these rows is "
    "no evidence that a model is safe for patients."
)
MAINTENANCE = (
    "Whoever published this repository maintains it, with medfaith. A correction is a new commit: older ones stay, and "
    "a result should name the commit of its rows. build.json says which release of medfaith built them. Errors are "
    "reported and followed at"
)
TAGS = ("medfaith", "medical", "evaluation", "hallucination", "vision-language")


@cache
def load_benchmark(name: str) -> dict[str, Any]:
    """Load the entry of a benchmark in benchmarks.toml.

    Args:
        name: The name of the benchmark.

    Returns:
        The entry.
    """
    return tomllib.loads((FOLDER / "benchmarks.toml").read_text(encoding="utf-8"))[name]


def build_readme(publication: Publication, staged: Path, repo_id: str) -> str:
    """Build README.md.

    Args:
        publication: The repository.
        staged: The folder of its Parquet files.
        repo_id: `<org>/<name>` on the Hub.

    Returns:
        The text of the file.
    """
    blocks = [f"# {read_title(publication.name)}", read_introduction(publication.name)]
    blocks += [f"## {heading}\n\n{text}" for heading, text in build_sections(publication, repo_id).items()]
    return front_matter(build_header(publication, staged)) + "\n\n".join(blocks) + "\n"


def build_sections(publication: Publication, repo_id: str) -> dict[str, str]:
    """Build the sections of the card.

    Args:
        publication: The repository.
        repo_id: `<org>/<name>` on the Hub.

    Returns:
        Heading -> Markdown, in the order of the card.
    """
    all_configs = registry.BENCHMARKS[publication.record["benchmark"]].needs
    sections = read_sections(publication.name).items()
    written = {heading: config_text.filter_text(text, all_configs, publication.built) for heading, text in sections}
    return {
        "Motivation": written["Motivation"],
        "Composition": composition.format_composition(publication),
        "Columns": dictionary.format_dictionary(publication.record["benchmark"], publication.built),
        "An example row": _format_example(publication),
        "Collection": _format_collection(publication),
        "Provenance": _format_provenance(publication),
        "Annotations": written["Annotations"],
        "Rules": written["Rules"],
        "Intended use": written["Intended use"],
        "Misuse": written["Misuse"],
        "Biases": written["Biases"],
        "Limits": written["Limits"],
        "Personal and sensitive information": _format_sensitive(publication),
        "How to get it": _format_use(publication, repo_id),
        "Licences": licences.format_licences(publication.sources, publication.referenced),
        "Funding": FUNDING,
        "Ethics review": ETHICS,
        "Maintenance": f"{MAINTENANCE} {get_page()}.",
        "Citation": _format_citation(publication.record["benchmark"]),
        "Contact": f"Questions, errors, requests to take something down: {get_page()}. Rows were built by medfaith "
        f"{publication.record.get('medfaith')}, this card was written by medfaith {get_version()}.",
    }


def _format_citation(name: str) -> str:
    """Format the paper's reference, with a link that the Hub recognizes."""
    entry = load_benchmark(name)
    eprint = re.search(r"eprint = \{([\d.]+)\}", entry["bibtex"])
    link = f"The paper: https://arxiv.org/abs/{eprint[1]}\n\n" if eprint else ""
    doi = "If this repository has a DOI, the Hub shows it next to the title. Name it, or the commit, with your results."
    return f"{link}```bibtex\n{entry['bibtex'].strip()}\n```\n\n{doi}"


def read_title(name: str) -> str:
    """Read the title of a repository from its card.

    Args:
        name: The name of the repository.

    Returns:
        The title.
    """
    return read_body(name).splitlines()[0].removeprefix("# ")


def read_introduction(name: str) -> str:
    """Read the introduction of a repository from its card.

    Args:
        name: The name of the repository.

    Returns:
        Markdown.
    """
    return read_body(name).split("\n## ", 1)[0].split("\n", 1)[1].strip()


def read_sections(name: str) -> dict[str, str]:
    """Read the sections of cards/<name>.md.

    Args:
        name: The name of the repository.

    Returns:
        Heading -> Markdown.
    """
    pairs = (block.split("\n", 1) for block in read_body(name).split("\n## ")[1:])
    return {heading.strip(): text.strip() for heading, text in pairs}


def build_header(publication: Publication, staged: Path) -> dict[str, Any]:
    """Build the YAML header: fields that the Hub shows and filters by, and that `load_dataset` reads.

    Args:
        publication: The repository.
        staged: The folder of its Parquet files.

    Returns:
        The fields.
    """
    entry = load_benchmark(publication.record["benchmark"])
    hashes, sizes = _measure_tables(publication, staged)
    rows = sum(publication.splits.values())
    size = next((name for limit, name in SIZES if rows < limit), LARGEST)
    fields: dict[str, Any] = {
        "pretty_name": read_title(publication.name),
        "language": ["en"],
        **licences.build_header_fields(publication.record["source"], publication.sources),
        "task_categories": entry["task_categories"],
        "tags": [*TAGS, publication.record["benchmark"], *entry["tags"]],
        "size_categories": [size],
        "source_datasets": ["extended"],
        "annotations_creators": entry["annotations"][publication.record["source"]],
    }
    if publication.policy == policy.RECIPE:
        fields |= licences.build_gate(publication.all_sources)
    fields |= build_configs_header(publication.features, hashes)
    fields["dataset_info"] = [info | sizes[info["config_name"]] for info in fields["dataset_info"]]
    return fields


def get_version() -> str:
    """Return the version of medfaith.

    Returns:
        The version.
    """
    return importlib.metadata.version("medfaith")


def get_page() -> str:
    """Return the project's page for questions, from the package's metadata.

    Returns:
        The address.
    """
    links = (entry.split(", ", 1) for entry in importlib.metadata.metadata("medfaith").get_all("Project-URL") or ())
    return dict(links)["Issues"]


def _measure_tables(
    publication: Publication, staged: Path
) -> tuple[dict[tuple[str, str], str], dict[str, dict[str, Any]]]:
    """Compute the hash of each split's rows, and the sizes in bytes for dataset_info, from the staged Parquet.

    num_bytes is the size of the rows in memory (Arrow), download_size the size of the files, like in `datasets`.
    """
    hashes: dict[tuple[str, str], str] = {}
    sizes: dict[str, dict[str, Any]] = {}
    for config, split in publication.splits:
        files = sorted((staged / config).glob(f"{split}-*.parquet"))
        table = pa.concat_tables([pq.read_table(path) for path in files])
        hashes[config, split] = compute_rowset_sha256(table)
        config_sizes = sizes.setdefault(config, {"splits": [], "download_size": 0, "dataset_size": 0})
        config_sizes["splits"].append({"name": split, "num_bytes": table.nbytes, "num_examples": table.num_rows})
        config_sizes["download_size"] += sum(path.stat().st_size for path in files)
        config_sizes["dataset_size"] += table.nbytes
    return hashes, sizes


def _format_example(publication: Publication) -> str:
    """Format one row of each form of rows."""
    if publication.policy == policy.ROWS:
        note = "The first row of the build."
        rows = {config: examples.hide_identifiers(first_row) for config, first_row in _iterate_first_rows(publication)}
    else:
        note = "Synthetic, not from the sources; identifiers are shown as `...`, and masks cut off."
        committed = examples.load_examples(publication.name)
        rows = {config: committed[config] for config in publication.built if config in committed}
    forms: dict[tuple[str, ...], list[str]] = {}
    for config, row in rows.items():
        forms.setdefault(tuple(row), []).append(config)
    blocks = [note]
    for config, *similar in forms.values():
        same = (
            f" (the same columns: {', '.join(f'`{similar_config}`' for similar_config in similar)})" if similar else ""
        )
        blocks.append(f"`{config}`{same}:\n\n```json\n{examples.format_row(rows[config])}\n```")
    return "\n\n".join(blocks)


def _iterate_first_rows(publication: Publication) -> Iterator[tuple[str, dict[str, Any]]]:
    done: set[str] = set()
    for config, _, table in publication.tables():
        if config not in done and table.num_rows:
            done.add(config)
            yield config, table.slice(0, 1).to_pylist()[0]


def _format_collection(publication: Publication) -> str:
    """Format the sources with their versions, and the label files with their hashes."""
    lines = ["Nothing was collected for this data set: it is made from these sources by rules, with a seed.", ""]
    lines += ["| source | version read for | label file | SHA-256 |", "|---|---|---|---|"]
    for source in publication.sources:
        entry: Mapping[str, Any] = publication.described_record["sources"][source.id]
        for name, digest in entry["files"].items():
            lines.append(f"| {source.title} | {entry['version']} | `{name}` | `{digest}` |")
    lines += [
        "",
        "The hash of a packed file is that of its content. The hash of many files is over all their names and hashes.",
    ]
    if "segmenter" in publication.record["arguments"]:
        segmenter = publication.record["arguments"]["segmenter"]
        origin = f"were made by `{segmenter}`" if segmenter else "were made by a program that the build does not name"
        lines += ["", f"The anatomy masks {origin}. Other masks give other rows: `medfaith verify` counts them apart."]
    return "\n".join(lines)


def _format_provenance(publication: Publication) -> str:
    """Format how the rows come from the sources, and how that can be checked."""
    record = publication.record
    sources = ", ".join(f"{source.title} ({source.version})" for source in publication.sources)
    return (
        f"medfaith {record['medfaith']} made the rows from {sources} by the rules below, with the seed "
        f"{record['seed']}. The same label files, release, seed and options give the same rows in the same order; "
        "`medfaith verify --against` proves it. The paper defines the questions, options and splits (Citation)."
    )


def _format_sensitive(publication: Publication) -> str:
    common = "No pixels and no report text are in this repository"
    if publication.policy == policy.ROWS:
        quoted = any(source.id in reports.READERS for source in publication.sources)
        but = ", but for the negating phrase in `cue`" if quoted else ""
        return (
            f"{common}{but}. Rows hold identifiers of studies and images as the sources publish them, de-identified "
            "there, and what was found in them. Do not try to identify anybody."
        )
    hashed, ids = (
        ("ids and rows", "")
        if publication.withholds_ids
        else ("rows", " The ids of the rows are published unchanged. They name images or frames as the sources do.")
    )
    packaged = [source.title for source in publication.sources if source.torchxrayvision]
    note = (
        f" The training labels of {' and '.join(packaged)} are in the public package torchxrayvision: anyone can "
        "compute the hashes of rows that are made of them."
    )
    return (
        f"{common}. It holds no row, but keyed hashes of {hashed} (HMAC-SHA256), in the order of the hashes. The key "
        "of a split is made of all its rows: only those who can build them can compute it."
        f"{note if packaged else ''}{ids} Counts below {small_counts.FEWEST} are not printed. You build the rows from "
        "your licensed copy. They describe patients whom the sources de-identified. Treat them as the sources' terms "
        "say, and do not try to identify anybody."
    )


def _format_use(publication: Publication, repo_id: str) -> str:
    record = publication.record
    org = repo_id.split("/", 1)[0]
    entry = load_benchmark(record["benchmark"])
    roots = [word for source in publication.referenced for word in ("--root", f"{source.id}=PATH")]

    tasks = config_text.select_tasks(entry["tasks"][record["source"]], record["splits"])

    def evaluate(data: str, before: str) -> str:
        """Format the evaluation; "" if the build has the rows of no task, such as one for training alone."""
        commands = _format_shell(["medfaith", "eval", "--data", data, *roots, *entry["model"], "--tasks", tasks])
        return f"{before}\n\n{commands}\n\n" if tasks else ""

    rebuild = command.rebuild(publication.described_record)
    if publication.policy == policy.ROWS:
        config, split = next(iter(publication.splits))
        load = f'rows = load_dataset("{repo_id}", "{config}", split="{split}")'
        return (
            f"```python\nfrom datasets import load_dataset\n\n{load}\n```\n\n"
            "Rows refer to images by `source` and by `key`, a path below the root of that source.\n\n"
            f"{evaluate(org, 'An evaluation needs your copy:')}This command builds the same rows from the sources:\n\n"
            f"{_format_shell(rebuild)}"
        )
    return (
        f"This repository has no rows. Build them with [medfaith]({get_page().rpartition('/')[0]}) from your licensed "
        "copies, and prove that they are the published ones. `medfaith sources` says how to get each source.\n\n"
        f"{_format_shell(rebuild, ['medfaith', 'verify', 'DIR', '--against', repo_id])}\n\n"
        f"{evaluate('DIR', 'Then score a model:')}"
        f'`load_dataset("{repo_id}", "manifest")` has a split for each config, and in it `config`, `split`, `id` and '
        f"`sha256` of each row. {_format_manifest_columns(publication)}"
    )


def describe_manifest_columns(publication: Publication) -> dict[str, str]:
    """Describe the columns of a recipe's manifest.

    Args:
        publication: The repository.

    Returns:
        Column -> description.
    """
    as_json = "the row as JSON (keys sorted, no spaces, UTF-8)"
    return {
        "config": "the row's config",
        "split": "the row's split",
        "id": f"HMAC-SHA256 of the row's id, {KEY}" if publication.withholds_ids else "the row's id",
        "sha256": f"HMAC-SHA256 of {as_json}, {KEY}",
        WITHOUT_MASKS: "as sha256, of the row without its masks; null where rows have none",
    }


def _format_manifest_columns(publication: Publication) -> str:
    """Format `describe_manifest_columns` in a sentence."""
    columns = describe_manifest_columns(publication)
    if publication.withholds_ids:
        sentence = (
            "`id` and `sha256` are HMAC-SHA256 of the row's id and of the row as JSON (keys sorted, no spaces, UTF-8), "
            f"{KEY}."
        )
    else:
        sentence = f"`id` is the row's id, `sha256` is {columns['sha256']}."
    return (
        f"{sentence} `{WITHOUT_MASKS}` is {columns[WITHOUT_MASKS]}."
        if WITHOUT_MASKS in publication.manifest_features
        else sentence
    )


def _format_shell(*commands: list[str]) -> str:
    return "\n".join(["```sh", *map(command.format_command, commands), "```"])
