"""Names of label files that a publication may show: the names of a release. A user's own file can have any name."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping
from itertools import chain

from ..loaders.sources import Source

# Names that builds, and `group_unknown`, give to several files with one hash.
_OURS = re.compile(r"\d+ (?:files|reports|other files?)|scene graphs of (?:train|validation|test)")
_NUMBERED = re.compile(r"[A-Za-z]{3,}\*[\w.-]*")  # VID*.txt


def find_unknown(source: Source, names: Iterable[str]) -> list[str]:
    """Find the names of label files that neither a release nor medfaith gives.

    Args:
        source: The source of the label files.
        names: The names of the files.

    Returns:
        The unknown names.
    """
    patterns = chain(*source.list_expected_files(), *source.labels.values(), source.torchxrayvision)
    names_of_release = [pattern.rpartition("/")[2].removesuffix(".gz") for pattern in patterns]
    numbered = [re.escape(name).replace(r"\*", r"\d+") for name in names_of_release if _NUMBERED.fullmatch(name)]
    official = re.compile("|".join([*map(re.escape, names_of_release), *numbered, _OURS.pattern]))
    return [name for name in names if not official.fullmatch(name)]


def group_unknown(source: Source, files: Mapping[str, str]) -> dict[str, str]:
    """Replace label files with unknown names by one entry, with their number and one hash.

    >>> from ..loaders.sources import source
    >>> group_unknown(source("chexpert"), {"train.csv": "aa", "Jane Doe 1970.csv": "bb"}).keys()
    dict_keys(['train.csv', '1 other file'])
    >>> files = {"x": "bb", "y": "aa"}
    >>> group_unknown(source("chexpert"), {"a": "aa", "b": "bb"}) == group_unknown(source("chexpert"), files)
    True

    Args:
        source: The source of the label files.
        files: Name -> hash.

    Returns:
        Name -> hash, for publication.
    """
    unknown_names = find_unknown(source, files)
    hashes_by_name = {name: digest for name, digest in files.items() if name not in unknown_names}
    if unknown_names:
        hashes = "".join(
            f"{digest}\n" for digest in sorted(files[name] for name in unknown_names)
        )  # independent of the names
        hashes_by_name[f"{len(unknown_names)} other file{'s' if len(unknown_names) > 1 else ''}"] = hashlib.sha256(
            hashes.encode()
        ).hexdigest()
    return hashes_by_name
