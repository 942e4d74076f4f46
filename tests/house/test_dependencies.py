"""Locked dependencies: none has a known vulnerability, and each licence allows use and redistribution."""

from __future__ import annotations

import os
import re
import subprocess
import tomllib
from importlib.metadata import PackageNotFoundError, files, metadata
from pathlib import Path

import pytest

from tests.support.certificates import restore_certificates

ROOT = Path(__file__).parents[2]
FREE = re.compile(
    r"\b(MIT|BSD|0BSD|FreeBSD|Apache|ISC|PSF|PSFL|Python Software Foundation|MPL|Mozilla|Unlicense|HPND|Zlib|LGPL)\b"
)
UNSAID = {"mlcroissant"}  # its repository says Apache-2.0, its wheel nothing
OTHERS = re.compile(r"^(nvidia|cuda)[-_]")  # of torch's wheels for CUDA: their licence is NVIDIA's own


def list_exported(*options: str) -> list[str]:
    """List the locked packages of an installation with all extras and without development tools."""
    command = [
        "uv",
        "export",
        "--frozen",
        "--no-dev",
        "--all-extras",
        "--no-hashes",
        "--no-emit-project",
        "--no-header",
    ]
    done = subprocess.run([*command, *options], cwd=ROOT, capture_output=True, text=True, check=True)
    return re.findall(r"^([A-Za-z0-9_.-]+)==", done.stdout, re.MULTILINE)


def read_licence(name: str) -> str:
    """Read a package's licence: the first line of each field (some hold the full text), or its licence file."""
    package_metadata = metadata(name)
    fields = [*package_metadata.get_all("License-Expression", []), *package_metadata.get_all("License", [])]
    classifiers = [text for text in package_metadata.get_all("Classifier", []) if text.startswith("License")]
    statements = [*(field.strip().split("\n")[0] for field in fields), *classifiers]
    texts = [text for text in files(name) or () if re.search(r"(?i)/(un)?licen[cs]e[^/]*$", str(text))]
    return "; ".join(statements or [" ".join(text.read_text().split())[:100] for text in texts])


@pytest.mark.full
def test_each_licence_lets_a_user_use_and_pass_on():
    licences, absent = {}, []
    for name in list_exported():
        try:
            licences[name] = read_licence(name)
        except PackageNotFoundError:  # for another system
            absent.append(name)
    assert len(licences) > 100, absent
    unknown = {name: text for name, text in licences.items() if not FREE.search(text) and not OTHERS.match(name)}
    assert set(unknown) == UNSAID, unknown
    assert {
        name: text for name, text in licences.items() if re.search(r"(?<!L)GPL", text) and not FREE.search(text)
    } == {}


@pytest.mark.full
def test_no_locked_dependency_has_a_known_weakness():
    command, environment = ["uv", "audit", "--frozen"], restore_certificates(os.environ)
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    if "error sending request" in done.stderr:
        pytest.skip("needs the OSV database, which cannot be reached from here")
    assert done.returncode == 0, done.stdout + done.stderr


def test_every_dependency_is_locked():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    names = [
        *project["dependencies"],
        *(requirement for extra in project["optional-dependencies"].values() for requirement in extra),
    ]
    locked = {package["name"] for package in tomllib.loads((ROOT / "uv.lock").read_text())["package"]}
    bare = {re.split(r"[\[<>=!~; @]", name)[0].lower().replace("_", "-") for name in names}
    assert bare <= locked
