"""Wordings of the answer grammar: tables of sentences by act and effect. Add new wordings here."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tests.support.evaluate_metrics.reading_nouns import (
    ASSERTS,
    DECLINES,
    DENIES,
    DISFAVOURS,
    LEANS,
    LOSES,
    NOTHING,
    Effect,
)

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
