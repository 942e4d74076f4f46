"""Controls: their effect on pixels, the choice of donors and places, errors, and the columns in the log."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from datasets import Dataset
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from medfaith.builders.registry import BENCHMARKS
from medfaith.cli import main
from medfaith.loaders import rle
from medfaith.loaders.errors import ImageError, InputError
from medfaith.tasks.contrabench import rows as contrabench
from medfaith.tasks.controls import CONTROLS, Facts, described, paint
from medfaith.tasks.controls.rows import change, controlled, find_place_elsewhere
from medfaith.tasks.heal import rows as heal
from medfaith.tasks.surgx import rows as surgx
from medfaith.tasks.wrong_lung import rows as wrong_lung
from tests.support.builders.files import rows_of as table
from tests.support.reporting.report_logs import rows_of, write_report
from tests.support.tasks.evaluating import samples_of

SCENE = np.random.default_rng(0).integers(0, 256, (40, 60, 3), dtype=np.uint8)
HOLE = np.zeros((40, 60), bool)
HOLE[10:20, 30:45] = True


def test_pixels_of_blank_noise_and_only_the_target():
    assert (paint.fill_mean(SCENE) == np.rint(SCENE.mean((0, 1)))).all()
    shuffled = paint.shuffle_pixels(SCENE, 1)
    assert not (shuffled == SCENE).all()
    assert sorted(map(tuple, shuffled.reshape(-1, 3))) == sorted(map(tuple, SCENE.reshape(-1, 3)))
    region_only = paint.keep_region(SCENE, HOLE)
    assert (region_only[HOLE] == SCENE[HOLE]).all()
    assert len(np.unique(region_only[~HOLE], axis=0)) == 1


def test_paint_continues_what_surrounds_it_and_changes_nothing_far_away():
    """A filled region of a ramp continues the ramp, whatever its pixels were before."""
    ramp = np.repeat(np.linspace(0, 200, 60).astype(np.uint8)[None, :, None], 40, 0).repeat(3, 2)
    marked = ramp.copy()
    marked[HOLE] = 255
    painted = paint.fill_region(marked, HOLE, 1)
    assert np.abs(painted.astype(int) - ramp)[12:18, 32:43].max() < 12
    far = np.ones_like(HOLE)
    far[7:23, 27:48] = False
    assert (painted[far] == marked[far]).all()
    blackened = ramp.copy()
    blackened[HOLE] = 0
    assert (paint.fill_region(blackened, HOLE, 1)[HOLE] == painted[HOLE]).all()
    assert (paint.fill_region(ramp, np.ones_like(HOLE), 1) == paint.fill_mean(ramp)).all()


@given(st.integers(0, 99), st.integers(20, 90), st.integers(20, 90))
def test_the_other_place_never_touches_the_target(seed, height, width):
    rng = np.random.default_rng(seed)
    mask = np.zeros((height, width), bool)
    for _ in range(int(rng.integers(1, 4))):
        y0, x0 = int(rng.integers(height - 8)), int(rng.integers(width - 8))
        mask[y0 : y0 + int(rng.integers(2, 9)), x0 : x0 + int(rng.integers(2, 9))] = True
    place = find_place_elsewhere({"id": str(seed), "target": rle.encode(mask)})
    if place is not None:
        moved_mask = paint.shift_mask(mask, **place)
        assert moved_mask.sum() == mask.sum()
        assert not (moved_mask & mask).any()


def refuse_donor(_: Any) -> Image.Image:
    raise AssertionError("this control takes no donor's tissue")


def read_stored(folder: Path, repository: str, config: str, split: str) -> dict[str, dict[str, Any]]:
    return {row["id"]: row for row in table(folder / repository, config, split)}


def load_heal(data: Path, roots: dict[str, Path], ask: str = "closed", **options: Any) -> Any:
    places = {name: str(root) for name, root in roots.items()}
    arguments = {"split": "test", "data": str(data), "roots": places, **options}
    return heal.load("heal-medvqa-vindr_cxr", "vindr", ask, **arguments)["test"]


@pytest.mark.parametrize(("control", "same"), [("other", False), ("other_same", True)])
def test_donors_of_heal_have_the_answer_that_the_control_says(control, same, phantom_heal_build, phantom_heal_roots):
    docs = load_heal(phantom_heal_build, phantom_heal_roots, control=control)
    built = read_stored(phantom_heal_build, "heal-medvqa-vindr_cxr", "vindr", "test")
    answers_by_question = {}
    for row in built.values():
        if row["question_type"] == "closed":
            answers_by_question.setdefault((row["image"]["key"], row["anatomy"], *row["diseases"]), set()).add(
                row["answer"]
            )
    assert len(docs) > 10
    for doc in docs:
        key = str(doc["images"]).split(":")[1]
        assert key != built[doc["id"]]["image"]["key"]
        answers = answers_by_question[key, doc["anatomy"], *doc["diseases"]]
        assert (built[doc["id"]]["answer"] in answers) is same
        assert doc["options"][doc["answer"]] == built[doc["id"]]["answer"]
    reloaded = load_heal(phantom_heal_build, phantom_heal_roots, control=control)
    assert [str(doc["images"]) for doc in reloaded] == [str(doc["images"]) for doc in docs]


def test_donors_of_contrabench_have_an_alternative_and_not_the_answer(phantom_build):
    arguments = {"config": "chexpert_presence", "split": "validation", "data": str(phantom_build)}
    docs: Any = contrabench.load("cxr-contrabench-chexpert", control="other", **arguments)["test"]
    rows = read_stored(phantom_build, "cxr-contrabench-chexpert", "chexpert_presence", "validation").values()
    present: dict[str, set[str]] = {}
    for row in rows:
        present.setdefault(row["images"][0]["key"].rsplit("/", 1)[0], set()).add(row["finding"])
    assert len(docs) > 40
    for doc in docs:
        donor = str(doc["images"]).split()[0].split(":")[1].rsplit("/", 1)[0]
        positive = {text.lower() for i, text in enumerate(doc["options"]) if i not in (doc["answer"], doc["negated"])}
        assert doc["study_id"].split("/")[0] not in donor
        assert doc["finding"] not in present[donor]
        assert positive & present[donor]


def build_row(number: int, view: str, answer: int, size: tuple[int, int] = (9, 8)) -> dict[str, Any]:
    images = [{"source": "s", "key": f"{number}.png", "view": view}]
    return {"id": f"r{number}", "images": images, "answer": answer, "width": size[0], "height": size[1]}


def test_a_donor_has_the_view_of_the_row_and_is_shown_at_its_size():
    rows = Dataset.from_list(
        [build_row(0, "PA", 0), build_row(1, "AP", 1), build_row(2, "PA", 1), build_row(3, "AP", 0)]
    )
    controlled_rows: Any = controlled(rows, "other", lambda row: Facts(row["id"], "asked", str(row["answer"])))
    assert {row["id"]: row["images"][0]["key"] for row in controlled_rows} == {
        "r0": "2.png", "r2": "0.png", "r1": "3.png", "r3": "1.png",
    }  # fmt: skip
    apply_control = change("other", build_row(0, "PA", 0, (30, 20)))
    assert apply_control is not None
    assert apply_control(Image.fromarray(SCENE), refuse_donor).size == (30, 20)


def test_noise_differs_from_row_to_row_and_not_from_run_to_run():
    add_noise, add_same_noise, add_other_noise = (change("noise", {"id": name}) for name in ("a", "a", "b"))
    image = Image.fromarray(SCENE)
    assert add_noise is not None
    assert add_same_noise is not None
    assert add_other_noise is not None
    pixels = add_noise(image, refuse_donor).tobytes()
    assert pixels == add_noise(image, refuse_donor).tobytes() == add_same_noise(image, refuse_donor).tobytes()
    assert pixels != add_other_noise(image, refuse_donor).tobytes()


def test_without_an_image_nothing_is_edited(phantom_heal_build, phantom_heal_roots):
    docs = load_heal(phantom_heal_build, phantom_heal_roots, "vpt", control="none")
    assert {len(doc["images"]) for doc in docs} == {0}
    assert {doc["kind"] for doc in docs} == {"original", "region"}


def test_flipped_questions_of_heal_have_the_answer_of_the_other_side(phantom_heal_build, phantom_heal_roots):
    docs = load_heal(phantom_heal_build, phantom_heal_roots, control="flipped")
    plain = {doc["id"]: doc for doc in load_heal(phantom_heal_build, phantom_heal_roots)}
    for doc in docs:
        side, opposite = ("left", "right") if "left" in doc["anatomy"] else ("right", "left")
        (counterpart,) = [
            candidate for candidate in plain.values()
            if (candidate["image_id"], candidate["diseases"], candidate["anatomy"])
            == (doc["image_id"], doc["diseases"], doc["anatomy"].replace(side, opposite))
        ]  # fmt: skip
        assert doc["answer"] == counterpart["answer"] != plain[doc["id"]]["answer"]
        assert (np.asarray(doc["images"][0]) == np.asarray(plain[doc["id"]]["images"][0])[:, ::-1]).all()
    assert len(docs) > 0


@pytest.mark.parametrize(
    ("load", "arguments", "fixture"),
    [
        (surgx.load, ("surgxbench-cholec80_boxes", "instruments", "instruments"), "phantom_surgx_build"),
        (wrong_lung.load, ("wrong-lung-chest_imagenome", "gold"), "phantom_wrong_lung_build"),
    ],
)
def test_boxes_are_flipped_with_the_image_and_no_mask_is_logged(load, arguments, fixture, request):
    data = str(request.getfixturevalue(fixture))
    plain, flipped, painted = (
        load(*arguments, split="test", data=data, **options)["test"]
        for options in ({}, {"control": "flipped"}, {"control": "occluded"})
    )
    doc, before = flipped[0], plain[0]
    xywh = [box["xywh"] for box in before["boxes"]]
    assert [box["xywh"][0] for box in doc["boxes"]] == [before["width"] - x - w for x, _, w, _ in xywh]
    assert "counts" not in json.dumps({**painted[0]}, default=str)
    assert (painted[0]["control"], painted[0]["prompt"]) == ("occluded", "b0, occluded")


def test_a_donor_that_is_missing_stops_the_run_or_its_rows_are_left_out_and_counted(
    phantom_build, phantom_roots, tmp_path, capsys
):
    root = tmp_path / "chexpert"
    shutil.copytree(phantom_roots["chexpert"], root, copy_function=os.link)

    def load(**options: Any) -> Any:
        kwargs = {"config": "chexpert_presence", "split": "validation", "data": str(phantom_build), "control": "other"}
        return contrabench.load("cxr-contrabench-chexpert", roots={"chexpert": str(root)}, **kwargs, **options)["test"]

    before = {doc["id"]: str(doc["images"]) for doc in load()}
    row_id, donor = next(iter(before.items()))
    capsys.readouterr()
    next(root.rglob(donor.split()[0].split(":")[1])).unlink()
    with pytest.raises(ImageError, match=rf"row {row_id}, control other, its donor: image(.|\n)*--skip-missing-images"):
        load()
    after = load(skip_missing_images=True)
    lost = [row for row, image_names in before.items() if donor.split()[0] in image_names.split()]
    assert {doc["id"]: str(doc["images"]) for doc in after} == {k: v for k, v in before.items() if k not in lost}
    assert set(after["n_rows_skipped"]) == {len(lost)}
    assert f"control other: {len(lost)} rows are left out of chexpert_presence: their donor" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("control", "message"),
    [
        ("black", "is 'black'"),
        ("occluded@30", "occluded@25"),
        ("flipped@50", "no dose"),
        ("occluded", "do not say where"),
        ("flipped", "ask about no side"),
    ],
)
def test_what_cannot_be_made_is_refused_before_the_first_answer(control, message, phantom_build):
    arguments = {"config": "chexpert_presence", "split": "validation", "data": str(phantom_build)}
    with pytest.raises(InputError, match=message):
        contrabench.load("cxr-contrabench-chexpert", control=control, **arguments)


def test_every_control_is_described_with_its_benchmarks(capsys):
    assert main(["tasks", "--controls"]) == 0
    printed = capsys.readouterr().out
    for name, (text, benchmarks) in described().items():
        assert name in CONTROLS
        assert text in printed
        assert set(benchmarks.split(", ")) <= set(BENCHMARKS)


def test_the_command_keeps_the_control_of_every_answer_and_the_report_names_it(phantom_build, tmp_path, capsys):
    argv = ["eval", "--data", str(phantom_build), "--tasks", "medfaith_contrabench_chexpert_presence", "--log_samples"]
    argv += ["--output_path", str(tmp_path), "--limit", "5", "--control", "none"]
    assert main([*argv, "--model", "oracle"]) == 0
    samples = samples_of(tmp_path, "chexpert_presence")
    assert {(sample["doc"]["control"], sample["doc"]["images"]) for sample in samples} == {("none", "")}
    assert not [sample for sample in samples if "<image>" in sample["arguments"]["gen_args_0"]["arg_0"]]
    assert [row[1] for row in rows_of(write_report([tmp_path]), "Table 9")] == ["B0 (control none)"]
    capsys.readouterr()
    assert main([*argv, "--model", "hf-multimodal"]) == 2
    assert "--control blank, or --model medfaith-hf-vlm" in capsys.readouterr().err
