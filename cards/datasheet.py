"""README.md of a published repository: the Hub's header, and the questions of Datasheets for Datasets (Gebru et al.).

cards/<repository>.md says under fixed headings what is true of one repository only. Everything else is generated.
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
from . import FOLDER, body, command, composition, config_text, dictionary, examples, licences, policy, small_counts
from .publication import WITHOUT_MASKS, Publication
from .publish import reports

WRITTEN = ("Motivation", "Annotations", "Rules", "Intended use", "Misuse", "Biases", "Limits")  # headings of a body
SIZES = ((1_000, "n<1K"), (10_000, "1K<n<10K"), (100_000, "10K<n<100K"), (1_000_000, "100K<n<1M"))
LARGEST = "1M<n<10M"
KEY = "with a key made of the labels and the config"
STATEMENTS = (
    "Funding: none is declared. Ethics review: none is declared for this data set, for which no new data of patients "
    "was collected. The publications of the sources have their own statements."
)
MAINTENANCE = (
    "Whoever published this repository maintains it, with medfaith. A correction is a new commit: older ones stay, and "
    "a result should name the commit of its rows. build.json says which release of medfaith built them. Errors are "
    "reported and followed at"
)
TAGS = ("medfaith", "medical", "evaluation", "hallucination", "vision-language")


@cache
def benchmark(name: str) -> dict[str, Any]:
    """What benchmarks.toml says of a benchmark."""
    return tomllib.loads((FOLDER / "benchmarks.toml").read_text(encoding="utf-8"))[name]


def readme(publication: Publication, staged: Path, repo_id: str) -> str:
    """README.md of the repository `repo_id`; `staged` holds its Parquet files."""
    parts = [f"# {title(publication.name)}", introduction(publication.name)]
    parts += [f"## {heading}\n\n{text}" for heading, text in sections(publication, repo_id).items()]
    return front_matter(header(publication, staged)) + "\n\n".join(parts) + "\n"


def sections(publication: Publication, repo_id: str) -> dict[str, str]:
    """Heading -> Markdown, in the order of the card."""
    known = registry.BENCHMARKS[publication.record["benchmark"]].needs
    sections = written_sections(publication.name).items()
    written = {heading: config_text.about(text, known, publication.built) for heading, text in sections}
    return {
        "Motivation": written["Motivation"],
        "Composition": composition.text(publication),
        "Columns": dictionary.text(publication.record["benchmark"], publication.built),
        "An example row": _example(publication),
        "Collection": _collection(publication),
        "Annotations": written["Annotations"],
        "Rules": written["Rules"],
        "Intended use": written["Intended use"],
        "Misuse": written["Misuse"],
        "Biases": written["Biases"],
        "Limits": written["Limits"],
        "Personal and sensitive information": _sensitive(publication),
        "How to get it": _use(publication, repo_id),
        "Licences": licences.chain(publication.sources, publication.referenced),
        "Funding and ethics": STATEMENTS,
        "Maintenance": f"{MAINTENANCE} {issues()}.",
        "Citation": _citation(publication.record["benchmark"]),
        "Contact": f"Questions, errors, requests to take something down: {issues()}. Rows were built by medfaith "
        f"{publication.record.get('medfaith')}, this card was written by medfaith {version()}.",
    }


def _citation(name: str) -> str:
    """The paper, with a link by which the Hub knows it."""
    about = benchmark(name)
    eprint = re.search(r"eprint = \{([\d.]+)\}", about["bibtex"])
    link = f"The paper: https://arxiv.org/abs/{eprint[1]}\n\n" if eprint else ""
    return f"{link}```bibtex\n{about['bibtex'].strip()}\n```"


def title(name: str) -> str:
    return body(name).splitlines()[0].removeprefix("# ")


def introduction(name: str) -> str:
    return body(name).split("\n## ", 1)[0].split("\n", 1)[1].strip()


def written_sections(name: str) -> dict[str, str]:
    """Heading -> Markdown of cards/<name>.md."""
    parts = (part.split("\n", 1) for part in body(name).split("\n## ")[1:])
    return {heading.strip(): text.strip() for heading, text in parts}


def header(publication: Publication, staged: Path) -> dict[str, Any]:
    """The YAML header: what the Hub shows and filters by, and what `load_dataset` reads."""
    about = benchmark(publication.record["benchmark"])
    hashes, sizes = _measured(publication, staged)
    rows = sum(publication.splits.values())
    size = next((name for limit, name in SIZES if rows < limit), LARGEST)
    found: dict[str, Any] = {
        "pretty_name": title(publication.name),
        "language": ["en"],
        **licences.of_header(publication.record["source"], publication.sources),
        "task_categories": about["task_categories"],
        "tags": [*TAGS, publication.record["benchmark"], *about["tags"]],
        "size_categories": [size],
        "source_datasets": ["extended"],
        "annotations_creators": about["annotations"][publication.record["source"]],
    }
    if publication.policy == policy.RECIPE:
        found |= licences.gate(publication.all_sources)
    found |= build_configs_header(publication.features, hashes)
    found["dataset_info"] = [info | sizes[info["config_name"]] for info in found["dataset_info"]]
    return found


def version() -> str:
    return importlib.metadata.version("medfaith")


def issues() -> str:
    """The project's page for questions, from the package's metadata."""
    links = (entry.split(", ", 1) for entry in importlib.metadata.metadata("medfaith").get_all("Project-URL") or ())
    return dict(links)["Issues"]


def _measured(publication: Publication, staged: Path) -> tuple[dict[tuple[str, str], str], dict[str, dict[str, Any]]]:
    """Of the staged Parquet: the hash of each split's rows, and by config what dataset_info says of sizes in bytes.

    num_bytes is that of the rows in memory (Arrow), download_size that of the files: as `datasets` counts.
    """
    hashes: dict[tuple[str, str], str] = {}
    sizes: dict[str, dict[str, Any]] = {}
    for config, split in publication.splits:
        files = sorted((staged / config).glob(f"{split}-*.parquet"))
        table = pa.concat_tables([pq.read_table(path) for path in files])
        hashes[config, split] = compute_rowset_sha256(table)
        of_config = sizes.setdefault(config, {"splits": [], "download_size": 0, "dataset_size": 0})
        of_config["splits"].append({"name": split, "num_bytes": table.nbytes, "num_examples": table.num_rows})
        of_config["download_size"] += sum(path.stat().st_size for path in files)
        of_config["dataset_size"] += table.nbytes
    return hashes, sizes


def _example(publication: Publication) -> str:
    """One row of each form that rows have."""
    if publication.policy == policy.ROWS:
        note = "The first row of the build."
        rows = {config: examples.shown(first) for config, first in _first_rows(publication)}
    else:
        note = "Synthetic, not from the sources; identifiers are shown as `...`, and masks cut off."
        committed = examples.examples(publication.name)
        rows = {config: committed[config] for config in publication.built if config in committed}
    forms: dict[tuple[str, ...], list[str]] = {}
    for config, row in rows.items():
        forms.setdefault(tuple(row), []).append(config)
    parts = [note]
    for config, *others in forms.values():
        same = f" (the same columns: {', '.join(f'`{other}`' for other in others)})" if others else ""
        parts.append(f"`{config}`{same}:\n\n```json\n{examples.pretty(rows[config])}\n```")
    return "\n\n".join(parts)


def _first_rows(publication: Publication) -> Iterator[tuple[str, dict[str, Any]]]:
    seen: set[str] = set()
    for config, _, table in publication.tables():
        if config not in seen and table.num_rows:
            seen.add(config)
            yield config, table.slice(0, 1).to_pylist()[0]


def _collection(publication: Publication) -> str:
    """Which sources, in which version, and which label files by their hash."""
    lines = ["Nothing was collected for this data set: it is made from these sources by rules, with a seed.", ""]
    lines += ["| source | version read for | label file | SHA-256 |", "|---|---|---|---|"]
    for source in publication.sources:
        read: Mapping[str, Any] = publication.published_record["sources"][source.id]
        for name, digest in read["files"].items():
            lines.append(f"| {source.title} | {read['version']} | `{name}` | `{digest}` |")
    lines += [
        "",
        "The hash of a packed file is that of its content. The hash of many files is over all their names and hashes.",
    ]
    if "segmenter" in publication.record["arguments"]:
        said = publication.record["arguments"]["segmenter"]
        made = (
            f"were made by `{said.replace('`', '')}`" if said else "were made by a program that the build does not name"
        )
        lines += ["", f"The anatomy masks {made}. Other masks give other rows: `medfaith verify` counts them apart."]
    return "\n".join(lines)


def _sensitive(publication: Publication) -> str:
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
    known = (
        f" The training labels of {' and '.join(packaged)} are in the public package torchxrayvision: anyone can "
        "compute the hashes of rows that are made of them."
    )
    return (
        f"{common}. It holds no row, but keyed hashes of {hashed} (HMAC-SHA256), in the order of the hashes. The key "
        "of a config is derived from what the sources' labels say: only those who have the labels can compute them."
        f"{known if packaged else ''}{ids} Counts below {small_counts.FEWEST} are not printed. You build the rows from "
        "your licensed copy. They describe patients whom the sources de-identified. Treat them as the sources' terms "
        "say, and do not try to identify anybody."
    )


def _use(publication: Publication, repo_id: str) -> str:
    record = publication.record
    org = repo_id.split("/", 1)[0]
    about = benchmark(record["benchmark"])
    roots = [word for source in publication.referenced for word in ("--root", f"{source.id}=PATH")]

    tasks = config_text.tasks(about["tasks"][record["source"]], record["splits"])

    def evaluate(data: str, before: str) -> str:
        """Nothing of a build that has the rows of no task, such as one for training alone."""
        shown = _shell(["medfaith", "eval", "--data", data, *roots, *about["model"], "--tasks", tasks])
        return f"{before}\n\n{shown}\n\n" if tasks else ""

    rebuild = command.rebuild(record)
    if publication.policy == policy.ROWS:
        config, split = next(iter(publication.splits))
        load = f'rows = load_dataset("{repo_id}", "{config}", split="{split}")'
        return (
            f"```python\nfrom datasets import load_dataset\n\n{load}\n```\n\n"
            "Rows refer to images by `source` and by `key`, a path below the root of that source.\n\n"
            f"{evaluate(org, 'An evaluation needs your copy:')}This command builds the same rows from the sources:\n\n"
            f"{_shell(rebuild)}"
        )
    return (
        f"This repository has no rows. Build them with [medfaith]({issues().rpartition('/')[0]}) from your licensed "
        "copies, and prove that they are the published ones. `medfaith sources` says how to get each source.\n\n"
        f"{_shell(rebuild, ['medfaith', 'verify', 'DIR', '--against', repo_id])}\n\n"
        f"{evaluate('DIR', 'Then score a model:')}"
        f'`load_dataset("{repo_id}", "manifest")` has a split for each config, and in it `config`, `split`, `id` and '
        f"`sha256` of each row. {_hashed(publication)}"
    )


def manifest_columns(publication: Publication) -> dict[str, str]:
    """What the columns of a recipe's manifest hold."""
    as_json = "the row as JSON (keys sorted, no spaces, UTF-8)"
    return {
        "config": "the row's config",
        "split": "the row's split",
        "id": f"HMAC-SHA256 of the row's id, {KEY}" if publication.withholds_ids else "the row's id",
        "sha256": f"HMAC-SHA256 of {as_json}, {KEY}",
        WITHOUT_MASKS: "as sha256, of the row without its masks; null where rows have none",
    }


def _hashed(publication: Publication) -> str:
    """`manifest_columns` in a sentence."""
    columns = manifest_columns(publication)
    if publication.withholds_ids:
        said = (
            "`id` and `sha256` are HMAC-SHA256 of the row's id and of the row as JSON (keys sorted, no spaces, UTF-8), "
            f"{KEY}."
        )
    else:
        said = f"`id` is the row's id, `sha256` is {columns['sha256']}."
    return (
        f"{said} `{WITHOUT_MASKS}` is {columns[WITHOUT_MASKS]}."
        if WITHOUT_MASKS in publication.manifest_features
        else said
    )


def _shell(*commands: list[str]) -> str:
    return "\n".join(["```sh", *map(command.lines, commands), "```"])
