"""SurgVLP, HecVL and PeskaVLP checkpoints in torchvision's ResNet-50 and transformers' BERT.

All three were published with one architecture (CAMMA-public/SurgVLP, whose package does not install on current Python):
the image's 2048 pooled features pass a linear layer, and the text's last four BERT layers are summed over the words.
"""

from __future__ import annotations

import pickle
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from PIL import Image

from ....loaders.errors import InputError, MedfaithError
from ...explain.geometry import Geometry, Size, resize_and_crop
from ..model_names import format_few
from .clinical_bert import TEXT_MODEL, reading
from .encoders import INSTALL, ResNetEncoder, normalize, stack_images

if TYPE_CHECKING:
    import torch

RESIZE, CROP = (360, 640), 224
MAX_TOKENS = 77
LAST_LAYERS = 4
MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
# Names of the parts in the training code, and in the released checkpoints.
TRAINING_NAMES = {"visual.": "backbone_img.", "text_module.": "backbone_text."}
POSITIONS = "backbone_text.model.embeddings.position_ids"  # 0, 1, 2, ...: older releases of transformers saved them


class SurgVLPEncoder(ResNetEncoder):
    """A checkpoint of the SurgVLP family.

    Args:
        path: The checkpoint (.pth).
        device: Device, as torch names it.
        text_model: A folder or Hub name with the BERT's configuration and tokenizer; the checkpoint has its weights.

    Raises:
        InputError: The checkpoint cannot be read, or its weights do not fit this architecture.
    """

    def __init__(self, path: str, device: str, text_model: str = TEXT_MODEL) -> None:
        file = Path(path).expanduser()
        weights = _read(file)
        bert, self._tokenizer = _load_bert(text_model)
        network = _network(bert, weights)
        _load(network, weights, file)
        super().__init__(f"surgvlp:{path}", network, device, network["backbone_img"]["model"].layer4[-1])
        self._transform = _build_transform()

    def tokens(self, prompts: Sequence[str]) -> list[list[int]]:
        """Tokenize each prompt."""
        return self._tokenizer(list(prompts))["input_ids"]

    def text(self, prompts: Sequence[str]) -> torch.Tensor:
        """Encode each prompt as the unit vector of a sum: over its word pieces, and over the last layers of the BERT.

        The original sums word pieces to words and divides the sum of the words by 77, which gives the same unit vector.

        Args:
            prompts: k prompts.

        Returns:
            Unit vectors (k, d).
        """
        inputs = self._tokenizer(list(prompts), padding=True, return_tensors="pt").to(self.device)
        output = self.network["backbone_text"]["model"](**inputs, output_hidden_states=True)
        states = sum(output.hidden_states[-LAST_LAYERS:])
        return normalize((states * inputs["attention_mask"][..., None]).sum(dim=1))

    def pixels(self, images: Sequence[Image.Image]) -> torch.Tensor:
        """Preprocess images."""
        return stack_images(self._transform, images).to(self.device)

    def image(self, pixels: torch.Tensor) -> torch.Tensor:
        """Encode images."""
        image = self.network["backbone_img"]
        return normalize(image["global_embedder"](image["model"](pixels)))

    def geometry(self, size: Size) -> Geometry:
        """Compute the part of a frame that the model sees."""
        return resize_and_crop(size, RESIZE, CROP)

    @property
    def preprocessing(self) -> Any:
        """Description of the preprocessing."""
        return {"resize": RESIZE, "crop": CROP, "mean": MEAN, "std": STD}

    @property
    def max_tokens(self) -> int:
        """Maximum number of tokens of a prompt."""
        return MAX_TOKENS


def _network(bert: Any, weights: Mapping[str, torch.Tensor]) -> Any:
    """Build modules under the checkpoints' names, so that they load strictly."""
    from torch import nn
    from torchvision.models import resnet50

    resnet: Any = resnet50(weights=None)
    n_features, resnet.fc = resnet.fc.in_features, nn.Identity()
    projection = weights.get("backbone_img.global_embedder.weight")
    embedder = nn.Linear(n_features, bert.config.hidden_size if projection is None else len(projection))
    image = nn.ModuleDict({"model": resnet, "global_embedder": embedder})
    return nn.ModuleDict({"backbone_img": image, "backbone_text": nn.ModuleDict({"model": bert})})


def _read(path: Path) -> dict[str, torch.Tensor]:
    """Read the checkpoint's tensors under the released names."""
    try:
        import torch
    except ImportError as error:
        raise MedfaithError(f"torch is not installed\n  {INSTALL}") from error
    expected = "a checkpoint of SurgVLP, HecVL or PeskaVLP (.pth), a state_dict"
    try:
        content = torch.load(path, map_location="cpu", weights_only=True)
    except (OSError, RuntimeError, EOFError, pickle.UnpicklingError, ValueError) as error:
        raise InputError(path, f"cannot be loaded ({str(error).splitlines()[0]})", expected=expected) from error
    if isinstance(content, Mapping) and isinstance(content.get("state_dict"), Mapping):
        content = content["state_dict"]
    if not isinstance(content, Mapping) or not all(torch.is_tensor(value) for value in content.values()):
        raise InputError(path, "is not a mapping of names to tensors", expected=expected)
    return {name: tensor for name, tensor in ((_convert_name(n), t) for n, t in content.items()) if name != POSITIONS}


def _convert_name(name: str) -> str:
    name = name.removeprefix("module.")
    for training, released in TRAINING_NAMES.items():
        if name.startswith(training):
            return released + name.removeprefix(training)
    return name


def _load(network: Any, weights: Mapping[str, torch.Tensor], path: Path) -> None:
    expected_weights = network.state_dict()
    missing, unexpected = set(expected_weights) - set(weights), set(weights) - set(expected_weights)
    reshaped = {
        name for name in set(expected_weights) & set(weights) if expected_weights[name].shape != weights[name].shape
    }
    differences = {"lacks": missing, "has also": unexpected, "has in another shape": reshaped}
    if missing or unexpected or reshaped:
        raise InputError(
            path,
            "; ".join(f"{difference} {format_few(names)}" for difference, names in differences.items() if names),
            expected="exactly the weights of a ResNet-50, a linear layer and the BERT of text_model=",
            action=f"name the BERT that the checkpoint was trained with (text_model=..., published: {TEXT_MODEL})",
        )
    network.load_state_dict(weights)


def _load_bert(name: str) -> tuple[Any, Any]:
    """Load a BERT without weights, and its tokenizer."""
    try:
        import transformers
    except ImportError as error:
        raise MedfaithError(f"transformers is not installed\n  {INSTALL}") from error
    with reading(name, "a folder or Hub name with config.json and the tokenizer's files"):
        config = transformers.AutoConfig.from_pretrained(name)
        return transformers.AutoModel.from_config(config), transformers.AutoTokenizer.from_pretrained(name)


def _build_transform() -> Any:
    from torchvision import transforms

    return transforms.Compose(
        [
            transforms.Resize(RESIZE),
            transforms.CenterCrop(CROP),
            transforms.ToTensor(),
            transforms.Normalize(MEAN, STD),
        ]
    )
