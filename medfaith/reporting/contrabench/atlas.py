"""Figures 8 to 12 of CXR-ContraBench: intervals, slices of ReXVQA, all absence protocols, scale and robustness.

Intervals and tests come from the report's tables, so that none is computed twice.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ..pictures import NONE, NOTHING, Drawn, draw_empty_note
from ..tables import Table, change, count, p_value, percent
from .dots import (
    AFTER,
    BEFORE,
    OFFSET,
    draw_dot,
    format_row,
    label_rows,
    label_rows_right,
    make_dot_figure,
    make_dot_handles,
)
from .names import PROTOCOLS, format_base_name, get_protocol_rank, protocol_name, select_external
from .runs import Run, count_errors

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Record = Mapping[str, Any]  # a row of a table by the names of its values
Select = Callable[[str], list[Record]]  # name of a table -> its records
ABSENCE = ("chexpert_absence", "openi_report_absence")
_INTERNAL = "ReXVQA slices"
_SIGNIFICANCE, _P_TICKS = 0.05, ("0.001", "0.01", "0.1", "1")
_ABLATIONS = {"M1": "#0072b2", "Y0": "#e69f00", "M2": "#009e73"}
_BY_WORDING = {"base": "B0", "m1": "original M1", "m1_extended": "extended M1"}
_BY_LAYOUT = {"base": "B0", "m1": "slot-0 M1", "m1_slot_agnostic": "slot-agnostic M1"}
_BAR_COLOURS = ("#bbbbbb", "#56b4e9", "#0072b2")  # B0, M1 and its extension
_CHECKS = (  # table, changed field, verifiers, title
    ("table_12_paraphrases", "question_form", _BY_WORDING, "Question paraphrases"),
    ("table_13_layout", "layout", _BY_LAYOUT, "Order of options"),
)
_BAR = 0.27  # height of a bar, of a row's height
_BAR_ROWS = 1.5  # height of a row with three bars, in rows of dots


class _Heatmap(NamedTuple):
    """A panel of Figure 10: its title, the score's name, colours of matplotlib and the colours' range."""

    title: str
    score: str
    colours: str
    ends: tuple[float, float]


_HEATMAPS = (
    _Heatmap("A. Base accuracy", "accuracy", "viridis", (0, 1)),
    _Heatmap("B. Verified accuracy", "accuracy_verified", "viridis", (0, 1)),
    _Heatmap("C. Δ accuracy (points)", "accuracy_delta", "PuOr_r", (-1, 1)),
    _Heatmap("D. Base contradictions", "contradiction_rate", "Reds", (0, 1)),
    _Heatmap("E. Changed answers", "coverage", "Blues", (0, 1)),
)


def draw_atlas_figures(runs: Sequence[Run], tables: Sequence[Table], suffix: str) -> Drawn:
    """Draw Figures 8 to 12 as far as the runs have their values.

    Args:
        runs: The runs to show, of one order of options.
        tables: The report's tables, which may have further runs.
        suffix: Ending of the names of this order's tables and figures.

    Returns:
        Figures by file name, and notes on models that a figure leaves out.
    """
    variants = {(run.model_name, format_base_name(run.setting)) for run in runs}

    def select_records(name: str) -> list[Record]:
        records = [record for table in tables if table.name == name + suffix for record in table.records()]
        return [record for record in records if (record["model"], record["prompt"]) in variants]

    scale, notes = select_replicated(runs)
    absence_runs = select_external(runs, *ABSENCE)
    intervals = select_records("table_04_intervals")
    by_protocol = _group_by_protocol(runs, intervals)
    internal = select_records("table_05_internal_intervals")
    checks = [(check, records) for check in _CHECKS if (records := select_records(check[0]))]
    figures: dict[str, Figure] = {}
    if by_protocol or internal:
        figures["08"] = figure_8(by_protocol, internal)
    if internal:
        figures["09"] = figure_9(select_records)
    if absence_runs:
        figures["10"] = figure_10(absence_runs)
    if scale:
        figures["11"] = figure_11(scale, intervals)
    if checks:
        figures["12"] = figure_12(checks)
    for figure in figures.values() if suffix else ():
        title = figure.legends[0].get_title()
        title.set_text(f"{title.get_text()}, options in the original order")
    return {f"figure_contrabench_{number}{suffix}": figure for number, figure in figures.items()}, notes


def _group_by_protocol(runs: Sequence[Run], records: Sequence[Record]) -> dict[str, list[Record]]:
    """Group the rows of Table 4 by protocol, in the order of the paper."""
    names = dict.fromkeys(map(protocol_name, sorted(runs, key=get_protocol_rank)))
    groups = {name: [record for record in records if record["protocol"] == name] for name in names}
    return {name: group for name, group in groups.items() if group}


def _get_values(record: Record, *names: str, scale: float = 100) -> list[float]:
    """Get values of a record, NaN if undefined."""
    values = [record.get(name) for name in names]
    return [math.nan if value is None else scale * value for value in values]


def _format_record(record: Record, variant: str) -> str:
    return format_row(record["model"], variant, (record["n"], record["n_data"]))


def figure_8(external: Mapping[str, Sequence[Record]], internal: Sequence[Record]) -> Figure:
    """Draw a row for each run: accuracies with intervals, polarity errors or gain with intervals, and p.

    Args:
        external: Rows of Table 4 by protocol.
        internal: Rows of Table 5.

    Returns:
        The figure.
    """
    panels = [*external.items(), *([(_INTERNAL, internal)] if internal else [])]
    sizes = [len(records) for _, records in panels]
    figure = make_dot_figure(sizes, make_dot_handles(), "Figure 8: 95% bootstrap intervals, and permutation tests")
    axes = figure.subplots(
        len(panels), 3, squeeze=False, height_ratios=[size + 0.6 for size in sizes], width_ratios=(4, 4, 3)
    )
    for (accuracy_axes, effect_axes, p_axes), (title, records) in zip(axes, panels, strict=True):
        is_internal = title == _INTERNAL
        for number, record in enumerate(records):
            _draw_before_and_after(accuracy_axes, number, record)
            if is_internal:
                draw_dot(effect_axes, number, _get_values(record, "delta", "delta_low", "delta_high"), AFTER)
            else:
                errors = _get_values(record, "base_errors", "errors_low", "errors_high", scale=1)
                draw_dot(effect_axes, number - OFFSET, errors, BEFORE)
                verified = _get_values(record, "verified_errors", scale=1)[0]
                draw_dot(effect_axes, number + OFFSET, (verified, *NOTHING[1:]), AFTER, "M1")
            draw_dot(p_axes, number, (*_get_values(record, "p_value", scale=1), *NOTHING[1:]), AFTER)
        prompts = [_format_record(record, record["prompt"]) for record in records]
        label_rows(accuracy_axes, _format_slices(records) if is_internal else prompts)
        accuracy_axes.set_xlim(-3, 103)
        label_rows(effect_axes, n_rows=len(records))
        if is_internal:
            effect_axes.axvline(0, color="black", linewidth=0.8)
        else:
            effect_axes.set_xlim(left=-0.03 * effect_axes.get_xlim()[1])
            effect_axes.xaxis.get_major_locator().set_params(integer=True)
        label_rows(p_axes, n_rows=len(records))
        label_rows_right(p_axes, [p_value(record["p_value"]) for record in records])
        p_axes.set(xscale="log", xlim=(5e-5, 2))
        p_axes.set_xticks([*map(float, _P_TICKS)], _P_TICKS)
        p_axes.minorticks_off()
        p_axes.axvline(_SIGNIFICANCE, color="#d55e00", linestyle="--", linewidth=1)
        accuracy_axes.set_title(title, loc="left", fontsize=11)
        effect_axes.set_title(
            "gain of M1 (points)" if is_internal else "number of polarity errors", loc="left", fontsize=9
        )
        p_axes.set_title("p, B0 to M1", loc="left", fontsize=9)
    axes[-1][0].set_xlabel("accuracy (%), 95% CI")
    axes[-1][1].set_xlabel("95% CI")
    axes[-1][2].set_xlabel(f"permutation test; dashed: {_SIGNIFICANCE}")
    return figure


def _draw_before_and_after(axes: Axes, number: int, record: Record) -> None:
    """Draw both accuracies of a row, one a little above the other."""
    for side, y, style in (("base", number - OFFSET, BEFORE), ("verified", number + OFFSET, AFTER)):
        draw_dot(axes, y, _get_values(record, f"{side}_accuracy", f"{side}_low", f"{side}_high"), style, "M1")


def figure_9(select: Select) -> Figure:
    """Draw slices of ReXVQA: changed answers (A), gain (B), gain of each seeded sample (C), and of ablations (D).

    Args:
        select: Selects the records of Tables 5 to 8.

    Returns:
        The figure.
    """
    from matplotlib.lines import Line2D

    slices, seeds, ablations = map(select, ("table_06_internal", "table_08_seeds", "table_07_ablations"))
    gains = {_get_slice(record): record for record in select("table_05_internal_intervals")}
    seeded = [record for key, record in gains.items() if key not in set(map(_get_slice, slices))]
    ablated = [*dict.fromkeys(map(_get_slice, ablations))]
    sizes = [size for size in (len(slices), max(len(seeds), len(ablated))) if size]
    drawn = _ABLATIONS if ablated else ("M1",)
    handles = [Line2D([], [], color=_ABLATIONS[name], marker="o", linestyle="none", label=name) for name in drawn]
    figure = make_dot_figure(sizes, handles, "Figure 9: slices of ReXVQA, and the few answers that a verifier changes")
    axes = iter(figure.subplots(len(sizes), 2, squeeze=False, height_ratios=[size + 0.6 for size in sizes]))
    gain_panels = []
    if slices:
        coverage_axes, gain_axes = next(axes)
        _draw_coverage(coverage_axes, slices)
        _draw_gains(gain_axes, [gains[_get_slice(record)] for record in slices])
        label_rows(gain_axes, _format_slices(slices))
        gain_axes.set_title("B. Gain of M1 by slice", loc="left", fontsize=11)
        gain_panels.append(gain_axes)
    if seeds or ablated:
        seed_axes, ablation_axes = next(axes)
        seed_axes.set_title("C. Gain of M1 by seed; contradictions", loc="left", fontsize=11)
        ablation_axes.set_title("D. Gain of M1 and of its ablations", loc="left", fontsize=11)
        _draw_gains(seed_axes, seeded)
        changes = [change(record["base_contradictions"], record["verified_contradictions"]) for record in seeds]
        names = [
            f"{_format_record(record, record['prompt'] + ', ' + record['seed'])}: {text}"
            for record, text in zip(seeds, changes, strict=True)
        ]
        label_rows(seed_axes, names)
        _draw_ablations(ablation_axes, ablated, gains, ablations)
        gain_panels += [seed_axes, ablation_axes]
        for panel, rows, text in (
            (seed_axes, seeds, "no seeded sample"), (ablation_axes, ablated, "no filter y0 or m2")
        ):  # fmt: skip
            if not rows:
                draw_empty_note(panel, text)
    for panel in gain_panels:
        panel.axvline(0, color="black", linewidth=0.8)
        panel.set_xlabel("points, 95% CI")
    return figure


def _get_slice(record: Record) -> tuple[str, ...]:
    return record["setting"], record["model"], record["prompt"]


def _format_slices(records: Sequence[Record]) -> list[str]:
    return [_format_record(record, f"{record['prompt']}, {record['setting']}") for record in records]


def _draw_coverage(axes: Axes, slices: Sequence[Record]) -> None:
    """Draw the share of answers that M1 changes."""
    shares = [_get_values(record, "coverage")[0] for record in slices]
    for number, share in enumerate(shares):
        if math.isnan(share):
            draw_dot(axes, number, NOTHING, {})
            continue
        axes.barh(number, share, 0.5, color=_ABLATIONS["M1"], alpha=0.75)
        label = f"{share:.2f}% ({count(slices[number]['changed'])})"
        axes.annotate(label, (share, number), (3, 0), textcoords="offset points", va="center", fontsize=8)
    axes.set_xlim(0, 1.35 * max([share for share in shares if share > 0], default=1))
    label_rows(axes, _format_slices(slices))
    axes.set_title("A. Answers that M1 changes", loc="left", fontsize=11)
    axes.set_xlabel("share of the answers (%), number in brackets")


def _draw_gains(axes: Axes, records: Sequence[Record]) -> None:
    for number, record in enumerate(records):
        draw_dot(axes, number, _get_values(record, "delta", "delta_low", "delta_high"), AFTER)


def _draw_ablations(
    axes: Axes, slices: Sequence[tuple[str, ...]], gains: Mapping[tuple[str, ...], Record], ablations: Sequence[Record]
) -> None:
    """Draw the gains of M1 and of the filters that replace it, a row for each slice that has one."""
    delta_by_variant = {(*_get_slice(record), record["variant"]): record for record in ablations}
    for number, key in enumerate(slices):
        for place, (variant, colour) in enumerate(_ABLATIONS.items()):
            record = gains[key] if variant == "M1" else delta_by_variant.get((*key, variant), {})
            style = {"color": colour, "markersize": 5}
            estimate = _get_values(record, "delta", "delta_low", "delta_high")
            draw_dot(axes, number + 0.25 * (place - 1), estimate, style, variant)
    if slices:
        label_rows(axes, _format_slices([gains[key] for key in slices]))


def figure_10(runs: Sequence[Run]) -> Figure:
    """Draw five heatmaps with a row for each model and prompt and a column for each absence protocol.

    Args:
        runs: Runs of absence protocols.

    Returns:
        The figure.
    """
    from matplotlib.patches import Patch

    scores: dict[tuple[str, str], dict[str, Record]] = {}
    sizes: dict[tuple[str, str], dict[str, tuple[int, int]]] = {}
    for run in runs:
        key = run.model_name, format_base_name(run.setting)
        scores.setdefault(key, {})[run.setting.protocol] = run.scores()
        sizes.setdefault(key, {})[run.setting.protocol] = run.n, run.n_data
    protocols = [protocol for protocol in ABSENCE if any(run.setting.protocol == protocol for run in runs)]
    empty = Patch(facecolor="#eeeeee", edgecolor="#888888", label=f"{NONE}: no run, or undefined")
    title = "Figure 10: all models on the absence protocols (% of all questions)"
    figure = make_dot_figure([len(scores)], [empty], title)
    panels = figure.subplots(1, len(_HEATMAPS))
    for axes, heatmap in zip(panels, _HEATMAPS, strict=True):
        values = [
            [by_protocol.get(protocol, {}).get(heatmap.score, math.nan) for protocol in protocols]
            for by_protocol in scores.values()
        ]
        _draw_heatmap(axes, np.array(values, float), heatmap)
        names = [PROTOCOLS[protocol][1].replace(" ", "\n") for protocol in protocols]
        axes.set_xticks(range(len(protocols)), names, fontsize=8)
        axes.set_yticks(range(len(scores)), [""] * len(scores))
        axes.tick_params(length=0)
        axes.set_title(heatmap.title, loc="left", fontsize=10)
    labels = [format_row(*key, *map(sizes[key].get, protocols)) for key in scores]
    panels[0].set_yticks(range(len(scores)), labels, fontsize=8)
    return figure


def _draw_heatmap(axes: Axes, values: np.ndarray, heatmap: _Heatmap) -> None:
    """Draw cells with their values, in per cent."""
    from matplotlib import colormaps
    from matplotlib.colors import Normalize
    from matplotlib.patches import Rectangle

    colours = colormaps[heatmap.colours](Normalize(*heatmap.ends)(np.nan_to_num(values)))
    for (row, column), value in np.ndenumerate(values):
        is_empty = bool(np.isnan(value))
        fill = (0.93, 0.93, 0.93) if is_empty else tuple(colours[row, column, :3])
        axes.add_patch(Rectangle((column - 0.5, row - 0.5), 1, 1, facecolor=fill, edgecolor="white"))
        is_dark = np.dot(fill, (0.299, 0.587, 0.114)) < 0.5
        text = NONE if is_empty else f"{100 * value + 0.0:+.1f}" if heatmap.ends[0] < 0 else f"{100 * value:.1f}"
        colour = "#888888" if is_empty else "white" if is_dark else "black"
        axes.text(column, row, text, ha="center", va="center", fontsize=9, color=colour)
    axes.set(xlim=(-0.5, values.shape[1] - 0.5), ylim=(len(values) - 0.5, -0.5))


def select_replicated(runs: Sequence[Run]) -> tuple[list[Run], list[str]]:
    """Select the runs on CheXpert's absence protocol of variants with both splits.

    Args:
        runs: The runs.

    Returns:
        The runs, the validation split before the training split, and a note on variants with the training split alone.
    """
    absence = select_external(runs, ABSENCE[0], split=None)
    splits: dict[tuple, set[bool]] = {}
    for run in absence:
        splits.setdefault(run.variant, set()).add(run.setting.split == "train")
    replicated = [run for run in absence if len(splits[run.variant]) == 2]
    alone = dict.fromkeys(run.model_name for run in absence if splits[run.variant] == {True})
    note = f"Figure 11 of CXR-ContraBench needs the validation split, too, and leaves out: {', '.join(alone)}"
    return replicated, [note] if alone else []


def figure_11(runs: Sequence[Run], intervals: Sequence[Record]) -> Figure:
    """Draw accuracies (A) and contradictions (B) of both splits, a row for each split of each model.

    Args:
        runs: Runs of both splits.
        intervals: Rows of Table 4.

    Returns:
        The figure.
    """
    by_run = {(record["model"], record["prompt"], record["protocol"]): record for record in intervals}
    title = "Figure 11: report-style absence on CheXpert's validation and training splits"
    figure = make_dot_figure([len(runs)], make_dot_handles(), title)
    accuracy_axes, error_axes = figure.subplots(1, 2)
    changes, labels = [], []
    for number, run in enumerate(runs):
        scores, prompt = run.scores(), format_base_name(run.setting)
        before, after = count_errors(scores), count_errors(scores, "_verified")
        record = {"base_accuracy": scores["accuracy"], "verified_accuracy": scores["accuracy_verified"]}
        record |= by_run.get((run.model_name, prompt, protocol_name(run)), {})
        _draw_before_and_after(accuracy_axes, number, record)
        ends = _get_values(record, "errors_low", "errors_high", scale=1)
        draw_dot(error_axes, number - OFFSET, (before, *ends), BEFORE)
        draw_dot(error_axes, number + OFFSET, (after, *NOTHING[1:]), AFTER, "M1")
        changes.append(change(before, after))
        split = "train" if run.setting.split == "train" else "val."
        labels.append(format_row(run.model_name, f"{prompt}, {split}", (run.n, run.n_data)))
    label_rows(accuracy_axes, labels)
    accuracy_axes.set_xlim(-3, 103)
    accuracy_axes.set_xlabel("accuracy (%), 95% CI")
    accuracy_axes.set_title("A. Accuracy", loc="left", fontsize=11)
    label_rows(error_axes, n_rows=len(runs))
    label_rows_right(error_axes, changes)
    error_axes.set_xscale("symlog", linthresh=1)
    most = max([1.0, *(end for line in error_axes.lines for end in map(float, line.get_xdata()))])
    error_axes.set_xlim(-0.2, 3 * most)
    ticks = [0, *(10**power for power in range(math.ceil(math.log10(3 * most))))]
    error_axes.set_xticks(ticks, [*map(count, ticks)])
    error_axes.minorticks_off()
    error_axes.set_xlabel("number, 95% CI, on a log scale from 1")
    error_axes.set_title("B. Contradictions", loc="left", fontsize=11)
    return figure


def figure_12(checks: Sequence[tuple[tuple[str, str, Mapping[str, str], str], Sequence[Record]]]) -> Figure:
    """Draw accuracy and contradictions under paraphrases and orders of options, with a bar for each verifier.

    Args:
        checks: Table, changed field, verifiers and title of each check, with the rows of its table.

    Returns:
        The figure.
    """
    from matplotlib.patches import Patch

    sizes = [_BAR_ROWS * len(records) for _, records in checks]
    names = [
        " / ".join(dict.fromkeys(labels)) for labels in zip(*(check[2].values() for check, _ in checks), strict=True)
    ]
    handles = [
        Patch(facecolor=colour, edgecolor="black", label=name) for colour, name in zip(_BAR_COLOURS, names, strict=True)
    ]
    title = "Figure 12: robustness to paraphrases and to the order of options, CheXpert report-style absence"
    figure = make_dot_figure(sizes, handles, title)
    axes = figure.subplots(len(checks), 2, squeeze=False, height_ratios=[size + 0.6 for size in sizes])
    for (accuracy_axes, error_axes), ((_, field, verifiers, name), records) in zip(axes, checks, strict=True):
        for number, record in enumerate(records):
            _draw_verifiers(accuracy_axes, number, _get_values(record, *(f"{v}_accuracy" for v in verifiers)), True)
            counts = _get_values(record, *(f"{v}_contradictions" for v in verifiers), scale=1)
            _draw_verifiers(error_axes, number, counts, False)
        label_rows(
            accuracy_axes, [_format_record(record, f"{record['prompt']}, {record[field]}") for record in records]
        )
        label_rows(error_axes, n_rows=len(records))
        accuracy_axes.set_xlim(0, 114)
        error_axes.set_xlim(0, 1.14 * max(1, error_axes.dataLim.x1))
        error_axes.xaxis.get_major_locator().set_params(integer=True)
        accuracy_axes.set_title(f"{name}: accuracy (%)", loc="left", fontsize=11)
        error_axes.set_title(f"{name}: contradictions", loc="left", fontsize=11)
    return figure


def _draw_verifiers(axes: Axes, number: int, values: Sequence[float], is_share: bool) -> None:
    """Draw the bars of a row with their values."""
    for place, (value, colour) in enumerate(zip(values, _BAR_COLOURS, strict=True)):
        y = number + _BAR * (place - 1)
        if math.isnan(value):
            draw_dot(axes, y, NOTHING, {})
            continue
        axes.barh(y, value, _BAR, color=colour, edgecolor="black", linewidth=0.6)
        text = percent(value / 100) if is_share else count(value)
        axes.annotate(text, (value, y), (3, 0), textcoords="offset points", va="center", fontsize=7)
