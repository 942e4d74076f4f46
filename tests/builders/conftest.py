"""Session fixtures shared by the builder tests."""

from __future__ import annotations

import pyarrow as pa
import pytest

from medfaith.builders.cxr_contrabench import chexpert
from medfaith.loaders import chexpert as labels
from medfaith.loaders import sources


@pytest.fixture(scope="session")
def real_studies() -> pa.Table:
    """Studies of CheXpert's real train labels, as bundled with the installed torchxrayvision."""
    path = labels.find_label_files(sources.resolve_roots({"chexpert": "torchxrayvision"}, environ={})["chexpert"])[
        "train"
    ]
    return chexpert.studies(labels.read_labels(path, "train"), path)
