"""Fixtures shared by the report tests."""

from __future__ import annotations

import pytest


@pytest.fixture
def tables_only(monkeypatch):
    """Draw the report's figures but save empty files, because encoding them takes longer than all tables."""
    monkeypatch.setattr("medfaith.reporting.write.files", lambda figures: {f"{name}.png": b"" for name in figures})
