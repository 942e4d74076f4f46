"""The drawn chest: a finding that is named is really in the picture, where its mask says."""

from functools import cache
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image
from scipy.ndimage import binary_dilation

from medfaith.loaders.phantom import chest, shapes
from tests.loaders.chest_statistics import W, auroc

SIDED = sorted(set(chest.FINDINGS) - {"cardiomegaly", "enlarged cardiomediastinum", "edema"})
RESHAPING = {"cardiomegaly", "enlarged cardiomediastinum", "atelectasis"}  # these move outlines


@cache
def normal(seed, view="frontal"):
    return chest.chest([], seed=seed, view=view)


@pytest.mark.parametrize("finding", chest.FINDINGS)
def test_a_finding_alone_is_told_from_a_normal_chest(finding):
    with_it = [chest.draw_chest([finding], seed=seed) for seed in range(20)]
    normals = [normal(seed).pixels for seed in range(1000, 1020)]
    assert auroc(finding, with_it + normals, [1] * 20 + [0] * 20) > 0.97


# --- drawing ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("finding", chest.FINDINGS)
def test_a_finding_is_where_its_mask_says(finding):
    for view, seed in product(chest.VIEWS, range(3)):
        ill = chest.chest([finding], seed=seed, view=view)
        (name,) = ill.findings
        mask = ill.findings[name]
        change = np.abs(ill.pixels.astype(int) - normal(seed, view).pixels)
        assert name.removeprefix("left ").removeprefix("right ") == finding
        assert change[mask].max() > 30
        if finding not in RESHAPING:  # otherwise the same patient, but for the tails of a haze
            strong = change > 0.6 * change.max()
            assert (strong & binary_dilation(mask, iterations=4)).sum() >= 0.95 * strong.sum()
            assert change[~binary_dilation(mask, iterations=18)].max() <= (30 if finding == "edema" else 12)  # pyright: ignore[reportOperatorIssue]


def test_the_patients_left_is_the_images_right():
    for name in (f"{side} {finding}" for side in ("left", "right") for finding in SIDED):
        drawn = chest.chest([name], seed=4)
        assert set(drawn.findings) == {name}
        x, _, width, _ = chest.box(drawn.findings[name])
        assert (x + width / 2 > W / 2) == name.startswith("left"), name


def test_the_anatomy_is_a_chest_with_a_heart_above_half_its_width_in_cardiomegaly_alone():
    for seed in range(20):
        for findings in ([], ["cardiomegaly"]):
            regions = chest.regions(findings, seed=seed)
            thorax = np.ptp(np.nonzero(regions["left lung"] | regions["right lung"])[1])
            assert (np.ptp(np.nonzero(regions["heart"])[1]) / thorax > 0.5) == bool(findings)
        drawn = normal(seed)
        grey = {name: drawn.pixels[mask].mean() for name, mask in drawn.regions.items()}
        assert grey["heart"] > grey["left lung"] + 60
        assert grey["mediastinum"] > grey["trachea"] + 40
        x = {name: chest.box(mask)[0] for name, mask in drawn.regions.items()}
        assert x["right lung"] < x["heart"] < x["left lung"] + 40
        for side in ("left", "right"):
            zones = [drawn.regions[f"{side} {zone} lung"] for zone in ("upper", "middle", "lower")]
            np.testing.assert_array_equal(sum(z.astype(int) for z in zones), drawn.regions[f"{side} lung"])
            tops = [chest.box(z)[1] for z in zones]
            assert tops == sorted(tops)
            assert np.ptp([chest.box(z)[3] for z in zones]) <= 1
        assert not (drawn.regions["left lung"] & drawn.regions["right lung"]).any()


def test_a_finding_named_twice_or_in_another_order_is_the_same_and_both_sides_can_be_named():
    first = chest.draw_chest(["edema", "cardiomegaly"], seed=5)
    np.testing.assert_array_equal(first, chest.draw_chest(("cardiomegaly", "edema", "edema"), seed=5))
    both = {f"{side} pleural effusion" for side in ("left", "right")}
    assert set(chest.chest(both, seed=1).findings) == both
    assert {name for seed in range(20) for name in chest.chest(["pleural effusion"], seed=seed).findings} == both


@pytest.mark.parametrize(
    ("name", "view", "words"),
    [
        *((name, "frontal", f"finding '{name}'") for name in (
            "Edema", "no finding", "left edema", "middle atelectasis", "left", "", "left enlarged heart", "upper edema",
            "left mass", "upper left mass")),
        ("upper left mass", "lateral", "finding 'upper left mass': expected one of cardiomegaly"),
        ("edema", "AP", "view 'AP': expected one of frontal, lateral"),
    ],
)  # fmt: skip
def test_an_unknown_finding_side_zone_or_view_is_refused(name, view, words):
    with pytest.raises(ValueError, match=words):
        chest.draw_chest([name], seed=0, view=view)


@settings(max_examples=12, deadline=None)
@given(
    findings=st.sets(st.sampled_from([*chest.FINDINGS, *(f"left {name}" for name in SIDED)])),
    seed=st.integers(0, 2**64),
    size=st.tuples(st.integers(64, 256), st.integers(64, 256)),
    view=st.sampled_from(chest.VIEWS),
)
def test_any_findings_draw_at_any_size(findings, seed, size, view):
    drawn = chest.chest(findings, seed=seed, size=size, view=view)
    assert drawn.pixels.shape == size
    assert drawn.pixels.dtype == np.uint8
    assert np.ptp(drawn.pixels) > 120
    assert len(drawn.findings) >= len({name.removeprefix("left ") for name in findings})
    for name, mask in [*drawn.regions.items(), *drawn.findings.items()]:
        assert mask.shape == size, name
        assert mask.any(), name


@given(st.data())
def test_box_is_pillows_bounding_box(data):
    bits = data.draw(st.lists(st.booleans(), min_size=63, max_size=63).filter(any))
    mask = np.array(bits).reshape(7, 9)
    left, top, right, bottom = Image.fromarray(mask.astype(np.uint8)).getbbox() or (0, 0, 0, 0)
    assert chest.box(mask) == (left, top, right - left, bottom - top)


@pytest.mark.parametrize("tilt", [0.0, 0.75])
@pytest.mark.parametrize("power", [2.0, 2.5])
@pytest.mark.parametrize("edge", [0.004, 0.08])
def test_an_ellipse_is_its_formula_at_every_pixel(tilt, power, edge):
    """It is computed only where it covers something."""
    x, y = shapes.grid((40, 30))
    dx, dy = np.broadcast_arrays(x - 0.4, y - 0.6)
    along, across = dx * np.cos(tilt) + dy * np.sin(tilt), dy * np.cos(tilt) - dx * np.sin(tilt)
    radius = (np.abs(along / 0.2) ** power + np.abs(across / 0.1) ** power) ** (1 / power)
    drawn = shapes.ellipse(x, y, (0.4, 0.6), (0.2, 0.1), tilt=tilt, power=power, edge=edge)
    np.testing.assert_allclose(drawn, shapes.step((1 - radius) * 0.1, edge), atol=1e-5)
    assert 0 < (drawn > 0).sum() < drawn.size
