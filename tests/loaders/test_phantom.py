"""The phantom chest: every named finding changes the image within its mask."""

from functools import cache
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image
from scipy.ndimage import binary_dilation

from medfaith.loaders.phantom import chest, shapes
from tests.support.loaders.chest_statistics import W, compute_auroc
from tests.support.tiers import choose_size

SIDED = sorted(set(chest.FINDINGS) - {"cardiomegaly", "enlarged cardiomediastinum", "edema"})
RESHAPING = {"cardiomegaly", "enlarged cardiomediastinum", "atelectasis"}  # these move outlines


@cache
def draw_normal(seed, view="frontal"):
    return chest.chest([], seed=seed, view=view)


@pytest.mark.parametrize("finding", chest.FINDINGS)
def test_a_finding_alone_is_told_from_a_normal_chest(finding):
    n = choose_size(5, 20)
    with_it = [chest.draw_chest([finding], seed=seed) for seed in range(n)]
    normals = [draw_normal(seed).pixels for seed in range(1000, 1000 + n)]
    assert compute_auroc(finding, with_it + normals, [1] * n + [0] * n) > 0.97


# --- drawing ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("finding", chest.FINDINGS)
def test_a_finding_is_where_its_mask_says(finding):
    for view, seed in product(chest.VIEWS, range(choose_size(1, 3))):
        ill = chest.chest([finding], seed=seed, view=view)
        (name,) = ill.findings
        mask = ill.findings[name]
        change = np.abs(ill.pixels.astype(int) - draw_normal(seed, view).pixels)
        assert name.removeprefix("left ").removeprefix("right ") == finding
        assert change[mask].max() > 30
        if finding not in RESHAPING:  # same patient elsewhere, except for the tails of a haze
            strong = change > 0.6 * change.max()
            assert (strong & binary_dilation(mask, iterations=4)).sum() >= 0.95 * strong.sum()
            assert change[~binary_dilation(mask, iterations=18)].max() <= (30 if finding == "edema" else 12)


@pytest.mark.parametrize("view", chest.VIEWS)
def test_outlines_are_the_masks_of_the_drawn_chest(view):
    for finding in chest.FINDINGS + (chest.LOCAL_FINDINGS if view == "frontal" else ()):
        drawn = chest.chest([finding], seed=2, size=(96, 80), view=view)
        outlines = chest.outline([finding], seed=2, size=(96, 80), view=view)
        for masks, expected in ((outlines.findings, drawn.findings), (outlines.regions, drawn.regions)):
            assert masks.keys() == expected.keys()
            assert all(np.array_equal(mask, expected[name]) for name, mask in masks.items()), finding


def test_the_patients_left_is_the_images_right():
    for name in (f"{side} {finding}" for side in ("left", "right") for finding in SIDED):
        phantom_chest = chest.chest([name], seed=4)
        assert set(phantom_chest.findings) == {name}
        x, _, width, _ = chest.box(phantom_chest.findings[name])
        assert (x + width / 2 > W / 2) == name.startswith("left"), name


def test_the_anatomy_is_a_chest_with_a_heart_above_half_its_width_in_cardiomegaly_alone():
    for seed in range(choose_size(8, 20)):
        for findings in ([], ["cardiomegaly"]):
            regions = chest.regions(findings, seed=seed)
            thorax = np.ptp(np.nonzero(regions["left lung"] | regions["right lung"])[1])
            assert (np.ptp(np.nonzero(regions["heart"])[1]) / thorax > 0.5) == bool(findings)
        phantom_chest = draw_normal(seed)
        grey = {name: phantom_chest.pixels[mask].mean() for name, mask in phantom_chest.regions.items()}
        assert grey["heart"] > grey["left lung"] + 60
        assert grey["mediastinum"] > grey["trachea"] + 40
        x = {name: chest.box(mask)[0] for name, mask in phantom_chest.regions.items()}
        assert x["right lung"] < x["heart"] < x["left lung"] + 40
        for side in ("left", "right"):
            zones = [phantom_chest.regions[f"{side} {zone} lung"] for zone in ("upper", "middle", "lower")]
            np.testing.assert_array_equal(sum(z.astype(int) for z in zones), phantom_chest.regions[f"{side} lung"])
            tops = [chest.box(z)[1] for z in zones]
            assert tops == sorted(tops)
            assert np.ptp([chest.box(z)[3] for z in zones]) <= 1
        assert not (phantom_chest.regions["left lung"] & phantom_chest.regions["right lung"]).any()


def test_a_finding_named_twice_or_in_another_order_is_the_same_and_both_sides_can_be_named():
    pixels = chest.draw_chest(["edema", "cardiomegaly"], seed=5)
    np.testing.assert_array_equal(pixels, chest.draw_chest(("cardiomegaly", "edema", "edema"), seed=5))
    effusions = {f"{side} pleural effusion" for side in ("left", "right")}
    assert set(chest.chest(effusions, seed=1).findings) == effusions
    assert {name for seed in range(20) for name in chest.chest(["pleural effusion"], seed=seed).findings} == effusions


@pytest.mark.parametrize(
    ("name", "view", "message"),
    [
        *((name, "frontal", f"finding '{name}'") for name in (
            "Edema", "no finding", "left edema", "middle atelectasis", "left", "", "left enlarged heart", "upper edema",
            "left mass", "upper left mass")),
        ("upper left mass", "lateral", "finding 'upper left mass': expected one of cardiomegaly"),
        ("edema", "AP", "view 'AP': expected one of frontal, lateral"),
    ],
)  # fmt: skip
def test_an_unknown_finding_side_zone_or_view_is_refused(name, view, message):
    with pytest.raises(ValueError, match=message):
        chest.draw_chest([name], seed=0, view=view)


@settings(max_examples=choose_size(5, 12), deadline=None)
@given(
    findings=st.sets(st.sampled_from([*chest.FINDINGS, *(f"left {name}" for name in SIDED)])),
    seed=st.integers(0, 2**64),
    size=st.tuples(st.integers(64, 256), st.integers(64, 256)),
    view=st.sampled_from(chest.VIEWS),
)
def test_any_findings_draw_at_any_size(findings, seed, size, view):
    phantom_chest = chest.chest(findings, seed=seed, size=size, view=view)
    assert phantom_chest.pixels.shape == size
    assert phantom_chest.pixels.dtype == np.uint8
    assert np.ptp(phantom_chest.pixels) > 120
    assert len(phantom_chest.findings) >= len({name.removeprefix("left ") for name in findings})
    for name, mask in [*phantom_chest.regions.items(), *phantom_chest.findings.items()]:
        assert mask.shape == size, name
        assert mask.any(), name


@given(st.data())
def test_box_is_pillows_bounding_box(data):
    bits = data.draw(st.lists(st.booleans(), min_size=63, max_size=63).filter(any))
    mask = np.array(bits).reshape(7, 9)
    x_min, y_min, x_max, y_max = Image.fromarray(mask.astype(np.uint8)).getbbox() or (0, 0, 0, 0)
    assert chest.box(mask) == (x_min, y_min, x_max - x_min, y_max - y_min)


@pytest.mark.parametrize("tilt", [0.0, 0.75])
@pytest.mark.parametrize("power", [2.0, 2.5])
@pytest.mark.parametrize("edge", [0.004, 0.08])
def test_an_ellipse_is_its_formula_at_every_pixel(tilt, power, edge):
    """`shapes.ellipse` computes only the covered pixels."""
    x, y = shapes.grid((40, 30))
    dx, dy = np.broadcast_arrays(x - 0.4, y - 0.6)
    along, across = dx * np.cos(tilt) + dy * np.sin(tilt), dy * np.cos(tilt) - dx * np.sin(tilt)
    radius = (np.abs(along / 0.2) ** power + np.abs(across / 0.1) ** power) ** (1 / power)
    ellipse = shapes.ellipse(x, y, (0.4, 0.6), (0.2, 0.1), tilt=tilt, power=power, edge=edge)
    np.testing.assert_allclose(ellipse, shapes.step((1 - radius) * 0.1, edge), atol=1e-5)
    assert 0 < (ellipse > 0).sum() < ellipse.size


def test_stripes_and_lines_are_their_formulas_at_every_pixel():
    """`shapes.bands` and `shapes.line` compute only the pixels that they can cover."""
    x, y = shapes.grid((60, 50))
    curves = [0.2 + 0.3 * x, 0.9 - 0.5 * x**2, np.full_like(x, 0.99)]
    strength = shapes.between(x, 0.2, 0.7, 0.02)
    stripes = shapes.bands(y, curves, 0.02, 0.005, strength=strength, lower=0.05)
    formula = np.max([strength * shapes.band(y - curve - 0.05, 0.02, 0.005) for curve in curves], axis=0)
    np.testing.assert_array_equal(stripes, formula)
    path = (np.linspace(0.3, 0.5, 40, dtype=np.float32), np.linspace(0.9, 1.2, 40, dtype=np.float32))
    distance = np.hypot(x[..., None] - path[0], y[..., None] - path[1]).min(axis=-1)
    np.testing.assert_array_equal(shapes.line(x, y, path, 0.01, 0.005), shapes.band(distance, 0.01, 0.005))
    assert 0 < (stripes > 0).sum() < stripes.size
