"""croissant.json: mlcroissant, an independent implementation, accepts it and reads the rows with it."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import sys
from dataclasses import replace
from typing import Any

import datasets
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from medfaith.cards import datasheet, licences, publication
from medfaith.cards.publish import croissant, staging
from medfaith.loaders.errors import InputError, MedfaithError
from tests.support.publishing import list_represented


def read(folder) -> dict:
    return json.loads((folder / "croissant.json").read_text(encoding="utf-8"))


@pytest.mark.parametrize("name", list_represented())
def test_every_file_of_data_is_there_by_its_hash(name, staged):
    listed = {
        file_object["@id"]: file_object
        for file_object in read(staged[name])["distribution"]
        if file_object["@type"] == "cr:FileObject"
    }
    files = {path.relative_to(staged[name]).as_posix(): path for path in staged[name].rglob("*") if path.is_file()}
    assert set(listed) - {"repo"} == set(files) - {"README.md", "croissant.json"}
    for path, file_object in listed.items():
        if path != "repo":
            assert file_object["sha256"] == hashlib.sha256(files[path].read_bytes()).hexdigest()
            assert (
                file_object["contentUrl"] == f"https://huggingface.co/datasets/phantom-org/{name}/resolve/main/{path}"
            )


@pytest.mark.parametrize("name", list_represented())
def test_every_column_is_described(name, staged, builds):
    expected = {config: list(features) for config, features in publication.read(builds[name]).features.items()}
    described = {
        record_set["@id"]: [field["name"] for field in record_set["field"]]
        for record_set in read(staged[name])["recordSet"]
    }
    assert {config: fields[: len(expected[config])] for config, fields in described.items()} == expected


@pytest.mark.parametrize("name", list_represented())
def test_its_words_are_the_cards(name, staged, builds):
    metadata = read(staged[name])
    written = datasheet.build_sections(publication.read(builds[name]), f"phantom-org/{name}")
    headings = {
        "rai:dataSocialImpact": "Misuse", "rai:dataAnnotationProtocol": "Annotations", "rai:dataBiases": "Biases",
        "rai:dataPreprocessingProtocol": "Rules", "rai:dataUseCases": "Intended use", "rai:dataLimitations": "Limits",
    }  # fmt: skip
    for field, heading in headings.items():
        value = metadata[field][0] if isinstance(metadata[field], list) else metadata[field]
        assert value == croissant.strip_markup(written[heading])
    assert "made from these sources by rules" in metadata["rai:dataCollection"]
    assert "identify anybody" in metadata["rai:personalSensitiveInformation"][0]


@pytest.mark.parametrize(
    "name", ["cxr-contrabench-openi", "cxr-contrabench-chexstruct", "heal-medvqa-vindr_cxr", "surgxbench-cholect45"]
)
def test_mlcroissant_reads_the_rows_of_the_parquet(name, staged):
    import mlcroissant

    dataset = mlcroissant.Dataset(jsonld=read(staged[name]), mapping={"repo": str(staged[name])})
    for record_set in dataset.metadata.record_sets:
        config = record_set.id
        files = sorted((staged[name] / config).iterdir())
        expected = pa.concat_tables([pq.read_table(path) for path in files]).to_pylist()
        rows: list[dict] = [convert_record(record) for record in dataset.records(config)]
        splits = [row.pop("split") for row in rows] if name.startswith("cxr-contrabench") else []
        assert rows == expected
        assert set(splits) <= {path.name.split("-")[0] for path in files}


def convert_record(value: Any) -> Any:
    """Convert a record of mlcroissant to a row: keys without the record set's name, text as str, Python numbers."""
    if isinstance(value, dict):
        return {key.rsplit("/", 1)[-1]: convert_record(nested) for key, nested in value.items()}
    if isinstance(value, list):
        return [convert_record(item) for item in value]
    return value.decode() if isinstance(value, bytes) else value.item() if hasattr(value, "item") else value


@pytest.mark.parametrize(
    "fault",
    [
        lambda document: document.pop("license"),
        lambda document: document["recordSet"][0]["field"][0]["source"]["fileSet"].update({"@id": "elsewhere"}),
        lambda document: document["distribution"][1].pop("sha256"),
        lambda document: document.update(version="one"),
    ],
    ids=["no licence", "a field of no file", "a file without a hash", "a version of no form"],
)
def test_a_fault_is_an_input_error(fault, staged):
    document = read(staged["surgxbench-cholect45"])
    croissant.validate(json.dumps(document))
    fault(document)
    with pytest.raises(InputError, match=r"croissant\.json: is no valid Croissant"):
        croissant.validate(json.dumps(document))


def test_a_column_of_lists_of_lists_is_named():
    features = datasets.Features({"polygons": datasets.List(datasets.List(datasets.Value("float32")))})
    with pytest.raises(InputError, match="vindr, column polygons: is a list of lists, which this description has no"):
        croissant._build_record_set("vindr", features, {"polygons": "Corners."})


def test_without_mlcroissant_the_message_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "mlcroissant", None)
    with pytest.raises(MedfaithError, match=r'pip install "medfaith\[publish\]"'):
        croissant.validate("{}")


@pytest.mark.parametrize(
    "name", ["cxr-contrabench-openi", pytest.param("wrong-lung-chest_imagenome", marks=pytest.mark.full)]
)
def test_a_copy_with_other_times_stages_the_same_bytes(name, staged, builds, tmp_path):
    copy, restaged = shutil.copytree(builds[name], tmp_path / name), tmp_path / "staged"
    for number, path in enumerate(copy.rglob("*")):
        os.utime(path, (number * 10_000_000, number * 10_000_000))
    restaged.mkdir()
    staging.stage(publication.read(copy), restaged, repo_id=f"phantom-org/{name}", texts=())
    files = {path.relative_to(restaged): path.read_bytes() for path in restaged.rglob("*") if path.is_file()}
    assert files == {path.relative_to(staged[name]): path.read_bytes() for path in staged[name].rglob("*.*")}


@pytest.mark.parametrize("name", list_represented())
def test_the_key_of_a_record_set_is_one(name, staged):
    """Variants share the ids of their originals, and the splits of a config may share ids."""
    for described in read(staged[name])["recordSet"]:
        columns = [key["@id"].removeprefix(f"{described['@id']}/") for key in described["key"]]
        keys: list[tuple] = []
        for path in sorted((staged[name] / described["@id"]).glob("*.parquet")):
            split = path.name.split("-")[0]
            rows = pq.ParquetFile(path).read().to_pylist()
            keys += [tuple(({"split": split} | row)[column] for column in columns) for row in rows]
        assert len(set(keys)) == len(keys) > 0


@pytest.mark.parametrize("name", list_represented())
def test_only_licences_are_called_so(name, staged, builds):
    built = publication.read(builds[name])
    licence_urls = {source.licence_url for source in built.sources if source.version != licences.OWN}
    assert set(read(staged[name])["license"]) == licence_urls


def test_the_manifests_columns_are_described_as_on_the_card(staged):
    for name, hashed in (("wrong-lung-chest_imagenome", True), ("surgxbench-cholect45", False)):
        (record_set,) = read(staged[name])["recordSet"]
        descriptions = {field["name"]: field["description"] for field in record_set["field"]}
        assert descriptions["sha256"].startswith(
            "HMAC-SHA256 of the row as JSON (keys sorted, no spaces, UTF-8), with a key"
        )
        assert descriptions["id"] == (
            "HMAC-SHA256 of the row's id, with a key made of all rows of the split" if hashed else "the row's id"
        )


@pytest.mark.parametrize(
    ("markdown", "expected"),
    [
        ("`key` of **OpenI**", "key of OpenI"),
        ("[CC BY](https://x.org)", "CC BY (https://x.org)"),
        ("a\n```json\n{}\n```\nb", "a\n{}\nb"),
    ],
)
def test_markdown_becomes_plain_words(markdown, expected):
    assert croissant.strip_markup(markdown).replace("\n\n", "\n") == expected


MINIMAL = (
    "rai:dataLimitations", "rai:dataBiases", "rai:personalSensitiveInformation", "rai:dataUseCases",
    "rai:dataSocialImpact", "rai:hasSyntheticData", "prov:wasDerivedFrom", "prov:wasGeneratedBy",
)  # fmt: skip


@pytest.mark.parametrize("name", list_represented())
def test_the_fields_that_neurips_asks_for_are_there(name, staged, builds):
    """The Evaluations and Datasets track of 2026 asks for eight fields."""
    metadata = read(staged[name])
    missing = [field for field in MINIMAL if metadata.get(field) in (None, "", [], {})]
    assert missing == (["rai:hasSyntheticData"] if name == "own-table" else [])
    assert metadata["creator"] == {
        "@type": "sc:Organization", "name": "phantom-org", "url": "https://huggingface.co/phantom-org"
    }  # fmt: skip
    sources = publication.read(builds[name]).all_sources
    assert [entity["prov:label"].split(",")[0] for entity in metadata["prov:wasDerivedFrom"]] == [
        source.title.split(",")[0] for source in sources
    ]
    assert len({entity["@id"] for entity in metadata["prov:wasDerivedFrom"]}) == len(sources)
    assert "commit" in metadata["rai:dataReleaseMaintenancePlan"]


def test_the_date_is_that_of_the_first_publication(builds, tmp_path):
    dated = replace(publication.read(builds["cxr-contrabench-openi"]), published_on="2026-11-28")
    (folder := tmp_path / "staged").mkdir()
    staging.stage(dated, folder, repo_id="phantom-org/cxr-contrabench-openi", texts=())
    assert read(folder)["datePublished"] == "2026-11-28"
