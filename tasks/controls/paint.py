"""What controls do to pixels. Images and results are uint8, shape (h, w, 3); the same input gives the same bytes."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from PIL import Image
from scipy import ndimage, sparse
from scipy.sparse.linalg import splu

MARGIN = 0.05  # of the square root of the region's area: how far the paint goes beyond the region
FILLED = 64  # pixels of the longer side of the grid on which the fill is computed
BLUR = 0.4  # of the square root of the region's area: the blur's standard deviation
GRAIN = 1.0  # pixels: what is finer than this counts as grain
_OFF = (0.173, 0.311)  # pixels


def blank(image: np.ndarray) -> np.ndarray:
    """An even image of the mean colour."""
    return np.broadcast_to(np.rint(image.mean((0, 1))).astype(np.uint8), image.shape).copy()


def noise(image: np.ndarray, seed: int) -> np.ndarray:
    """The pixels in a random order: every colour as often as before."""
    return np.random.default_rng(seed).permutation(image.reshape(-1, image.shape[2]), axis=0).reshape(image.shape)


def occluded(image: np.ndarray, mask: np.ndarray, seed: int) -> np.ndarray:
    """The image with the region painted out: continued smoothly from around it, with the grain of what surrounds it.

    mask: bool (h, w), not empty. The paint goes MARGIN beyond it and fades into the image there.
    """
    return _painted(image, mask, seed, _continued)


def blurred(image: np.ndarray, mask: np.ndarray, seed: int) -> np.ndarray:
    """The image with the region blurred by a Gaussian of BLUR, with the grain of what surrounds it.

    mask: bool (h, w), not empty. The blur goes MARGIN beyond it and fades there. What it differs by
    from the image around the region is continued into it and taken off, or the region would have a visible frame.
    """
    sigma = BLUR * mask.sum() ** 0.5
    top, bottom, left, right = around = _window(mask, max(round(2 * sigma), 4 * _margin(mask)))
    wide = _smeared(image[top:bottom, left:right].astype(float), sigma)

    def fill(part: np.ndarray, hole: np.ndarray) -> np.ndarray:
        inner = _window(mask, 4 * _margin(mask))
        rows, columns = (slice(inner[n] - around[n], inner[n + 1] - around[n]) for n in (0, 2))
        smooth = wide[rows, columns, : part.shape[2]]
        return smooth + _continued(part - smooth, hole)

    return _painted(image, mask, seed, fill)


def _painted(image: np.ndarray, mask: np.ndarray, seed: int, fill: Callable[..., np.ndarray]) -> np.ndarray:
    """fill: of the image around the region, float (h, w, channels), and the hole, bool (h, w), what fills the hole."""
    margin = _margin(mask)
    top, bottom, left, right = _window(mask, 4 * margin)
    grey = (image == image[..., :1]).all()  # one channel tells all
    part = image[top:bottom, left:right, : 1 if grey else None].astype(float)
    inside = mask[top:bottom, left:right]
    distance = np.asarray(ndimage.distance_transform_edt(~inside))
    if (distance <= margin).all():  # nothing is left to continue from
        return blank(image)
    hole, ring = distance <= margin, (distance > margin) & (distance <= 4 * margin)
    filled = fill(part, hole) + _grain(part, hole, ring, np.random.default_rng(seed))
    weight = np.clip(1 - distance / margin, 0, 1)[..., None]
    result = image.copy()
    result[top:bottom, left:right] = np.clip(np.rint(weight * filled + (1 - weight) * part), 0, 255).astype(np.uint8)
    return result


def sector(mask: np.ndarray, share: float, start: float, *, mirror: bool = False) -> np.ndarray:
    """A sector around the middle of a region that holds a share of its pixels, and goes on to the edges of the image.

    A hand that turns around the middle sweeps over the region, from `start` on. Sectors of one start are nested, and
    over all starts each pixel is in as many sectors as the share says.

    Args:
        mask: bool (h, w), not empty.
        share: of the region's pixels, above 0, below 1.
        start: where the hand begins: the share of the region's pixels that it passes before, 0 <= start < 1.
        mirror: turn the other way round, as in the mirrored region.

    Returns: bool (h, w).
    """
    rows, columns = np.nonzero(mask)
    # From the region's own corner, so that the same region elsewhere has the same angles; off the middle of a pixel,
    # so that few pixels have the same.
    y, x = rows - rows.min(), columns.max() - columns if mirror else columns - columns.min()
    middle = y.mean() + _OFF[0], x.mean() + _OFF[1]
    ordered = np.sort(_turn(y, x, middle))
    first = int(start * len(ordered))
    begin, end = (ordered[(first + n) % len(ordered)] for n in (0, round(share * len(ordered))))
    height, width = np.ogrid[: mask.shape[0], : mask.shape[1]]
    turn = _turn(height - rows.min(), columns.max() - width if mirror else width - columns.min(), middle)
    return (turn - begin) % 1 < (end - begin) % 1


def _turn(y: np.ndarray, x: np.ndarray, middle: tuple[float, float]) -> np.ndarray:
    """Where a hand around the middle meets points, in turns from 0 to 1."""
    return np.arctan2(y - middle[0], x - middle[1]) / (2 * np.pi) % 1


def start_of(seed: int) -> float:
    """Where the hand of `sector` begins: 0 <= start < 1."""
    return float(np.random.default_rng(seed).random())


def blended(image: np.ndarray, edited: np.ndarray, mask: np.ndarray, part: np.ndarray) -> np.ndarray:
    """The edited image where `part` (bool, (h, w)) is set, the image elsewhere, fading over MARGIN between them.

    mask: bool (h, w), the region that is edited. Half of the fade is on either side, so the share that is edited stays.
    """
    margin = _margin(mask)
    top, bottom, left, right = _window(mask, 4 * margin)
    inside = part[top:bottom, left:right]
    depth = np.asarray(ndimage.distance_transform_edt(inside)) - np.asarray(ndimage.distance_transform_edt(~inside))
    weight = np.clip(0.5 + depth / (2 * margin), 0, 1)[..., None]
    below, above = (of[top:bottom, left:right].astype(float) for of in (image, edited))
    result = image.copy()
    result[top:bottom, left:right] = np.rint(weight * above + (1 - weight) * below).astype(np.uint8)
    return result


def only(image: np.ndarray, mask: np.ndarray) -> np.ndarray:
    """The region, with everything else in the mean colour of that."""
    rest = ~mask
    colour = image[rest].mean(0) if rest.any() else np.zeros(image.shape[2])
    return np.where(mask[..., None], image, np.rint(colour).astype(np.uint8)).astype(np.uint8)


def moved(mask: np.ndarray, dx: int, dy: int, *, mirror: bool) -> np.ndarray:
    """The mask, mirrored if asked, then moved by whole pixels; what leaves the image is lost."""
    shape = mask[:, ::-1] if mirror else mask
    return ndimage.shift(shape.astype(np.uint8), (dy, dx), order=0, prefilter=False).astype(bool)


def _margin(mask: np.ndarray) -> int:
    return max(2, round(MARGIN * mask.sum() ** 0.5))


def _window(mask: np.ndarray, by: int) -> tuple[int, int, int, int]:
    """top, bottom, left, right of the region's box with `by` pixels around it, within the image."""
    rows, columns = np.flatnonzero(mask.any(1)), np.flatnonzero(mask.any(0))
    top, left = max(0, rows[0] - by), max(0, columns[0] - by)
    return top, min(len(mask), rows[-1] + 1 + by), left, min(mask.shape[1], columns[-1] + 1 + by)


def _continued(part: np.ndarray, hole: np.ndarray) -> np.ndarray:
    """The harmonic continuation of an image into a hole, computed on a small grid: shape as `part`."""
    height, width = hole.shape
    scale = min(1.0, FILLED / max(height, width))
    size = (max(2, round(width * scale)), max(2, round(height * scale)))
    unknown = np.asarray(Image.fromarray(hole.astype(np.uint8) * 255).resize(size, Image.Resampling.BOX)) > 0
    if unknown.all():
        return np.broadcast_to(part[~hole].mean(0), part.shape)
    known = (~hole).astype(np.float32)
    weight = np.maximum(_resized(known, size, Image.Resampling.BOX), 1e-6)
    channels = [_resized(channel * known, size, Image.Resampling.BOX) / weight for channel in np.moveaxis(part, 2, 0)]
    small = _harmonic(np.stack(channels, axis=2), unknown)
    large = [_resized(channel, (width, height), Image.Resampling.BILINEAR) for channel in np.moveaxis(small, 2, 0)]
    return np.stack(large, axis=2).astype(float)


def _smeared(part: np.ndarray, sigma: float) -> np.ndarray:
    """The part blurred, computed on a small grid: shape as `part`. sigma: in pixels of the part."""
    height, width = part.shape[:2]
    scale = min(1.0, FILLED / max(height, width))
    size = (max(2, round(width * scale)), max(2, round(height * scale)))
    small = [_resized(channel, size, Image.Resampling.BOX) for channel in np.moveaxis(part, 2, 0)]
    smooth = [ndimage.gaussian_filter(channel, sigma * scale, mode="nearest") for channel in small]
    large = [_resized(channel, (width, height), Image.Resampling.BILINEAR) for channel in smooth]
    return np.stack(large, axis=2).astype(float)


def _resized(values: np.ndarray, size: tuple[int, int], how: Image.Resampling) -> np.ndarray:
    return np.asarray(Image.fromarray(values.astype(np.float32)).resize(size, how))


def _harmonic(values: np.ndarray, unknown: np.ndarray) -> np.ndarray:
    """Values where each unknown one is the mean of its neighbours (Laplace's equation, no flow over the edge).

    values: shape (h, w, channels); unknown: bool (h, w).
    """
    height, width, n_channels = values.shape
    number = np.arange(height * width).reshape(height, width)
    pairs = [(number[:, :-1], number[:, 1:]), (number[:-1], number[1:])]
    first, second = (np.concatenate([pair[i].ravel() for pair in pairs]) for i in (0, 1))
    edges = sparse.coo_array((np.ones(first.size), (first, second)), (height * width,) * 2)
    links = (edges + edges.T).tocsr()
    laplacian = sparse.diags_array(links.sum(1)).tocsr() - links
    inner, outer = np.flatnonzero(unknown), np.flatnonzero(~unknown)
    solved = values.reshape(-1, n_channels).astype(float)
    solved[inner] = splu(laplacian[inner][:, inner].tocsc()).solve(-(laplacian[inner][:, outer] @ solved[outer]))
    return solved.reshape(values.shape)


def _grain(part: np.ndarray, hole: np.ndarray, ring: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """What is fine in the ring, drawn at random for every pixel: shape as `part`."""
    if not ring.any():
        return np.zeros(part.shape)
    known = ~hole[..., None] * np.ones(part.shape)  # what is painted out must not be seen in its paint
    smooth, weight = (ndimage.gaussian_filter(values, (GRAIN, GRAIN, 0)) for values in (part * known, known))
    found = (part - smooth / np.maximum(weight, 1e-6))[ring]
    size = np.abs(found).max(1)
    plain = found[size <= 3 * np.median(size)]  # without edges
    drawn = plain[rng.integers(len(plain), size=ring.size)]
    return drawn.reshape(part.shape)
