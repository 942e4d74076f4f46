"""Size of the report as one HTML file, and the time in which a browser opens it.

    uv run python -m benchmarks.report_page [LOGS]

* quickstart: the logs of `medfaith quickstart` in the folder LOGS, if it is given. Allowed: 1.5 MB for eight models.
* cases: 10,000 questions of two models. Allowed: 2 seconds in headless Chromium until the list is visible. The time for
  an empty page is printed, too.
"""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path

from medfaith.reporting.page.write import write_page
from medfaith.reporting.write import collect
from tests.support.browser import browser
from tests.support.reporting.report_logs import answered, write_log

N = 10_000


def write_report(logs: Path, page: Path) -> str:
    """Write the report page and describe its size and time."""
    start = time.perf_counter()
    report = collect([logs])
    collected = time.perf_counter()
    write_page(page, report, [logs])
    size = page.stat().st_size / 1e6
    return f"{size:.2f} MB; tables {collected - start:.1f} s, page {time.perf_counter() - collected:.1f} s"


def open_page(page: Path | None) -> float:
    """Measure the seconds until the list of cases is visible (or an empty page is open); the best of three."""
    with browser() as running:
        seconds = []
        for _ in range(3):
            tab = running.new_page()
            start = time.perf_counter()
            if page is None:
                tab.goto("about:blank")
            else:
                tab.goto(page.as_uri())
                tab.locator("#list [role=option]").first.wait_for()
            seconds.append(time.perf_counter() - start)
            tab.close()
    return min(seconds)


def main() -> None:
    """Print size and time of the page."""
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        if sys.argv[1:]:
            print(f"{sys.argv[1]}: {write_report(Path(sys.argv[1]), folder / 'logs.html')}")
        for name, right in (("a", N // 2), ("b", N // 3)):
            write_log(folder / "logs" / name, f"model-{name}", answered("chexpert_presence", N, right, N // 4))
        print(f"{N:,} questions of two models: {write_report(folder / 'logs', folder / 'report.html')}")
        print(f"opened in {open_page(folder / 'report.html'):.2f} s; an empty page in {open_page(None):.2f} s")


if __name__ == "__main__":
    main()
