"""The card of a published repository: the Hub's libraries can read it, and it agrees with the build."""

from __future__ import annotations

import hmac
import json
import re
import tomllib
from dataclasses import replace
from pathlib import Path

import datasets
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from huggingface_hub import DatasetCard

from medfaith import cards, cli
from medfaith.builders import registry
from medfaith.cards import command, composition, datasheet, file_names, licences, publication
from medfaith.cards.publish import spaces
from medfaith.loaders import sources
from tests.support.publishing import REPOSITORIES, list_represented

ROWS = (
    "cxr-contrabench-chexstruct", "cxr-contrabench-openi", "heal-medvqa-nih_cxr14", "surgxbench-cholecseg8k",
)  # fmt: skip
PHYSIONET = "physionet-credentialed"
TASKS = Path(cards.FOLDER).parent / "tasks"


@pytest.mark.parametrize("name", list_represented())
def test_every_body_answers_the_fixed_questions_and_names_its_configs(name):
    written = datasheet.read_sections(name)
    assert list(written) == list(datasheet.WRITTEN)
    assert all([*written.values(), datasheet.read_introduction(name)])
    assert "Research only" in written["Misuse"]
    assert "DIR/" not in cards.read_body(name), "how rows are loaded is generated"
    (benchmark,) = (candidate for candidate in registry.BENCHMARKS.values() if name.startswith(f"{candidate.name}-"))
    configs = [config for config, needed in benchmark.needs.items() if name == f"{benchmark.name}-{needed[0]}"]
    assert configs
    assert [config for config in configs if f"`{config}`" not in cards.read_body(name)] == []


def test_every_repository_has_a_body(builds):
    assert set(builds) == set(REPOSITORIES)


@pytest.mark.parametrize("name", list_represented())
def test_the_hubs_library_reads_the_header(name, staged, builds):
    card = DatasetCard.load(staged[name] / "README.md")
    data = card.data.to_dict()
    assert data["license"] in licences.KNOWN or (data["license"] == "other" and data["license_link"].startswith("http"))
    assert data["pretty_name"] == cards.read_body(name).splitlines()[0].removeprefix("# ")
    assert ("extra_gated_prompt" in data) is (name not in ROWS)
    if name not in ROWS:
        assert [config["config_name"] for config in data["configs"]] == ["manifest"]
        for source in publication.read(builds[name]).sources:
            assert source.terms in data["extra_gated_prompt"]
            assert (source.licence_url in data["extra_gated_prompt"]) is (source.version != licences.OWN)


@pytest.mark.parametrize("name", list_represented())
def test_load_dataset_gives_the_staged_rows(name, staged, builds, tmp_path):
    built = publication.read(builds[name])
    header = {info["config_name"]: info for info in DatasetCard.load(staged[name] / "README.md").data["dataset_info"]}
    for config, features in built.features.items():
        splits = datasets.load_dataset(str(staged[name]), config, cache_dir=str(tmp_path))
        assert isinstance(splits, datasets.DatasetDict)
        assert {split: rows.num_rows for split, rows in splits.items()} == {
            split: n for (entry, split), n in built.splits.items() if entry == config
        }
        for stated in header[config]["splits"]:
            rows = splits[stated["name"]]
            assert rows.features == features
            files = sorted((staged[name] / config).glob(f"{stated['name']}-*.parquet"))
            assert rows.to_list() == pa.concat_tables([pq.read_table(path) for path in files]).to_pylist()
            n_bytes = rows.info.splits[stated["name"]].num_bytes  # pyrefly: ignore[missing-attribute, unsupported-operation]
            assert (stated["num_examples"], stated["num_bytes"]) == (rows.num_rows, n_bytes)
    for config, info in header.items():
        assert info["download_size"] == sum(path.stat().st_size for path in (staged[name] / config).iterdir())
        assert info["dataset_size"] == sum(entry["num_bytes"] for entry in info["splits"])


@pytest.mark.parametrize("name", list_represented())
def test_the_card_has_every_section_once_and_the_builds_counts(name, staged, builds):
    text = (staged[name] / "README.md").read_text(encoding="utf-8")
    record = json.loads((builds[name] / "build.json").read_text(encoding="utf-8"))
    headings = re.findall(r"^## (.+)$", text, re.MULTILINE)
    assert len(headings) == len(set(headings))
    assert set(datasheet.WRITTEN) | {"Composition", "Collection", "How to get it", "Licences", "Citation"} <= set(
        headings
    )
    for key, split in record["splits"].items():
        config, split_name = key.split("/")
        assert f"| `{config}` | `{split_name}` | {split['rows']:,} |" in text
    for source_id, source_record in record["sources"].items():
        assert sources.source(source_id).licence in text
        for label_file, digest in file_names.group_unknown(sources.source(source_id), source_record["files"]).items():
            assert f"`{label_file}` | `{digest}`" in text
    for reason, count in record.get("skipped", {}).items():
        assert f"- {count:,} {reason}" in text or (name not in ROWS and re.search(f"- [<≥]5 {re.escape(reason)}", text))


LABELS, IMAGES = "labels", "images that rows reference"


@pytest.mark.parametrize(
    ("name", "phrases"),
    [
        ("cxr-contrabench-chexpert", [f"- **CheXpert v1.0 / v1.0-small** ({LABELS} and {IMAGES}): ["]),
        ("cxr-contrabench-chexstruct", ["CC BY-NC 4.0", f"({IMAGES}): [CC BY-NC-ND 4.0]"]),
        ("wrong-lung-chest_imagenome", [f"- **Chest ImaGenome** ({LABELS}): [",
                                        f"- **MIMIC-CXR-JPG 2.0 / 2.1** ({LABELS} and {IMAGES}): ["]),
        ("heal-medvqa-vindr_cxr", [f"- **VinDr-CXR (PhysioNet) / VinBigData (Kaggle)** ({LABELS} and {IMAGES}): [",
                                   f"({LABELS}): that of the images they were made from. Derived from licensed"]),
    ],
)  # fmt: skip
def test_the_chain_says_what_each_source_is_there_for(name, phrases, staged):
    text = (staged[name] / "README.md").read_text(encoding="utf-8")
    assert [phrase for phrase in phrases if phrase not in text.split("\n## Licences\n")[1]] == []
    assert sources.source("vindr_cxr_anatomy").licence_url not in text, "a user's tool is no licence"


@pytest.mark.parametrize("name", list_represented(name for name in REPOSITORIES if name not in ROWS))
def test_a_row_of_the_build_gives_the_manifests_hash_as_the_card_says(name, staged, builds):
    config, split, table = next(publication.read(builds[name]).tables())
    row = table.slice(0, 1).to_pylist()[0]
    text = json.dumps(row, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    key = publication.read(builds[name]).split_keys[config, split].secret
    digest = hmac.digest(key, text.encode("utf-8"), "sha256").hex()
    (path,) = (staged[name] / "manifest").glob(f"{config}-0*.parquet")
    (published,) = (line for line in pq.read_table(path).to_pylist() if line["sha256"] == digest)
    assert (published["config"], published["split"]) == (config, split)
    assert published["id"] in (row["id"], hmac.digest(key, row["id"].encode("utf-8"), "sha256").hex())
    card = (staged[name] / "README.md").read_text(encoding="utf-8")
    withheld = "`id` and `sha256` are HMAC-SHA256 of the row's id and of the row as JSON" in card
    assert withheld is (published["id"] != row["id"])
    assert withheld is ("keyed hashes of ids and rows" in card)
    assert "HMAC-SHA256" in card


@pytest.mark.parametrize("name", list_represented())
def test_the_card_has_the_command_that_builds_it(name, builds, staged):
    """tests/cli/test_build.py covers the output of the command."""
    record = json.loads((builds[name] / "build.json").read_text(encoding="utf-8"))
    arguments = command.rebuild(record)
    assert command.format_command(arguments) in (staged[name] / "README.md").read_text(encoding="utf-8")
    parsed = cli.parser().parse_args(arguments[1:])
    built = dict.fromkeys(key.split("/")[0] for key in record["splits"])
    assert parsed.config == [config for config in built if config in registry.BENCHMARKS[record["benchmark"]].needs]
    assert [root.partition("=")[0] for root in parsed.root] == [*record["sources"]]


def test_the_next_frame_of_the_video_needs_the_videos():
    record = {"sources": {"cholec80_boxes": {}, "cholect45": {}}, "arguments": {"successor": "frame"}}
    assert command.list_roots(record) == ["cholec80_boxes", "cholect45", "cholec80"]
    assert command.list_roots(record | {"arguments": {"successor": "second"}}) == ["cholec80_boxes", "cholect45"]


@pytest.mark.parametrize(
    ("source_id", "made_of", "expected"),
    [
        ("openi", ["openi"], ["cc-by-nc-nd-4.0"]),
        ("chexstruct", ["chexstruct"], ["cc-by-nc-4.0"]),
        ("cholect45", ["cholect45"], ["cc-by-nc-sa-4.0"]),
        ("mimic_cxr", ["mimic_cxr", "mimic_cxr_anatomy"], ["other", f"{PHYSIONET}-health-data-license-1.5.0"]),
        ("cholect45", ["cholec80_boxes", "cholect45"], ["other", "several-see-the-card"]),
        ("openi", ["chexstruct", "openi"], ["other", "several-see-the-card"]),
    ],
)
def test_the_headers_licence(source_id, made_of, expected):
    fields = licences.build_header_fields(source_id, [sources.source(name) for name in made_of])
    assert [fields["license"], *filter(None, [fields.get("license_name")])] == expected


def test_several_open_licences_link_the_repositorys_own_source():
    fields = licences.build_header_fields("openi", [sources.source("chexstruct"), sources.source("openi")])
    assert fields["license_link"] == sources.source("openi").licence_url


@pytest.mark.parametrize(
    ("rows", "paper", "expected"),
    [
        (10, {}, []),
        (10, {"rows": 10, "where": "Table 1", "explained": "why"}, []),
        (9, {"rows": 10, "where": "1", "explained": "why"}, ["- `c/test`: other than in the paper (1): why"]),
        (9, {"note": "totals only", "where": "Table 1"}, ["- `c/test`: totals only"]),
    ],
)
def test_what_differs_from_the_paper_is_said(rows, paper, expected):
    assert composition.format_notes({"c/test": {"rows": rows}}, {"c/test": paper}) == expected


@pytest.mark.parametrize("name", list_represented())
def test_the_readme_of_a_build_has_the_body_and_loads_as_it_says(name, builds, tmp_path):
    text = (builds[name] / "README.md").read_text(encoding="utf-8")
    (arguments,) = re.findall(r'load_dataset\("DIR/([^"]+)", "([^"]+)", split="([^"]+)"\)', text)
    assert arguments[0] == name
    rows = datasets.load_dataset(str(builds[name]), arguments[1], split=arguments[2], cache_dir=str(tmp_path))
    assert isinstance(rows, datasets.Dataset)
    assert (
        rows.num_rows
        == json.loads((builds[name] / "build.json").read_text())["splits"]["/".join(arguments[1:])]["rows"]
    )


def parse_entries(bibtex):
    """Parse BibTeX into fields by key, with single spaces; `note` is left out, because it differs by metric."""
    fields_by_key = {}
    for key, fields in re.findall(r"@\w+\{([\w-]+),\n(.*?)\n\}", bibtex, re.DOTALL):
        split = (" ".join(field.split()) for field in re.split(r",\n(?=  \w+ = )", fields))
        fields_by_key[key] = {field for field in split if not field.startswith("note")}
    return fields_by_key


def test_metrics_cite_the_papers_as_the_data_sets_do():
    benchmarks = tomllib.loads((cards.FOLDER / "benchmarks.toml").read_text(encoding="utf-8"))
    papers = {
        key: fields
        for benchmark in benchmarks.values()
        for key, fields in parse_entries(benchmark["bibtex"].strip()).items()
    }
    assert len(papers) == len(benchmarks)
    cited = [
        parse_entries((metric / f"{metric.name}.py").read_text(encoding="utf-8")) for metric in spaces.list_metrics()
    ]
    assert all(cited)
    del papers["medfaith"]  # a table of one's own has no paper
    assert papers.keys() <= {key for metric_entries in cited for key in metric_entries}
    for metric_entries in cited:
        assert {key: papers[key] for key in metric_entries if key in papers}.items() <= metric_entries.items()


def test_splits_that_count_the_same_stand_on_one_line():
    counts = {"finding": {"edema": 2, "mass": 1}}
    splits = {key: {"counts": counts} for key in ("a/test", "b/test")}
    splits["c/test"] = {"counts": {"finding": {"x": 1, "y": 1}}}
    assert composition._format_labels(splits, {}) == [
        ["`a/test`, `b/test`", "finding", "edema 2, mass 1"], ["`c/test`", "finding", "x 1, y 1"]
    ]  # fmt: skip
    paper = {"b/test": {"findings": {"edema": 5}}}
    assert len(composition._format_labels(splits, paper)) == 3


def test_a_licence_of_images_that_rows_reference_holds_too(builds):
    """The labels are open, and the record does not name the source of the images."""
    built = publication.read(builds["cxr-contrabench-chexpert"])
    forgetful = replace(built, sources=(sources.source("chexstruct"),))
    assert (forgetful.policy, forgetful.withholds_ids) == ("recipe", True)
    assert replace(forgetful, referenced=()).policy == "rows"


@pytest.mark.parametrize("name", list_represented())
def test_a_recipe_has_a_locked_key_for_each_split_and_rows_have_none(name, builds):
    built = publication.read(builds[name])
    splits = () if name in ROWS else built.record["splits"]
    assert set(built.published_record.get("key_locks", {})) == set(splits)
