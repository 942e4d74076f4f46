"""Pixel edits of controls. Images and results are uint8 (h, w, 3). The same input gives the same bytes."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from PIL import Image
from scipy import ndimage, sparse
from scipy.sparse.linalg import splu

MARGIN = 0.05  # width of the paint around the region, in square roots of the region's area
FILLED = 64  # pixels of the longer side of the grid on which the fill is computed
BLUR = 0.4  # standard deviation of the blur, in square roots of the region's area
GRAIN = 1.0  # pixels; finer structure counts as grain
_OFF = (0.173, 0.311)  # pixels


def fill_mean(image: np.ndarray) -> np.ndarray:
    """Fill the image with its mean colour.

    Args:
        image: The image.

    Returns:
        The uniform image, uint8, of the same shape.
    """
    return np.broadcast_to(np.rint(image.mean((0, 1))).astype(np.uint8), image.shape).copy()


def shuffle_pixels(image: np.ndarray, seed: int) -> np.ndarray:
    """Shuffle the pixels: every colour stays as frequent as before.

    Args:
        image: The image.
        seed: The seed of the order.

    Returns:
        The shuffled image, of the same shape.
    """
    return np.random.default_rng(seed).permutation(image.reshape(-1, image.shape[2]), axis=0).reshape(image.shape)


def fill_region(image: np.ndarray, mask: np.ndarray, seed: int) -> np.ndarray:
    """Paint out a region: a smooth continuation of its surroundings, with their grain.

    Args:
        image: The image.
        mask: Bool (h, w), not empty. The paint goes MARGIN beyond it and fades there.
        seed: The seed of the grain.

    Returns:
        A copy of the image with the paint.
    """
    return _replace_region(image, mask, seed, _compute_continuation)


def blur_region(image: np.ndarray, mask: np.ndarray, seed: int) -> np.ndarray:
    """Blur a region by a Gaussian of BLUR, with the grain of its surroundings.

    The difference between the blur and the image around the region is continued into the region and subtracted.
    Otherwise the region would have a visible frame.

    Args:
        image: The image.
        mask: Bool (h, w), not empty. The blur goes MARGIN beyond it and fades there.
        seed: The seed of the grain.

    Returns:
        A copy of the image with the blur.
    """
    sigma = BLUR * mask.sum() ** 0.5
    y0, y1, x0, x1 = around = compute_window(mask, max(round(2 * sigma), 4 * _compute_margin(mask)))
    wide = _compute_blur(image[y0:y1, x0:x1].astype(float), sigma)

    def fill(crop: np.ndarray, hole: np.ndarray) -> np.ndarray:
        inner = compute_window(mask, 4 * _compute_margin(mask))
        rows, columns = (slice(inner[n] - around[n], inner[n + 1] - around[n]) for n in (0, 2))
        smooth = wide[rows, columns, : crop.shape[2]]
        return smooth + _compute_continuation(crop - smooth, hole)

    return _replace_region(image, mask, seed, fill)


def _replace_region(image: np.ndarray, mask: np.ndarray, seed: int, fill: Callable[..., np.ndarray]) -> np.ndarray:
    """Replace a region. `fill` gets the image around it, float (h, w, channels), and the hole, bool (h, w)."""
    margin = _compute_margin(mask)
    y0, y1, x0, x1 = compute_window(mask, 4 * margin)
    grey = (image == image[..., :1]).all()  # all channels are equal
    crop = image[y0:y1, x0:x1, : 1 if grey else None].astype(float)
    inside = mask[y0:y1, x0:x1]
    distance = np.asarray(ndimage.distance_transform_edt(~inside))
    if (distance <= margin).all():  # no pixel remains for the continuation
        return fill_mean(image)
    hole, ring = distance <= margin, (distance > margin) & (distance <= 4 * margin)
    filled = fill(crop, hole) + _sample_grain(crop, hole, ring, np.random.default_rng(seed))
    weight = np.clip(1 - distance / margin, 0, 1)[..., None]
    result = image.copy()
    result[y0:y1, x0:x1] = np.clip(np.rint(weight * filled + (1 - weight) * crop), 0, 255).astype(np.uint8)
    return result


def compute_sector(mask: np.ndarray, share: float, start: float, *, mirror: bool = False) -> np.ndarray:
    """Compute a sector around the middle of a region that holds a share of its pixels, up to the edges of the image.

    A hand that turns around the middle sweeps over the region, beginning at `start`. Sectors with the same start are
    nested. Over all starts, each pixel is in that share of the sectors.

    Args:
        mask: Bool (h, w), not empty.
        share: The share of the region's pixels, above 0 and below 1.
        start: The beginning of the hand, as the share of the region's pixels before it, 0 <= start < 1.
        mirror: Whether to turn in the other direction, as in the mirrored region.

    Returns:
        Bool (h, w).
    """
    rows, columns = np.nonzero(mask)
    # Coordinates begin at the region's own corner: a moved copy of the region has the same angles.
    # The middle is not the middle of a pixel: few pixels share an angle.
    y, x = rows - rows.min(), columns.max() - columns if mirror else columns - columns.min()
    middle = y.mean() + _OFF[0], x.mean() + _OFF[1]
    ordered = np.sort(_compute_turn(y, x, middle))
    begin_index = int(start * len(ordered))
    begin, end = (ordered[(begin_index + n) % len(ordered)] for n in (0, round(share * len(ordered))))
    height, width = np.ogrid[: mask.shape[0], : mask.shape[1]]
    turn = _compute_turn(height - rows.min(), columns.max() - width if mirror else width - columns.min(), middle)
    return (turn - begin) % 1 < (end - begin) % 1


def _compute_turn(y: np.ndarray, x: np.ndarray, middle: tuple[float, float]) -> np.ndarray:
    """Compute the turns, from 0 to 1, at which a hand around the middle meets points."""
    return np.arctan2(y - middle[0], x - middle[1]) / (2 * np.pi) % 1


def sample_start(seed: int) -> float:
    """Draw the start of `compute_sector`: 0 <= start < 1.

    Args:
        seed: The seed.

    Returns:
        The start, a share of a full turn.
    """
    return float(np.random.default_rng(seed).random())


def merge_edit(image: np.ndarray, edited: np.ndarray, mask: np.ndarray, selection: np.ndarray) -> np.ndarray:
    """Merge an edit into an image where `selection` is set, with a fade of MARGIN. Half of the fade is on either side.

    Args:
        image: The image.
        edited: The edited image.
        mask: Bool (h, w), the region that is edited.
        selection: Bool (h, w), where the edit is kept.

    Returns:
        A copy of the image with the selected part of the edit.
    """
    margin = _compute_margin(mask)
    y0, y1, x0, x1 = compute_window(mask, 4 * margin)
    inside = selection[y0:y1, x0:x1]
    depth = np.asarray(ndimage.distance_transform_edt(inside)) - np.asarray(ndimage.distance_transform_edt(~inside))
    weight = np.clip(0.5 + depth / (2 * margin), 0, 1)[..., None]
    below, above = (pixels[y0:y1, x0:x1].astype(float) for pixels in (image, edited))
    result = image.copy()
    result[y0:y1, x0:x1] = np.rint(weight * above + (1 - weight) * below).astype(np.uint8)
    return result


def keep_region(image: np.ndarray, mask: np.ndarray) -> np.ndarray:
    """Fill everything outside of a region with the mean colour of that area.

    Args:
        image: The image.
        mask: Bool (h, w), the region.

    Returns:
        The image with the region alone, uint8.
    """
    outside = ~mask
    colour = image[outside].mean(0) if outside.any() else np.zeros(image.shape[2])
    return np.where(mask[..., None], image, np.rint(colour).astype(np.uint8)).astype(np.uint8)


def shift_mask(mask: np.ndarray, dx: int, dy: int, *, mirror: bool) -> np.ndarray:
    """Move a mask by whole pixels, after mirroring it if requested. Pixels that leave the image are lost.

    Args:
        mask: Bool (h, w).
        dx: Pixels to the right.
        dy: Pixels down.
        mirror: Whether to mirror the mask.

    Returns:
        Bool (h, w), the moved mask.
    """
    shape = mask[:, ::-1] if mirror else mask
    return ndimage.shift(shape.astype(np.uint8), (dy, dx), order=0, prefilter=False).astype(bool)


def _compute_margin(mask: np.ndarray) -> int:
    return max(2, round(MARGIN * mask.sum() ** 0.5))


def compute_window(mask: np.ndarray, margin: int) -> tuple[int, int, int, int]:
    """Compute the box of a region with a margin, within the image.

    Args:
        mask: Bool (h, w), not empty.
        margin: Pixels on each side of the region's own box.

    Returns:
        (y0, y1, x0, x1).
    """
    rows, columns = np.flatnonzero(mask.any(1)), np.flatnonzero(mask.any(0))
    y0, x0 = max(0, rows[0] - margin), max(0, columns[0] - margin)
    return y0, min(len(mask), rows[-1] + 1 + margin), x0, min(mask.shape[1], columns[-1] + 1 + margin)


def _compute_continuation(crop: np.ndarray, hole: np.ndarray) -> np.ndarray:
    """Compute the harmonic continuation of an image into a hole on a small grid. The result has the shape of `crop`."""
    height, width = hole.shape
    scale = min(1.0, FILLED / max(height, width))
    size = (max(2, round(width * scale)), max(2, round(height * scale)))
    unknown = np.asarray(Image.fromarray(hole.astype(np.uint8) * 255).resize(size, Image.Resampling.BOX)) > 0
    if unknown.all():
        return np.broadcast_to(crop[~hole].mean(0), crop.shape)
    known_pixels = (~hole).astype(np.float32)
    weight = np.maximum(_resize(known_pixels, size, Image.Resampling.BOX), 1e-6)
    channels = [
        _resize(channel * known_pixels, size, Image.Resampling.BOX) / weight for channel in np.moveaxis(crop, 2, 0)
    ]
    small = _solve_laplace(np.stack(channels, axis=2), unknown)
    large = [_resize(channel, (width, height), Image.Resampling.BILINEAR) for channel in np.moveaxis(small, 2, 0)]
    return np.stack(large, axis=2).astype(float)


def _compute_blur(crop: np.ndarray, sigma: float) -> np.ndarray:
    """Blur an image on a small grid. `sigma` is in pixels of the image. The result has the shape of `crop`."""
    height, width = crop.shape[:2]
    scale = min(1.0, FILLED / max(height, width))
    size = (max(2, round(width * scale)), max(2, round(height * scale)))
    small = [_resize(channel, size, Image.Resampling.BOX) for channel in np.moveaxis(crop, 2, 0)]
    smooth = [ndimage.gaussian_filter(channel, sigma * scale, mode="nearest") for channel in small]
    large = [_resize(channel, (width, height), Image.Resampling.BILINEAR) for channel in smooth]
    return np.stack(large, axis=2).astype(float)


def _resize(values: np.ndarray, size: tuple[int, int], resampling: Image.Resampling) -> np.ndarray:
    return np.asarray(Image.fromarray(values.astype(np.float32)).resize(size, resampling))


def _solve_laplace(values: np.ndarray, unknown: np.ndarray) -> np.ndarray:
    """Solve Laplace's equation: each unknown value is the mean of its neighbours, without flow over the edge.

    Args:
        values: Shape (h, w, channels).
        unknown: Bool (h, w).
    """
    height, width, n_channels = values.shape
    number = np.arange(height * width).reshape(height, width)
    pairs = [(number[:, :-1], number[:, 1:]), (number[:-1], number[1:])]
    starts, ends = (np.concatenate([pair[i].ravel() for pair in pairs]) for i in (0, 1))
    edges = sparse.coo_array((np.ones(starts.size), (starts, ends)), (height * width,) * 2)
    links = (edges + edges.T).tocsr()
    laplacian = sparse.diags_array(links.sum(1)).tocsr() - links
    inner, outer = np.flatnonzero(unknown), np.flatnonzero(~unknown)
    solved = values.reshape(-1, n_channels).astype(float)
    solved[inner] = splu(laplacian[inner][:, inner].tocsc()).solve(-(laplacian[inner][:, outer] @ solved[outer]))
    return solved.reshape(values.shape)


def _sample_grain(crop: np.ndarray, hole: np.ndarray, ring: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Sample the fine structure of the ring for every pixel. The result has the shape of `crop`."""
    if not ring.any():
        return np.zeros(crop.shape)
    known_pixels = ~hole[..., None] * np.ones(crop.shape)  # hidden pixels must not show in the paint
    smooth, weight = (
        ndimage.gaussian_filter(values, (GRAIN, GRAIN, 0)) for values in (crop * known_pixels, known_pixels)
    )
    grain = (crop - smooth / np.maximum(weight, 1e-6))[ring]
    size = np.abs(grain).max(1)
    plain = grain[size <= 3 * np.median(size)]  # without edges
    sampled = plain[rng.integers(len(plain), size=ring.size)]
    return sampled.reshape(crop.shape)
