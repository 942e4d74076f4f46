"""The options of `lm_eval run` that medfaith reads itself before it passes them on."""

from __future__ import annotations

import argparse
from collections.abc import Sequence


def model_named(lm_eval_arguments: Sequence[str]) -> str | None:
    """Find the --model of lm_eval's arguments.

    Args:
        lm_eval_arguments: The arguments of `lm_eval run`.

    Returns:
        The model type, or None.
    """
    return parse_known_options(lm_eval_arguments).model


def parse_known_options(lm_eval_arguments: Sequence[str]) -> argparse.Namespace:
    """Parse the options of `lm_eval run` that medfaith reads itself.

    Args:
        lm_eval_arguments: The arguments of `lm_eval run`.

    Returns:
        `model` and `output_path`, each None if it is not given.
    """
    known_options = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    known_options.add_argument("--model", "-M")
    known_options.add_argument("--output_path", "-o")
    return known_options.parse_known_args(list(lm_eval_arguments))[0]
