"""The decoders by name, with their contrasts and their parameters.

| name | contrast | paper |
|---|---|---|
| `vcd` | the image under diffusion noise | Leng et al. 2024, equations 3 and 4 |
| `crg` | the image with the region painted black | Wan et al. 2025, section 3 |
| `m3id` | the question without the image | Favero et al. 2024, section 4 |
| `icd` | a disturbing instruction | Wang et al. 2024, section 3.3 |
| `prompt_highlighter` | more attention to the region in the language model | Zhang et al. 2024b, section 3 |
| `loba` | more attention to the region in the vision encoder | HEAL-MedVQA, section 4.2, equations 5 to 8 |
| `greedy`, `cutoff`, `yes_bias` | none: the controls of such comparisons | Yin et al. 2025 |

| parameter | symbol | default | of |
|---|---|---|---|
| `alpha` | alpha, the weight of the contrast | 1 | `vcd`, `crg`, `icd` |
| `beta` | beta, the cutoff | 0.1 | `vcd`, `icd`, `cutoff` |
| `noise_step` | T, of 1,000 steps of diffusion | 500 | `vcd` |
| `forgetting` | lambda in gamma_t = exp(-lambda t) | 0.02 | `m3id` |
| `confident` | alpha, the probability from which nothing is added | 1: always added | `m3id` |
| `disturbance` | X_d | `DISTURBANCE` | `icd` |
| `weight` | beta, w: added to attention logits | 2; of `loba` 3 (Table 8) | both highlighters |
| `gamma` | gamma, the weight of the highlighted branch | 1.3 | both highlighters |

OPERA, SID and HALC are not implemented, because they need their own loops (beam search with roll-back, attention that
chooses tokens, a detector).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import torch

from ...loaders.errors import InputError
from . import logits
from .noise import STEPS
from .titles import PARAMETERS

DISTURBANCE = "You are a confused object detector."  # from ICD's code; its paper has other texts for other models


@dataclass(frozen=True)
class Parameter:
    """A number or a text that a decoder takes.

    Attributes:
        default: Default value.
        symbol: Symbol in the paper.
        fits: Function that checks a value.
        expected: Description of valid values.
    """

    default: Any
    symbol: str
    fits: Callable[[Any], bool] = lambda value: isinstance(value, str) and bool(value.strip())
    expected: str = "some words"

    def read(self, decoder: str, name: str, raw_value: Any) -> Any:
        """Convert and check a value.

        Args:
            decoder: Name of the decoder.
            name: Name of the parameter.
            raw_value: The value.

        Returns:
            The value, in the type of the default (a float if there is no default).

        Raises:
            InputError: The value is invalid.
        """
        kind = float if self.default is None else type(self.default)
        try:
            value = kind(raw_value)
            exact = kind is str or value == float(raw_value)
        except (TypeError, ValueError, OverflowError):
            value, exact = None, False
        if not exact or isinstance(raw_value, bool) or not self.fits(value):
            raise InputError(f"--model_args {name}", f"is {raw_value!r} for decoding={decoder}", expected=self.expected)
        return value


def make_number(default: float | None, symbol: str, low: float, high: float = math.inf) -> Parameter:
    """Build a parameter for a finite number.

    Args:
        default: Default value.
        symbol: Symbol in the paper.
        low: Minimum.
        high: Maximum.

    Returns:
        The parameter.
    """
    expected = f"a number from {low:g} to {high:g}" if high < math.inf else f"a number, {low:g} or more"
    expected = "a number" if low == -math.inf else expected
    return Parameter(default, symbol, lambda value: math.isfinite(value) and low <= value <= high, expected)


def make_integer(default: int, symbol: str, low: int, high: float = math.inf) -> Parameter:
    """Build a parameter for a whole number.

    Args:
        default: Default value.
        symbol: Symbol in the paper.
        low: Minimum.
        high: Maximum.

    Returns:
        The parameter.
    """
    expected = f"a whole number from {low} to {high:g}" if high < math.inf else f"a whole number, {low} or more"
    return Parameter(default, symbol, lambda value: isinstance(value, int) and low <= value <= high, expected)


ALPHA = make_number(1.0, "alpha", 0)
BETA = make_number(0.1, "beta", 0, 1)


@dataclass(frozen=True)
class Decoder:
    """A decoder with its parameters and its function of logits.

    Attributes:
        paper: Reference.
        combine: Function (logits, logits of the contrast, step from 1, parameters) -> scores.
        parameters: Parameters by name.
        branches: 2 with a contrast, else 1.
        needs_region: Whether each row needs the region of its question.
    """

    paper: str
    combine: Callable[[torch.Tensor, torch.Tensor, int, Mapping[str, Any]], torch.Tensor]
    parameters: Mapping[str, Parameter] = field(default_factory=dict)
    branches: int = 2
    needs_region: bool = False


def _apply_contrast(plain: torch.Tensor, contrast: torch.Tensor, _: int, values: Mapping[str, Any]) -> torch.Tensor:
    scores = logits.contrasted(plain, contrast, values["alpha"])
    return logits.mask_implausible(scores, plain, values.get("beta", 0))


def _apply_m3id(plain: torch.Tensor, contrast: torch.Tensor, step: int, values: Mapping[str, Any]) -> torch.Tensor:
    return logits.compute_mutual_information(plain, contrast, step, values["forgetting"], values["confident"])


def _apply_guidance(plain: torch.Tensor, contrast: torch.Tensor, _: int, values: Mapping[str, Any]) -> torch.Tensor:
    return logits.guide_logits(plain, contrast, values["gamma"])


def _apply_cutoff(plain: torch.Tensor, _: torch.Tensor, __: int, values: Mapping[str, Any]) -> torch.Tensor:
    return logits.mask_implausible(plain, plain, values["beta"])


def _get_unchanged(plain: torch.Tensor, *_: Any) -> torch.Tensor:
    return plain


DECODERS: Mapping[str, Decoder] = {
    "greedy": Decoder("no contrast", _get_unchanged, branches=1),
    "cutoff": Decoder("the adaptive plausibility constraint alone", _apply_cutoff, {"beta": BETA}, branches=1),
    "yes_bias": Decoder(
        "a constant that is added to the logits of yes",
        _get_unchanged,  # the driver adds the bias, because it knows which tokens say yes
        {"bias": make_number(None, "b", -math.inf), "yes_share": make_number(None, "", 0, 1)},
        branches=1,
    ),
    "vcd": Decoder(
        "Leng et al. 2024, sections 3.1 and 3.2", _apply_contrast,
        {
            "alpha": ALPHA, "beta": BETA, "noise_step": make_integer(500, "T", 0, STEPS - 1),
            "seed": make_integer(0, "", 0),
        },
    ),
    "crg": Decoder("Wan et al. 2025, section 3", _apply_contrast, {"alpha": ALPHA}, needs_region=True),
    "m3id": Decoder(
        "Favero et al. 2024, section 4", _apply_m3id,
        {"forgetting": make_number(0.02, "lambda", 0), "confident": make_number(1.0, "alpha", 0.0, 1)},
    ),
    "icd": Decoder(
        "Wang et al. 2024, section 3.3", _apply_contrast,
        {"alpha": ALPHA, "beta": BETA, "disturbance": Parameter(DISTURBANCE, "X_d")},
    ),
    "prompt_highlighter": Decoder(
        "Zhang et al. 2024b, section 3", _apply_guidance,
        {"weight": make_number(2.0, "beta", 0), "gamma": make_number(1.3, "gamma", 0)}, needs_region=True,
    ),
    "loba": Decoder(
        "HEAL-MedVQA, section 4.2 and appendix C", _apply_guidance,
        {"weight": make_number(3.0, "w", 0), "gamma": make_number(1.3, "gamma", 0)}, needs_region=True,
    ),
}  # fmt: skip


@dataclass(frozen=True)
class Chosen:
    """A decoder with the values of its parameters.

    Attributes:
        name: Name of the decoder.
        values: Values by parameter.
    """

    name: str
    values: Mapping[str, Any]

    @property
    def decoder(self) -> Decoder:
        """The decoder."""
        return DECODERS[self.name]

    @property
    def combine(self) -> Callable[[torch.Tensor, torch.Tensor, int], torch.Tensor]:
        """The decoder's function with its parameters bound."""
        return partial(_apply_parameters, self.decoder.combine, self.values)


def _apply_parameters(
    combine: Any, values: Mapping[str, Any], plain: torch.Tensor, contrast: torch.Tensor, step: int
) -> torch.Tensor:
    return combine(plain, contrast, step, values)


def refuse_others(arguments: Mapping[str, Any], expected: str) -> None:
    """Refuse parameters of decoders among a model's arguments.

    Args:
        arguments: Arguments of the model.
        expected: Description of the expected input.

    Raises:
        InputError: An argument is a parameter of another decoder.
    """
    for parameter in sorted(arguments.keys() & {*PARAMETERS}):
        raise InputError(
            f"--model_args {parameter}", "belongs to another decoder", expected=expected, action="leave it out"
        )


def choose(name: str, arguments: dict[str, Any]) -> Chosen:
    """Choose a decoder and move its parameters out of a model's arguments.

    Args:
        name: Name of the decoder.
        arguments: Arguments of the model. Parameters are removed; missing ones get their defaults.

    Returns:
        The decoder with the values of all its parameters.

    Raises:
        InputError: The decoder is unknown, or a value is invalid.
    """
    if name not in DECODERS:
        raise InputError("--model_args decoding", f"is {name!r}", expected=f"one of {', '.join(DECODERS)}")
    values = {
        parameter: spec.read(name, parameter, arguments.pop(parameter)) if parameter in arguments else spec.default
        for parameter, spec in DECODERS[name].parameters.items()
    }
    refuse_others(arguments, f"decoding={name} takes {', '.join(values) or 'no parameter'}")
    if name == "yes_bias" and (values["bias"] is None) is (values["yes_share"] is None):
        problem = "has both of bias and yes_share" if values["bias"] is not None else "has neither bias nor yes_share"
        action = "give bias=B, or yes_share=S, the share of yes of the decoder that it is the control of"
        raise InputError("--model_args decoding=yes_bias", problem, expected="one of them", action=action)
    return Chosen(name, values)
