"""croissant.json: mlcroissant, which nobody here wrote, accepts it and reads the rows by it."""

from __future__ import annotations

import hashlib
import json
import sys
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from medfaith import cards
from medfaith.cards import croissant, datasheet, publication
from medfaith.loaders.errors import InputError, MedfaithError

NAMES = sorted(path.stem for path in cards.FOLDER.glob("*.md"))


def read(folder) -> dict:
    return json.loads((folder / "croissant.json").read_text(encoding="utf-8"))


@pytest.mark.parametrize("name", NAMES)
def test_mlcroissant_finds_no_fault(name, staged):
    croissant.validate((staged[name] / "croissant.json").read_text(encoding="utf-8"))


@pytest.mark.parametrize("name", NAMES)
def test_every_file_of_data_is_there_by_its_hash(name, staged):
    listed = {one["@id"]: one for one in read(staged[name])["distribution"] if one["@type"] == "cr:FileObject"}
    files = {path.relative_to(staged[name]).as_posix(): path for path in staged[name].rglob("*") if path.is_file()}
    assert set(listed) - {"repo"} == set(files) - {"README.md", "croissant.json"}
    for path, one in listed.items():
        if path != "repo":
            assert one["sha256"] == hashlib.sha256(files[path].read_bytes()).hexdigest()
            assert one["contentUrl"] == f"https://huggingface.co/datasets/phantom-org/{name}/resolve/main/{path}"


@pytest.mark.parametrize("name", NAMES)
def test_every_column_is_described(name, staged, builds):
    one = publication.read(builds[name])
    described = {of["@id"]: [field["name"] for field in of["field"]] for of in read(staged[name])["recordSet"]}
    assert {config: list(features) for config, features in one.features.items()} == {
        config: [field for field in fields if field in one.features[config]] for config, fields in described.items()
    }


@pytest.mark.parametrize("name", NAMES)
def test_its_words_are_the_cards(name, staged):
    found = read(staged[name])
    written = datasheet.written_sections(name)
    of_body = {
        "rai:dataSocialImpact": "Misuse",
        "rai:dataAnnotationProtocol": "Annotations",
        "rai:dataPreprocessingProtocol": "Rules",
        "rai:dataUseCases": "Intended use",
        "rai:dataBiases": "Biases",
        "rai:dataLimitations": "Limits",
    }
    for field, heading in of_body.items():
        value = found[field][0] if isinstance(found[field], list) else found[field]
        assert value == croissant.plain(written[heading])
    assert "made from these sources by rules" in found["rai:dataCollection"]
    assert "identify anybody" in found["rai:personalSensitiveInformation"][0]


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
        rows: list[dict] = [plain(record) for record in dataset.records(config)]
        splits = [row.pop("split") for row in rows] if name.startswith("cxr-contrabench") else []
        assert rows == expected
        assert set(splits) <= {path.name.split("-")[0] for path in files}


def plain(value: Any) -> Any:
    """A record of mlcroissant as a row: without the record set's name in its keys, text as str, numbers as Python's."""
    if isinstance(value, dict):
        return {key.rsplit("/", 1)[-1]: plain(of_key) for key, of_key in value.items()}
    if isinstance(value, list):
        return [plain(one) for one in value]
    return value.decode() if isinstance(value, bytes) else value.item() if hasattr(value, "item") else value


def broken(document: dict, what: str) -> str:
    if what == "no date":
        del document["datePublished"]
    elif what == "no licence":
        del document["license"]
    elif what == "a field of no file":
        document["recordSet"][0]["field"][0]["source"]["fileSet"]["@id"] = "elsewhere"
    elif what == "a file without a hash":
        del document["distribution"][1]["sha256"]
    elif what == "a version of no form":
        document["version"] = "one"
    return json.dumps(document)


@pytest.mark.parametrize(
    "what", ["no date", "no licence", "a field of no file", "a file without a hash", "a version of no form"]
)
def test_a_fault_is_an_input_error(what, staged):
    text = broken(read(staged["surgxbench-cholect45"]), what)
    with pytest.raises(InputError, match=r"croissant\.json: is no valid Croissant"):
        croissant.validate(text)


def test_without_mlcroissant_the_message_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "mlcroissant", None)
    with pytest.raises(MedfaithError, match=r'pip install "medfaith\[publish\]"'):
        croissant.validate("{}")


def test_describing_a_build_again_gives_the_same(staged, builds):
    name = "cxr-contrabench-openi"
    one = publication.read(builds[name])
    again = croissant.document(one, staged[name], f"phantom-org/{name}")
    assert again == (staged[name] / "croissant.json").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("markdown", "expected"),
    [
        ("`key` of **OpenI**", "key of OpenI"),
        ("[CC BY](https://x.org)", "CC BY (https://x.org)"),
        ("a\n```json\n{}\n```\nb", "a\n{}\nb"),
    ],
)
def test_markdown_becomes_plain_words(markdown, expected):
    assert croissant.plain(markdown).replace("\n\n", "\n") == expected
