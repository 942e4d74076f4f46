"""One row of CXR-ContraBench (section 3.1): a study's images, a question, an answer set and the gold option."""

from datasets import Features, List, Value

from .structs import IMAGE_REF, MASK

QUESTION = Features(
    {
        "id": Value("string"),
        "protocol": Value("string"),
        "polarity": Value("string"),  # presence, absence, other
        "study_id": Value("string"),
        "images": List(IMAGE_REF),
        "question": Value("string"),
        "options": List(Value("string")),
        "answer": Value("int32"),  # index into options
        "finding": Value("string"),
        "negated": Value("int32"),  # index of the explicitly negated option, -1 if missing
        "counterpart": Value("int32"),  # index of its positive counterpart, -1 if missing
        "negation_form": Value("string"),
        "question_form": Value("string"),
        "layout": Value("string"),
        "cue": Value("string"),  # the report's negation cue, never its sentence
    }
)
# A question with the region of its finding in its only image.
LOCATED_QUESTION = Features(
    {
        **QUESTION,
        "width": Value("int32"),
        "height": Value("int32"),
        "region": MASK,
        "present": List(Value("string")),  # the protocols' findings that are present in the study
    }
)
