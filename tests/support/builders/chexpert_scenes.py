"""Synthetic CheXpert label tables for the CXR-ContraBench tests; no files are read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pyarrow as pa

from medfaith.builders.cxr_contrabench import chexpert

Labels = Mapping[str, float | None]  # by finding


def build_images_table(rows: Sequence[tuple[str, int, Labels]]) -> pa.Table:
    """Build label rows (study, view number, labels) in the form that the reader returns."""
    labels = {
        column: pa.array([values.get(finding) for *_, values in rows], pa.float64())
        for finding, column in chexpert.TARGETS.items()
    }
    names = {
        "study_id": pa.array([study for study, _, _ in rows]).dictionary_encode(),
        "key": [f"train/{study}/view{view}_frontal.jpg" for study, view, _ in rows],
        "view": ["AP"] * len(rows),
        "view_number": pa.array([view for _, view, _ in rows], pa.int32()),
    }
    return pa.table(names | labels)


def studies(labels_by_study: Mapping[str, Labels], n_views: int = 1) -> pa.Table:
    """Build studies with one image each; with `n_views` > 1, the number of images varies from 1 to `n_views`."""
    rows = [(s, v, labels) for i, (s, labels) in enumerate(labels_by_study.items()) for v in range(1, 2 + i % n_views)]
    return chexpert.studies(build_images_table(rows), "train.csv")
