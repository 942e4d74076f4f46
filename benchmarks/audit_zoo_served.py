"""Verdicts of `medfaith audit` on models of known truth, which a server on this machine runs (HEAL-MedVQA, phantom).

    python -m benchmarks.audit_zoo_served [--data DIR --vindr DIR] [--models NAME ...] [--rules 1 2] [--logs DIR]

Each model (`tests.support.auditing.zoo`) answers chat completions with text and images. Without --data, the benchmark
writes a phantom with --images test images; three of five have findings. The audits of rule 1 and rule 2 ask the same
rows. An exclamation mark marks a verdict that is not right for the model.
"""

from __future__ import annotations

import argparse
import contextlib
import csv
import io
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from medfaith.builders import heal_medvqa
from medfaith.cli import main as medfaith
from medfaith.loaders.phantom import vindr_cxr, vindr_cxr_anatomy
from tests.support.auditing.zoo import Member, read_known, serving, zoo

HEADINGS = ("rule", "model", "image", "place", "own-other", "own-blind", "declined", "blind", "clean", "of")


def write_phantom(folder: Path, n_images: int) -> tuple[Path, Path]:
    """Write a synthetic VinDr-CXR and build HEAL-MedVQA from it; return the build and the images."""
    roots = {"vindr_cxr": folder / "vindr_cxr", "vindr_cxr_anatomy": folder / "vindr_cxr_anatomy"}
    for module, root in zip((vindr_cxr, vindr_cxr_anatomy), roots.values(), strict=True):
        module.write(root, seed=0, n_train=10, n_test=n_images)
    heal_medvqa.build(roots, folder / "data", configs=["vindr"])
    return folder / "data", roots["vindr_cxr"]


def run_audit(url: str, data: Path, vindr: Path, out: Path, more: Sequence[str]) -> str:
    """Run the command; return its output."""
    command = ["audit", "--data", str(data), "--root", f"vindr_cxr={vindr}", "--benchmarks", "heal-medvqa"]
    model = ["--model", "medfaith-server", "--model_args", f"base_url={url},model=m", "--apply_chat_template"]
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(io.StringIO()):
        status = medfaith([*command, *model, "--out", str(out), *more])
    if status:
        sys.exit(f"{out}: medfaith audit ended with status {status}")
    return printed.getvalue()


def describe(out: Path, name: str, member: Member, n_rows: str) -> list[str]:
    """Format one row of the table."""
    with (out / "audit.csv").open(encoding="utf-8") as lines:
        (row,) = csv.DictReader(lines)
    with (out / "blind_clean.csv").open(encoding="utf-8") as lines:
        n_clean = len([*csv.DictReader(lines)])
    image, place = row["uses_image"], row["depends_on_place"]
    return [
        row["rule"], name, image + "!" * (image not in member.image), place + "!" * (place not in member.place),
        *(_format_hundred(row.get(column)) for column in ("own_less_other", "reliance", "declined_rate",
                                                   "declined_rate_blind")),
        str(n_clean), n_rows,
    ]  # fmt: skip


def _format_hundred(value: str | None) -> str:
    return f"{100 * float(value):.1f}" if value else "-"


def main() -> None:
    """Audit each model behind a server and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, help="a build of HEAL-MedVQA on phantom images")
    parser.add_argument("--vindr", type=Path, help="the synthetic VinDr-CXR that it was built from")
    parser.add_argument("--images", type=int, default=160, help="test images of the phantom that is written")
    parser.add_argument("--models", nargs="+", help="which models (default: all)")
    parser.add_argument("--rules", nargs="+", default=["1", "2"], help="which rules")
    parser.add_argument("--logs", type=Path, help="folder for the audits and what they print (default: none is kept)")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = arguments.logs or Path(temporary)
        data, vindr = (
            (arguments.data, arguments.vindr) if arguments.data else write_phantom(Path(temporary), arguments.images)
        )
        members = zoo(read_known(data, {"vindr_cxr": vindr}))
        print("".join(f"{heading:18}" for heading in HEADINGS))
        for name in arguments.models or members:
            more = ["--wordings", "2"] if name == "own-wording" else []
            for rule in arguments.rules:
                out = folder / f"{name}-rule-{rule}"
                with serving(members[name].answer) as url:
                    printed = run_audit(url, data, vindr, out, [*more, "--rule", rule])
                out.with_suffix(".txt").write_text(printed, encoding="utf-8")
                n_rows = printed.partition("blind_clean.csv: ")[2].partition(" of ")[2].partition(" ")[0]
                print("".join(f"{cell:18}" for cell in describe(out, name, members[name], n_rows)), flush=True)


if __name__ == "__main__":
    main()
