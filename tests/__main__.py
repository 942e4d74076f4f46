"""All checks with one command: `uv run python -m tests`. Arguments go to pytest.

`--full` adds the tests that are marked `full`, which take longer.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parent.parent
TYPES = "tests.type_check"
CHECKS = (
    ["ruff", "check", "."],
    ["ruff", "format", "--check", "."],
    ["mkdocs", "build", "--strict", "--quiet"],
    ["pytest", "--numprocesses=auto", "--dist=worksteal", "--durations=15"],
)


def main() -> int:
    pytest_arguments = [argument for word in sys.argv[1:] for argument in (["-m", ""] if word == "--full" else [word])]
    failed = []
    with tempfile.TemporaryFile("w+", encoding="utf-8") as output:
        # In parallel: it uses one core, and pytest's workers do not end at the same time.
        types = subprocess.Popen([sys.executable, "-m", TYPES], cwd=ROOT, stdout=output, stderr=subprocess.STDOUT)
        for check in CHECKS:
            arguments = [*check, *pytest_arguments] if check[0] == "pytest" else check
            print(f"== {' '.join(arguments)}", flush=True)
            if subprocess.run([sys.executable, "-m", *arguments], cwd=ROOT, check=False).returncode:
                failed.append(check[0])
        if types.wait():
            failed.append(TYPES)
        output.seek(0)
        print(f"== {TYPES}\n{output.read()}", end="", flush=True)
    print(f"failed: {', '.join(failed)}" if failed else "all checks passed", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    raise SystemExit(main())
