"""Diseases that the labels and the report of a study confirm, case by case."""

from __future__ import annotations

import shutil

import pytest

from medfaith.builders.heal_medvqa.mimic import LABELS, PHRASES, confirmed, denied, doubtful, pictures
from medfaith.builders.heal_medvqa.questions import UNASKED
from medfaith.loaders import mimic_cxr, phantom
from medfaith.loaders.errors import InputError
from medfaith.loaders.phantom import mimic_cxr_reports
from medfaith.loaders.vindr_cxr import CLASSES

NOTHING = dict.fromkeys(mimic_cxr.LABELS)


@pytest.mark.parametrize(
    ("labels", "report", "expected"),
    [
        # A label decides if there is one.
        ({"Edema": 1.0}, None, {"Edema"}),
        ({"Edema": 1.0}, "No edema.", {"Edema"}),
        ({"Edema": 0.0}, "There is edema.", set()),
        ({"Edema": -1.0}, "There is edema.", set()),
        ({}, "There is edema.", set()),
        ({"Fracture": 1.0}, None, {"Clavicle fracture", "Rib fracture"}),
        ({"Fracture": 0.0}, "Rib fracture.", set()),
        # The text says which bone the label means.
        ({"Fracture": 1.0}, "Acute left rib fracture.", {"Rib fracture"}),
        ({"Fracture": 1.0}, "Left clavicle fracture.", {"Clavicle fracture"}),
        ({"Fracture": 1.0}, "There is a fracture.", {"Clavicle fracture", "Rib fracture"}),
        ({"Lung Lesion": 1.0}, None, {"Nodule/Mass"}),
        ({"Pleural Other": 1.0}, None, set()),
        ({"Enlarged Cardiomediastinum": 1.0}, None, set()),
        ({"No Finding": 1.0}, "Emphysema.", {"Emphysema"}),
        ({"Support Devices": 1.0, "Pneumonia": 1.0}, None, set()),
        # The text decides for other classes, ...
        ({}, "There is interstitial lung disease.", {"ILD"}),
        ({"Pneumothorax": 1.0}, "Known ILD.", {"ILD", "Pneumothorax"}),
        ({}, "Calcified granuloma.", {"Calcification"}),
        ({}, "The aorta is mildly dilated.", {"Aortic enlargement"}),
        ({}, "Ectatic and tortuous aorta.", {"Aortic enlargement"}),
        ({}, "Aneurysmal descending thoracic aorta.", {"Aortic enlargement"}),
        ({}, "The aorta is tortuous.", set()),
        ({}, "The aorta is not dilated.", set()),
        ({}, "Main pulmonary artery is enlarged.", {"Enlarged PA"}),
        ({}, "Dilatation of the central pulmonary arteries.", {"Enlarged PA"}),
        ({}, "Normal pulmonary arteries.", set()),
        ({}, "Leftward shift of mediastinal structures.", {"Mediastinal shift"}),
        ({}, "The mediastinum is shifted to the right.", {"Mediastinal shift"}),
        ({}, "A cavitary lesion in the right apex.", {"Lung cavity"}),
        ({}, "Air in the pleural cavity.", set()),
        ({}, "Thin-walled lung cysts.", {"Lung cyst"}),
        ({}, "A renal cyst.", set()),
        ({}, "Fibrotic changes at both bases.", {"Pulmonary fibrosis"}),
        ({}, "Cystic fibrosis.", set()),
        ({}, "Emphysematous changes.", {"Emphysema"}),
        ({}, "Subcutaneous emphysema.", set()),
        ({}, "Biapical pleural thickening.", {"Pleural thickening"}),
        ({}, "Patchy infiltrates.", {"Infiltration"}),
        # ... unless it negates, hedges or dates them, or names them in the indication.
        ({}, "No emphysema.", set()),
        ({}, "There is no evidence of mediastinal shift or pleural thickening.", set()),
        ({}, "Without infiltrate; calcifications are unchanged.", {"Calcification"}),
        ({}, "Possible emphysema.", set()),
        ({}, "Infiltrate cannot be excluded.", set()),
        ({}, "Fibrosis or emphysema.", set()),
        ({}, "History of emphysema.", set()),
        ({}, "The infiltrate has resolved.", set()),
        ({}, "INDICATION: Emphysema.\n\nFINDINGS: Clear lungs.", set()),
        ({}, " HISTORY:  ILD,\n fibrosis.\n FINDINGS:  Infiltrate.", {"Infiltration"}),
        ({}, "REASON FOR EXAM: infiltrate?\n \n Lungs with emphysema.\n", {"Emphysema"}),
        ({}, "COMPARISON:  ___.\n\nIMPRESSION: Comparison: emphysema is unchanged.", {"Emphysema"}),
        ({}, "Comparison: none. Infiltrate.", set()),
        ({}, "Indications of infiltrate.", {"Infiltration"}),
        ({}, "INDICATION: fibrosis\nFindings: Infiltrate.\nImpression: Emphysema.", {"Infiltration", "Emphysema"}),
        # Without labels the text decides for all classes.
        (None, "Edema and pneumothorax. No effusion.", {"Edema", "Pneumothorax"}),
        (None, "The heart is moderately enlarged. Left rib fractures.", {"Cardiomegaly", "Rib fracture"}),
        (None, "Fracture of the right clavicle.", {"Clavicle fracture"}),
        (None, "Fractures of the left sixth and seventh ribs.", {"Rib fracture"}),
        (None, "A mass and consolidations.", {"Nodule/Mass", "Consolidation"}),
        (None, "Mass effect. Pericardial effusion.", set()),
        (None, "Opacity with atelectasis and pleural fluid.", {"Lung Opacity", "Atelectasis", "Pleural effusion"}),
        (None, "", set()),
    ],
)
def test_confirmed(labels, report, expected):
    assert confirmed(None if labels is None else NOTHING | labels, report) == expected


def test_without_labels_and_report_nothing_is_known_and_every_class_that_is_asked_for_has_a_phrase():
    assert confirmed(None, None) is None
    assert set(PHRASES) - {""} == set(CLASSES) - set(UNASKED)
    assert set(LABELS) < set(CLASSES)
    assert set(LABELS.values()) < set(mimic_cxr.LABELS)
    assert all(phrase == phrase.lower() or "\\" in phrase for phrases in PHRASES.values() for phrase in phrases)
    for name in set(CLASSES) - set(UNASKED):
        text = {"Enlarged PA": "enlarged pulmonary artery", "Nodule/Mass": "nodule"}.get(name, name)
        assert confirmed(None, f"There is {text}.") == {name}
        assert confirmed(None, f"There is no {text}.") == set()


def test_the_text_of_a_phantom_report_confirms_what_it_states():
    """Diseases that the report denies, doubts or names in the indication are not confirmed."""
    for seed in (0, 1):
        for study in mimic_cxr_reports.studies(seed):
            stated = {finding.label for finding in study.findings} - set(UNASKED)
            assert confirmed(None, mimic_cxr_reports.report(study, seed)) == stated, study.number


def collect_by_study(roots, **arguments):
    options = {"views": mimic_cxr.FRONTAL, "labeler": "chexpert", "detection_threshold": 0.25} | arguments
    pictures_by_split, skipped, _ = pictures(roots, **options)
    return [picture for split in pictures_by_split.values() for picture in split], skipped


def test_pictures_of_the_phantom(phantom_heal_roots):
    """Unconfirmed boxes are dropped; confirmed diseases without a box have no location."""
    all_pictures, skipped = collect_by_study(phantom_heal_roots)
    studies = {str(study.id): study for study in mimic_cxr_reports.studies(0)}
    missed = 0
    for picture in all_pictures:
        study = studies[picture.key.split("/")[3][1:]]
        assert study.has_report
        stated = {finding.label for finding in study.findings} - set(UNASKED)
        assert picture.patient == str(study.subject)
        assert set(picture.boxes.labels) | set(picture.unlocated) >= stated
        assert not set(picture.boxes.labels) & set(picture.unlocated)
        assert not set(picture.boxes.labels) - stated
        missed += bool(set(picture.unlocated) & stated)
    assert missed  # the detector misses some
    assert skipped["studies without a report"] == 1
    assert skipped["images without labels and report"] == 1
    assert skipped["detected boxes that no report confirms"] > 0


def test_options_of_the_pictures(phantom_heal_roots):
    everything, _ = collect_by_study(phantom_heal_roots)
    only, _ = collect_by_study(phantom_heal_roots, views=("PA",))
    assert {picture.view for picture in only} == {"PA"}
    assert {picture.view for picture in everything} == {"AP", "PA"}
    strict, _ = collect_by_study(phantom_heal_roots, detection_threshold=0.7)
    n_boxes, n_strict = (sum(len(p.boxes.labels) for p in some_pictures) for some_pictures in (everything, strict))
    assert 0 < n_strict < n_boxes
    with pytest.raises(InputError, match="--view LORDOTIC: no image has this ViewPosition"):
        collect_by_study(phantom_heal_roots, views=("LORDOTIC",))


def test_images_without_any_report_are_not_built_on(phantom_heal_roots, tmp_path):
    without = shutil.ignore_patterns("s*.txt")
    jpg = shutil.copytree(phantom_heal_roots["mimic_cxr"], tmp_path / "jpg", ignore=without)
    with pytest.raises(InputError, match=r"none of its \d+ studies has a report") as error:
        collect_by_study({**phantom_heal_roots, "mimic_cxr": jpg})
    assert "--root mimic_cxr_reports=PATH" in str(error.value)


def test_reports_may_lie_in_a_folder_of_their_own(phantom_heal_roots, tmp_path):
    report_roots = phantom.write(tmp_path, seed=0, sources=("mimic_cxr_reports",))
    for path in (phantom_heal_roots["mimic_cxr"]).glob("files/p*/p*/*.txt"):
        assert (report_roots["mimic_cxr_reports"] / path.relative_to(phantom_heal_roots["mimic_cxr"])).is_file()
    jpg = {name: root for name, root in phantom_heal_roots.items() if name != "mimic_cxr_reports"}
    (together, _), (separate, _) = collect_by_study(jpg), collect_by_study(jpg | report_roots)
    assert [(p.key, p.boxes.labels, p.unlocated) for p in together] == [
        (p.key, p.boxes.labels, p.unlocated) for p in separate
    ]


@pytest.mark.parametrize(
    ("labels", "report", "expected"),
    [
        ({"Edema": -1.0}, None, {"Edema"}),
        ({"Edema": 1.0}, None, set()),
        ({"Fracture": -1.0}, None, {"Clavicle fracture", "Rib fracture"}),
        ({"Edema": None}, "Possible edema.", set()),  # the labeler covers the class, so its blank decides
        (None, "Possible edema.", {"Edema"}),
        ({"Edema": 0.0}, "Cannot exclude emphysema.", {"Emphysema"}),
        (None, "INDICATION: possible emphysema.\n\nFINDINGS: Clear lungs.", set()),
        (None, None, set()),
    ],
)
def test_what_is_left_open_is_neither_confirmed_nor_absent(labels, report, expected):
    assert doubtful(labels, report) == expected
    assert not expected & (confirmed(labels, report) or set())


@pytest.mark.parametrize(
    ("labels", "report", "expected"),
    [
        ({"Edema": 0.0}, None, {"Edema"}),
        ({"Edema": None}, "No edema.", set()),
        (None, "No edema or emphysema.", {"Edema", "Emphysema"}),
        (None, None, set()),
    ],
)
def test_denied(labels, report, expected):
    assert denied(labels, report) == expected
