"""What the tests of the report share."""

from __future__ import annotations

import pytest


@pytest.fixture
def tables_only(monkeypatch):
    """The report draws its pictures and saves them empty: to write them takes longer than all its tables."""
    monkeypatch.setattr("medfaith.report.write.files", lambda figures: {f"{name}.png": b"" for name in figures})
