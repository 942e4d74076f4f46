"""Answers made from a grammar, each with the readings that a careful person allows.

A sentence has an act (assert, deny, refuse, ...) and an effect on each thing that it names. The expected readings
follow from the effects alone, never from the words: only `ASSERTS` and `DENIES` answer a question. A wording stands in
a table under its act and its effect. To add one, add a line there.

Three rules keep the expectations those of a careful person:

- A lean ("there could be edema") may be read as edema or not at all, but never as its opposite.
- "No X, but Y" chooses Y for one reader and "No X" for another: both are allowed, and the case does not count as clear.
- The words "edema is absent" may name the absent finding, or the option "No edema": to a question for the absent
  finding they are clear only where no option is negated.

Left out, because readers disagree: one finding that is both claimed and left open, elimination ("A and B are wrong"
among three), and a claim of presence alone to a question for the absent finding. Opposites in other words ("the trachea
is deviated") may be unread.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain, combinations, count, cycle, permutations, product

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
    """A finding or an instrument. label: its class; counted: it takes an article."""

    words: str
    counted: bool = False
    label: str = ""

    @property
    def phrase(self) -> str:
        """The words with their article."""
        if not self.counted:
            return self.words
        return f"{'an' if self.words[0] in 'aeiou' else 'a'} {self.words}"


@dataclass(frozen=True)
class State:
    """A subject and a predicate, as "the lungs" and "clear".

    normal: the predicate is the normal state. opposites: other words for its denial. unrelated: a finding that neither
    implies nor contradicts it.
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


@dataclass(frozen=True)
class Sentence:
    """One sentence and its effect on each thing that it names."""

    act: str
    text: str
    effects: tuple[tuple[object, Effect], ...]


@dataclass(frozen=True)
class Case:
    """A text, what was asked, and the readings that are allowed.

    reader: "choice", "yes_no", "diseases", "instruments" or "triplets". form: the form of the options or of the
    question. clear: there is one right reading, and it is an answer.
    """

    reader: str
    act: str
    form: str
    position: str
    text: str
    allowed: frozenset[Reading]
    clear: bool
    question: str = ""
    options: tuple[str, ...] = ()
    change: str = "as written"


# ------------------------------------------------------------------------------------------------ what is spoken of

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

# ------------------------------------------------------------------------------------------------- wordings, by act

Wordings = Mapping[tuple[str, Effect], Sequence[str]]

# {x}: the words; {ax}: with their article; {X}, {AX}: the same at the beginning of a sentence.
FINDING_WORDINGS: Wordings = {
    ("assert", ASSERTS): (
        "There is {ax}.",
        "{AX} is present.",
        "The image shows {ax}.",
        "I can see {ax} on this radiograph.",
        "The patient has {ax}.",
        "{X}: present.",
        "The findings are consistent with {ax}.",
        "Although the image quality is limited, {ax} is visible.",
        "There is no doubt that there is {ax}.",
        "{AX} is visible and cannot be overlooked.",
    ),
    ("deny", DENIES): (
        "There is no {x}.",
        "No {x} is seen.",
        "{X} is absent.",
        "{X}: absent.",
        "{AX} was not seen.",
        "I don't see any {x}.",
        "There is no evidence of {ax}.",
        "The image does not show {ax}.",
        "{AX} can be ruled out.",
        "The findings argue against {ax}.",
        "I looked for {ax} and found none.",
        "Nothing on this image suggests {ax}.",
        "I do not think that there is {ax}.",
        "There does not appear to be any {x}.",
        "The patient does not have {ax}.",
        "The study is negative for {ax}.",
    ),
    ("refuse", DECLINES): (
        "I cannot tell whether there is {ax}.",
        "I am unable to determine whether {ax} is present.",
        "It is impossible to say from this image whether {ax} is present.",
        "I'm sorry, but I can't assess this image for {ax}.",
        "As an AI, I am not able to diagnose {ax}.",
        "There is not enough information to decide whether there is {ax}.",
        "No image was provided, so I cannot look for {ax}.",
        "Without a clinical history I cannot say whether {ax} is present.",
        "I do not know whether there is {ax}.",
        "I would rather not say whether there is {ax}.",
        "The image quality is too poor to tell whether there is {ax}.",
        "I can neither confirm nor exclude {ax}.",
    ),
    # In these a person may hear more a doubt than a refusal: unread is right, too.
    ("refuse", NOTHING): (
        "It is unclear whether {ax} is present.",
        "I cannot confirm the presence of {ax}.",
        "Only a radiologist can say whether there is {ax}.",
        "Whether there is {ax} remains an open question.",
    ),
    ("announce", NOTHING): (
        "Let us look for {ax}.",
        "I will check the image for {ax}.",
        "We need to determine whether there is {ax}.",
        "Is there {ax}?",
        "To answer the question, we look for signs of {ax}.",
        "I am looking for {ax}.",
        "The question is whether {ax} is present.",
        "The task is to decide between {ax} and no {x}.",
    ),
    ("define", NOTHING): (
        "On a radiograph, {ax} would appear as a change in density.",
        "A normal chest has no {x}.",
        "In a healthy patient there is no {x}.",
        "A normal study should show no {x}.",
        "{AX} is a common finding in the chest.",
        "Typically, {ax} is seen best on the frontal view.",
        "The absence of {ax} would be a good sign.",
        "No {x} is expected in a healthy person.",
        "A report should say whether there is {ax}.",
    ),
    ("hedge", NOTHING): (
        "{AX} cannot be excluded.",
        "{AX} cannot be ruled out on this view.",
        "{AX} may or may not be present.",
        "The differential diagnosis would include {ax}.",
    ),
    ("hedge", LEANS): (
        "There could be {ax}.",
        "{AX} may be present.",
        "It is possible that there is {ax}.",
        "The appearance might represent {ax}.",
    ),
    ("compare", NOTHING): (
        "CT is better than radiography at showing {ax}.",
        "{AX} is easier to see on CT than on a radiograph.",
        "{AX} is more common in older patients than in younger ones.",
        "{AX} is missed more often on supine films than on upright ones.",
    ),
    ("compare", DISFAVOURS): (
        "{AX} is less likely.",
        "{AX} seems to be the less likely explanation.",
        "{AX} is not the most likely explanation.",
    ),
    ("conditional", NOTHING): (
        "If there were {ax}, we would expect symptoms.",
        "If {ax} is present, treatment should be discussed.",
        "Unless there is {ax}, no follow-up is needed.",
        "Should there be {ax}, a CT would help.",
        "If no {x} is seen, the patient can go home.",
    ),
}

INSTRUMENT_WORDINGS: Wordings = {
    ("assert", ASSERTS): (
        "There is {ax} in the frame.",
        "I can see {ax}.",
        "{AX} is visible on the left.",
        "The surgeon is using {ax}.",
        "There is no doubt that this is {ax}.",
    ),
    ("deny", DENIES): (
        "There is no {x} in the frame.",
        "No {x} is visible.",
        "I don't see any {x}.",
        "The {x} is not visible.",
        "The image does not show {ax}.",
        "{X}: absent.",
    ),
    ("refuse", DECLINES): (
        "I cannot tell whether there is {ax}.",
        "It is impossible to say whether {ax} is in the frame.",
        "I'm sorry, but I can't say whether {ax} is visible.",
        "The image is too blurred to tell whether there is {ax}.",
    ),
    ("announce", NOTHING): (
        "Let us look for {ax}.",
        "I am looking for {ax}.",
        "We need to determine whether there is {ax}.",
        "Is there {ax}?",
    ),
    ("define", NOTHING): (
        "{AX} would appear as a metal rod.",
        "{AX} is usually used in a later phase.",
        "In this phase there should be no {x}.",
        "A typical cholecystectomy requires {ax}.",
    ),
    ("hedge", LEANS): (
        "There could be {ax}.",
        "This may be {ax}.",
        "It is possible that {ax} is visible.",
    ),
    ("compare", NOTHING): (
        "In most videos {ax} is easier to see than a needle.",
        "{AX} costs less than a stapler.",
        "{AX} is used more often than a stapler.",
    ),
    ("conditional", NOTHING): (
        "If there were {ax}, its tip would be visible.",
        "If {ax} is needed, the nurse will hand it over.",
        "Should there be {ax}, it would be on the left.",
    ),
}

# {tool}, {doing}, {do}, {organ}
ACTION_WORDINGS: Wordings = {
    ("assert", ASSERTS): (
        "The {tool} is {doing} the {organ}.",
        "In this frame the {tool} is {doing} the {organ}.",
        "{tool}, {do}, {organ}",
    ),
    ("deny", DENIES): (
        "The {tool} is not {doing} the {organ}.",
        "The {tool} does not {do} the {organ}.",
        "I do not think that the {tool} is {doing} the {organ}.",
    ),
    ("refuse", DECLINES): (
        "I cannot tell whether the {tool} is {doing} the {organ}.",
        "It is impossible to say whether the {tool} is {doing} the {organ}.",
        "I do not know whether the {tool} is {doing} the {organ}.",
    ),
    ("announce", NOTHING): (
        "Let us check whether the {tool} is {doing} the {organ}.",
        "Is the {tool} {doing} the {organ}?",
        "The question is whether the {tool} is {doing} the {organ}.",
    ),
    ("define", NOTHING): (
        "In such operations the {tool} is usually {doing} the {organ}.",
        "In this phase the {tool} should {do} the {organ}.",
        "Typically, the {tool} would {do} the {organ}.",
    ),
    ("hedge", LEANS): (
        "The {tool} may be {doing} the {organ}.",
        "The {tool} could be {doing} the {organ}.",
        "It is possible that the {tool} is {doing} the {organ}.",
    ),
    ("conditional", NOTHING): (
        "If the {tool} is {doing} the {organ}, the next step is near.",
        "If the {tool} were {doing} the {organ}, there would be tension.",
        "Unless the {tool} is {doing} the {organ}, the step is over.",
    ),
}

# {s}: the subject; {p}: the predicate; {is}, {does}, {seems}: verbs in the subject's number.
STATE_WORDINGS: Wordings = {
    ("assert", ASSERTS): (
        "{S} {is} {p}.",
        "{S} {seems} {p} on this image.",
        "I would call {s} {p}.",
        "I think that {s} {is} {p}.",
        "There is no doubt that {s} {is} {p}.",
    ),
    ("deny", DENIES): (
        "{S} {is} not {p}.",
        "{S} {does} not appear to be {p}.",
        "{S} {does} not look {p}.",
        "I do not think that {s} {is} {p}.",
        "I don't think {s} {is} {p}.",
        "{S} {is} by no means {p}.",
        "It is not the case that {s} {is} {p}.",
        "{S} cannot be called {p}.",
    ),
    ("refuse", DECLINES): (
        "I cannot tell whether {s} {is} {p}.",
        "It is impossible to say whether {s} {is} {p}.",
        "I'm sorry, but I can't judge whether {s} {is} {p}.",
        "I do not know if {s} {is} {p}.",
        "The image quality is too poor to tell whether {s} {is} {p}.",
    ),
    ("refuse", NOTHING): (
        "It is unclear whether {s} {is} {p}.",
        "I cannot confirm that {s} {is} {p}.",
        "Only a radiologist can say whether {s} {is} {p}.",
    ),
    ("announce", NOTHING): (
        "Let us check whether {s} {is} {p}.",
        "We need to decide whether {s} {is} {p}.",
        "{Is} {s} {p}?",
        "I will look at the image to see whether {s} {is} {p}.",
    ),
    ("define", NOTHING): (
        "A poor technique can make {s} look {p}.",
        "In many patients {s} {is} {p}.",
        "A report should say whether {s} {is} {p}.",
    ),
    ("hedge", NOTHING): (
        "{S} may or may not be {p}.",
        "Whether {s} {is} {p} is debatable.",
    ),
    ("hedge", LEANS): (
        "{S} may be {p}.",
        "{S} could be {p}.",
        "It is possible that {s} {is} {p}.",
    ),
    ("compare", NOTHING): (
        "It is easier on an upright film than on a supine one to see whether {s} {is} {p}.",
        "AP views are less reliable than PA views for deciding whether {s} {is} {p}.",
        "CT shows better than radiography whether {s} {is} {p}.",
    ),
    ("conditional", NOTHING): (
        "If {s} {is} {p}, the patient can go home.",
        "Unless {s} {is} {p}, a CT would be useful.",
        "Should {s} be {p}, no follow-up would be needed.",
    ),
}
NORMAL_WORDINGS: Wordings = {
    ("assert", ASSERTS): ("Nothing suggests that {s} {is} not {p}.",),
    ("deny", DENIES): ("{S} {is} far from {p}.", "{S} {is} anything but {p}."),
    ("define", NOTHING): ("In a healthy person, {s} should be {p}.", "On a normal study {s} would be {p}."),
}

# {l}: a letter; {o}: its option's text; {m}: another letter.
LETTER_WORDINGS: Wordings = {
    ("assert", ASSERTS): (
        "{l}",
        "({l})",
        "{l}. {o}",
        "{l}: {o}",
        "The answer is {l}.",
        "The correct option is ({l}) {o}.",
        "Answer: {l}",
        "I choose {l}.",
        "Option {l} is correct.",
        "Final answer: {l}",
        "The best answer is {l}. {o}.",
    ),
    ("deny", DENIES): (
        "{l} is wrong.",
        "The answer is not {l}.",
        "I would rule out option {l}.",
        "Option {l} does not fit the image.",
    ),
    ("refuse", DECLINES): (
        "I cannot choose between {l} and {m}.",
        "I cannot say whether {l} or {m} is right.",
        "I'm sorry, but I can't decide whether option {l} is correct.",
    ),
    ("announce", NOTHING): (
        "Let us first look at option {l}.",
        "We need to decide between {l} and {m}.",
        "Which one is right, {l} or {m}?",
        "I will go through the options, beginning with {l}.",
    ),
    ("define", NOTHING): (
        "Option {l} would mean that treatment is needed.",
        "Option {l} describes a state that needs treatment.",
        "A typical example of option {l} would look different.",
    ),
    ("hedge", NOTHING): (
        "It could be {l} or {m}.",
        "Both {l} and {m} are possible.",
        "Option {l} cannot be excluded.",
    ),
    ("compare", DISFAVOURS): (
        "{l} is less likely.",
        "Option {l} seems to be the less likely one.",
        "{l} is not the most likely option.",
    ),
    ("conditional", NOTHING): (
        "If {l} were right, the image would look different.",
        "If {l} is right, treatment should be discussed.",
        "Unless {l} is right, no follow-up is needed.",
    ),
}

# One sentence about two findings: its effect on {x} and on {z}.
PAIRS: Mapping[tuple[str, Effect, Effect], Sequence[str]] = {
    ("assert", ASSERTS, DENIES): (
        "There is {ax}, no {z}.",
        "There is {ax} but no {z}.",
        "The image shows {ax} without {az}.",
        "{AX} is seen, and {z} is absent.",
        "I see {ax}, not {az}.",
        "There is {ax} with no sign of {az}.",
    ),
    ("assert", ASSERTS, ASSERTS): (
        "There is {ax} and {az}.",
        "Both {ax} and {az} are present.",
        "{AX} is present, as is {az}.",
    ),
    ("deny", DENIES, ASSERTS): (
        "There is no {x}, but there is {az}.",
        "No {x} is seen; {az} is present.",
        "{X} is absent, while {az} is visible.",
    ),
    ("deny", DENIES, DENIES): (
        "There is no {x} or {z}.",
        "There is neither {ax} nor {az}.",
        "{X} and {z} are absent.",
        "Neither {ax} nor {az} is seen.",
        "The image shows no {x} and no {z}.",
    ),
    ("refuse", DECLINES, ASSERTS): (
        "I cannot tell whether there is {ax}, but there is {az}.",
        "There is {az}, but it is impossible to say whether there is {ax}, too.",
    ),
    ("refuse", DECLINES, DENIES): (
        "I cannot tell whether there is {ax}, but there is no {z}.",
        "Although there is no {z}, I cannot say whether there is {ax}.",
    ),
    ("refuse", NOTHING, NOTHING): ("I cannot tell {ax} from {az} on this image.",),
    ("announce", NOTHING, NOTHING): ("We look for {ax} and check that there is no {z}.",),
    ("announce", NOTHING, ASSERTS): ("Before I look for {ax}, I note that there is {az}.",),
    ("announce", NOTHING, DENIES): ("Before I look for {ax}, I note that there is no {z}.",),
    ("define", NOTHING, NOTHING): (
        "{AX} usually comes without {az}.",
        "A patient with {ax} often has no {z}.",
    ),
    ("hedge", LEANS, LEANS): ("This could be {ax} or {az}.",),
    ("hedge", NOTHING, ASSERTS): ("There is {az}, and {ax} cannot be excluded.",),
    ("hedge", NOTHING, DENIES): ("There is no {z}, but {ax} cannot be excluded.",),
    ("compare", LOSES, ASSERTS): (
        "The findings represent {az} rather than {ax}.",
        "Rather than {ax}, the image shows {az}.",
        "The image shows {az} instead of {ax}.",
    ),
    ("compare", LOSES, LEANS): ("This looks more like {az} than {ax}.",),
    ("compare", DISFAVOURS, LEANS): ("{AX} is less likely than {az}.", "{AZ} is more likely than {ax}."),
    ("compare", NOTHING, NOTHING): ("Unlike {az}, {ax} is often missed.",),
    ("conditional", NOTHING, NOTHING): (
        "If there were {ax}, there would be no {z}.",
        "If there is {ax}, {az} may follow.",
    ),
    ("conditional", NOTHING, ASSERTS): ("There is {az}; if there were also {ax}, we would expect symptoms.",),
}

# One sentence with the same effect on three findings.
LISTS: Wordings = {
    ("assert", ASSERTS): (
        "There is {ax}, {az} and {aw}.",
        "The image shows {ax}, {az} and {aw}.",
        "Findings: {x}, {z}, {w}.",
        "- {X}: present\n- {Z}: present\n- {W}: present",
    ),
    ("deny", DENIES): (
        "There is no {x}, {z} or {w}.",
        "There is no evidence of {x}, {z} or {w}.",
        "{X}, {z} and {w} are absent.",
        "- {X}: absent\n- {Z}: absent\n- {W}: absent",
        "- No {x}\n- No {z}\n- No {w}",
    ),
    ("refuse", DECLINES): (
        "I cannot tell whether there is {ax}, {az} or {aw}.",
        "I am not able to assess {ax}, {az} or {aw}.",
        "It is impossible to say whether {ax}, {az} or {aw} is present.",
    ),
    ("announce", NOTHING): (
        "I will look for {ax}, {az} and {aw}.",
        "Let us check the image for {ax}, {az} and {aw}.",
        "Is there {ax}, {az} or {aw}?",
        "We look for:\n- {x}\n- {z}\n- {w}",
    ),
    ("define", NOTHING): (
        "{AX}, {az} and {aw} are common findings in the chest.",
        "A normal chest has no {x}, {z} or {w}.",
        "On a radiograph, {ax}, {az} or {aw} would appear as a change in density.",
    ),
    ("hedge", NOTHING): (
        "{AX}, {az} and {aw} cannot be excluded.",
        "The differential diagnosis would include {ax}, {az} and {aw}.",
    ),
    ("hedge", LEANS): ("There could be {ax}, {az} or {aw}.",),
    ("compare", NOTHING): (
        "CT is better than radiography at showing {ax}, {az} or {aw}.",
        "{AX}, {az} and {aw} are easier to see on CT than on a radiograph.",
        "{AX}, {az} and {aw} are more common in older patients than in younger ones.",
    ),
    ("conditional", NOTHING): (
        "If there were {ax}, {az} or {aw}, we would expect symptoms.",
        "If {ax}, {az} or {aw} is present, treatment should be discussed.",
        "Unless there is {ax}, {az} or {aw}, no follow-up is needed.",
    ),
}

PRESENCE_QUESTIONS = (
    "Which of the following findings is present on this chest X-ray study?",
    "Which finding can be seen on this chest X-ray study?",
    "Which of the listed findings does this chest X-ray study show?",
)
ABSENCE_QUESTIONS = (
    "Which of the following findings is absent on this chest X-ray study?",
    "Which of the following findings is missing from this chest X-ray study?",
)
YES_NO_QUESTIONS = ("Is there {ax}?", "Does this image show {ax}?", "Is {ax} present on this radiograph?")
NEGATION_FORMS = ("No {x}", "Absence of {x}", "{X} is not present", "No evidence of {x}", "Clear of {x}")
ABSENT_PICKS = (
    "The finding that is absent is {x}.",
    "The absent finding is {x}.",
    "{X} is the finding that is absent.",
)
YES_REPLIES = (
    "Yes, there is {ax}.",
    "Yes. {AX} is visible.",
    "Yes, there is {ax} but no {z}.",
    "Yes. There is {ax}. {AZ} is not seen.",
)
NO_REPLIES = (
    "No, there is no {x}.",
    "No. {X} is absent.",
    "No, there is no {x}, but there is {az}.",
    "No. {AX} is not seen. There is {az}.",
)

# Wordings that contradict a claim about another finding, or refer to it.
ALONE_ONLY = {
    "No image was provided, so I cannot look for {ax}.",
    "The appearance might represent {ax}.",
}
# Acts that may stand beside a claim about the same finding.
BESIDE_ITSELF = ("announce", "define", "compare", "conditional")
JOINS = (" ", " ", "\n", "\n\n")


# -------------------------------------------------------------------------------------------------------- sentences


def fill(template: str, **nouns: Noun) -> str:
    """The template with its nouns: {x}, {ax}, {X} and {AX} for each name.

    >>> fill("{AX} is seen, no {z}.", x=Noun("effusion", counted=True), z=Noun("edema"))
    'An effusion is seen, no edema.'
    """
    fields = {}
    for name, noun in nouns.items():
        fields |= {name: noun.words, f"a{name}": noun.phrase}
        fields |= {name.upper(): capitalize(noun.words), f"A{name.upper()}": capitalize(noun.phrase)}
    return template.format(**fields)


def fill_state(template: str, state: State) -> str:
    """The template with a subject, its predicate and verbs in its number."""
    verbs = ("are", "do", "seem") if state.plural else ("is", "does", "seems")
    fields = dict(zip(("is", "does", "seems"), verbs, strict=True))
    return template.format(
        s=state.subject, S=capitalize(state.subject), p=state.predicate, Is=capitalize(verbs[0]), **fields
    )


def capitalize(text: str) -> str:
    """The text with a capital first letter."""
    return text[:1].upper() + text[1:]


def say_each(wordings: Wordings, noun: Noun) -> Iterator[Sentence]:
    """Each wording, said of a noun."""
    for (act, effect), templates in wordings.items():
        for template in templates:
            yield Sentence(act, fill(template, x=noun), ((noun, effect),))


def say_each_state(state: State) -> Iterator[Sentence]:
    """Each wording, said of a subject and its predicate."""
    for wordings in (STATE_WORDINGS, NORMAL_WORDINGS if state.normal else {}):
        for (act, effect), templates in wordings.items():
            for template in templates:
                if "not un" not in (text := fill_state(template, state)):  # "not unremarkable": nobody writes so
                    yield Sentence(act, text, ((state, effect),))


class Rotation:
    """Gives the wordings of each act and effect in turn, so that few cases use them all."""

    def __init__(self, wordings: Wordings) -> None:
        self._turns = {
            key: cycle([template for template in templates if template not in ALONE_ONLY])
            for key, templates in wordings.items()
        }

    @property
    def keys(self) -> tuple[tuple[str, Effect], ...]:
        return tuple(self._turns)

    def say(self, key: tuple[str, Effect], noun: Noun) -> Sentence:
        """The next wording of an act, said of a noun."""
        return Sentence(key[0], fill(next(self._turns[key]), x=noun), ((noun, key[1]),))


# --------------------------------------------------------------------------------------------- what readings follow


def find_named(sentences: Sequence[Sentence], *effects: Effect) -> set[object]:
    """The things on which the sentences have one of the effects."""
    return {named for sentence in sentences for named, effect in sentence.effects if effect in effects}


def is_refusal(sentences: Sequence[Sentence], asked: object) -> bool:
    """Whether one sentence stands alone and plainly declines what is asked."""
    return (
        len(sentences) == 1
        and {effect for _, effect in sentences[0].effects} == {DECLINES}
        and (asked in find_named(sentences, DECLINES))
    )


def allow_yes_no(sentences: Sequence[Sentence], asked: object) -> tuple[frozenset[Reading], bool]:
    """The readings of the sentences as an answer to a yes/no question, and whether they are clear."""
    asserted, denied = (asked in find_named(sentences, effect) for effect in CLAIMS)
    if asserted and denied:
        return NO_ANSWER, False
    if asserted or denied:
        return frozenset({YES if asserted else NO}), True
    if is_refusal(sentences, asked):
        return frozenset({DECLINED}), False
    leans = {YES} if asked in find_named(sentences, LEANS) else set()
    against = {NO} if asked in find_named(sentences, DISFAVOURS, LOSES) else set()
    return NO_ANSWER | leans | against, False


def allow_presence(
    sentences: Sequence[Sentence], positive: Mapping[object, int], target: object, negated: int
) -> tuple[frozenset[Reading], bool]:
    """The readings as an answer to which finding is present, and whether they are clear.

    positive: the index of the option of each finding. target: the finding whose negation is an option. negated: the
    index of that option.
    """
    asserted, denied = find_named(sentences, ASSERTS), find_named(sentences, DENIES)
    chosen = {positive[named] for named in asserted if named in positive}
    leaning = {positive[named] for named in find_named(sentences, LEANS) if named in positive}
    if asserted & denied or len(chosen) > 1:
        return NO_ANSWER, False
    if target in denied:
        claims = [claim for sentence in sentences for claim in sentence.effects if claim[1] in CLAIMS]
        is_main = not asserted or claims[0] == (target, DENIES)
        if chosen or leaning or not is_main:
            return frozenset({negated}) | chosen | leaning | NO_ANSWER, False
        return frozenset({negated}), True
    if chosen:
        return frozenset(chosen), True
    if is_refusal(sentences, target):
        return frozenset({DECLINED}), False
    return NO_ANSWER | leaning | ({negated} if target in find_named(sentences, LOSES) else set()), False


def allow_absence(
    sentences: Sequence[Sentence], positive: Mapping[object, int], target: object, negated: int | None
) -> tuple[frozenset[Reading], bool] | None:
    """The readings as an answer to which finding is absent, and whether they are clear; None where readers disagree."""
    asserted, denied = find_named(sentences, ASSERTS), find_named(sentences, DENIES)
    chosen = {positive[named] for named in denied if named in positive}
    if asserted & set(positive) and not chosen:
        return None
    if asserted & denied:
        return NO_ANSWER, False
    against = {positive[named] for named in find_named(sentences, DISFAVOURS, LOSES) if named in positive} - chosen
    if negated is not None and target in denied:
        return NO_ANSWER | chosen | against | {negated}, False
    if len(chosen) == 1:
        clear = negated is None and not against
        return frozenset(chosen) if clear else NO_ANSWER | chosen | against, clear
    if is_refusal(sentences, target):
        return frozenset({DECLINED}), False
    return NO_ANSWER | (set() if chosen else against), False


def allow_names(sentences: Sequence[Sentence]) -> tuple[frozenset[Reading], bool]:
    """The readings as an open answer, and whether they are clear. A reading is the asserted labels, joined by "+"."""
    asserted, denied = find_named(sentences, ASSERTS), find_named(sentences, DENIES)
    leaning = find_named(sentences, LEANS)
    some_leaning = chain.from_iterable(combinations(leaning, n) for n in range(len(leaning) + 1))
    with_leaning = {join_names(asserted | set(some)) for some in some_leaning} - {""}
    if asserted:
        return frozenset(with_leaning), True
    if denied:
        return frozenset({NO_NAMES, *with_leaning}), not leaning
    if all(effect == DECLINES for sentence in sentences for _, effect in sentence.effects):
        return frozenset({DECLINED}), False
    against = {NO_NAMES} if find_named(sentences, DISFAVOURS, LOSES) else set()
    return NO_ANSWER | with_leaning | against, False


def join_names(nouns: set[object]) -> str:
    """The labels of the nouns, in order, joined by "+"."""
    return "+".join(sorted(noun.label for noun in nouns if isinstance(noun, Noun)))


# ------------------------------------------------------------------------------------------------------------ texts


@dataclass(frozen=True)
class Text:
    """Sentences in an order, about a target, another option's finding and findings that are no option."""

    position: str
    sentences: tuple[Sentence, ...]
    target: Noun
    other: Noun
    join: str = " "

    @property
    def act(self) -> str:
        """The act of the sentence about the target."""
        return next((s.act for s in self.sentences if self.target in dict(s.effects)), self.sentences[0].act)

    @property
    def text(self) -> str:
        return self.join.join(sentence.text for sentence in self.sentences)


def make_texts(wordings: Wordings, nouns: Sequence[Noun], every: int = 1) -> Iterator[Text]:
    """Texts of one sentence, and of two sentences of any two acts.

    every: of how many nouns each wording alone is said of one.
    """
    targets = cycle(range(len(nouns)))
    joins = cycle(JOINS)

    def draw() -> tuple[Noun, Noun, Noun]:
        at = next(targets)
        return nouns[at], nouns[(at + 1) % len(nouns)], nouns[(at + 2) % len(nouns)]

    for at, noun in enumerate(nouns):
        for turn, sentence in enumerate(say_each(wordings, noun)):
            if (turn + at) % every == 0:
                yield Text("alone", (sentence,), noun, nouns[(at + 1) % len(nouns)])
    rotation = Rotation(wordings)
    for key, beside, first, outside in product(rotation.keys, rotation.keys, (True, False), (True, False)):
        target, other, outsider = draw()
        pair = (rotation.say(key, target), rotation.say(beside, outsider if outside else other))
        yield Text("before" if first else "after", pair if first else pair[::-1], target, other, next(joins))
    idle = [key for key in rotation.keys if key[0] in BESIDE_ITSELF and key[1] == NOTHING]
    for claim, key, first, _ in product((("assert", ASSERTS), ("deny", DENIES)), idle, (True, False), range(3)):
        if key[0] != "announce" or not first:
            target, other, _ = draw()
            pair = (rotation.say(claim, target), rotation.say(key, target))
            yield Text("itself", pair if first else pair[::-1], target, other, next(joins))


def make_lists(nouns: Sequence[Noun], every: int = 1) -> Iterator[Text]:
    """Sentences about three nouns at once; the target has each place in turn."""
    n = len(nouns)
    turns = count()
    for (act, effect), templates in LISTS.items():
        for template, at in product(templates, range(0, n, every)):
            named = [nouns[at], nouns[(at + 2) % n], nouns[(at + 3) % n]]
            turn = next(turns) % 3
            x, z, w = named[-turn:] + named[:-turn] if turn else named
            sentence = Sentence(act, fill(template, x=x, z=z, w=w), ((x, effect), (z, effect), (w, effect)))
            yield Text("list", (sentence,), named[0], nouns[(at + 1) % n])


def make_finding_texts() -> Iterator[Text]:
    """The texts about findings, with those of one sentence about two or three of them."""
    yield from make_texts(FINDING_WORDINGS, FINDINGS)
    n = len(FINDINGS)
    for (act, of_x, of_z), templates in PAIRS.items():
        for template, at, swapped in product(templates, range(n), (False, True)):
            step = 1 + at % 2  # the other finding is an option, or it is none
            x, z = FINDINGS[at], FINDINGS[(at + step) % n]
            sentence = Sentence(act, fill(template, x=x, z=z), ((x, of_x), (z, of_z)))
            if swapped:  # the target is z
                yield Text("one sentence", (sentence,), z, x if step == 1 else FINDINGS[(at + 4) % n])
            else:
                yield Text("one sentence", (sentence,), x, FINDINGS[(at + 1) % n])
    yield from make_lists(FINDINGS)
    for at, effects, join in product(range(n), product(CLAIMS, repeat=3), ("\n", ", ")):
        named = (FINDINGS[at], FINDINGS[(at + 2) % n], FINDINGS[(at + 3) % n])
        states = ["present" if effect == ASSERTS else "absent" for effect in effects]
        lines = [f"{capitalize(noun.words)}: {state}" for noun, state in zip(named, states, strict=True)]
        text = "\n".join(f"- {line}" for line in lines) if join == "\n" else ", ".join(lines)
        act = "assert" if effects[at % 3] == ASSERTS else "deny"
        sentence = Sentence(act, text, tuple(zip(named, effects, strict=True)))
        yield Text("list", (sentence,), named[at % 3], FINDINGS[(at + 1) % n])
    # Three sentences in each order.
    rotation = Rotation({key: templates for key, templates in FINDING_WORDINGS.items() if key != ("hedge", LEANS)})
    idle = [key for key in rotation.keys if key[1] == NOTHING and key[0] != "announce"]
    for at, (claim, key) in enumerate(product((("assert", ASSERTS), ("deny", DENIES)), idle)):
        target, other, *outside = (FINDINGS[(at + step) % n] for step in range(4))
        sentences = (
            rotation.say(claim, target),
            rotation.say(key, outside[0]),
            rotation.say(("deny", DENIES), outside[1]),
        )
        for order in permutations(sentences):
            yield Text("three, any order", order, target, other)


# ------------------------------------------------------------------------------------------------------------ cases


def make_option_cases(texts: Sequence[Text]) -> Iterator[Case]:
    """The texts as answers to which finding is present, with X, its negation and Y as options; and which is absent."""
    orders = tuple(permutations(range(3)))
    for turn, text in enumerate(texts):
        form = NEGATION_FORMS[turn % len(NEGATION_FORMS)]
        shown = (capitalize(text.target.words), fill(form, x=text.target), capitalize(text.other.words))
        order = orders[(turn // 5) % len(orders)]
        options = tuple(shown[place] for place in order)
        positive = {text.target: order.index(0), text.other: order.index(2)}
        allowed, clear = allow_presence(text.sentences, positive, text.target, order.index(1))
        question = PRESENCE_QUESTIONS[turn % len(PRESENCE_QUESTIONS)]
        yield Case("choice", text.act, form, text.position, text.text, allowed, clear, question, options)
        if turn % 4:
            continue
        question = ABSENCE_QUESTIONS[turn % len(ABSENCE_QUESTIONS)]
        for negated in (order.index(1), None):
            if negated is None:
                third = next(
                    noun
                    for noun in FINDINGS
                    if noun not in {text.target, text.other}
                    and all(noun not in dict(sentence.effects) for sentence in text.sentences)
                )
                options = tuple(capitalize(noun.words) for noun in (text.target, text.other, third))
                positive = {text.target: 0, text.other: 1}
            expected = allow_absence(text.sentences, positive, text.target, negated)
            if expected:
                name = "absence, no option negated" if negated is None else "absence, one option negated"
                yield Case("choice", text.act, name, text.position, text.text, *expected, question, options)


def make_absent_picks() -> Iterator[Case]:
    """Answers that name the absent finding as such."""
    for template, (at, noun) in product(ABSENT_PICKS, enumerate(FINDINGS)):
        other, negated = FINDINGS[at - 1], fill(NEGATION_FORMS[0], x=FINDINGS[at - 1])
        options = (capitalize(other.words), negated, capitalize(noun.words))
        text = fill(template, x=noun)
        yield Case("choice", "assert", "absence, one option negated", "alone", text, frozenset({2}), True,
                   ABSENCE_QUESTIONS[at % 2], options)  # fmt: skip


def make_letter_cases() -> Iterator[Case]:
    """Answers that speak of options by their letters, alone and beside another one's."""
    x, y, w = FINDINGS[0], FINDINGS[1], FINDINGS[2]
    options = (capitalize(x.words), f"No {x.words}", capitalize(y.words), capitalize(w.words))
    letters = "ABCD"

    def say(act: str, effect: Effect, template: str, at: int) -> Sentence:
        text = template.format(l=letters[at], o=options[at], m=letters[(at + 1) % 4])
        return Sentence(act, text, ((at, effect),))

    turns = {key: cycle(templates) for key, templates in LETTER_WORDINGS.items()}
    listed = [
        ("alone", (say(*key, template, at),))
        for key, templates in LETTER_WORDINGS.items() for template in templates for at in range(4)
    ]  # fmt: skip
    asserting = [t for t in LETTER_WORDINGS["assert", ASSERTS] if t.endswith(".")]  # whole sentences
    claims = cycle(asserting)
    for key, at, step, first in product(turns, range(4), (2, 3), (True, False)):
        if key[0] in ("assert", "refuse", "hedge") or (key[0] == "announce" and not first):
            continue  # what does not go with a claim
        beside = (at + step) % 4
        pair = (say(*key, next(turns[key]), at), say("assert", ASSERTS, next(claims), beside))
        if letters[beside] not in pair[0].text:
            listed.append(("before" if first else "after", pair if first else pair[::-1]))
    for at, step in product(range(4), (1, 2, 3)):
        pair = (say("assert", ASSERTS, "Option {l} is correct.", at),
                say("assert", ASSERTS, "Option {l} is correct.", (at + step) % 4))  # fmt: skip
        listed.append(("two", pair))
    for position, sentences in listed:
        text = " ".join(sentence.text for sentence in sentences)
        chosen = {at for at in find_named(sentences, ASSERTS) if isinstance(at, int)}
        clear = len(chosen) == 1
        refuses = len(sentences) == 1 and sentences[0].effects[0][1] == DECLINES
        allowed = frozenset(chosen) if clear else frozenset({DECLINED}) if refuses else NO_ANSWER
        yield Case(
            "choice", sentences[0].act, "letters", position, text, allowed, clear, PRESENCE_QUESTIONS[0], options
        )
    for at, step in product(range(4), (1, 2, 3)):  # a letter and another option's text
        for template in ("{l}. {o}", "The answer is {l}: {o}.", "**{l}.** {o}"):
            text = template.format(l=letters[at], o=options[(at + step) % 4])
            yield Case(
                "choice", "contradict", "letters", "alone", text, NO_ANSWER, False, PRESENCE_QUESTIONS[0], options
            )


def make_yes_no_cases(texts: Sequence[Text]) -> Iterator[Case]:
    """The texts as answers to whether there is the target, or whether there is another finding that they name."""
    for turn, text in enumerate(texts):
        question = YES_NO_QUESTIONS[turn % len(YES_NO_QUESTIONS)]
        named = [noun for sentence in text.sentences for noun, _ in sentence.effects if isinstance(noun, Noun)]
        asked = named[-1] if turn % 4 == 0 else text.target
        allowed, clear = allow_yes_no(text.sentences, asked)
        act = next((s.act for s in text.sentences if asked in dict(s.effects)), text.act)
        yield Case("yes_no", act, "yes/no", text.position, text.text, allowed, clear, fill(question, x=asked))
    for replies, reading in ((YES_REPLIES, YES), (NO_REPLIES, NO)):
        for template, (at, noun) in product(replies, enumerate(FINDINGS)):
            text = fill(template, x=noun, z=FINDINGS[at - 1])
            question = fill(YES_NO_QUESTIONS[at % len(YES_NO_QUESTIONS)], x=noun)
            act = "assert" if reading == YES else "deny"
            yield Case("yes_no", act, "yes/no", "reply", text, frozenset({reading}), True, question)


def make_state_cases() -> Iterator[Case]:
    """Answers about a subject and its predicate, alone and beside a sentence about an unrelated finding."""
    rotation = Rotation({key: FINDING_WORDINGS[key] for key in FINDING_WORDINGS if key[0] != "hedge"})
    besides, joins = cycle(rotation.keys), cycle(JOINS)
    for state in STATES:
        form = "normality" if state.normal else "predicate"
        for sentence in say_each_state(state):
            listed = [("alone", (sentence,), " ")]
            for position in ("before", "after"):
                pair = (sentence, rotation.say(next(besides), state.unrelated))
                listed.append((position, pair if position == "before" else pair[::-1], next(joins)))
            if sentence.act in BESIDE_ITSELF:
                verb = "are" if state.plural else "is"
                claim = (("assert", ASSERTS, ""), ("deny", DENIES, "not "))[len(sentence.text) % 2]
                text = f"{capitalize(state.subject)} {verb} {claim[2]}{state.predicate}."
                listed.append(("itself", (sentence, Sentence(claim[0], text, ((state, claim[1]),))), " "))
            for position, sentences, join in listed:
                text = join.join(one.text for one in sentences)
                allowed, clear = allow_yes_no(sentences, state)
                yield Case("yes_no", sentence.act, form, position, text, allowed, clear, state.question)
        for opposite in state.opposites:  # other words: unread is no error
            text = f"{capitalize(state.subject)} {'are' if state.plural else 'is'} {opposite}."
            yield Case("yes_no", "deny", form, "opposite", text, NO_ANSWER | {NO}, False, state.question)


def make_name_cases(reader: str, texts: Iterable[Text]) -> Iterator[Case]:
    """The texts as open answers, of which a reader takes the names that they assert."""
    for text in texts:
        allowed, clear = allow_names(text.sentences)
        yield Case(reader, text.act, reader, text.position, text.text, allowed, clear)


def make_triplet_cases() -> Iterator[Case]:
    """Answers about what an instrument does."""
    for (act, effect), templates in ACTION_WORDINGS.items():
        for template, (tool, doing, do, organ, name) in product(templates, ACTIONS):
            text = template.format(tool=tool, doing=doing, do=do, organ=organ)
            noun = Noun(text, label=name)
            allowed, clear = allow_names((Sentence(act, text, ((noun, effect),)),))
            yield Case("triplets", act, "triplets", "alone", text, allowed, clear)


# ------------------------------------------------------------------------- changes that leave the reading as it is


def oppose(case: Case) -> str:
    """A reasoning that says the opposite of the case's reading, or something clear where it has none."""
    reading = next(iter(case.allowed)) if case.clear else ""
    if case.reader == "yes_no":
        return f"Let me think. The answer should be {NO if reading == YES else YES}."
    if case.reader == "choice":
        other = next(at for at in range(len(case.options)) if at != reading)
        return f"Let me think. The answer should be {'ABCDE'[other]}. {case.options[other]}."
    return "There is pleural effusion, and there is a stapler. No, perhaps not."


def embolden(text: str) -> str:
    """The text with its longest word in bold."""
    word = max(text.replace(".", " ").replace(",", " ").replace(":", " ").split(), key=len)
    return text.replace(word, f"**{word}**", 1)


CHANGES: Mapping[str, Callable[[Case], str]] = {
    "reasoning first": lambda case: f"<think>\n{oppose(case)}\n</think>\n\n{case.text}",
    "bold word": lambda case: embolden(case.text),
    "bold": lambda case: "\n".join(f"**{line}**" if line else "" for line in case.text.split("\n")),
    "bullets": lambda case: "\n".join(f"* {line.removeprefix('- ')}" if line else "" for line in case.text.split("\n")),
    "heading": lambda case: f"## Findings\n\n{case.text}",
    "upper case": lambda case: case.text.upper(),
    "lower case": lambda case: case.text.lower(),
    "white space": lambda case: f"  {case.text} \n\n",
    "curly quotes": lambda case: f"“{case.text.replace(chr(39), '’')}”",
}
# A letter in lower case may be a word, and a bullet beside a letter, or bold over a list, looks like a list of options.
_UNCHANGED = {"letters": {"lower case", "bullets", "heading", "bold word"}}


def change_some(cases: Sequence[Case]) -> Iterator[Case]:
    """Every other case in another dress; over the cases of one act and form each dress comes in turn."""
    turns: dict[tuple[str, str], Iterator[str]] = {}
    for case in cases[::2]:
        names = turns.setdefault((case.act, case.form), cycle(CHANGES))
        name = next(names)
        if name not in _UNCHANGED.get(case.form, set()) and not (
            "\n" in case.text and name in {"bold", "curly quotes"}
        ):
            yield replace(case, text=CHANGES[name](case), change=name)


def make_cases() -> list[Case]:
    """All cases, always in the same order, each text once for what is asked of it."""
    texts = list(make_finding_texts())
    cases = list(
        chain(
            make_option_cases(texts),
            make_absent_picks(),
            make_letter_cases(),
            make_yes_no_cases(texts),
            make_state_cases(),
            make_name_cases("diseases", make_texts(FINDING_WORDINGS, DISEASES, every=3)),
            make_name_cases("diseases", make_lists(DISEASES, every=4)),
            make_name_cases("instruments", make_texts(INSTRUMENT_WORDINGS, INSTRUMENTS)),
            make_triplet_cases(),
        )
    )
    changed = list(change_some(cases))
    unique = {(case.reader, case.text, case.question, case.options): case for case in [*cases, *changed]}
    return list(unique.values())
