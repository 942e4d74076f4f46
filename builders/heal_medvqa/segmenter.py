"""The form of a segmenter's name, version and settings. A card prints the text, so no sentence may fit."""

from __future__ import annotations

from ..options import VERSION

# A word has at most 20 characters. Five digits in a row could be the number of a patient.
_WORD = r"(?![\w+.-]*\d{5})[A-Za-z]([\w+.-]{0,18}[A-Za-z0-9+])?"
# A single number could be a year of birth, and digits alone the number of a patient.
_VERSION = rf"((?=v\d|\d+\.)(?!1[89]\d\d)v?{VERSION}|(?=\d*[a-f])[0-9a-f]{{7,40}})"
_VALUE = r"([+-]?\d{1,4}(\.\d{1,6})?(e-?\d{1,2})?|\d{1,4}(x\d{1,4}){1,2}|[a-z]{1,12}\d{0,4})"
_SETTING = rf"[a-z][a-z_]{{0,18}}[a-z0-9]?={_VALUE}"
PATTERN = rf"({_WORD}|{_WORD}( {_WORD})? {_VERSION})(, ?{_SETTING}){{0,6}}"
FORM = (
    "NAME, NAME VERSION or NAME VERSION, SETTING=VALUE, such as 'TotalSegmentator 2.4.0, threshold=0.5'; a version is "
    "like 1.0, v1 or a commit, and a name of two words needs one"
)
