"""Frames of SurgXBench (sections 3.1, 4.1): instruments with their boxes, and action triplets with the motion mask."""

from datasets import Features, List, Value

from .structs import BOX, IMAGE_REF, MASK

_TEXT, _INTEGER, _NUMBER = Value("string"), Value("int32"), Value("float64")
INSTRUMENTS = Features(
    {
        "id": _TEXT,
        "image": IMAGE_REF,
        "successor": IMAGE_REF,  # the second frame of the optical flow; null at a video's end
        "width": _INTEGER,
        "height": _INTEGER,
        "video": _INTEGER,
        "frame": _INTEGER,  # the source's number
        "instruments": List(_TEXT),
        "boxes": List(BOX),
    }
)
TRIPLET = {"id": _INTEGER, "instrument": _TEXT, "verb": _TEXT, "target": _TEXT}
CAMERA = dict.fromkeys(("pan", "tilt", "zoom", "roll"), _NUMBER)  # appendix B.1; x, y in pixels from the centre
TRIPLETS = Features({**INSTRUMENTS, "triplets": List(TRIPLET), "motion": MASK, "camera": CAMERA})  # null without flow
