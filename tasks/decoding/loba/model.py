"""A vision-language model whose token <SEG> prompts SAM's mask decoder (HEAL-MedVQA, section 4.1).

Training covers LoRA's matrices on the language model's linear layers, the rows of <SEG> in the embedding and in the
output layer, the projection, and SAM's mask decoder. peft's `trainable_token_indices` trains and saves only these rows
of the two token matrices. `modules_to_save` would save both matrices for one token, 260 million weights in a model of 7
billion. SAM's image encoder is frozen.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import peft
import torch
import transformers
from peft.utils import load_peft_weights
from safetensors.torch import load_file, save_file
from torch import nn

from ....loaders.errors import InputError
from ...models.model_names import format_few, strip_folder
from ...models.vlm.prompt_inputs import Tensors
from ...models.vlm.trainable import find_linear_layers, load_vlm, make_loading_error
from .encode import SEG, Encoder

ADAPTER, SEGMENTER = "adapter", "segmenter.safetensors"


class Output(NamedTuple):
    """The output of a forward pass.

    Attributes:
        text: Cross entropy of the answers' tokens, a scalar.
        logits: Logits of the masks (n, m, m).
    """

    text: torch.Tensor
    logits: torch.Tensor


class Loba(nn.Module):
    """The vision-language model with its adapter, and SAM.

    Args:
        vlm: The vision-language model with its adapter.
        sam: The SamModel.
        encoder: Builds the inputs of both.
        frozen_encoder: Whether SAM's image encoder is frozen; a randomly initialized encoder must be trained.
    """

    def __init__(self, vlm: Any, sam: Any, encoder: Encoder, frozen_encoder: bool = True) -> None:
        super().__init__()
        self.vlm, self.sam, self.encoder, self.frozen_encoder = vlm, sam, encoder, frozen_encoder
        width = vlm.config.get_text_config().hidden_size
        prompt = sam.config.mask_decoder_config.hidden_size
        self.projection = nn.Sequential(nn.Linear(width, width), nn.ReLU(), nn.Linear(width, prompt))
        sam.requires_grad_(not frozen_encoder)
        sam.mask_decoder.requires_grad_(True)

    @property
    def device(self) -> torch.device:
        """Device of the projection."""
        return next(self.projection.parameters()).device

    @property
    def about(self) -> dict[str, Any]:
        """Names of the two models and of the trained parts, for the record of a training."""
        lora = self.vlm.peft_config["default"]
        sizes = {"rank": lora.r, "alpha": lora.lora_alpha, "dropout": lora.lora_dropout}
        names = {"model": strip_folder(self.vlm.name_or_path), "sam": strip_folder(self.sam.name_or_path)}
        return {**names, "lora": sizes, "frozen_encoder": self.frozen_encoder}

    def forward(self, sam_pixels: torch.Tensor, labels: torch.Tensor, **inputs: torch.Tensor) -> Output:
        """Compute the loss and the mask logits of n answers with one <SEG> each.

        Args:
            sam_pixels: SAM's inputs (n, 3, s, s).
            labels: Shape (n, tokens), IGNORED outside the answers.
            **inputs: Inputs of the vision-language model.

        Returns:
            The loss of the text, and mask logits of n answers.

        Raises:
            InputError: An answer has no <SEG>, or several.
        """
        output = self.vlm(**inputs, labels=labels, output_hidden_states=True)
        is_seg = labels == self.encoder.seg
        if not (is_seg.sum(1) == 1).all():
            raise InputError("an answer", f"has {is_seg.sum(1).tolist()} tokens {SEG}", expected="one each")
        return Output(output.loss, self.decode(output.hidden_states[-1][is_seg], sam_pixels))

    def decode(self, states: torch.Tensor, sam_pixels: torch.Tensor) -> torch.Tensor:
        """Compute the masks of <SEG> states.

        The projected state is SAM's sparse prompt; its dense prompt encodes no mask. SAM returns the single mask of
        an unambiguous prompt.

        Args:
            states: States of <SEG> (n, hidden size).
            sam_pixels: SAM's inputs (n, 3, s, s).

        Returns:
            Logits (n, m, m).
        """
        sparse = self.projection(states.to(next(self.projection.parameters()).dtype))[:, None, None]
        _, dense = self.sam.prompt_encoder(None, None, None, None)
        with torch.set_grad_enabled(torch.is_grad_enabled() and not self.frozen_encoder):
            embedded = self.sam.vision_encoder(sam_pixels)[0]
        masks, _ = self.sam.mask_decoder(
            image_embeddings=embedded,
            image_positional_embeddings=self.sam.get_image_wide_positional_embeddings().repeat(len(states), 1, 1, 1),
            sparse_prompt_embeddings=sparse,
            dense_prompt_embeddings=dense,
            multimask_output=False,
        )
        return masks[:, 0, 0]

    def save(self, folder: Path) -> None:
        """Save the trained weights: peft's adapter, and the projection with SAM's trained weights.

        Args:
            folder: The folder.
        """
        self.vlm.save_pretrained(folder / ADAPTER, save_embedding_layers=False)
        save_file(self._get_segmenter_weights(), folder / SEGMENTER)

    def restore(self, folder: Path) -> None:
        """Restore the weights that `save` wrote, into the same two models.

        Args:
            folder: The folder.

        Raises:
            InputError: A file is missing, or belongs to other models.
        """
        path = _require_segmenter_file(folder)
        saved_weights, weights = load_file(path), self._get_segmenter_weights()
        if differing_names := saved_weights.keys() ^ weights.keys():
            raise InputError(
                path,
                f"is of another SAM: {format_few(differing_names)}",
                action="name the SAM that it was trained with",
            )
        try:
            peft.set_peft_model_state_dict(self.vlm, load_peft_weights(str(folder / ADAPTER), device=str(self.device)))
            self.load_state_dict(saved_weights, strict=False)
        except RuntimeError as error:
            cause = str(error).splitlines()[-1].strip()
            raise InputError(folder, cause, action="name the models that it was trained with") from error

    def _get_segmenter_weights(self) -> Tensors:
        parameters = ((name, weight) for name, weight in self.named_parameters() if not name.startswith("vlm."))
        return {name: weight.detach().contiguous() for name, weight in parameters if weight.requires_grad}


def start(  # noqa: PLR0913 (settings of the training, by name)
    model: str,
    sam: str,
    *,
    rank: int = 8,
    alpha: int = 16,
    dropout: float = 0.0,
    frozen_encoder: bool = True,
    seed: int = 0,
    dtype: str = "auto",
) -> Loba:
    """Build a model to train, on the CPU, in train mode.

    Args:
        model: Vision-language model, a folder or a Hub name.
        sam: SAM, a folder or a Hub name.
        rank: Rank of LoRA.
        alpha: Alpha of LoRA.
        dropout: Dropout of LoRA.
        frozen_encoder: Whether SAM's image encoder is frozen.
        seed: Seed of the random weights: LoRA's first matrices, the rows of <SEG> and the projection.
        dtype: Type of the model's weights; SAM's are float32.

    Returns:
        The model.

    Raises:
        InputError: The model is not a model of images and text, or `sam` is not a SAM.
    """
    segmenter, image_processor = _load_sam(sam)
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        vlm, processor = _load_vlm_with_token(model, dtype)
        config = peft.LoraConfig(
            r=rank,
            lora_alpha=alpha,
            lora_dropout=dropout,
            target_modules=find_linear_layers(vlm),
            trainable_token_indices={
                name: [processor.tokenizer.convert_tokens_to_ids(SEG)] for name in _find_token_matrices(vlm)
            },
        )
        return Loba(
            _add_adapter(vlm, config),
            segmenter,
            _build_encoder(processor, vlm, image_processor, segmenter),
            frozen_encoder,
        ).train()


def load(folder: Path, model: str, sam: str, *, dtype: str = "auto") -> Loba:
    """Load the output of `train`, on the CPU, in eval mode.

    Args:
        folder: The folder of the training.
        model: The vision-language model of the training.
        sam: The SAM of the training.
        dtype: Type of the model's weights.

    Returns:
        The model.

    Raises:
        InputError: As `start` and `Loba.restore`.
    """
    frozen = not any(name.startswith("sam.vision_encoder.") for name in load_file(_require_segmenter_file(folder)))
    segmenter, image_processor = _load_sam(sam)
    with torch.random.fork_rng():
        vlm, processor = _load_vlm_with_token(model, dtype)
        config = peft.PeftConfig.from_pretrained(str(folder / ADAPTER))
        loba = Loba(
            _add_adapter(vlm, config), segmenter, _build_encoder(processor, vlm, image_processor, segmenter), frozen
        )
    loba.restore(folder)
    return loba.eval()


def _require_segmenter_file(folder: Path) -> Path:
    """Return the segmenter's file of a folder. Raise InputError if a file is missing."""
    for name in (ADAPTER, SEGMENTER):
        if not (folder / name).exists():
            raise InputError(folder, f"has no {name}", expected="a folder that a training of LobA has written")
    return folder / SEGMENTER


def _load_vlm_with_token(name: str, dtype: str) -> tuple[Any, Any]:
    """Load a model of images and text and its processor, and add the token <SEG> to both."""
    model, processor = load_vlm(name, dtype)
    processor.tokenizer.add_tokens([transformers.AddedToken(SEG, normalized=False)])
    if len(processor.tokenizer) > len(model.get_input_embeddings().weight):
        model.resize_token_embeddings(len(processor.tokenizer))
    return model, processor


def _add_adapter(vlm: Any, config: peft.PeftConfig) -> Any:
    """Add an adapter whose file names the model without its folder."""
    config.base_model_name_or_path = None  # peft warns if the name differs
    adapted = peft.get_peft_model(vlm, config)
    config.base_model_name_or_path = strip_folder(vlm.name_or_path)
    return adapted


def _load_sam(name: str) -> tuple[Any, Any]:
    """Load a SAM and its image processor."""
    expected = "a SAM for transformers, such as MedSAM"
    try:
        kind = transformers.AutoConfig.from_pretrained(name).model_type
        if kind != "sam":
            raise InputError(name, f"is a model of type {kind!r}", expected=expected)
        return transformers.SamModel.from_pretrained(name), transformers.SamImageProcessor.from_pretrained(name)
    except (OSError, ValueError) as error:
        raise make_loading_error(name, error, expected) from error


def _build_encoder(processor: Any, vlm: Any, image_processor: Any, sam: Any) -> Encoder:
    vision = sam.config.vision_config
    return Encoder(processor, vlm.config, image_processor, vision.image_size, vision.patch_size)


def _find_token_matrices(vlm: Any) -> list[str]:
    """Find the full names of the matrices with a row per token: one if input and output share it."""
    matrices = [vlm.get_input_embeddings(), vlm.get_output_embeddings()]
    if matrices[0].weight is matrices[1].weight:
        matrices = matrices[:1]
    return [name for name, module in vlm.named_modules() if any(module is matrix for matrix in matrices)]
