"""The model types of `--model`: the needs and the abilities of each."""

from __future__ import annotations

from typing import NamedTuple

from ..loaders.errors import InputError
from . import BASELINES, BATCH, LOOKING, SERVER

MOST_CONCURRENT = 4_096  # requests to a server at a time; each holds its images

_HF_PACKAGES = ("torch", "torchvision", "transformers", "accelerate")
_HF = 'uv sync --inexact --extra hf, or pip install "medfaith[hf]"'
_API = 'pip install "lm-eval[api]"'


class Kind(NamedTuple):
    """The requirements and abilities of one kind of model types. The defaults apply to an unknown model type.

    Attributes:
        packages: The packages that must be importable.
        install: How to install these packages.
        key: The environment variable of the API key.
        client: Whether the model type sends chat completions, with all images before the text.
        loads: Whether the model type loads `pretrained` with transformers.
        scores: Whether the model type gives log-likelihoods with images.
        max_images: The number of a row's images that the model type keeps by default; None for all.
        host: The default host of a client.
    """

    packages: tuple[str, ...] = ()
    install: str = ""
    key: str = ""
    client: bool = False
    loads: bool = False
    scores: bool = True
    max_images: int | None = None
    host: str = ""


_LOCAL_MODEL = Kind(_HF_PACKAGES, _HF, loads=True)
_CLIENT = Kind(("aiohttp", "requests", "tenacity"), _API, client=True, scores=False, max_images=1)
_OPENAI = _CLIENT._replace(key="OPENAI_API_KEY", host="api.openai.com")
_ANTHROPIC = _CLIENT._replace(key="ANTHROPIC_API_KEY", host="api.anthropic.com")
_LITELLM = _CLIENT._replace(packages=(*_CLIENT.packages, "litellm"), install='pip install "lm-eval[litellm]"')
ENCODER_DECODERS = ("florence2",)  # model types of transformers that answer only, about one image
OURS_TO_LOAD = ("medfaith-hf-vlm", "medfaith-explained-vlm")  # these also load text models with a vision part
_HEATMAPS = Kind(_HF_PACKAGES, _HF, scores=False, max_images=1)
KINDS = {
    **dict.fromkeys((*BASELINES, *LOOKING), Kind()),
    SERVER: Kind(
        ("openai", "aiohttp"), 'uv sync --inexact --extra server, or pip install "medfaith[server]"', scores=False
    ),
    BATCH: Kind(scores=False),
    "hf-multimodal": _LOCAL_MODEL._replace(scores=False, max_images=999),
    "medfaith-hf-vlm": _LOCAL_MODEL._replace(max_images=999),
    "medfaith-explained-vlm": _LOCAL_MODEL._replace(max_images=1),
    "medfaith-contrastive": _HEATMAPS,
    "medfaith-alignment": _HEATMAPS,
    "vllm-vlm": Kind(("vllm",), 'pip install "lm-eval[vllm]"', scores=False, max_images=999),
    **dict.fromkeys(("local-completions", "local-chat-completions"), _CLIENT),
    **dict.fromkeys(("openai-completions", "openai-chat-completions"), _OPENAI),
    "azure-openai-chat-completions": _CLIENT._replace(
        packages=(*_CLIENT.packages, "openai"), install="pip install openai", key="AZURE_OPENAI_API_KEY"
    ),
    **dict.fromkeys(("anthropic-chat", "anthropic-chat-completions"), _ANTHROPIC),
    **dict.fromkeys(("litellm", "litellm-chat", "litellm-chat-completions"), _LITELLM),
}


def make_score_error(model_type: str) -> InputError:
    """Build the error for a request of option scores to an encoder-decoder.

    Args:
        model_type: The model type of transformers.

    Returns:
        The error, to raise.
    """
    problem = f"{model_type} is an encoder-decoder, whose option scores are not computed"
    action = "ask for answers, such as --tasks medfaith_contrabench --images first, or score another model"
    return InputError("--tasks", problem, action=action)
