"""Effect of decoders on accuracy, compared with a bias to yes (HEAL-MedVQA, Tables 2 to 4, synthetic radiographs).

    uv run python -m benchmarks.decoders_help [--epochs 20] [--out DIR]

Writes synthetic images of VinDr-CXR, and trains a small LLaVA on their questions with `medfaith train full`. Then the
model answers with each decoder, and with a bias to yes that gives the same number of yes as the decoder. A decoder that
only shifts answers to yes is no better than that bias. The output is the report's table of decoders. All steps use the
commands of a user.
"""

from __future__ import annotations

import argparse
import csv
import tempfile
from pathlib import Path
from typing import Any

import torch
import transformers

from medfaith.builders import heal_medvqa
from medfaith.cli import main as medfaith
from medfaith.loaders.phantom import vindr_cxr, vindr_cxr_anatomy
from tests.support.tasks.tiny_families import llava

N_TRAIN, N_TEST = 400, 120  # images
SIDE = 112  # pixels, 8 x 8 patches
DECODERS = ("greedy", "vcd", "crg", "m3id", "icd", "prompt_highlighter", "loba")
TASKS = "medfaith_heal_vindr_closed,medfaith_heal_vindr_tpt,medfaith_heal_vindr_vpt"


def save_language_model(folder: Path) -> Path:
    """Save the tests' tiny LLaVA with more layers and pixels, and random weights."""
    llava.save(folder, side=SIDE)
    config: Any = transformers.AutoConfig.from_pretrained(folder)
    shape = {"hidden_size": 96, "intermediate_size": 256, "num_hidden_layers": 3, "num_attention_heads": 4}
    for section in (config.text_config, config.vision_config):
        for name, value in shape.items():
            setattr(section, name, value)
    config.text_config.num_key_value_heads, config.text_config.head_dim = 4, 24
    torch.manual_seed(0)
    transformers.LlavaForConditionalGeneration(config).save_pretrained(folder)
    return folder


def run_command(*arguments: str) -> None:
    """Run `medfaith`; exit if it fails."""
    status = medfaith(list(arguments))
    if status:
        raise SystemExit(status)


def main() -> None:
    """Parse the arguments and measure."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--epochs", default="20", help="of the training (default: %(default)s)")
    parser.add_argument("--lr", default="1e-3", help="learning rate of the training (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=0, help="of images and training (default: %(default)s)")
    parser.add_argument("--out", type=Path, metavar="DIR", help="keep all files in this folder (default: keep none)")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        measure(args.out or Path(name), args)


def measure(folder: Path, args: argparse.Namespace) -> None:
    """Train, ask, and print the table."""
    writers = {"vindr_cxr": vindr_cxr, "vindr_cxr_anatomy": vindr_cxr_anatomy}
    roots = {
        name: writer.write(folder / name, seed=args.seed, n_train=N_TRAIN, n_test=N_TEST)
        for name, writer in writers.items()
    }
    data = folder / "data"
    heal_medvqa.build(roots, data, configs=["vindr"])
    where = ["--data", str(data), "--root", f"vindr_cxr={roots['vindr_cxr']}"]
    run_command(
        "train", "full", "--benchmark", "heal", "--pretrained", str(save_language_model(folder / "start")), *where,
        "--epochs", args.epochs, "--lr", args.lr, "--batch-size", "16", "--device", "cpu", "--save-every", "100000",
        "--seed", str(args.seed), "--out", str(folder / "vlm"),
    )  # fmt: skip

    def ask(name: str, more: str = "") -> None:
        model_args = f"pretrained={folder / 'vlm'},decoding={name},regions={roots['vindr_cxr_anatomy']}{more}"
        run_command(
            "eval", *where, "--model", "medfaith-hf-vlm", "--model_args", model_args, "--apply_chat_template",
            "--tasks", TASKS, "--batch_size", "32", "--device", "cpu", "--gen_kwargs", "max_gen_toks=6",
            "--output_path", str(folder / "runs" / f"{name}{more}".replace(",yes_share=", "_")), "--log_samples",
        )  # fmt: skip

    for name in DECODERS:
        ask(name)
    for share in sorted({row["yes_share"] for row in read_table(folder) if row["task"].endswith("closed: accuracy")}):
        ask("yes_bias", f",yes_share={float(share):.4f}")
    rows = read_table(folder)
    names = ("score", "yes_share", "to_greedy", "to_greedy_low", "to_greedy_high", "to_yes_bias", "to_yes_bias_low",
             "to_yes_bias_high")  # fmt: skip
    print(f"{'task':36} {'decoder':32} {'n':>5} " + " ".join(f"{name:>16}" for name in names))
    for row in rows:
        figures = " ".join(f"{100 * float(row[name]) if row[name] else float('nan'):16.2f}" for name in names)
        print(f"{row['task']:36} {row['decoder'].partition(', regions')[0]:32} {row['n']:>5} {figures}")


def read_table(folder: Path) -> list[dict[str, str]]:
    """Write the report and read its table of decoders."""
    run_command("report", str(folder / "runs"), "--out", str(folder / "report"))
    with (folder / "report" / "decoders.csv").open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


if __name__ == "__main__":
    main()
