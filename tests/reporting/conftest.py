"""Fixtures shared by the report tests."""

from __future__ import annotations

import pytest

from tests.support.reporting.surgx_sheet import SheetRun, write_sheet_run


@pytest.fixture
def tables_only(monkeypatch):
    """Draw the report's figures but save empty files, because encoding them takes longer than all tables."""
    monkeypatch.setattr("medfaith.reporting.write.files", lambda figures: {f"{name}.png": b"" for name in figures})


@pytest.fixture(scope="module")
def sheet_run(phantom_surgx_build, phantom_surgx_roots, tmp_path_factory) -> SheetRun:
    """Write a log of SurgXBench with heatmaps of the synthetic frames."""
    return write_sheet_run(tmp_path_factory.mktemp("shown"), phantom_surgx_build, phantom_surgx_roots)
