"""OpenI report-derived absence: rules case by case, the rows, and counts on the real reports."""

from __future__ import annotations

from collections import Counter
from hashlib import blake2b

import pytest

from medfaith.builders.cxr_contrabench.openi import MESH, TARGETS, AbsenceItem, find_report_absences, questions
from medfaith.builders.cxr_contrabench.questions import find_violations
from medfaith.builders.negation import FINDINGS, find_mentions
from medfaith.builders.schemas.contrabench import QUESTION
from medfaith.loaders import sources
from medfaith.loaders.openi import Image, Report, read_reports


def report(
    findings: str, impression: str = "", mesh: tuple[str, ...] = (), *, number: int = 12, images: int = 1
) -> Report:
    keys = tuple(Image(f"CXR{number}_IM-0001-{i}001.png") for i in range(1, images + 1))
    return Report(f"CXR{number}", findings, impression, "", "", mesh, (), keys)


ATELECTASIS = ("Pulmonary Atelectasis/base",)
PTX, EFF, EDE, ATE = "pneumothorax", "pleural effusion", "pulmonary edema", "atelectasis"
# Case -> findings, impression, MeSH terms; target, distractor and cue of each record.
RULES = {
    "one": ("No pneumothorax. Basilar atelectasis.", "", ATELECTASIS, [(PTX, ATE, "no")]),
    "findings and impression, one record for each denied target":
        ("Atelectasis.", "Negative for effusion or consolidation.", ATELECTASIS,
         [("focal consolidation", ATE, "negative for"), (EFF, ATE, "negative for")]),
    "a target can be the distractor": ("Effusion. No edema.", "", ("Pleural Effusion/left",), [(EDE, EFF, "no")]),
    "cue of the first mention":
        ("No evidence of edema. Atelectasis.", "Lungs are without edema.", ATELECTASIS, [(EDE, ATE, "no evidence of")]),
    "distractor in the text only": ("No pneumothorax.", "Atelectasis.", (), []),
    "distractor in MeSH only": ("No pneumothorax.", "", ATELECTASIS, []),
    "distractor uncertain": ("No pneumothorax. Possible atelectasis.", "", ATELECTASIS, []),
    "distractor denied too": ("No pneumothorax. Atelectasis.", "No atelectasis.", ATELECTASIS, []),
    "distractor borderline in MeSH": ("No edema. Cardiomegaly.", "", ("Cardiomegaly/borderline",), []),
    "target stated elsewhere": ("Pneumothorax. Atelectasis.", "No pneumothorax.", ATELECTASIS, []),
    "target uncertain": ("No pneumothorax. Atelectasis.", "Possible pneumothorax.", ATELECTASIS, []),
    "target historical": ("Pneumothorax has resolved. Atelectasis.", "", ATELECTASIS, []),
    "only a large one denied": ("No large effusion. Atelectasis.", "", ATELECTASIS, []),
    "target in MeSH": ("No effusion. Atelectasis.", "", (*ATELECTASIS, "Pleural Effusion"), []),
    "no target": ("No nodule. Atelectasis.", "", ATELECTASIS, []),
    "no text": ("", "", ATELECTASIS, []),
}  # fmt: skip


@pytest.mark.parametrize(("findings", "impression", "mesh", "records"), RULES.values(), ids=RULES)
def test_rules(findings, impression, mesh, records):
    items = find_report_absences([report(findings, impression, mesh)], seed=0)
    assert [(item.target, item.distractor, item.cue) for item in items] == records


def test_an_item_is_complete():
    images = (("CXR12_IM-0001-1001.png", ""), ("CXR12_IM-0001-2001.png", ""))
    item = AbsenceItem("openi/CXR12/report_absence/pleural_effusion", "CXR12", images, EFF, ATE, "no")
    assert find_report_absences([report("No effusion. Atelectasis.", mesh=ATELECTASIS, images=2)]) == [item]
    assert (
        find_report_absences([report("No effusion. Atelectasis.", mesh=ATELECTASIS, images=0)]) == []
    )  # without images


@pytest.mark.parametrize("seed", range(8))
def test_the_distractor_is_chosen_by_id_and_seed(seed):
    mesh = ("Scoliosis", "Pulmonary Atelectasis", "Nodule")
    (item,) = find_report_absences([report("Scoliosis, nodule, atelectasis. No effusion.", mesh=mesh)], seed)
    digest = blake2b(f"{seed}:openi/CXR12/report_absence/pleural_effusion".encode(), digest_size=8).digest()
    assert item.distractor == ["atelectasis", "nodule", "scoliosis"][int.from_bytes(digest, "little") % 3]


def test_a_record_does_not_depend_on_other_reports():
    reports = [report("No effusion. Atelectasis.", mesh=ATELECTASIS, number=n) for n in range(1, 6)]
    separate = [item for single_report in reports for item in find_report_absences([single_report], 3)]
    assert find_report_absences(reports, 3) == separate


def test_rows():
    items = find_report_absences([report("No effusion or edema. Atelectasis.", mesh=ATELECTASIS, images=2)])
    table = questions(items)
    assert table.schema == QUESTION.arrow_schema
    assert find_violations(table) == []
    row = table.to_pylist()[0]
    assert row["id"] == items[0].id
    assert row["study_id"] == "CXR12"
    assert [image["key"] for image in row["images"]] == ["CXR12_IM-0001-1001.png", "CXR12_IM-0001-2001.png"]
    assert {image["source"] for image in row["images"]} == {"openi"}
    assert row["options"] == ["Pleural effusion", "No pleural effusion", "Atelectasis"]
    assert (row["answer"], row["negated"], row["counterpart"]) == (0, 1, 0)
    assert (row["finding"], row["polarity"], row["cue"]) == ("pleural effusion", "absence", "no")


def test_no_items_are_no_rows_and_vocabularies_fit():
    assert questions([]).num_rows == 0
    assert set(TARGETS) <= set(MESH) <= set(FINDINGS)
    assert list(MESH) == sorted(MESH)
    assert list(TARGETS) == sorted(TARGETS)


@pytest.fixture(scope="module")
def real() -> list[Report]:
    """The 3,955 real reports bundled with the installed torchxrayvision (located, not imported)."""
    return read_reports(sources.resolve_roots({"openi": "torchxrayvision"}, environ={})["openi"])


@pytest.mark.full
def test_what_the_documented_rules_give_on_the_real_reports(real):
    """The paper has 359 records (311 with several images; 181, 114, 45, 19 by target); its rules are unpublished."""
    items = find_report_absences(real, seed=0)
    assert (len(items), len({item.uid for item in items})) == (1774, 922)
    assert sum(len(item.images) > 1 for item in items) == 1534
    assert Counter(item.target for item in items) == {PTX: 805, EFF: 621, "focal consolidation": 316, EDE: 32}
    assert len({item.id for item in items}) == len(items)
    assert max(len(item.cue.split()) for item in items) <= 6
    assert all(item.distractor in MESH and item.distractor != item.target for item in items)


@pytest.mark.full  # of one report with each seed: test_the_distractor_is_chosen_by_id_and_seed
def test_the_seed_moves_distractors_only(real):
    items, seeded_items = (find_report_absences(real[:400], seed) for seed in (0, 1))
    assert [(i.id, i.images, i.target, i.cue) for i in items] == [
        (i.id, i.images, i.target, i.cue) for i in seeded_items
    ]
    assert [i.distractor for i in items] != [i.distractor for i in seeded_items]


@pytest.mark.full
def test_distractors_of_the_paper_go_beyond_its_targets(real):
    """Each of its 114 effusion records needs a study with another finding; too few have another target (openi.py)."""
    other_findings = set(TARGETS) - {"pleural effusion"}
    heads = {head for finding in other_findings for head in MESH[finding]}

    def has_another_target(item: Report) -> bool:
        mentions = find_mentions(item.findings) + find_mentions(item.impression)
        stated = any(m.finding in other_findings and m.status == "present" for m in mentions)
        return stated or any(term.split("/")[0] in heads for term in item.mesh_major)

    assert sum(has_another_target(item) for item in real if item.images) == 103
