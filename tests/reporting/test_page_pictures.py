"""Images in the report's page: they equal the images that the models received, and are included only on request."""

from __future__ import annotations

import base64
import io
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
from PIL import Image

from medfaith.cli import main
from medfaith.reporting.pictures import DPI
from medfaith.reporting.registry import BENCHMARKS
from medfaith.tasks.run import answer, build_reference_model, load_tasks
from tests.support.browser import browser
from tests.support.builders.files import root_words

VPT, CLOSED, INSTRUMENTS = "medfaith_heal_vindr_vpt", "medfaith_heal_vindr_closed", "medfaith_surgx_instruments"
GOLD, SWAPPED, RANDOM_BOXES = (f"medfaith_wrong_lung_{name}" for name in ("gold", "swap_left_right", "random_boxes"))
LOOKED_AT = (INSTRUMENTS, GOLD, SWAPPED, RANDOM_BOXES)  # with heatmaps and boxes


class Scene(NamedTuple):
    """The command for a page with images, and the documents by task and control."""

    command: list[str]
    documents: dict[tuple[str, str], Any]


@pytest.fixture(scope="module")
def scene(
    phantom_heal_build: Path, phantom_heal_roots: Any, phantom_surgx_build: Path, phantom_surgx_roots: Any,
    phantom_wrong_lung_build: Path, phantom_wrong_lung_roots: Any, tmp_path_factory: pytest.TempPathFactory,
) -> Scene:  # fmt: skip
    """Runs on a few rows with edited images, a control and heatmaps; one folder holds the frames' builds and roots."""
    folder, documents = tmp_path_factory.mktemp("pictures"), {}
    roots, store = {**phantom_heal_roots, **phantom_surgx_roots, **phantom_wrong_lung_roots}, folder / "heatmaps"
    (folder / "data").mkdir()
    for build in (phantom_heal_build, phantom_surgx_build, phantom_wrong_lung_build):
        for path in build.iterdir():
            (folder / "data" / path.name).symlink_to(path)
    metadata = {"data": str(folder / "data"), "roots": {name: str(root) for name, root in roots.items()}}
    task_controls = (
        (VPT, None),
        (CLOSED, None),
        (CLOSED, "flipped"),
        (CLOSED, "blank"),
        (INSTRUMENTS, None),
        (GOLD, None),
        (SWAPPED, None),
        (RANDOM_BOXES, None),
    )
    for task, control in task_controls:
        task_metadata = metadata | ({"control": control} if control else {})
        task_metadata |= {"heatmaps": str(store)} if task in LOOKED_AT else {}
        loaded = load_tasks(task, task_metadata)
        store_options = {"heatmap": "box", "store": str(store)} if task in LOOKED_AT else {}
        model = build_reference_model("oracle", **store_options)
        answer(loaded, model, folder / "logs" / f"{task}_{control}", limit=4)
        documents[task, control or "image"] = loaded["tasks"][task].test_docs()
    command = ["report", str(folder / "logs"), "--data", str(folder / "data"), *root_words(roots)]
    return Scene([*command, "--heatmaps", str(store), "--with-images"], documents)


@pytest.fixture(scope="module")
def page(scene: Scene, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("page") / "report.html"
    assert main([*scene.command, "--html", str(path)]) == 0
    return path


def read_parts(page: Path) -> dict[str, Any]:
    text = page.read_text(encoding="utf-8")
    return {name: json.loads(text.split(f'id="{name}">')[1].split("</script>")[0]) for name in ("data", "pictures")}


def open_image(url: str) -> Image.Image:
    return Image.open(io.BytesIO(base64.b64decode(url.partition(",")[2])))


def test_pictures_are_what_the_models_were_shown(scene: Scene, page: Path):
    page_parts, combinations = read_parts(page), set()
    texts, urls = page_parts["data"]["texts"], page_parts["pictures"]["urls"]
    assert len(page_parts["pictures"]["cases"]) == len(page_parts["data"]["cases"]) >= 12
    for place, pictures in page_parts["pictures"]["cases"].items():
        _, task, row_id, *_, answers = page_parts["data"]["cases"][int(place)]
        documents = {
            control: {document["id"]: document for document in task_documents}
            for (name, control), task_documents in scene.documents.items()
            if name == texts[task]
        }
        assert pictures[0][0] == "image" or "image" not in {texts[answer[1]] for answer in answers}
        for control, url, width, height, region, boxes, heat in pictures:
            combinations.add((texts[task], control, region >= 0, bool(boxes), bool(heat)))
            page_image = open_image(urls[url]).convert("L")
            if control == "before the edit":
                after = next(open_image(urls[picture[1]]).convert("L") for picture in pictures if picture[0] == "image")
                assert np.abs(np.asarray(page_image, float) - np.asarray(after, float)).max() > 20
                continue
            image = documents[control][texts[row_id]]["images"][0].convert("RGB")
            assert image.size == (width, height)
            image.thumbnail((320, 320), Image.Resampling.LANCZOS)
            assert np.abs(np.asarray(image.convert("L"), float) - np.asarray(page_image, float)).mean() < 4
    assert combinations == {
        (VPT, "image", True, False, False), (VPT, "before the edit", False, False, False),
        (CLOSED, "image", True, False, False), (CLOSED, "blank", True, False, False),
        (CLOSED, "flipped", False, False, False), (INSTRUMENTS, "image", False, True, True),
        (GOLD, "image", False, True, True),
    }  # fmt: skip


def test_regions_and_heatmaps_lie_where_the_rows_say(scene: Scene, page: Path):
    page_parts = read_parts(page)
    texts, urls = page_parts["data"]["texts"], page_parts["pictures"]["urls"]
    for place, pictures in page_parts["pictures"]["cases"].items():
        task = texts[page_parts["data"]["cases"][int(place)][1]]
        for _, _, width, height, region, boxes, heat in pictures:
            if task in LOOKED_AT:
                alpha = np.asarray(open_image(urls[heat[0][1]]).convert("RGBA"))[..., 3]
                inside = np.zeros((height, width), bool)
                for _, x, y, w, h in boxes:
                    inside[int(y) : int(y + h), int(x) : int(x + w)] = True
                small = np.asarray(Image.fromarray(inside).resize(alpha.shape[::-1], Image.Resampling.NEAREST))
                assert alpha[small].mean() > 10 * alpha[~small].mean()
            elif region >= 0:
                mask = open_image(urls[region])
                assert mask.size[0] / mask.size[1] == pytest.approx(width / height, rel=0.02)
                assert 0 < (np.asarray(mask.convert("RGBA"))[..., 3] > 0).mean() < 0.5


@pytest.fixture(scope="module")
def tab(page: Path) -> Iterator[tuple[Any, list[str]]]:
    with browser() as running:
        tab = running.new_page(viewport={"width": 1280, "height": 900})
        events: list[str] = []
        tab.on("request", lambda request: events.append(request.url))
        tab.on("console", lambda message: events.append(message.text))
        tab.goto(page.as_uri())
        yield tab, events


@pytest.mark.full  # a browser; test_page.py has one regularly
def test_overlays_are_switched_on_and_off_and_stay_so(tab: tuple[Any, list[str]], page: Path):
    page_tab, events = tab
    assert "This file holds licensed pixels." in page_tab.locator("main").inner_text()
    page_tab.get_by_label("Pictures").select_option("yes")
    page_tab.get_by_label("Benchmark").select_option("HEAL-MedVQA")
    page_tab.get_by_label("Task").select_option(label=CLOSED)
    page_tab.locator("#list [role=option]").nth(0).click()
    region = page_tab.locator("#case .layer.region").first
    assert region.is_visible()
    page_tab.get_by_label("Region", exact=True).uncheck()
    assert not region.is_visible()
    page_tab.locator("#list [role=option]").nth(1).click()
    assert not page_tab.locator("#case .layer.region").first.is_visible()
    assert page_tab.locator("#case figcaption").all_inner_texts()[:2] == ["image", "blank"]
    page_tab.get_by_label("Task").select_option("")
    page_tab.get_by_label("Benchmark").select_option("SurgXBench")
    page_tab.locator("#list [role=option]").nth(0).click()
    heat = page_tab.locator("#case .layer.heat").first
    assert not heat.is_visible()
    page_tab.get_by_label("Heatmap", exact=True).check()
    assert heat.is_visible()
    assert {event for event in events if not event.startswith("data:image/")} == {page.as_uri()}
    axe = pytest.importorskip("axe_playwright_python.sync_playwright").Axe()
    results = axe.run(page_tab)
    assert results.violations_count == 0, results.generate_report()


@pytest.mark.full
def test_a_page_without_the_option_has_no_pixel_and_no_sentence(scene: Scene, tmp_path: Path):
    assert main([*scene.command[:2], "--html", str(tmp_path / "plain.html")]) == 0
    text = (tmp_path / "plain.html").read_text(encoding="utf-8")
    sentences = [document["sentence"] for document in scene.documents[GOLD, "image"].select(range(4))]
    assert not [word for word in ("data:image/jpeg", "data:image/png", "licensed pixels", *sentences) if word in text]


@pytest.mark.full  # sheets: test_image_sheets.py
@pytest.mark.usefixtures("png_only")
def test_sheets_show_vpt_before_and_after_and_where_models_look(scene: Scene, tmp_path: Path):
    """The sheets are written next to a page that already has the maximum number of cases with images."""
    saved = ["--out", str(tmp_path / "out"), "--html", str(tmp_path / "few.html")]
    assert main([*scene.command, "--max-cases", "5", *saved]) == 0
    assert len(read_parts(tmp_path / "few.html")["pictures"]["cases"]) == 5
    page = (tmp_path / "few.html").read_text(encoding="utf-8")
    assert not [name for benchmark in BENCHMARKS.values() for name in benchmark.pixel_figures if name in page]
    sizes = {path.stem: Image.open(path).size for path in (tmp_path / "out").glob("figure_*_images.png")}
    n_rows = {name: (width / (3 * DPI), height // round(3.9 * DPI)) for name, (width, height) in sizes.items()}
    n_edited = sum(document["kind"] == "region" for document in scene.documents[VPT, "image"].select(range(4)))
    assert n_rows == {
        "figure_heal_vpt_images": (2, n_edited),
        "figure_wrong_lung_images": (2, 4),
        "figure_wrong_lung_perturbed_images": (2, 3),  # the original, and two perturbations
    }


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (
            lambda arguments: [word for word in arguments if word != "--html"][:-1],
            "--with-images needs a page or a folder",
        ),
        (
            lambda arguments: [*arguments[:4], "--root", "openi=.", *arguments[-3:]],
            "--with-images: no run can have pictures; ",
        ),
        pytest.param(lambda arguments: [*arguments, "--max-cases", "0"], "--max-cases", marks=pytest.mark.full),
    ],
    ids=["no page", "no root", "no case"],
)
def test_what_cannot_be_shown_is_refused(change: Any, expected: str, scene: Scene, tmp_path: Path, capsys: Any):
    arguments = change([*scene.command, "--html", str(tmp_path / "page.html")])
    try:
        status = main(arguments)
    except SystemExit as end:  # argparse's
        status = end.code
    assert status == 2
    assert expected in capsys.readouterr().err
    assert not (tmp_path / "page.html").exists()
