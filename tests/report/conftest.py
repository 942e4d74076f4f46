"""What the tests of the report share."""

from __future__ import annotations

import pytest

from medfaith.report.pictures import saved


@pytest.fixture
def tables_only(monkeypatch):
    """The report draws its pictures and saves them empty: to write them takes longer than all its tables."""
    monkeypatch.setattr("medfaith.report.write.files", lambda figures: {f"{name}.png": b"" for name in figures})


@pytest.fixture
def png_only(monkeypatch):
    """The report saves its pictures as PNG alone: each further format takes longer than that."""

    def files(figures):
        return {f"{name}.png": saved(figure, ["png"])["png"] for name, figure in figures.items()}

    monkeypatch.setattr("medfaith.report.write.files", files)
