"""One image statistic for each finding, computed in its anatomical region without knowledge of the patient."""

import numpy as np
from scipy.ndimage import uniform_filter
from sklearn.metrics import roc_auc_score

from medfaith.loaders.phantom import chest

TARGETS = ("atelectasis", "cardiomegaly", "consolidation", "edema", "pleural effusion", "pneumothorax")

H, W = chest.SIZE
X, Y = np.meshgrid((np.arange(W) + 0.5) / W, (np.arange(H) + 0.5) / H)
REFERENCE = chest.chest((), seed=10**6).regions
LUNGS = REFERENCE["left lung"] | REFERENCE["right lung"]


def make_area(x_min, x_max, y_min, y_max):
    return (x_min < X) & (x_max > X) & (y_min < Y) & (y_max > Y)


def compute_max_mean(*areas):
    return lambda pixels: max(pixels[a].mean() for a in areas)


def compute_share_above(level, *areas):
    return lambda pixels: sum((pixels[a] > level).mean() for a in areas)


def find_brightest_patch(width, *areas):
    return lambda pixels: max(uniform_filter(pixels.astype(float), width)[a].max() for a in areas)


def compute_asymmetry(*zones):
    pairs = [(REFERENCE[f"left {zone} lung"], REFERENCE[f"right {zone} lung"]) for zone in zones]
    return lambda pixels: max(
        abs(pixels[left_zone].mean() - pixels[right_zone].mean()) for left_zone, right_zone in pairs
    )


def compute_plate_contrast(pixels):
    """Compute how far a row above the diaphragm is brighter than the rows 7 pixels above and below it (larger side)."""
    rows = np.arange(118, 140)
    best = []
    for x_min, x_max in ((0.15, 0.33), (0.67, 0.85)):
        profile = pixels[:, (X[0] > x_min) & (X[0] < x_max)].astype(float).mean(axis=1)
        best.append((profile[rows] - (profile[rows - 7] + profile[rows + 7]) / 2).max())
    return max(best)


UPPER_TWO_THIRDS = [REFERENCE[f"{side} {zone} lung"] for side in ("left", "right") for zone in ("upper", "middle")]
RIBS = make_area(0.14, 0.86, 0.30, 0.60)
STATISTICS = {
    "cardiomegaly": compute_share_above(150, make_area(0.34, 0.40, 0.58, 0.66), make_area(0.66, 0.74, 0.60, 0.68)),
    "enlarged cardiomediastinum": compute_share_above(150, make_area(0.30, 0.70, 0.20, 0.28)),
    "edema": compute_max_mean(make_area(0.32, 0.42, 0.38, 0.55) | make_area(0.58, 0.68, 0.38, 0.55)),
    "lung opacity": compute_asymmetry("upper", "middle", "lower"),
    "consolidation": find_brightest_patch(11, make_area(0.14, 0.33, 0.30, 0.60), make_area(0.67, 0.86, 0.30, 0.60)),
    "pneumonia": compute_asymmetry("middle", "lower"),
    "lung lesion": find_brightest_patch(7, *UPPER_TWO_THIRDS),
    "atelectasis": compute_plate_contrast,
    "pleural other": compute_max_mean(make_area(0.12, 0.19, 0.40, 0.60), make_area(0.81, 0.88, 0.40, 0.60)),
    "pneumothorax": lambda pixels: (pixels[LUNGS] < 40).mean(),
    "pleural effusion": compute_max_mean(make_area(0.13, 0.22, 0.66, 0.74), make_area(0.78, 0.87, 0.66, 0.74)),
    "fracture": lambda pixels: ((pixels[RIBS] > 205) | (pixels[RIBS] < 35)).sum(),
    "support devices": lambda pixels: (pixels > 225).mean(),
}


def compute_auroc(finding, pictures, labels):
    return roc_auc_score(labels, [STATISTICS[finding](pixels) for pixels in pictures])
