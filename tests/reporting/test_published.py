"""The papers' figures next to those of a report: which run has which row of a paper, and which tables are left out."""

from __future__ import annotations

import csv
import re
import tomllib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.support.reporting.heal_logs import CLOSED, write_heal
from tests.support.reporting.report_logs import rows_of, write_report
from tests.support.reporting.surgx_logs import ACTIONS, FRAMES, write_surgx
from tests.support.reporting.wrong_lung_logs import changed, original, write_wrong_lung

pytestmark = pytest.mark.usefixtures("tables_only")

ROOT = Path(__file__).parents[2]
VLM = "org/llava-med-v1.5-mistral-7b"
SENTENCES = [original(0, "a", auroc=0.6, average_precision=0.4), original(1, "b", auroc=0.8, average_precision=0.5)]


def write_answers(folder: Path, **options: Any) -> None:
    """Write answers to yes/no questions about VinDr."""
    write_heal(folder, "closed", CLOSED, **options)


def write_sentences(folder: Path, **options: Any) -> None:
    """Write the attention to original sentences."""
    write_wrong_lung(folder, "gold", SENTENCES, **options)


def write_frames(folder: Path, **options: Any) -> None:
    """Write the triplets of frames."""
    write_surgx(folder, ACTIONS, **options)


LLAVA_MED, PH, VCD, CRG, LOBA, LOBA_WITHOUT_PROMPT = "0.703", "0.716", "0.652", "0.689", "0.728", "0.724"
Cases = Mapping[str, tuple[str | Mapping[str, Any], str | None]]
# Name of a run -> arguments of its model (a text: the model alone), and the figure of its row of the paper or None.
HEAL: Cases = {
    VLM: ({}, LLAVA_MED),
    f"{VLM} + greedy": ({"decoding": "greedy"}, LLAVA_MED),
    f"{VLM} + greedy, regions masks": ({"decoding": "greedy", "regions": "/data/masks"}, LLAVA_MED),
    f"{VLM} + lora": ({"peft": "/runs/lora"}, None),
    f"{VLM} + VCD": ({"decoding": "vcd"}, VCD),
    f"{VLM} + VCD, alpha 2": ({"decoding": "vcd", "alpha": 2}, None),
    f"{VLM} + CRG": ({"decoding": "crg"}, CRG),
    f"{VLM} + CRG, regions masks": ({"decoding": "crg", "regions": "/data/masks"}, CRG),
    f"{VLM} + CRG, regions stated:qwen3_vl": ({"decoding": "crg", "regions": "stated:qwen3_vl"}, CRG),
    f"{VLM} + PH, regions masks": ({"decoding": "prompt_highlighter", "regions": "masks"}, PH),
    f"{VLM} + PH, regions loba:trained": ({"decoding": "prompt_highlighter", "regions": "loba:/runs/trained"}, None),
    f"{VLM} + M3ID": ({"decoding": "m3id"}, None),
    f"{VLM} + LobA": ({"decoding": "loba"}, LOBA),
    f"{VLM} + LobA, weight 3, regions masks": ({"decoding": "loba", "weight": 3, "regions": "/data/masks"}, LOBA),
    f"{VLM} + LobA, regions loba:trained": ({"decoding": "loba", "regions": "loba:/runs/trained"}, LOBA),
    "vlm + LobA, regions loba:trained": ({"pretrained": "vlm", "decoding": "loba", "regions": "loba:trained"}, None),
    f"{VLM} + greedy, regions loba:trained": (
        {"decoding": "greedy", "regions": "loba:/runs/trained"}, LOBA_WITHOUT_PROMPT,
    ),
}  # fmt: skip
WRONG_LUNG: Cases = {
    "gloria:chexpert_resnet50.ckpt": ("gloria:/data/chexpert_resnet50.ckpt", "69.07"),
    "gloria:retrained.ckpt": ("gloria:runs/1/retrained.ckpt", "55.84"),
    "gloria:word_masking.ckpt": ("gloria:/data/word_masking.ckpt", "61.44"),
    "gloria:clinical_masking.ckpt": ("gloria:/data/clinical_masking.ckpt", "54.67"),
    "gloria:data/no_attn.ckpt": ("gloria:/data/no_attn.ckpt", "57.00"),
    "gloria:other/no_attn.ckpt": ("gloria:/other/no_attn.ckpt", "57.00"),
    "gloria:abnormal.ckpt": ("gloria:/data/abnormal.ckpt", "55.89"),
    "gloria:30_shot.ckpt": ("gloria:/data/30_shot.ckpt", "63.90"),
    "gloria:rand_sents.ckpt": ("gloria:/data/rand_sents.ckpt", "38.88"),
    "gloria:retrained.ckpt (attention=code)": (
        {"pretrained": "gloria:runs/1/retrained.ckpt", "attention": "code"}, "55.84",
    ),
    "gloria:retrained.ckpt (tau=2)": ({"pretrained": "gloria:runs/1/retrained.ckpt", "tau": 2}, None),
    "gloria:mine.ckpt": ("gloria:/data/mine.ckpt", None),
    "clip:openai/clip-vit-base-patch32": ("clip:openai/clip-vit-base-patch32", None),
}  # fmt: skip
SURGX: Cases = {
    "openai/clip-vit-base-patch32": ("openai/clip-vit-base-patch32", "1.40"),
    "llava-hf/llava-1.5-7b-hf": ("llava-hf/llava-1.5-7b-hf", "0.00"),
    "surgvlp:SurgVLP.pth": ("surgvlp:/data/SurgVLP.pth", "11.90"),
    "surgvlp:HecVL.pth": ("surgvlp:/data/HecVL.pth", "7.60"),
    "surgvlp:PeskaVLP.pth": ("surgvlp:/data/PeskaVLP.pth", "20.80"),
    "surgvlp:PeskaVLP.pth (layer=3)": ({"pretrained": "surgvlp:/data/PeskaVLP.pth", "layer": 3}, None),
    "open_clip:RN50-quickgelu:openai": ("open_clip:RN50-quickgelu:openai", None),
}


@pytest.mark.parametrize(
    ("write", "cases", "title", "paper", "score"),
    [
        (write_answers, HEAL, "HEAL-MedVQA", "Table 2", "VinDr yes/no F1"),
        (write_sentences, WRONG_LUNG, "That's the Wrong Lung!", "Table 1 or Table 3", "AUROC"),
        (write_frames, SURGX, "SurgXBench", "section 5.2", "IVT"),
    ],
)
def test_each_run_has_its_row_of_the_paper_or_is_named(
    tmp_path: Path, write: Callable[..., None], cases: Cases, title: str, paper: str, score: str
):
    for number, (arguments, _) in enumerate(cases.values()):
        named = {"pretrained": arguments} if isinstance(arguments, str) else {"pretrained": VLM, **arguments}
        write(tmp_path / str(number), model_args=named)
    report = write_report([tmp_path])
    assert {
        row[0]: row[4] for row in rows_of(report, f"{title}, next to the paper") if row[1] in paper and row[3] == score
    } == {name: figure for name, (_, figure) in cases.items() if figure}
    (note,) = {line for line in report.split("\n") if line.startswith("The paper has no figure for: ")}
    unmatched = {name for name, (_, figure) in cases.items() if figure is None}
    assert {*note.removesuffix(".").split(": ", 1)[1].split("; ")} == unmatched


def test_a_figure_stands_next_to_that_of_the_same_setting_and_unit(tmp_path: Path):
    """Cells are derived by hand. UNITER has no local similarity in the paper, and some subsets have no row here."""
    scores = {"auroc": 0.75, "average_precision": 0.5, "iou_5": 0.02, "iou_10": 0.25, "iou_30": 0.5, "entropy": 5.5}
    write_wrong_lung(tmp_path / "a", "gold", [original(0, "a", "one_lung", **scores)], model="GLoRIA")
    options: dict[str, dict[str, Any]] = {
        "held-out patients": {"n_rows_left_out": 5},
        "nearest upsampling": {"upsampling": "nearest"},
        "precision without ties": {"precision_ties": "excluded"},
    }
    for name, changes in options.items():
        write_wrong_lung(tmp_path / name, "gold", [original(0, "a", auroc=0.5)], model="GLoRIA", **changes)
    row = original(1, "b", overall=0.5, local=0.5)
    pairs = [row, changed(row, "random_sentences", **{"local": 0.25, "global": 0.25})]
    write_wrong_lung(tmp_path / "b", "random_sentences", pairs, model="UNITER")
    write_surgx(tmp_path / "c", FRAMES, model="PeskaVLP")
    other_frames = [
        (doc | {"images": doc["images"].replace("cholec80_boxes", "cholecseg8k")}, row) for doc, row in FRAMES
    ]
    write_surgx(tmp_path / "d", other_frames, model="BLIP", task="medfaith_surgx_instruments_seg8k")
    report = write_report([tmp_path])
    figures = {
        tuple(row[:4]): row[4:]
        for title in ("That's the Wrong Lung!", "That's the Wrong Lung!, next to the paper: other", "SurgXBench")
        for row in rows_of(report, title if ":" in title else f"{title}, next to the paper")
    }
    assert figures["GLoRIA", "Table 1", "", "IOU@10"] == ["6.69", "25.00", "+18.31"]
    assert figures["GLoRIA", "Table 2", "One Lung", "AUROC"] == ["65.48", "75.00", "+9.52"]
    assert figures["GLoRIA", "Table 7", "no", "All: average precision"] == ["51.68", "50.00", "-1.68"]
    assert figures["GLoRIA", "Table 12", "no", "One Lung: IOU@30"] == ["20.54", "50.00", "+29.46"]
    assert figures["GLoRIA", "Table 10", "", "All: entropy in nats"] == ["5.828", "5.500", "-0.328"]
    for name in ("held-out patients", "nearest upsampling"):
        assert figures[f"GLoRIA ({name})", "Table 1", "", "AUROC"] == ["69.07", "50.00", "-19.07"]
    assert "The paper has no figure for: GLoRIA (precision without ties)." in report
    assert figures["UNITER", "Table 4", "", "All: global"] == ["67.20", "100.00", "+32.80"]
    assert figures["PeskaVLP", "section 5.1", "Cholec80-Boxes, hook", "F1"] == ["0.741", "0.667", "-0.074"]
    assert "BLIP" not in {key[0] for key in figures}, "the paper asked about other frames"
    assert not [key for key in figures if key[3] == "All: local" or "Abnormal" in key[2:] or "yes" in key[2]]


@pytest.mark.parametrize("model", ["my-model", f"{VLM} + lora"])
def test_a_run_without_any_row_is_named_under_the_first_table_that_could_have_one(tmp_path: Path, model: str):
    write_answers(tmp_path / "run", model=model)
    write_answers(tmp_path / "control", model=model, control="blank")
    report = write_report([tmp_path])
    (table,) = (section for section in report.split("\n## ") if "The paper has no figure for: " in section)
    assert table.startswith("HEAL Table 2")
    assert f"The paper has no figure for: {model}.\n" in table
    assert "next to the paper" not in report


TABLES = {  # folder of the report's benchmark -> its name, and the number of the paper's tables
    "heal": ("HEAL-MedVQA", 8),
    "wrong_lung": ("That's the Wrong Lung!", 12),
    "surgx": ("SurgXBench", 1),
}


@pytest.mark.parametrize("folder", TABLES)
def test_each_table_of_a_paper_has_its_figures_here_or_a_reason(folder: str):
    name, n_tables = TABLES[folder]
    page = (ROOT / "docs" / "reports.md").read_text(encoding="utf-8")
    left_out = re.findall(rf"^\| {re.escape(name)} \| Table (\d+) \| \w", page, re.MULTILINE)
    here = [number for table in read_paper_tables(folder) for number in re.findall(r"^Table (\d+)$", table["paper"])]
    assert {*map(int, left_out)} | {*map(int, here)} == {*range(1, n_tables + 1)}
    assert not {*left_out} & {*here}


@pytest.mark.parametrize("folder", TABLES)
def test_figures_stand_under_columns_of_the_report(folder: str):
    """The golden files have each table of a report."""
    for table in read_paper_tables(folder):
        path = next((ROOT / "tests/reporting/golden").glob(f"*/{table['name']}.csv"))
        with path.open(encoding="utf-8", newline="") as file:
            columns = next(csv.reader(file))
        keys = table.get("keys", ["model"])
        assert {*keys, *table["columns"]} <= {*columns, "data"}, table["name"]
        assert len(table["titles"]) == len(table["columns"])
        assert {len(row) for row in table["rows"]} == {len(keys) + len(table["columns"])}
        assert len({tuple(row) for row in table["rows"]}) == len(table["rows"])


def read_paper_tables(folder: str) -> list[dict[str, Any]]:
    path = ROOT / "medfaith" / "reporting" / folder / "published.toml"
    return tomllib.loads(path.read_text(encoding="utf-8"))["tables"]
