"""croissant.json of a published repository: its files, columns and terms for machines (Croissant 1.1 with RAI 1.0).

Its texts are sections of the card. It has the eight fields that the Evaluations and Datasets track of NeurIPS asks for:
limitations, biases, sensitive information, use cases, social impact, synthetic data, sources and activities.
"""

from __future__ import annotations

import hashlib
import json
import logging
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import datasets

from ...loaders.errors import InputError, MedfaithError
from .. import datasheet, dictionary, licences, policy
from ..publication import Publication

REPOSITORY = "repo"  # name of the file object of the repository
FORMATS = {".parquet": "application/x-parquet", ".json": "application/json", ".jsonl": "application/jsonlines"}
TYPES = {
    "string": "sc:Text", "bool": "sc:Boolean", "int32": "cr:Int32", "int64": "cr:Int64", "float32": "cr:Float32",
    "float64": "cr:Float64",
}  # fmt: skip
# RAI property -> heading of the card. Croissant wants the first group as one text, the second as lists.
RAI = {
    "rai:dataCollection": "Collection",
    "rai:dataSocialImpact": "Misuse",
    "rai:dataReleaseMaintenancePlan": "Maintenance",
}
RAI_LISTS = {
    "rai:dataAnnotationProtocol": "Annotations",
    "rai:dataPreprocessingProtocol": "Rules",
    "rai:dataUseCases": "Intended use",
    "rai:dataBiases": "Biases",
    "rai:dataLimitations": "Limits",
    "rai:personalSensitiveInformation": "Personal and sensitive information",
}
# Without a date of publication, a build gives the same bytes at any time.
UNDATED = "https://schema.org/datePublished"
CONTEXT: Mapping[str, Any] = {
    "@language": "en",
    "@vocab": "https://schema.org/",
    "arrayShape": "cr:arrayShape",
    "citeAs": "cr:citeAs",
    "column": "cr:column",
    "conformsTo": "dct:conformsTo",
    "containedIn": "cr:containedIn",
    "cr": "http://mlcommons.org/croissant/",
    "rai": "http://mlcommons.org/croissant/RAI/",
    "prov": "http://www.w3.org/ns/prov#",
    "data": {"@id": "cr:data", "@type": "@json"},
    "dataType": {"@id": "cr:dataType", "@type": "@vocab"},
    "dct": "http://purl.org/dc/terms/",
    "description": {"@container": "@language"},
    "equivalentProperty": "cr:equivalentProperty",
    "examples": {"@id": "cr:examples", "@type": "@json"},
    "extract": "cr:extract",
    "field": "cr:field",
    "fileProperty": "cr:fileProperty",
    "fileObject": "cr:fileObject",
    "fileSet": "cr:fileSet",
    "format": "cr:format",
    "includes": "cr:includes",
    "isArray": "cr:isArray",
    "isLiveDataset": "cr:isLiveDataset",
    "jsonPath": "cr:jsonPath",
    "key": "cr:key",
    "md5": "cr:md5",
    "name": {"@container": "@language"},
    "parentField": "cr:parentField",
    "path": "cr:path",
    "recordSet": "cr:recordSet",
    "references": "cr:references",
    "regex": "cr:regex",
    "repeated": "cr:repeated",
    "replace": "cr:replace",
    "samplingRate": "cr:samplingRate",
    "sc": "https://schema.org/",
    "separator": "cr:separator",
    "source": "cr:source",
    "subField": "cr:subField",
    "transform": "cr:transform",
}


def build_document(publication: Publication, staged: Path, repo_id: str) -> str:
    """Build the JSON-LD of a repository.

    Args:
        publication: The repository.
        staged: The folder of its Parquet files, build.json and exports.
        repo_id: `<org>/<name>` on the Hub.

    Returns:
        The text of croissant.json.
    """
    sections = datasheet.build_sections(publication, repo_id)
    entry = datasheet.load_benchmark(publication.record["benchmark"])
    page, org = f"https://huggingface.co/datasets/{repo_id}", repo_id.split("/", 1)[0]
    columns = _collect_meanings(publication)
    content = {
        "@context": CONTEXT,
        "@type": "sc:Dataset",
        "conformsTo": ["http://mlcommons.org/croissant/1.1", "http://mlcommons.org/croissant/RAI/1.0"],
        "name": publication.name,
        "alternateName": datasheet.read_title(publication.name),
        "description": strip_markup(f"{datasheet.read_introduction(publication.name)}\n\n{sections['Motivation']}"),
        "url": page,
        "version": datasheet.get_version(),
        "license": licences.list_links(publication.sources),
        "citeAs": entry["bibtex"].strip(),
        "keywords": [*datasheet.TAGS, publication.record["benchmark"], *entry["tags"]],
        "inLanguage": "en",
        "isAccessibleForFree": True,
        "creator": {"@type": "sc:Organization", "name": org, "url": f"https://huggingface.co/{org}"},
        **({"datePublished": publication.published_on} if publication.published_on else {}),
        "usageInfo": f"{page}#intended-use",
        **{name: strip_markup(sections[heading]) for name, heading in RAI.items()},
        **{name: [strip_markup(sections[heading])] for name, heading in RAI_LISTS.items()},
        **({"rai:hasSyntheticData": entry["synthetic"]} if "synthetic" in entry else {}),
        "prov:wasDerivedFrom": [
            {
                "@id": f"{page}#source-{source.id}",  # many sources have the same licence, and no address of their own
                "@type": "prov:Entity",
                "prov:label": f"{source.title}, {source.version}",
            }
            for source in publication.all_sources
        ],
        "prov:wasGeneratedBy": {
            "@type": "prov:Activity",
            "prov:label": "Rows made by rules, with a seed",
            "description": strip_markup(sections["Provenance"]),
            "prov:wasAssociatedWith": {
                "@id": datasheet.get_page(),
                "@type": "prov:SoftwareAgent",
                "prov:label": f"medfaith {publication.record['medfaith']}",
            },
        },
        "distribution": [*_iterate_files(staged, page), *(_build_file_set(config) for config in publication.features)],
        "recordSet": [
            _build_record_set(config, features, columns) for config, features in publication.features.items()
        ],
    }
    return json.dumps(content, indent=2, ensure_ascii=False) + "\n"


def _collect_meanings(publication: Publication) -> Mapping[str, str]:
    """Collect the descriptions of columns, and of fields of structs by dotted path."""
    if publication.policy == policy.RECIPE:
        return datasheet.describe_manifest_columns(publication)
    name = publication.record["benchmark"]
    paths = {path for features in publication.built.values() for path, _ in dictionary.iterate_paths(features)}
    return {path: dictionary.get_meaning(name, path) for path in paths}


def validate(text: str) -> None:
    """Validate a croissant.json with mlcroissant; a missing date (UNDATED) is allowed.

    Args:
        text: The text of croissant.json.

    Raises:
        InputError: mlcroissant finds faults.
        MedfaithError: mlcroissant is not installed.
    """
    try:
        import mlcroissant
    except ImportError:
        raise MedfaithError(
            "croissant.json cannot be checked: mlcroissant is not installed\n"
            '  what to do: pip install "medfaith[publish]"'
        ) from None
    try:
        with _silence_warnings():
            dataset = mlcroissant.Dataset(jsonld=json.loads(text))
        issues = dataset.metadata.ctx.issues
        faults = [*issues.errors, *(fault for fault in issues.warnings if UNDATED not in fault)]
    except (mlcroissant.ValidationError, ValueError) as error:
        faults = [str(error)]
    if faults:
        problem = f"is no valid Croissant: {' '.join('; '.join(map(str, faults)).split())}"
        raise InputError("croissant.json", problem, expected="what mlcroissant accepts", action="report it as an error")


@contextmanager
def _silence_warnings() -> Iterator[None]:
    """Stop mlcroissant from logging its warnings: they are reported as faults."""
    logger = logging.getLogger("absl")
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        logger.setLevel(level)


def strip_markup(markdown: str) -> str:
    """Remove emphasis, code marks and link syntax from Markdown; addresses stay.

    >>> strip_markup("Rows of **OpenI**: `key`, [CC BY](https://x.org).")
    'Rows of OpenI: key, CC BY (https://x.org).'

    Args:
        markdown: The Markdown.

    Returns:
        The plain text.
    """
    text = re.sub(r"```\w*\n", "", markdown)
    text = re.sub(r"\[([^\]]+)\]\(([^)]+)\)", r"\1 (\2)", text)
    return re.sub(r"`|\*\*", "", text)


def _iterate_files(staged: Path, page: str) -> Iterator[dict[str, Any]]:
    """Yield Croissant's FileObjects: one for the repository on the Hub, then one for each data file in `staged`."""
    yield {
        "@type": "cr:FileObject",
        "@id": REPOSITORY,
        "name": REPOSITORY,
        "description": "The repository on the Hub.",
        "contentUrl": f"{page}/tree/main",
        "encodingFormat": "git+https",
        # Croissant requires a hash, and a repository has none. Its files are hashed below.
        "sha256": "https://github.com/mlcommons/croissant/issues/80",
    }
    for path in sorted(path for path in staged.rglob("*") if path.is_file() and path.suffix in FORMATS):
        name = path.relative_to(staged).as_posix()
        if name == "croissant.json":
            continue
        with path.open("rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
        yield {
            "@type": "cr:FileObject",
            "@id": name,
            "name": name,
            "contentUrl": f"{page}/resolve/main/{name}",
            "contentSize": f"{path.stat().st_size} B",
            "encodingFormat": FORMATS[path.suffix],
            "sha256": digest,
        }


def _build_file_set(config: str) -> dict[str, Any]:
    return {
        "@type": "cr:FileSet",
        "@id": f"files-of-{config}",
        "name": f"files-of-{config}",
        "description": f"The Parquet files of {config}.",
        "containedIn": {"@id": REPOSITORY},
        "encodingFormat": FORMATS[".parquet"],
        "includes": f"{config}/*.parquet",
    }


def _build_record_set(config: str, features: datasets.Features, columns: Mapping[str, str]) -> dict[str, Any]:
    """Build a record set; `columns` describes columns, and fields of structs by dotted path."""
    fields = [_build_field(f"{config}/{name}", feature, config, (name,), columns) for name, feature in features.items()]
    if "split" not in features:
        extract = {"fileProperty": "fullpath"}
        transform = {"regex": f"^{re.escape(config)}/([^-]+)-.+\\.parquet$"}
        source = {"fileSet": {"@id": f"files-of-{config}"}, "extract": extract, "transform": transform}
        split = {"@type": "cr:Field", "@id": f"{config}/split", "name": "split", "dataType": "sc:Text"}
        fields.append({**split, "description": "The split, from the file's name.", "source": source})
    keys = [name for name in ("config", "split", "id") if name in {field["name"] for field in fields}]
    return {
        "@type": "cr:RecordSet",
        "@id": config,
        "name": config,
        "description": f"Rows of {config}.",
        "key": [{"@id": f"{config}/{name}"} for name in keys],
        "field": fields,
    }


def _build_field(
    identifier: str, feature: Any, config: str, path: tuple[str, ...], columns: Mapping[str, str]
) -> dict[str, Any]:
    """Build the Croissant Field of a column, or of a field of a struct; `path` has the names from the column on.

    Raise InputError for a list of lists, which has no form here.
    """
    entry: dict[str, Any] = {
        "@type": "cr:Field",
        "@id": identifier,
        "name": path[-1],
        "description": columns[".".join(path)],
    }
    if isinstance(feature, datasets.List):
        entry |= {"isArray": True, "arrayShape": str(feature.length)}
        feature = feature.feature
    if isinstance(feature, Mapping):
        entry["subField"] = [
            _build_field(f"{identifier}/{key}", child, config, (*path, key), columns) for key, child in feature.items()
        ]
        return entry
    if isinstance(feature, datasets.List):
        raise InputError(f"{config}, column {path[0]}", "is a list of lists, which this description has no form for")
    source: dict[str, Any] = {"fileSet": {"@id": f"files-of-{config}"}, "extract": {"column": path[0]}}
    if len(path) > 1:
        source["transform"] = [{"jsonPath": key} for key in path[1:]]
    return {**entry, "dataType": TYPES[feature.dtype], "source": source}
