"""GLoRIA's image encoder: what it sees of an X-ray, and a ResNet's regions of it (Huang et al., ICCV 2021).

After the released code (marshuang80/gloria): the published input view, grey, brought to 299 x 299; regions are the
third stage's output (1,024 channels, 19 x 19), the whole image is the fourth's, averaged.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from PIL import Image
from torch import nn
from torchvision.models.resnet import Bottleneck, ResNet

from ...evaluate_metrics.localization.input_view import RESIZED, SIDE, window

INPUT = 299
MEAN, STD = 0.5, 0.5
PREPROCESSING = {"view": [RESIZED, SIDE], "resampling": "area", "mean": MEAN, "std": STD, "input": INPUT}
RESNET_50 = (3, 4, 6, 3)
REGION_CHANNELS = 256 * Bottleneck.expansion


class ImageEncoder(nn.Module):
    """A torchvision ResNet of bottlenecks, and two linear maps from its features to the space of the words.

    Parameters have the released checkpoint's names.

    Args:
        layers: bottlenecks of each stage. width: of the first stage's bottlenecks, 64 for ResNet-50.
        dim: of the common space.
    """

    def __init__(self, layers: Sequence[int] = RESNET_50, width: int = 64, dim: int = 768) -> None:
        super().__init__()
        self.model = ResNet(Bottleneck, list(layers), width_per_group=width)
        n_features = self.model.fc.in_features
        self.model.fc = nn.Identity()  # pyright: ignore[reportAttributeAccessIssue]
        self.global_embedder = nn.Linear(n_features, dim)
        self.local_embedder = nn.Conv2d(REGION_CHANNELS, dim, kernel_size=1, bias=False)

    def forward(self, pixels: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Embeddings of the regions, (n, dim, h, w), and of the whole images, (n, dim), of pixels (n, 3, H, W)."""
        net = self.model
        x = nn.functional.interpolate(pixels, (INPUT, INPUT), mode="bilinear", align_corners=True)
        x = net.maxpool(net.relu(net.bn1(net.conv1(x))))
        regions = net.layer3(net.layer2(net.layer1(x)))
        whole = net.avgpool(net.layer4(regions)).flatten(1)
        return self.local_embedder(regions), self.global_embedder(whole)


def view(image: Image.Image) -> np.ndarray:
    """The published input view (evaluate_metrics.localization.input_view), grey: uint8 (224, 224), zeros where it pads.

    A pixel is the mean of the area of the image that it covers, as OpenCV's INTER_AREA makes it.
    """
    grey = np.asarray(image.convert("L"), dtype=np.float64)
    x, y, width, height = window((image.height, image.width))
    seen = _shares(y, height, image.height) @ grey @ _shares(x, width, image.width).T
    return np.rint(seen).astype(np.uint8)


def pixels(images: Sequence[Image.Image]) -> torch.Tensor:
    """What the model is given: float32 (n, 3, 224, 224) in [-1, 1]."""
    return normalised(np.stack([view(image) for image in images])).contiguous()


def normalised(views: np.ndarray) -> torch.Tensor:
    """`pixels` of views, uint8 (n, 224, 224); the three channels share their memory."""
    grey = torch.from_numpy(views).float() / 255
    return ((grey - MEAN) / STD)[:, None].expand(-1, 3, -1, -1)


def _shares(start: float, extent: float, n_pixels: int) -> np.ndarray:
    """Along one side: which share of each of the view's pixels each of the image's covers, (224, n_pixels)."""
    scale = extent / SIDE
    edges = start + np.arange(SIDE + 1)[:, None] * scale
    at = np.arange(n_pixels)
    overlap = np.minimum(edges[1:], at + 1) - np.maximum(edges[:-1], at)
    return overlap.clip(0) / scale
