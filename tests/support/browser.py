"""A headless browser for tests of pages."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest


@contextmanager
def browser() -> Iterator[Any]:
    """Chromium. Skips the test where neither playwright nor a browser is installed; CI has both."""
    sync_api = pytest.importorskip("playwright.sync_api", reason="needs playwright: uv sync installs it")
    program = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    if program is None and not os.environ.get("CI"):
        pytest.skip("needs a browser: install chromium (Debian, Ubuntu: apt-get install chromium), then run it again")
    with sync_api.sync_playwright() as playwright:
        arguments = ["--no-sandbox"] if os.geteuid() == 0 else []
        running = playwright.chromium.launch(executable_path=program, args=arguments)
        yield running
        running.close()
