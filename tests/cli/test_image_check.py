"""The warnings of a build about images that are missing, broken or resized."""

import re
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from PIL import Image

import medfaith
from medfaith import image_check
from medfaith.cli import main
from medfaith.image_check import find_image_problems

N_ROWS = 12


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A root with the images a.png to l.png of 4 x 3 pixels."""
    (tmp_path / "root").mkdir()
    for letter in "abcdefghijkl":
        Image.new("L", (4, 3)).save(tmp_path / "root" / f"{letter}.png")
    return tmp_path / "root"


@pytest.fixture(params=["image", "images"])
def repository(request, tmp_path: Path) -> Path:
    references = [{"source": "cholect45", "key": f"{letter}.png", "view": ""} for letter in "abcdefghijkl"]
    cells = references if request.param == "image" else [[reference] for reference in references]
    (tmp_path / "data" / "config").mkdir(parents=True)
    table = pa.table({request.param: cells, "width": [4] * N_ROWS, "height": [3] * N_ROWS})
    pq.write_table(table, tmp_path / "data/config/test-00000-of-00001.parquet")
    return tmp_path / "data"


def test_missing_broken_and_resized_images_are_counted(repository, root):
    assert find_image_problems(repository, {"cholect45": root}) == []
    assert find_image_problems(repository, {}) == []  # an evaluation asks for the root
    (root / "b.png").unlink()
    (root / "c.png").write_bytes(b"")
    Image.new("L", (8, 6)).save(root / "d.png")
    unusable, resized = find_image_problems(repository, {"cholect45": root})
    assert re.match(r"2 of 12 images of cholect45 .* missing or broken.*first: image 'b\.png'.*no such file", unusable)
    assert re.match(r"1 of 12 images .* another size.*d\.png has 8 x 6 pixels, in the rows 4 x 3", resized)


@pytest.mark.parametrize("named", ["..", "below"])
def test_the_root_that_has_the_images_is_named(repository, root, named):
    (root / "below").mkdir()
    wrong, right = (root.parent, root) if named == ".." else (root / "below", root)
    (problem,) = find_image_problems(repository, {"cholect45": wrong})
    assert problem.startswith("12 of 12")
    assert problem.endswith(f"--root cholect45={right}")


def test_no_other_root_is_named_for_a_broken_image(repository, root):
    (root / "below").mkdir()
    (root / "a.png").rename(root / "below/a.png")
    (root / "a.png").write_text("an html page of an error")
    (problem,) = find_image_problems(repository, {"cholect45": root})
    assert problem.endswith("neither jpg, png nor DICOM, or damaged at its start")


def test_images_of_a_large_source_are_spread(repository, root, monkeypatch):
    monkeypatch.setattr(image_check, "CHECKED", 4)
    for letter in "jkl":  # the last archive of four was not unpacked
        (root / f"{letter}.png").unlink()
    (problem,) = find_image_problems(repository, {"cholect45": root})
    assert problem.startswith("1 of 4 images")


def test_a_build_warns_of_images(phantom_roots, tmp_path, capsys, recwarn):
    (tmp_path / "labels").mkdir()
    (path,) = phantom_roots["chexpert"].rglob("valid.csv")
    (tmp_path / "labels/valid.csv").write_bytes(path.read_bytes())
    arguments = ["--config", "chexpert_presence", "--root", f"chexpert={tmp_path}/labels", "--out", f"{tmp_path}/out"]
    assert main(["build", "cxr-contrabench", *arguments]) == 0
    printed = re.findall(r"(\S+-chexpert: )WARNING: (.*)", capsys.readouterr().out)
    assert any(re.match(r"(\d+) of \1 images of chexpert .* missing", text) for _, text in printed)
    medfaith.build(
        "cxr-contrabench", tmp_path / "out", configs=["chexpert_presence"], roots={"chexpert": tmp_path / "labels"}
    )
    shown = [str(warning.message) for warning in recwarn if warning.filename == __file__]
    assert shown == ["".join(line) for line in printed]
