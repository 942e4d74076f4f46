"""Tiny SAM with random weights and its image processor, saved in `from_pretrained` format."""

from __future__ import annotations

from pathlib import Path


def save(folder: Path, image_size: int = 32, patch_size: int = 8, width: int = 32, seed: int = 0) -> Path:
    """Save a SAM for images of image_size x image_size pixels; masks have half that side, patches 8 pixels."""
    import torch
    import transformers as hf

    sizes = {"image_size": image_size, "patch_size": patch_size}
    vision = {"hidden_size": width, "output_channels": width, "mlp_dim": 2 * width, "num_pos_feats": width // 2}
    vision |= {"num_hidden_layers": 2, "num_attention_heads": 4, "window_size": 0, "global_attn_indexes": [0, 1]}
    decoder = {"hidden_size": width, "mlp_dim": 2 * width, "num_attention_heads": 4, "iou_head_hidden_dim": width}
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        config = hf.SamConfig(
            vision_config=hf.SamVisionConfig(**sizes, **vision, initializer_range=0.02),
            prompt_encoder_config=hf.SamPromptEncoderConfig(**sizes, hidden_size=width, mask_input_channels=4),
            mask_decoder_config=hf.SamMaskDecoderConfig(**decoder),
        )
        hf.SamModel(config).save_pretrained(folder)
    hf.SamImageProcessor().save_pretrained(folder)
    return folder
