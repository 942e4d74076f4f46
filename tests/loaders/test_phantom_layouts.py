"""Every phantom: complete, small, with official headers, equal in any process, and without overwriting user files."""

from __future__ import annotations

import gzip
import importlib
import os
import subprocess
import sys
from collections.abc import Collection
from pathlib import Path
from typing import Any

import pytest

from medfaith.cli import main
from medfaith.loaders import phantom, sources
from medfaith.loaders.errors import InputError

CHEXPERT = (
    "No Finding,Enlarged Cardiomediastinum,Cardiomegaly,Lung Opacity,Lung Lesion,Edema,Consolidation,Pneumonia,"
    "Atelectasis,Pneumothorax,Pleural Effusion,Pleural Other,Fracture,Support Devices"
)
MIMIC = ",".join(sorted(CHEXPERT.split(",")))
VINDR = (
    "Aortic enlargement,Atelectasis,Calcification,Cardiomegaly,Clavicle fracture,Consolidation,Edema,Emphysema,"
    "Enlarged PA,ILD,Infiltration,Lung Opacity,Lung cavity,Lung cyst,Mediastinal shift,Nodule/Mass,Pleural effusion,"
    "Pleural thickening,Pneumothorax,Pulmonary fibrosis,Rib fracture,Other lesion,COPD,Lung tumor,Pneumonia,"
    "Tuberculosis"
)
SENTENCE = "patient_id,study_id,image_id,row_id,sentence"
TOOLS = "Grasper,Bipolar,Hook,Scissors,Clipper,Irrigator,SpecimenBag"
HEADERS = {
    "chexpert/CheXpert-v1.0-small/train.csv": f"Path,Sex,Age,Frontal/Lateral,AP/PA,{CHEXPERT}",
    "chexpert/CheXpert-v1.0-small/valid.csv": f"Path,Sex,Age,Frontal/Lateral,AP/PA,{CHEXPERT}",
    "chexlocalize/CheXpert/val_labels.csv": f"Path,Sex,Age,Frontal/Lateral,AP/PA,{CHEXPERT}",
    "chexlocalize/CheXpert/test_labels.csv": f"Path,{CHEXPERT}",
    "vindr_cxr/annotations/annotations_train.csv": "image_id,rad_id,class_name,x_min,y_min,x_max,y_max",
    "vindr_cxr/annotations/annotations_test.csv": "image_id,class_name,x_min,y_min,x_max,y_max",
    "vindr_cxr/annotations/image_labels_train.csv": f"image_id,rad_id,{VINDR},Other diseases,No finding",
    "vindr_cxr/annotations/image_labels_test.csv": f"image_id,{VINDR},Other disease,No finding",
    "mimic_cxr/mimic-cxr-2.0.0-metadata.csv.gz": (
        "dicom_id,subject_id,study_id,PerformedProcedureStepDescription,ViewPosition,Rows,Columns,StudyDate,StudyTime,"
        "ProcedureCodeSequence_CodeMeaning,ViewCodeSequence_CodeMeaning,PatientOrientationCodeSequence_CodeMeaning"
    ),
    "mimic_cxr/mimic-cxr-2.0.0-split.csv.gz": "dicom_id,study_id,subject_id,split",
    "mimic_cxr/mimic-cxr-2.0.0-chexpert.csv.gz": f"subject_id,study_id,{MIMIC}",
    "mimic_cxr/mimic-cxr-2.0.0-negbio.csv.gz": f"subject_id,study_id,{MIMIC}",
    "chest_imagenome/gold_dataset/gold_object_attribute_with_coordinates.txt": (
        f"{SENTENCE},bbox,relation,label_name,categoryID,context,coord_original,coord224"
    ),
    "chest_imagenome/gold_dataset/gold_bbox_coordinate_annotations_1000images.csv": (
        "image_id,x1,y1,x2,y2,width,height,bbox_name,annot_id,original_x1,original_x2,original_y1,original_y2,"
        "original_width,original_height,annotator,coord224,coord_original"
    ),
    "chest_imagenome/gold_dataset/gold_bbox_scaling_factors_original_to_224x224.csv": (
        "image_id,top,bottom,left,right,ratio"
    ),
    "chest_imagenome/gold_dataset/gold_all_sentences_500pts_1000studies.txt": SENTENCE,
    "chest_imagenome/gold_dataset/gold_attributes_relations_500pts_500studies1st.txt": (
        f"{SENTENCE},bbox,relation,label_name,categoryID,context"
    ),
    "chest_imagenome/gold_dataset/gold_object_comparison_with_coordinates.txt": (
        "patient_id,relationship_id,subject_id,object_id,bbox,comparison,attribute,sentence,bbox_coord_224_subject,"
        "bbox_coord_224_object,bbox_coord_original_subject,bbox_coord_original_object,label_name,current_image_id,"
        "previous_image_id"
    ),
    "chest_imagenome/gold_dataset/auto_bbox_pipeline_coordinates_1000_images.txt": (
        "image_id,bbox_name,original_x1,original_y1,original_x2,original_y2"
    ),
    "cholec80_boxes/ROI_Labels.csv": (
        "Surgery_num,Dir,FrameName,NumBBox_inFrame,ToolName,BBox_X,BBox_Y,BBox_Width,BBox_Height"
    ),
    "cholec80/tool_annotations/video42-tool.txt": f"Frame,{TOOLS}",
    "cholec80/phase_annotations/video42-phase.txt": "Frame,Phase",
    "nih_cxr14/Data_Entry_2017_v2020.csv": (
        "Image Index,Finding Labels,Follow-up #,Patient ID,Patient Age,Patient Gender,View Position,"
        "OriginalImage[Width,Height],OriginalImagePixelSpacing[x,y]"
    ),
    "nih_cxr14/BBox_List_2017.csv": "Image Index,Finding Label,Bbox [x,y,w,h],,,",
    "chexmask/OriginalResolution/ChestX-Ray8.csv": (
        "Image Index,Dice RCA (Mean),Dice RCA (Max),Landmarks,Left Lung,Right Lung,Heart,Height,Width"
    ),
}


def test_tables_have_the_official_headers_and_rows_as_wide(written):
    for file, expected in HEADERS.items():
        source, name = file.split("/", 1)
        data = (written[source] / name).read_bytes()
        header, *rows = (gzip.decompress(data) if name.endswith(".gz") else data).decode().splitlines()
        (sign,) = {",", ";", "\t"} & set(header)
        assert header.replace(sign, ",") == expected
        assert rows
        assert all(row.count(sign) >= header.count(sign) for row in rows if not row.startswith('"'))


def test_every_source_with_a_reader_has_a_phantom_that_is_complete_and_small(written):
    assert set(phantom.SOURCES) == {name for name, entry in sources.load_sources().items() if entry.reader}
    for source in phantom.SOURCES:
        status = sources.status(source, written)
        assert (status.state, status.missing) == ("found", ())
        size = sum(path.stat().st_size for path in written[source].rglob("*") if path.is_file())
        assert size < (5_000_000 if source == "openi" else 2_500_000), source


FEW = {
    "chexpert": {"n_train": 4, "n_valid": 3},
    "chexlocalize": {"n_valid": 3, "n_test": 2},
    "rexvqa": {"n_test": 3, "n_other": 1},
    **{name: {"n_train": 3, "n_test": 2} for name in ("vindr_cxr", "vindr_cxr_anatomy", "nih_cxr14", "chexmask")},
    **{name: {"n": 4} for name in ("openi", "chexstruct")},
    **{name: {"n": 3} for name in phantom.SOURCES if name.startswith("mimic")},
    "chest_imagenome": {"n": 6},
    **{name: {"n": 4} for name in ("table", "images", "vqa_rad", "slake")},
}


def write_few(root: Path, seed: int, names: Collection[str] = tuple(FEW)) -> dict[str, bytes]:
    """Write a few images of each source and return {path: bytes}."""
    for source in names:
        importlib.import_module(f"medfaith.loaders.phantom.{source}").write(root / source, seed=seed, **FEW[source])
    return read_all(root)


def write_videos(root: Path) -> None:
    """Write the first video of each video source."""
    for source in set(phantom.SOURCES) - set(FEW):
        module: Any = importlib.import_module(f"medfaith.loaders.phantom.{source}")
        module.VIDEOS = module.VIDEOS[:1]
        module.write(root / source, seed=0)


def read_all(root: Path) -> dict[str, bytes]:
    return {path.relative_to(root).as_posix(): path.read_bytes() for path in root.rglob("*") if path.is_file()}


def run_afresh(code: str, folder: Path) -> dict[str, bytes]:
    """Run code of this module with a folder in another process and return {path: bytes}."""
    code = f"import sys; from pathlib import Path; from tests.loaders import test_phantom_layouts as t; {code}"
    environment = {**os.environ, "PYTHONHASHSEED": "12345"}
    command = [sys.executable, "-c", code, str(folder)]
    subprocess.run(command, check=True, env=environment, cwd=Path(__file__).parents[2])
    return read_all(folder)


@pytest.mark.parametrize(
    "names", [("chexpert", "chest_imagenome"), pytest.param(tuple(FEW), marks=pytest.mark.full)], ids=["some", "all"]
)
def test_the_same_seed_gives_the_same_bytes_in_any_process(names, tmp_path):
    files = write_few(tmp_path / "here", 3, names)
    subprocess_files = run_afresh(f"t.write_few(Path(sys.argv[1]), 3, {names})", tmp_path / "few")
    assert [name for name in files if files[name] != subprocess_files.get(name)] == []
    assert files.keys() == subprocess_files.keys()
    with_images = {"chexpert", "openi", "vindr_cxr", "mimic_cxr", "chest_imagenome"} & set(names)
    other_seed_files = write_few(tmp_path / "other", 4, sorted(with_images))
    image_names = [name for name in other_seed_files if name.endswith((".jpg", ".png", ".dcm", ".dicom"))]
    assert len(image_names) > 4 * len(with_images)
    assert [name for name in image_names if files.get(name) == other_seed_files[name]] == []


@pytest.mark.full
def test_videos_have_the_same_bytes_in_any_process(written, tmp_path):
    videos = run_afresh("t.write_videos(Path(sys.argv[1]))", tmp_path / "videos")
    assert len({name.split("/")[0] for name in videos}) == 5
    for name, data in videos.items():  # a table begins with the rows of the first video
        assert (written[name.split("/")[0]].parent / name).read_bytes().startswith(data), name


def test_write_refuses_what_it_cannot_do_before_it_writes(tmp_path):
    (tmp_path / "openi").mkdir()
    (tmp_path / "openi" / "mine.txt").touch()
    with pytest.raises(InputError, match="not an empty folder"):
        phantom.write(tmp_path)
    with pytest.raises(InputError, match="no phantom"):
        phantom.write(tmp_path, sources=["chexpert", "no_such_source"])
    assert not (tmp_path / "chexpert").exists()


def test_the_number_of_studies_is_that_of_each_source_of_the_studies(tmp_path):
    sources = ("mimic_cxr_reports", "chest_imagenome")
    options = [word for source in sources for word in ("--source", source)]
    assert main(["phantom", str(tmp_path / "few"), "--seed", "3", "--studies", "4", *options]) == 0
    for source in sources:
        module: Any = importlib.import_module(f"medfaith.loaders.phantom.{source}")
        alone, few = module.write(tmp_path / "alone" / source, seed=3, n=4), tmp_path / "few" / source
        alone_files, few_files = (
            {path.relative_to(root): path.read_bytes() for path in root.rglob("*") if path.is_file()}
            for root in (alone, few)
        )
        assert alone_files == few_files != {}
