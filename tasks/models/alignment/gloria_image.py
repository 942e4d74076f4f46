"""GLoRIA's image encoder: the input view of an X-ray, and the regions of a ResNet (Huang et al., ICCV 2021).

It follows the released code (marshuang80/gloria): the published input view in grey, resized to 299 x 299. Regions are
the output of the third stage (1,024 channels, 19 x 19), and the image's features are the mean output of the fourth.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from PIL import Image
from torch import nn
from torchvision.models.resnet import Bottleneck, ResNet

from ....evaluate_metrics.localization.input_view import RESIZED, SIDE, window

INPUT = 299
MEAN, STD = 0.5, 0.5
PREPROCESSING = {"view": [RESIZED, SIDE], "resampling": "area", "mean": MEAN, "std": STD, "input": INPUT}
RESNET_50 = (3, 4, 6, 3)
REGION_CHANNELS = 256 * Bottleneck.expansion


class ImageEncoder(nn.Module):
    """A torchvision ResNet of bottlenecks, and two linear maps from its features to the space of the words.

    Parameters have the released checkpoint's names.

    Args:
        layers: Bottlenecks of each stage.
        width: Width of the first stage's bottlenecks, 64 for ResNet-50.
        dim: Dimension of the common space.
    """

    def __init__(self, layers: Sequence[int] = RESNET_50, width: int = 64, dim: int = 768) -> None:
        super().__init__()
        self.model = ResNet(Bottleneck, list(layers), width_per_group=width)
        n_features = self.model.fc.in_features
        self.model.fc = nn.Identity()  # pyrefly: ignore[bad-assignment] (torchvision declares its class)
        self.global_embedder = nn.Linear(n_features, dim)
        self.local_embedder = nn.Conv2d(REGION_CHANNELS, dim, kernel_size=1, bias=False)

    def forward(self, pixels: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Encode images.

        Args:
            pixels: Shape (n, 3, H, W).

        Returns:
            Embeddings of the regions (n, dim, h, w) and of the images (n, dim).
        """
        net = self.model
        x = nn.functional.interpolate(pixels, (INPUT, INPUT), mode="bilinear", align_corners=True)
        x = net.maxpool(net.relu(net.bn1(net.conv1(x))))
        regions = net.layer3(net.layer2(net.layer1(x)))
        features = net.avgpool(net.layer4(regions)).flatten(1)
        return self.local_embedder(regions), self.global_embedder(features)


def view(image: Image.Image) -> np.ndarray:
    """Compute the published input view (evaluate_metrics.localization.input_view) in grey.

    A pixel is the mean over its area of the image, like OpenCV's INTER_AREA.

    Args:
        image: The image.

    Returns:
        uint8 (224, 224), with zero padding.
    """
    grey = np.asarray(image.convert("L"), dtype=np.float64)
    x, y, width, height = window((image.height, image.width))
    resampled = (
        _compute_overlap_shares(y, height, image.height) @ grey @ _compute_overlap_shares(x, width, image.width).T
    )
    return np.rint(resampled).astype(np.uint8)


def pixels(images: Sequence[Image.Image]) -> torch.Tensor:
    """Compute the model input.

    Args:
        images: n images.

    Returns:
        float32 (n, 3, 224, 224) in [-1, 1].
    """
    return normalised(np.stack([view(image) for image in images])).contiguous()


def normalised(views: np.ndarray) -> torch.Tensor:
    """Normalize views to model input. The three channels share their memory.

    Args:
        views: uint8 (n, 224, 224).

    Returns:
        float32 (n, 3, 224, 224) in [-1, 1].
    """
    grey = torch.from_numpy(views).float() / 255
    return ((grey - MEAN) / STD)[:, None].expand(-1, 3, -1, -1)


def _compute_overlap_shares(start: float, extent: float, n_pixels: int) -> np.ndarray:
    """Compute the share of each view pixel that each image pixel covers along one side, (224, n_pixels)."""
    scale = extent / SIDE
    edges = start + np.arange(SIDE + 1)[:, None] * scale
    positions = np.arange(n_pixels)
    overlap = np.minimum(edges[1:], positions + 1) - np.maximum(edges[:-1], positions)
    return overlap.clip(0) / scale
