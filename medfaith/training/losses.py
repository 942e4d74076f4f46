"""Training losses: GLoRIA's contrastive loss, and the negative of the paper's alignment."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch.nn.functional import cross_entropy, interpolate

from medfaith.evaluate_metrics.localization.input_view import SIDE
from medfaith.tasks.models.alignment.gloria import GloriaModel
from medfaith.tasks.models.alignment.gloria_text import Tokens

TEMP3 = 10.0


def contrastive(local: torch.Tensor, overall: torch.Tensor) -> torch.Tensor:
    """Compute GLoRIA's loss (Huang et al., ICCV 2021, equations 3 to 7) of n pairs.

    Args:
        local: (n, n), local similarity of each image (rows) to each text (columns). Pairs are on the diagonal.
        overall: (n, n), global similarity in the same layout.

    Returns:
        A scalar: the sum, over both similarities, of the cross entropy of finding an image's text among the n texts,
            and of finding a text's image. Similarities are first multiplied by temp3 = 10, as in the released
            configuration.
    """
    labels = torch.arange(len(local), device=local.device)
    scaled = [TEMP3 * similarity for similarity in (local, overall)]
    return torch.stack([cross_entropy(logits, labels) for matrix in scaled for logits in (matrix, matrix.T)]).sum()


def alignment(attention: torch.Tensor, regions: torch.Tensor) -> torch.Tensor:
    """Compute the alignment loss of n sentences (section 4.1): the mean of -sum_p s_p l_p, from -1 to 0.

    The paper prints the sum without a sign and calls it a loss. The sum is the share of attention inside the boxes,
    which training should increase, and its negative is minimised here. The paper's released code minimises -log of the
    sum instead.

    Args:
        attention: (n, h, w), at least 0. Attention to no region is removed by normalisation.
        regions: (n, 224, 224), 1 inside the boxes and 0 outside.

    Returns:
        A scalar.
    """
    scores = interpolate(attention[:, None], (SIDE, SIDE), mode="bilinear", align_corners=False)[:, 0]
    scores = scores / scores.sum(dim=(1, 2), keepdim=True)  # sum 1 after upsampling: footnote 9
    return -(scores * regions).sum(dim=(1, 2)).mean()


def attention(model: GloriaModel, images: torch.Tensor, tokens: Tokens, image_of: Sequence[int]) -> torch.Tensor:
    """Compute the attention of k sentences, the mean over their words.

    Args:
        model: The model.
        images: (n, 3, 224, 224), each encoded once.
        tokens: The k sentences.
        image_of: The index of each sentence's image.

    Returns:
        (k, h, w), with the sum 1 minus the attention to the "No Attn" vector.
    """
    local, _ = model.encode_images(images)
    sentences, _ = model.encode_texts(tokens)
    height, width = local.shape[2:]
    grids = [
        model.attention(sentence, local[index : index + 1])[0].mean(dim=0)[: height * width]
        for sentence, index in zip(sentences, image_of, strict=True)
    ]
    return torch.stack(grids).reshape(-1, height, width)
