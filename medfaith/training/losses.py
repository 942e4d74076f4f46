"""What training minimises: GLoRIA's contrastive loss, or the negative of the paper's alignment."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch.nn.functional import cross_entropy, interpolate

from medfaith.evaluate_metrics.localization.input_view import SIDE
from medfaith.tasks.models.gloria import GloriaModel
from medfaith.tasks.models.gloria_text import Tokens

TEMP3 = 10.0


def contrastive(local: torch.Tensor, overall: torch.Tensor) -> torch.Tensor:
    """GLoRIA's loss (Huang et al., ICCV 2021, equations 3 to 7) of n pairs.

    Args:
        local, overall: (n, n), similarity of each image (rows) to each text (columns); pairs are on the diagonal.

    Returns:
        A scalar: the sum, over both similarities, of the cross entropy of finding an image's text among the n, and of
        finding a text's image. Similarities are multiplied by temp3 = 10 before, as in the released configuration.
    """
    own = torch.arange(len(local), device=local.device)
    scaled = [TEMP3 * similarity for similarity in (local, overall)]
    return torch.stack([cross_entropy(way, own) for one in scaled for way in (one, one.T)]).sum()


def alignment(attention: torch.Tensor, regions: torch.Tensor) -> torch.Tensor:
    """The alignment loss of n sentences (section 4.1): -sum_p s_p l_p, their mean; from -1 to 0.

    The paper prints the sum without a sign and calls it a loss; it is the share of attention inside the boxes, which
    training is to raise, so that its negative is minimised here. Its released code minimises -log of the sum instead.

    Args:
        attention: (n, h, w), at least 0; what attention on no region takes from its sum is scaled away.
        regions: (n, 224, 224), 1 inside the boxes and 0 outside.
    """
    scores = interpolate(attention[:, None], (SIDE, SIDE), mode="bilinear", align_corners=False)[:, 0]
    scores = scores / scores.sum(dim=(1, 2), keepdim=True)  # sum 1 after upsampling: footnote 9
    return -(scores * regions).sum(dim=(1, 2)).mean()


def attention(model: GloriaModel, images: torch.Tensor, tokens: Tokens, image_of: Sequence[int]) -> torch.Tensor:
    """The attention of k sentences, mean over their words: (k, h, w), sum 1 less that on the "No Attn" vector.

    images: (n, 3, 224, 224), each encoded once. image_of: which of them each sentence is about.
    """
    local, _ = model.encode_images(images)
    sentences, _ = model.encode_texts(tokens)
    height, width = local.shape[2:]
    found = [
        model.attention(sentence, local[at : at + 1])[0].mean(dim=0)[: height * width]
        for sentence, at in zip(sentences, image_of, strict=True)
    ]
    return torch.stack(found).reshape(-1, height, width)
