"""The reasons for which a build leaves out or counts sentences, images, boxes and anatomies."""

from __future__ import annotations

# Of each sentence, gold or silver.
NO_BOX = "sentences without a box in their image"
CUT = "boxes that their image's edge cuts off"
OUTSIDE = "boxes that lie outside of their image"
DISAGREEING = "sentences that affirm a condition and are not labelled abnormal, or the reverse"
SUBSETS = {"abnormal": "sentences of subset Abnormal", "one_lung": "sentences of subset One Lung",
           "mdrb": "sentences of subset MDRB"}  # fmt: skip
_OF_SENTENCES = (NO_BOX, CUT, OUTSIDE, DISAGREEING, *SUBSETS.values())

# Of gold.
GOLD_WITHOUT_IMAGE = "gold images that MIMIC-CXR-JPG's metadata has not"
NO_ANATOMY = "sentences of the gold images' reports that name no anatomy with a box"
UNLISTED = "gold sentences that the list of all sentences has not"
ELSEWHERE = "boxes of sentences that the annotations file has elsewhere"
UNKNOWN = "boxes of sentences that the annotations file has not"

# Of perturbed partners.
NO_SIDE = "sentences without left and right, which swap_left_right leaves as they are"
ALONE = "sentences alone in their report, which shuffle_in_report leaves out"
SAME_BOXES = "sentences that shuffle_in_report gives the boxes they had"
NO_SENTENCE_DONOR = "sentences without another patient's, which random_sentences leaves out"
SAME_SENTENCE = "random sentences that read as the ones they replace"
NO_BOXES_DONOR = "sentences without another patient's, which random_boxes leaves out"
BOXES_OUTSIDE = "sentences whose random boxes lie outside of the image, which random_boxes leaves out"
NOTHING_TO_TRIM = "sentences without a box to trim, which trimmed leaves as they are"
NO_OTHER_CONDITION = "conditions that synthetic_swapped_conditions has no other for"
SAME_CONDITIONS = "sentences that synthetic_swapped_conditions leaves as they are"
NOT_BOXED = "anatomies that changed sentences name and their image has no box of"

# Of silver.
NO_IMAGE = "images that MIMIC-CXR-JPG's metadata has not"
NO_GRAPH = "images without a scene graph"
NO_TEXT = "sentences without a text"
OF_GOLD = "images of gold patients, left out"
IN_TWO = "silver: patients in two of the splits"
SPLITS = ("train", "validation", "test")
SILVER = {
    split: {reason: f"silver, {split}: {reason}" for reason in (*_OF_SENTENCES, NO_IMAGE, NO_GRAPH, NO_TEXT, OF_GOLD)}
    for split in SPLITS
}

REASONS = frozenset(
    {
        *_OF_SENTENCES, GOLD_WITHOUT_IMAGE, NO_ANATOMY, UNLISTED, ELSEWHERE, UNKNOWN, NO_SIDE, ALONE, SAME_BOXES,
        NO_SENTENCE_DONOR, SAME_SENTENCE, NO_BOXES_DONOR, BOXES_OUTSIDE, NOTHING_TO_TRIM, NO_OTHER_CONDITION,
        SAME_CONDITIONS, NOT_BOXED, IN_TWO, *(text for reasons in SILVER.values() for text in reasons.values()),
    }
)  # fmt: skip
