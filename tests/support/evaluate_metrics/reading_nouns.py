"""Nouns of the answer grammar, and the effects that a sentence has on a noun."""

from __future__ import annotations

from dataclasses import dataclass

Effect = str
ASSERTS, DENIES, DECLINES, NOTHING = "asserts", "denies", "declines", "nothing"
LEANS = "leans"  # "may be", "could be"
DISFAVOURS = "disfavours"  # "X is less likely": perhaps a no, but no ground for the option "No X"
LOSES = "loses"  # "Z rather than X": perhaps a no, and perhaps the option "No X"
CLAIMS = (ASSERTS, DENIES)

DECLINED, UNREAD, YES, NO = "declined", "unread", "yes", "no"
NO_ANSWER = frozenset({DECLINED, UNREAD})
NO_NAMES = "no names"  # an open answer that only denies
Reading = str | int  # an option's index, "yes", "no", the names that an open answer asserts, or one of the above


@dataclass(frozen=True)
class Noun:
    """A finding or an instrument.

    Attributes:
        term: The noun without an article.
        counted: True if the noun takes an article.
        label: The class of the noun.
    """

    term: str
    counted: bool = False
    label: str = ""

    @property
    def phrase(self) -> str:
        """Term with its article."""
        if not self.counted:
            return self.term
        return f"{'an' if self.term[0] in 'aeiou' else 'a'} {self.term}"


@dataclass(frozen=True)
class State:
    """A subject and a predicate, such as "the lungs" and "clear".

    Attributes:
        subject: The subject of the sentence.
        predicate: The predicate of the sentence.
        normal: True if the predicate is the normal state.
        opposites: Other wordings of the denial.
        unrelated: A finding that neither implies nor contradicts the state.
        plural: True if the subject takes a plural verb.
    """

    subject: str
    predicate: str
    normal: bool
    opposites: tuple[str, ...]
    unrelated: Noun
    plural: bool = False

    @property
    def question(self) -> str:
        return f"{'Are' if self.plural else 'Is'} {self.subject} {self.predicate}?"


FINDINGS = (
    Noun("edema"),
    Noun("pleural effusion", counted=True),
    Noun("pneumothorax", counted=True),
    Noun("cardiomegaly"),
    Noun("rib fracture", counted=True),
    Noun("focal consolidation"),
    Noun("atelectasis"),
)
DISEASES = (  # of the 22 all but "Other lesion", which no sentence names by itself
    Noun("aortic enlargement", label="Aortic enlargement"),
    Noun("atelectasis", label="Atelectasis"),
    Noun("calcification", label="Calcification"),
    Noun("cardiomegaly", label="Cardiomegaly"),
    Noun("clavicle fracture", counted=True, label="Clavicle fracture"),
    Noun("consolidation", label="Consolidation"),
    Noun("edema", label="Edema"),
    Noun("emphysema", label="Emphysema"),
    Noun("pulmonary artery enlargement", label="Enlarged PA"),
    Noun("interstitial lung disease", label="ILD"),
    Noun("infiltration", label="Infiltration"),
    Noun("lung opacity", counted=True, label="Lung Opacity"),
    Noun("lung cavity", counted=True, label="Lung cavity"),
    Noun("lung cyst", counted=True, label="Lung cyst"),
    Noun("mediastinal shift", counted=True, label="Mediastinal shift"),
    Noun("nodule", counted=True, label="Nodule/Mass"),
    Noun("pleural effusion", counted=True, label="Pleural effusion"),
    Noun("pleural thickening", label="Pleural thickening"),
    Noun("pneumothorax", counted=True, label="Pneumothorax"),
    Noun("pulmonary fibrosis", label="Pulmonary fibrosis"),
    Noun("rib fracture", counted=True, label="Rib fracture"),
)
INSTRUMENTS = (  # of the seven all but scissors, whose plural would need wordings of its own
    Noun("grasper", counted=True, label="grasper"),
    Noun("bipolar grasper", counted=True, label="bipolar"),
    Noun("hook", counted=True, label="hook"),
    Noun("clipper", counted=True, label="clipper"),
    Noun("irrigator", counted=True, label="irrigator"),
    Noun("specimen bag", counted=True, label="specimen_bag"),
)
ACTIONS = (  # the tool, the verb's form after "is", its form after "not" and "will", the organ, the triplet's name
    ("grasper", "retracting", "retract", "gallbladder", "grasper,retract,gallbladder"),
    ("hook", "dissecting", "dissect", "cystic duct", "hook,dissect,cystic_duct"),
    ("clipper", "clipping", "clip", "cystic artery", "clipper,clip,cystic_artery"),
    ("irrigator", "aspirating", "aspirate", "fluid", "irrigator,aspirate,fluid"),
)

_FRACTURE, _HERNIA, _STONE = Noun("rib fracture", True), Noun("hiatal hernia", True), Noun("kidney stone", True)
STATES = (
    State("the lungs", "clear", True, (), _FRACTURE, plural=True),
    State("the heart size", "normal", True, ("abnormal", "increased"), _FRACTURE),
    State("the lung volumes", "within normal limits", True, ("low",), _FRACTURE, plural=True),
    State("the bony structures", "unremarkable", True, ("abnormal",), _HERNIA, plural=True),
    State("the liver", "healthy", True, ("diseased",), _STONE),
    State("the trachea", "midline", True, ("deviated to the right",), _FRACTURE),
    State("the cardiac silhouette", "enlarged", False, ("of normal size",), _HERNIA),
    State("the mediastinum", "widened", False, ("of normal width",), _FRACTURE),
    State("the left hemidiaphragm", "elevated", False, ("in its normal position",), _FRACTURE),
    State("the aortic arch", "calcified", False, (), _FRACTURE),
)
