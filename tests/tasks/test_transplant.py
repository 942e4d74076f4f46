"""Composed radiographs: changed pixels, unchanged pixels and the origin of the new ones."""

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from scipy import ndimage

from medfaith.loaders import rle
from medfaith.loaders.phantom.chest import chest
from medfaith.tasks.controls.transplant import transplant

SIZE = (240, 200)


def dilate_mask(mask, feather):
    """Dilate a mask by `feather` rows and columns."""
    return ndimage.maximum_filter(mask.astype(np.uint8), size=2 * feather + 1, mode="constant") > 0


def draw_ellipse(shape, centre, axes):
    y, x = np.mgrid[: shape[0], : shape[1]]
    return ((y - centre[0]) / axes[0]) ** 2 + ((x - centre[1]) / axes[1]) ** 2 < 1


@st.composite
def scenes(draw):
    """An image of noise with a region: an ellipse, a pixel, scattered pixels, or everything."""
    shape = draw(st.integers(1, 40)), draw(st.integers(1, 40))
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    channels = draw(st.sampled_from([(), (3,)]))
    kind = draw(st.sampled_from(["ellipse", "pixel", "scattered", "all"]))
    mask = np.zeros(shape, dtype=bool)
    mask[rng.integers(shape[0]), rng.integers(shape[1])] = True
    if kind == "ellipse":
        mask |= draw_ellipse(shape, rng.uniform(0, shape), rng.uniform(1, 20, 2))
    elif kind == "scattered":
        mask |= rng.random(shape) < 0.05
    elif kind == "all":
        mask[:] = True
    return rng.integers(0, 256, (*shape, *channels), dtype=np.uint8), mask


@given(scenes(), scenes(), st.none() | st.integers(0, 9))
@settings(suppress_health_check=[HealthCheck.too_slow])  # the machine may be busy
def test_nothing_changes_beyond_the_feather_and_the_inputs_stay(target, donor, feather):
    (image, mask), (donor_image, donor_mask) = target, donor
    before = image.copy(), donor_image.copy()
    regions = rle.encode(mask), rle.encode(donor_mask)
    result = transplant(image, regions[0], donor_image, regions[1], feather)
    assert (result.shape, result.dtype) == (image.shape, np.uint8)
    _, _, width, height = rle.compute_bounding_box(regions[0])
    reach = max(1, round(0.03 * np.sqrt(width * height))) if feather is None else feather
    outside = ~dilate_mask(mask, reach)
    np.testing.assert_array_equal(result[outside], image[outside])
    np.testing.assert_array_equal(image, before[0])
    np.testing.assert_array_equal(donor_image, before[1])
    np.testing.assert_array_equal(transplant(image, regions[0], donor_image, regions[1], feather), result)


@pytest.mark.parametrize("donor_size", [(240, 200), (90, 120), (500, 320)])
def test_the_whole_region_shows_tissue_of_the_donors_region_only(donor_size):
    """The donor's region holds a ramp of levels 100..150 and its surroundings 20; the target's surroundings are 20."""
    mask = draw_ellipse(SIZE, (120, 90), (60, 40))
    height, width = donor_size
    donor_mask = draw_ellipse(donor_size, (height * 0.4, width * 0.6), (height * 0.2, width * 0.3))
    columns = np.arange(width)
    ramp = np.interp(columns, [width * 0.3, width * 0.9], [100, 150]).astype(np.uint8)
    donor = np.where(ndimage.binary_dilation(donor_mask, iterations=3), ramp, np.uint8(20))
    result = transplant(np.full(SIZE, 20, dtype=np.uint8), rle.encode(mask), donor, rle.encode(donor_mask))
    assert result[mask].min() >= 99
    assert result[mask].max() <= 151
    for y in (80, 120, 160):  # each row shows the donor row's span, end to end
        row = result[y][mask[y]].astype(int)
        assert (np.diff(row) >= 0).all()
        donor_row = donor[round(height * (0.4 + 0.2 * (y - 120) / 60))]
        inside = donor_row[donor_mask[round(height * (0.4 + 0.2 * (y - 120) / 60))]]
        assert abs(row[0] - inside[0]) <= 3
        assert abs(row[-1] - inside[-1]) <= 3


def test_regions_that_widen_at_different_heights_meet_where_they_widen():
    """Both regions have a narrow span of level 100 and a wide span of level 150, but widen at different rows."""
    mask, donor_mask = np.zeros((2, 120, 120), dtype=bool)
    mask[20:56, 50:70] = mask[56:100, 30:90] = donor_mask[20:62, 50:70] = donor_mask[62:100, 30:90] = True
    flat = np.full((120, 120), 20, dtype=np.uint8)
    donor = np.where(donor_mask, np.where(np.arange(120) < 62, 100, 150)[:, None], flat).astype(np.uint8)
    result = transplant(flat, rle.encode(mask), donor, rle.encode(donor_mask), feather=0)
    assert (result[:56][mask[:56]] == 100).all()
    assert (result[56:][mask[56:]] == 150).all()


def test_a_span_is_stretched_about_its_middle():
    """A ramp of 48 columns on a span of 8 loses as much at its left end as at its right end."""
    donor_mask, mask = np.zeros((2, 60, 60), dtype=bool)
    donor_mask[10:50, 6:54] = mask[10:50, 26:34] = mask[10, 6:54] = True
    flat = np.full((60, 60), 20, dtype=np.uint8)
    donor = flat.copy()
    donor[10:50, 6:54] = 100 + np.arange(48)
    row = transplant(flat, rle.encode(mask), donor, rle.encode(donor_mask), feather=0)[30, 26:34].astype(int)
    assert abs((row[0] - 100) - (147 - row[-1])) <= 1
    assert (abs(np.diff(row) - 6) <= 1).all()


def test_flat_images_of_two_levels_leave_no_seam():
    mask = draw_ellipse((60, 60), (30, 20), (20, 15))
    target, donor = np.full((60, 60), 200, dtype=np.uint8), np.full((60, 60), 100, dtype=np.uint8)
    region = rle.encode(mask)
    np.testing.assert_array_equal(transplant(target, region, donor, region), target)


@pytest.mark.parametrize("feather", [0, 1, 4, 10])
def test_the_feather_is_full_at_the_region_and_gone_at_its_width(feather):
    mask = np.zeros((300, 300), dtype=bool)
    mask[50:250, 50:250] = True
    target, donor = np.full((300, 300), 50, dtype=np.uint8), np.full((300, 300), 50, dtype=np.uint8)
    donor[dilate_mask(mask, feather)] = 150  # elsewhere the surroundings agree, so levels stay
    row = transplant(target, rle.encode(mask), donor, rle.encode(mask), feather)[150].astype(int)
    assert (row[50:250] == 150).all()
    distance = np.arange(1, feather + 1)
    np.testing.assert_allclose(row[249 + distance], 50 + 100 * 2 * (feather + 1 - distance) / (2 * feather + 1), atol=1)
    assert (row[250 + feather :] == 50).all()


@pytest.mark.parametrize("gain", [0.6, 0.8, 0.9])
def test_grey_levels_are_matched_on_the_surroundings(gain):
    """A donor with a different exposure gets the target's levels, whatever the target's region shows."""
    scene = chest([], seed=3, size=SIZE)
    region = rle.encode(scene.regions["heart"])
    exposed = np.rint(gain * scene.pixels + 15).astype(np.uint8)
    target = scene.pixels.copy()
    target[scene.regions["heart"]] = 255
    result = transplant(target, region, exposed, region)
    inside = scene.regions["heart"]
    assert np.abs(result[inside].astype(int) - scene.pixels[inside]).mean() < 4


def test_a_finding_beside_the_region_does_not_shift_the_levels():
    healthy, sick = chest([], seed=4, size=SIZE), chest(["right consolidation"], seed=4, size=SIZE)
    inside = healthy.regions["right lower lung"]
    region = rle.encode(inside)
    with_finding = transplant(sick.pixels, region, healthy.pixels, region)
    assert abs(with_finding[inside].mean() - healthy.pixels[inside].mean()) < 5


@pytest.mark.parametrize(
    ("finding", "anatomy"),
    [
        ("right consolidation", "right middle lung"),
        ("left pleural effusion", "left lower lung"),
        ("right pneumothorax", "right upper lung"),
        ("cardiomegaly", "heart"),
    ],
)
def test_the_finding_is_gone_from_the_region(finding, anatomy):
    """The region resembles a healthy donor's, except for patient and exposure, and other pixels do not change."""
    sick, donor = chest([finding], seed=1, size=SIZE), chest([], seed=2, size=(300, 260))
    region, inside = rle.encode(sick.regions[anatomy]), sick.regions[anatomy]
    pixels = np.rint(0.8 * donor.pixels + 20).astype(np.uint8)
    result = transplant(sick.pixels, region, pixels, rle.encode(donor.regions[anatomy]))
    healthy = donor.pixels[donor.regions[anatomy]]
    assert abs(result[inside].mean() - healthy.mean()) < 12
    assert abs(result[inside].std() - healthy.std()) < 10
    np.testing.assert_array_equal(result[~dilate_mask(inside, 8)], sick.pixels[~dilate_mask(inside, 8)])


def test_an_image_composed_with_itself_stays_as_it_is():
    scene = chest([], seed=5, size=SIZE)
    for anatomy in ("heart", "right lower lung", "trachea", "aorta"):
        region = rle.encode(scene.regions[anatomy])
        result = transplant(scene.pixels, region, scene.pixels, region)
        np.testing.assert_array_equal(result, scene.pixels)


def test_grey_in_three_channels_is_grey_and_colour_keeps_its_channels():
    scene, donor = chest([], seed=6, size=SIZE), chest([], seed=7, size=SIZE)
    regions = rle.encode(scene.regions["heart"]), rle.encode(donor.regions["heart"])
    grey = transplant(scene.pixels, regions[0], donor.pixels, regions[1])
    as_rgb = [np.repeat(pixels[..., None], 3, axis=2) for pixels in (scene.pixels, donor.pixels)]
    for target, donor_pixels in ((as_rgb[0], as_rgb[1]), (as_rgb[0], donor.pixels)):
        result = transplant(target, regions[0], donor_pixels, regions[1])
        np.testing.assert_array_equal(result, np.repeat(grey[..., None], 3, axis=2))
    np.testing.assert_array_equal(transplant(scene.pixels, regions[0], as_rgb[1], regions[1]), grey)
    coloured = as_rgb[0].copy()
    coloured[..., 1] //= 2
    same = rle.encode(scene.regions["heart"])
    np.testing.assert_array_equal(transplant(coloured, same, coloured, same), coloured)


FULL, EMPTY = rle.encode(np.ones((6, 5))), rle.encode(np.zeros((6, 5)))
GREY = np.zeros((6, 5), dtype=np.uint8)


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        ((GREY, EMPTY, GREY, FULL), "region of the target: an empty mask"),
        ((GREY, FULL, GREY, EMPTY), "region of the donor: an empty mask"),
        ((GREY.T, FULL, GREY, FULL), r"target of height and width \(5, 6\), its region of \(6, 5\)"),
        ((GREY, FULL, GREY.T, FULL), "donor of height and width"),
        ((GREY.astype(float), FULL, GREY, FULL), "target of float64"),
        ((GREY, FULL, np.zeros((6, 5, 4), dtype=np.uint8), FULL), r"donor of uint8, shape \(6, 5, 4\)"),
        ((GREY, {"size": [6, 5], "counts": "~"}, GREY, FULL), "region of the target: counts"),
        ((GREY, FULL, GREY, FULL, -1), "feather -1"),
    ],
)
def test_what_cannot_be_composed_is_refused_with_its_reason(arguments, reason):
    with pytest.raises(ValueError, match=reason):
        transplant(*arguments)
