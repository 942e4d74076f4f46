"""Questions of the answer grammar, forms of options and replies, and which sentences may be joined."""

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
# Acts that are compatible with a claim about the same finding.
BESIDE_ITSELF = ("announce", "define", "compare", "conditional")
JOINS = (" ", " ", "\n", "\n\n")
