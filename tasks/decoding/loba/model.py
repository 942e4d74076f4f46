"""A vision-language model whose token <SEG> is the prompt of SAM's mask decoder (HEAL-MedVQA, section 4.1).

Trained are LoRA's matrices on the language model's linear layers, the rows of <SEG> in its embedding and in its output
layer, the projection, and SAM's mask decoder. Of the two matrices of tokens only these rows are trained and saved, by
peft's `trainable_token_indices`: `modules_to_save` would keep both whole for one token, 260 million weights in a model
of 7 billion. SAM's image encoder is frozen.
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
from ...models.contrastive_encoders import format_few, strip_folder
from ...models.prompt_inputs import Tensors
from ...models.trainable import find_linear_layers, load_vlm, make_loading_error
from .encode import SEG, Encoder

ADAPTER, SEGMENTER = "adapter", "segmenter.safetensors"


class Output(NamedTuple):
    """text: the cross entropy of the answers' tokens, a scalar. logits: of the masks, (n, m, m)."""

    text: torch.Tensor
    logits: torch.Tensor


class Loba(nn.Module):
    """vlm: with its adapter. sam: SamModel. encoder: makes what both are given.

    frozen_encoder: whether SAM's image encoder stays as it is; a random one has to learn, too.
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
        return next(self.projection.parameters()).device

    @property
    def about(self) -> dict[str, Any]:
        """The names of the two models, and what of them is trained: for the record of a training."""
        lora = self.vlm.peft_config["default"]
        sizes = {"rank": lora.r, "alpha": lora.lora_alpha, "dropout": lora.lora_dropout}
        names = {"model": strip_folder(self.vlm.name_or_path), "sam": strip_folder(self.sam.name_or_path)}
        return {**names, "lora": sizes, "frozen_encoder": self.frozen_encoder}

    def forward(self, sam_pixels: torch.Tensor, labels: torch.Tensor, **given: torch.Tensor) -> Output:
        """Of n answers with one <SEG> each.

        Args:
            sam_pixels: (n, 3, s, s). labels: (n, tokens), IGNORED outside the answers. given: the model's own inputs.

        Raises:
            InputError: an answer without <SEG>, or with several.
        """
        said = self.vlm(**given, labels=labels, output_hidden_states=True)
        places = labels == self.encoder.seg
        if not (places.sum(1) == 1).all():
            raise InputError("an answer", f"has {places.sum(1).tolist()} tokens {SEG}", expected="one each")
        return Output(said.loss, self.decode(said.hidden_states[-1][places], sam_pixels))

    def decode(self, states: torch.Tensor, sam_pixels: torch.Tensor) -> torch.Tensor:
        """Logits (n, m, m) of the masks that states of <SEG> (n, hidden size) give on images (n, 3, s, s).

        The projected state is SAM's sparse prompt; its dense one is that of no mask. Of SAM's masks it is the one that
        it gives for a prompt that is not ambiguous.
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
        """What was trained: the adapter as peft keeps it, and the projection with what SAM has learned."""
        self.vlm.save_pretrained(folder / ADAPTER, save_embedding_layers=False)
        save_file(self._segmenter(), folder / SEGMENTER)

    def restore(self, folder: Path) -> None:
        """What `save` wrote into the same two models.

        Raises:
            InputError: a file is missing, or is of other models.
        """
        held = _files(folder)
        learned, own = load_file(held), self._segmenter()
        if odd := learned.keys() ^ own.keys():
            raise InputError(
                held, f"is of another SAM: {format_few(odd)}", action="name the SAM that it was trained with"
            )
        try:
            peft.set_peft_model_state_dict(self.vlm, load_peft_weights(str(folder / ADAPTER), device=str(self.device)))
            self.load_state_dict(learned, strict=False)
        except RuntimeError as error:
            cause = str(error).splitlines()[-1].strip()
            raise InputError(folder, cause, action="name the models that it was trained with") from error

    def _segmenter(self) -> Tensors:
        own = ((name, weight) for name, weight in self.named_parameters() if not name.startswith("vlm."))
        return {name: weight.detach().contiguous() for name, weight in own if weight.requires_grad}


def start(
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
    """A model to train, on the CPU, in train mode.

    Args:
        model, sam: folders or Hub names. rank, alpha, dropout: of LoRA. seed: of what starts random, which are LoRA's
            first matrices, the rows of <SEG> and the projection. dtype: of the model's weights; SAM's are float32.

    Raises:
        InputError: a model that is none of images and text, or a SAM that is none.
    """
    segmenter, image_processor = _sam(sam)
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        vlm, processor = _vlm(model, dtype)
        config = peft.LoraConfig(
            r=rank,
            lora_alpha=alpha,
            lora_dropout=dropout,
            target_modules=find_linear_layers(vlm),
            trainable_token_indices={name: [processor.tokenizer.convert_tokens_to_ids(SEG)] for name in _tokens(vlm)},
        )
        return Loba(
            _adapted(vlm, config), segmenter, _encoder(processor, vlm, image_processor, segmenter), frozen_encoder
        ).train()


def load(folder: Path, model: str, sam: str, *, dtype: str = "auto") -> Loba:
    """What `train` has written into a folder, on the CPU, in eval mode. model, sam: those it was trained with.

    Raises:
        InputError: as `start` and `Loba.restore`.
    """
    frozen = not any(name.startswith("sam.vision_encoder.") for name in load_file(_files(folder)))
    segmenter, image_processor = _sam(sam)
    with torch.random.fork_rng():
        vlm, processor = _vlm(model, dtype)
        config = peft.PeftConfig.from_pretrained(str(folder / ADAPTER))
        loba = Loba(_adapted(vlm, config), segmenter, _encoder(processor, vlm, image_processor, segmenter), frozen)
    loba.restore(folder)
    return loba.eval()


def _files(folder: Path) -> Path:
    """The segmenter of a folder that holds both files."""
    for name in (ADAPTER, SEGMENTER):
        if not (folder / name).exists():
            raise InputError(folder, f"has no {name}", expected="a folder that a training of LobA has written")
    return folder / SEGMENTER


def _vlm(name: str, dtype: str) -> tuple[Any, Any]:
    """A model of images and text and its processor, which both know <SEG>."""
    model, processor = load_vlm(name, dtype)
    processor.tokenizer.add_tokens([transformers.AddedToken(SEG, normalized=False)])
    if len(processor.tokenizer) > len(model.get_input_embeddings().weight):
        model.resize_token_embeddings(len(processor.tokenizer))
    return model, processor


def _adapted(vlm: Any, config: peft.PeftConfig) -> Any:
    """The model with an adapter whose file names the model without the folder that it lies in."""
    config.base_model_name_or_path = None  # peft warns where a name is another one
    adapted = peft.get_peft_model(vlm, config)
    config.base_model_name_or_path = strip_folder(vlm.name_or_path)
    return adapted


def _sam(name: str) -> tuple[Any, Any]:
    """A SAM and its image processor."""
    expected = "a SAM for transformers, such as MedSAM"
    try:
        kind = transformers.AutoConfig.from_pretrained(name).model_type
        if kind != "sam":
            raise InputError(name, f"is a model of type {kind!r}", expected=expected)
        return transformers.SamModel.from_pretrained(name), transformers.SamImageProcessor.from_pretrained(name)
    except (OSError, ValueError) as error:
        raise make_loading_error(name, error, expected) from error


def _encoder(processor: Any, vlm: Any, image_processor: Any, sam: Any) -> Encoder:
    vision = sam.config.vision_config
    return Encoder(processor, vlm.config, image_processor, vision.image_size, vision.patch_size)


def _tokens(vlm: Any) -> list[str]:
    """Full names of the matrices with a row for each token: one where input and output share it."""
    matrices = [vlm.get_input_embeddings(), vlm.get_output_embeddings()]
    if matrices[0].weight is matrices[1].weight:
        matrices = matrices[:1]
    return [name for name, module in vlm.named_modules() if any(module is one for one in matrices)]
