"""The decoders by name, with their parameters: what each contrasts an answer with, and how.

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

OPERA, SID and HALC need loops of their own (beam search with a roll-back, attention that chooses tokens, a detector).
They are not here.
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

DISTURBANCE = "You are a confused object detector."  # ICD's code; its paper has others for other models


@dataclass(frozen=True)
class Parameter:
    """A number or a text that a decoder takes. symbol: the paper's."""

    default: Any
    symbol: str
    fits: Callable[[Any], bool] = lambda value: isinstance(value, str) and bool(value.strip())
    expected: str = "some words"

    def read(self, decoder: str, name: str, given: Any) -> Any:
        """Raises InputError for what does not fit."""
        kind = float if self.default is None else type(self.default)
        try:
            value = kind(given)
            exact = kind is str or value == float(given)
        except (TypeError, ValueError, OverflowError):
            value, exact = None, False
        if not exact or isinstance(given, bool) or not self.fits(value):
            raise InputError(f"--model_args {name}", f"is {given!r} for decoding={decoder}", expected=self.expected)
        return value


def number(default: float | None, symbol: str, low: float, high: float = math.inf) -> Parameter:
    """A finite number from low to high."""
    expected = f"a number from {low:g} to {high:g}" if high < math.inf else f"a number, {low:g} or more"
    expected = "a number" if low == -math.inf else expected
    return Parameter(default, symbol, lambda value: math.isfinite(value) and low <= value <= high, expected)


def whole(default: int, symbol: str, low: int, high: float = math.inf) -> Parameter:
    """A whole number from low to high."""
    expected = f"a whole number from {low} to {high:g}" if high < math.inf else f"a whole number, {low} or more"
    return Parameter(default, symbol, lambda value: isinstance(value, int) and low <= value <= high, expected)


ALPHA = number(1.0, "alpha", 0)
BETA = number(0.1, "beta", 0, 1)


@dataclass(frozen=True)
class Decoder:
    """A decoder: what it takes and what it makes of the logits.

    combine: (own logits, those of the contrast, step from 1, parameters) -> scores. parameters: by name. branches: 2
    with a contrast, else 1. needs_region: whether each row needs the region that it asks about.
    """

    paper: str
    combine: Callable[[torch.Tensor, torch.Tensor, int, Mapping[str, Any]], torch.Tensor]
    parameters: Mapping[str, Parameter] = field(default_factory=dict)
    branches: int = 2
    needs_region: bool = False


def _contrast(own: torch.Tensor, other: torch.Tensor, _: int, given: Mapping[str, Any]) -> torch.Tensor:
    scores = logits.contrast_logits(own, other, given["alpha"])
    return logits.mask_implausible(scores, own, given.get("beta", 0))


def _m3id(own: torch.Tensor, other: torch.Tensor, step: int, given: Mapping[str, Any]) -> torch.Tensor:
    return logits.compute_mutual_information(own, other, step, given["forgetting"], given["confident"])


def _guide(own: torch.Tensor, other: torch.Tensor, _: int, given: Mapping[str, Any]) -> torch.Tensor:
    return logits.guide_logits(own, other, given["gamma"])


def _cut_off(own: torch.Tensor, _: torch.Tensor, __: int, given: Mapping[str, Any]) -> torch.Tensor:
    return logits.mask_implausible(own, own, given["beta"])


def _as_is(own: torch.Tensor, *_: Any) -> torch.Tensor:
    return own


DECODERS: Mapping[str, Decoder] = {
    "greedy": Decoder("no contrast", _as_is, branches=1),
    "cutoff": Decoder("the adaptive plausibility constraint alone", _cut_off, {"beta": BETA}, branches=1),
    "yes_bias": Decoder(
        "a constant that is added to the logits of yes",
        _as_is,  # the driver knows which tokens say yes
        {"bias": number(None, "b", -math.inf), "yes_share": number(None, "", 0, 1)},
        branches=1,
    ),
    "vcd": Decoder(
        "Leng et al. 2024, sections 3.1 and 3.2", _contrast,
        {"alpha": ALPHA, "beta": BETA, "noise_step": whole(500, "T", 0, STEPS - 1), "seed": whole(0, "", 0)},
    ),
    "crg": Decoder("Wan et al. 2025, section 3", _contrast, {"alpha": ALPHA}, needs_region=True),
    "m3id": Decoder(
        "Favero et al. 2024, section 4", _m3id,
        {"forgetting": number(0.02, "lambda", 0), "confident": number(1.0, "alpha", 0.0, 1)},
    ),
    "icd": Decoder(
        "Wang et al. 2024, section 3.3", _contrast,
        {"alpha": ALPHA, "beta": BETA, "disturbance": Parameter(DISTURBANCE, "X_d")},
    ),
    "prompt_highlighter": Decoder(
        "Zhang et al. 2024b, section 3", _guide,
        {"weight": number(2.0, "beta", 0), "gamma": number(1.3, "gamma", 0)}, needs_region=True,
    ),
    "loba": Decoder(
        "HEAL-MedVQA, section 4.2 and appendix C", _guide,
        {"weight": number(3.0, "w", 0), "gamma": number(1.3, "gamma", 0)}, needs_region=True,
    ),
}  # fmt: skip


@dataclass(frozen=True)
class Chosen:
    """A decoder with its parameters' values."""

    name: str
    values: Mapping[str, Any]

    @property
    def decoder(self) -> Decoder:
        return DECODERS[self.name]

    @property
    def combine(self) -> Callable[[torch.Tensor, torch.Tensor, int], torch.Tensor]:
        """Without the parameters."""
        return partial(_with, self.decoder.combine, self.values)


def _with(combine: Any, values: Mapping[str, Any], own: torch.Tensor, other: torch.Tensor, step: int) -> torch.Tensor:
    return combine(own, other, step, values)


def refuse_others(arguments: Mapping[str, Any], known: str) -> None:
    """Raises InputError for a parameter of a decoder that is left among a model's arguments."""
    for parameter in sorted(arguments.keys() & {*PARAMETERS}):
        raise InputError(
            f"--model_args {parameter}", "belongs to another decoder", expected=known, action="leave it out"
        )


def choose(name: str, arguments: dict[str, Any]) -> Chosen:
    """The decoder of this name, with its parameters taken out of a model's arguments, defaults for those left out.

    Raises:
        InputError: there is no such decoder, or a value does not fit.
    """
    if name not in DECODERS:
        raise InputError("--model_args decoding", f"is {name!r}", expected=f"one of {', '.join(DECODERS)}")
    given = {
        parameter: of.read(name, parameter, arguments.pop(parameter)) if parameter in arguments else of.default
        for parameter, of in DECODERS[name].parameters.items()
    }
    refuse_others(arguments, f"decoding={name} takes {', '.join(given) or 'no parameter'}")
    if name == "yes_bias" and (given["bias"] is None) is (given["yes_share"] is None):
        found = "has both of bias and yes_share" if given["bias"] is not None else "has neither bias nor yes_share"
        action = "give bias=B, or yes_share=S, the share of yes of the decoder that it is the control of"
        raise InputError("--model_args decoding=yes_bias", found, expected="one of them", action=action)
    return Chosen(name, given)
