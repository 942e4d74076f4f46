"""Which configs of a benchmark a build makes: those asked for, or all whose sources have roots."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from ..loaders import sources
from ..loaders.errors import InputError, MissingSourceError

Needs = Mapping[str, Sequence[str]]  # config -> the sources that it is made of


def wanted(benchmark: str, needs: Needs, configs: Sequence[str] | None, roots: Mapping[str, Path]) -> list[str]:
    """The configs to build, each once. Raises InputError for an unknown one, MissingSourceError where none can be."""
    for config in configs or ():
        if config not in needs:
            expected = f"one of {', '.join(needs)}"
            raise InputError(f"--config {config}", f"no such config of {benchmark}", expected=expected)
    chosen = list(dict.fromkeys(configs or (c for c, needed in needs.items() if all(s in roots for s in needed))))
    if not chosen:
        lacking = dict.fromkeys(s for needed in needs.values() for s in needed if s not in roots)
        texts = [f"{sources.source(s).title} ({s})\n{sources.source(s).instructions()}" for s in lacking]
        raise MissingSourceError(f"{benchmark} needs all sources of one of its configs\n" + "\n".join(texts))
    return chosen


def incomplete(needs: Needs, roots: Mapping[str, Path]) -> dict[str, list[str]]:
    """Configs of which some sources have roots and others not: config -> the missing sources."""
    missing = {config: [s for s in needed if s not in roots] for config, needed in needs.items()}
    return {config: lacking for config, lacking in missing.items() if 0 < len(lacking) < len(needs[config])}
