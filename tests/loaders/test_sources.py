"""The list of sources, and the resolution of root folders."""

from __future__ import annotations

import importlib.util
import os
import sys
from pathlib import Path

import pytest

from medfaith.builders import cxr_contrabench
from medfaith.loaders import openi, sources
from medfaith.loaders.errors import InputError, MedfaithError, MissingSourceError


@pytest.mark.parametrize("source_id", sources.load_sources())
def test_every_entry_is_complete(source_id):
    entry = sources.source(source_id)
    for field in ("title", "version", "licence", "terms", "access"):
        assert getattr(entry, field), field
    assert entry.licence_url.startswith(("https://", "http://"))
    assert entry.publish in ("rows", "recipe")
    assert entry.files
    assert all(entry.files)
    assert sources.status(source_id, {}).state == "missing"
    assert entry.access in entry.instructions()
    if entry.reader:
        reader = sources.reader(source_id)
        assert reader is not None
        paths = reader.list_image_paths("a.png")
        assert paths
        assert all(not Path(p).is_absolute() and ".." not in Path(p).parts for p in paths)


def test_a_root_is_found_in_the_documented_order(tmp_path):
    folders = {name: tmp_path / name for name in ("given", "environment", "config")}
    for folder in folders.values():
        folder.mkdir()
    config = tmp_path / "sources.toml"
    config.write_text(f"[roots]\nchexpert = '{folders['config']}'\nopeni = '{folders['config']}'\n")
    environ = {"MEDFAITH_ROOT_CHEXPERT": str(folders["environment"])}
    roots = sources.resolve_roots({"chexpert": str(folders["given"])}, environ=environ, config=config)
    assert roots == {"chexpert": folders["given"], "openi": folders["config"]}
    assert sources.resolve_roots({}, environ=environ, config=config)["chexpert"] == folders["environment"]
    assert sources.resolve_roots({}, environ={}, config=config)["chexpert"] == folders["config"]
    assert sources.resolve_roots({}, environ={}, config=tmp_path / "absent.toml") == {}


@pytest.mark.parametrize("source_id", [i for i, entry in sources.load_sources().items() if entry.torchxrayvision])
def test_labels_inside_torchxrayvision(source_id):
    roots = sources.resolve_roots({source_id: "torchxrayvision"}, environ={})
    status = sources.status(source_id, roots)
    assert status.state == "incomplete"  # it has no images, and CheXpert has no valid.csv
    assert status.missing == tuple(alternatives[0] for alternatives in status.source.list_expected_files()[1:])


def test_torchxrayvision_that_is_not_installed(monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(MissingSourceError, match=r"pip install torchxrayvision"):
        sources.resolve_roots({"chexpert": "torchxrayvision"}, environ={})


def test_a_torchxrayvision_without_the_labels(tmp_path, monkeypatch):
    (tmp_path / "torchxrayvision/data").mkdir(parents=True)
    (tmp_path / "torchxrayvision/__init__.py").touch()
    monkeypatch.delitem(sys.modules, "torchxrayvision", raising=False)
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(InputError, match=r"(?s)NLMCXR_reports\.tgz is not in this release.*install >= 1\.3"):
        sources.resolve_roots({"openi": "torchxrayvision"}, environ={})


@pytest.mark.parametrize(
    ("roots", "message"),
    [
        ({"chexpert": "/does/not/exist"}, "does not exist"),
        ({"nothing": "/"}, "no such source"),
        ({"mimic_cxr": "torchxrayvision"}, "carries no labels"),
    ],
)
def test_a_wrong_root_is_explained(roots, message):
    with pytest.raises(InputError, match=message):
        sources.resolve_roots(roots, environ={})


@pytest.mark.parametrize(
    "text", ["[roots\n", "roots = 5", 'roots = "x"', "[roots]\nchexpert = 5", "[root]\n", "[roots]\nchexpert = ''"]
)
def test_a_broken_configuration_file_is_named(tmp_path, text):
    config = tmp_path / "sources.toml"
    config.write_text(text)
    with pytest.raises(InputError, match="not valid") as error:
        sources.resolve_roots({}, environ={}, config=config)
    assert str(config) in str(error.value)


def test_a_standing_root_that_has_gone_matters_only_to_a_job_that_needs_it(tmp_path):
    roots = sources.resolve_roots({}, environ={"MEDFAITH_ROOT_CHEXPERT": str(tmp_path / "gone")})
    assert sources.status("chexpert", roots).state == "missing"
    with pytest.raises(InputError, match="gone does not exist"):
        sources.require_root("chexpert", roots)


def test_a_root_argument_without_both_sides_and_a_missing_source_are_refused():
    for argument in ("chexpert", "=x", "chexpert=", ""):
        with pytest.raises(MedfaithError, match="SOURCE=PATH"):
            sources.parse_root_arguments([argument])
    with pytest.raises(MissingSourceError, match="how to get it"):
        sources.require_root("chexpert", {})


def test_status_names_what_is_missing(tmp_path):
    (tmp_path / "train.csv").touch()
    assert sources.status("chexpert", {"chexpert": tmp_path}).missing == ("valid.csv", "train/patient*")
    assert sources.status("chexpert", {"chexpert": tmp_path / "train.csv"}).state == "incomplete"


def test_names_that_are_no_utf8_are_refused(tmp_path):
    """Neither build.json nor Arrow can hold them. Old drives and archives have names in other encodings."""
    (folder := tmp_path / os.fsdecode(b"r\xf6")).mkdir()
    with pytest.raises(InputError, match="the path is no UTF-8 text"):
        sources.require_root("chexpert", {"chexpert": folder})
    (tmp_path / os.fsdecode(b"1\xff.xml")).touch()
    with pytest.raises(InputError, match="its path is no UTF-8 text: rename it"):
        openi.read_reports(tmp_path)
    with pytest.raises(InputError, match=r"the path is no UTF-8 text[\s\S]*--out"):
        cxr_contrabench.build({}, folder)


@pytest.mark.parametrize("name", ["CheXpert-v1.0-small.zip", "images.tar.gz"])
def test_an_archive_is_no_root(tmp_path, name):
    (tmp_path / name).touch()
    with pytest.raises(InputError, match=rf"{name}: is packed\n(?s:.*)unpack it: --root chexpert=FOLDER"):
        sources.require_root("chexpert", {"chexpert": tmp_path / name})
    (tmp_path / "folder.zip").mkdir()
    assert sources.require_root("chexpert", {"chexpert": tmp_path / "folder.zip"}) == tmp_path / "folder.zip"
