"""All checks with one command: `uv run python -m tests`. Arguments go to pytest."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent
CHECKS = (
    ["ruff", "check", "."],
    ["ruff", "format", "--check", "."],
    ["pyright"],
    ["pytest", "--numprocesses=auto", "--dist=worksteal"],
)


def main() -> int:
    failed = []
    for check in CHECKS:
        arguments = [*check, *sys.argv[1:]] if check[0] == "pytest" else check
        print(f"== {' '.join(arguments)}", flush=True)
        if subprocess.run([sys.executable, "-m", *arguments], cwd=ROOT, check=False).returncode:
            failed.append(check[0])
    print(f"failed: {', '.join(failed)}" if failed else "all checks passed", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    raise SystemExit(main())
