"""The form of a segmenter's name, version and settings. A card prints the text, so no person's name may fit."""

from __future__ import annotations

import re

from ..options import VERSION

# The name of a person or a patient would look like the name of a model. So a model is one of these or has an address.
NAMES = (
    "BiomedParse", "CXAS", "HybridGNet", "MedSAM", "MedSAM2", "PSPNet", "SAM", "SAM2", "Segment Anything",
    "TotalSegmentator", "U-Net", "nnU-Net", "own model", "radiologists", "torchxrayvision",
)  # fmt: skip
SETTINGS = (
    "device", "ensemble", "fast", "fold", "folds", "gpu", "min_area", "overlap", "resolution", "seed", "size",
    "spacing", "threshold", "tta",
)  # fmt: skip
# Five digits in a row could be the number of a patient.
_PART = r"(?![\w.-]*\d{5})[A-Za-z0-9]([\w.-]{0,38}[A-Za-z0-9])?"
_ADDRESS = rf"(github\.com|gitlab\.com|huggingface\.co)/{_PART}/{_PART}"
# A single number could be a year of birth, and digits alone the number of a patient.
_VERSION = rf"((?=v\d|\d+\.)(?!1[89]\d\d)v?{VERSION}|(?=\d*[a-f])[0-9a-f]{{7,40}})"
_VALUE = r"([+-]?\d{1,4}(\.\d{1,6})?(e-?\d{1,2})?|\d{1,4}(x\d{1,4}){1,2}|all|auto|cpu|cuda|false|none|true)"
_SETTING = rf"({'|'.join(SETTINGS)})={_VALUE}"
PATTERN = rf"({'|'.join(map(re.escape, NAMES))}|{_ADDRESS})( {_VERSION})?(, ?{_SETTING}){{0,6}}"
FORM = (
    "NAME, NAME VERSION or NAME VERSION, SETTING=VALUE, such as 'TotalSegmentator 2.4.0, threshold=0.5'. A name is one "
    f"of {', '.join(NAMES)}, or a repository, such as github.com/OWNER/NAME. A setting is one of {', '.join(SETTINGS)}"
)
