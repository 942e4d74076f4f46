"""Texts of the warnings about bad answers: after the first answers of a run, and at its end."""

from ...loaders.escaping import escape_controls

FEW = 20  # answers; with fewer, equal answers are plausible
LONGEST = 120  # characters of an answer in a warning

MORE_TOKENS = "give the model more tokens (--gen_kwargs max_gen_toks=N)"
IF_SAME = (
    "see whether the chat template is applied (--apply_chat_template), whether the model gets enough tokens "
    "(--gen_kwargs max_gen_toks=N), and whether its images are blank"
)
IF_UNANSWERED = "look at the server's own log; a run that is stopped asks only what is missing, where answers are kept"
IF_UNREAD = (
    f"if answers are cut, {MORE_TOKENS}; if a person can read them, measure our reading with medfaith read, or let a "
    "language model read them, too (medfaith report --extractor-model)"
)


def join_lines(answer: str) -> str:
    """Replace each run of white space in an answer by one space.

    Args:
        answer: The answer.

    Returns:
        The answer in one line.
    """
    return " ".join(answer.split())


def shortened(answer: str) -> str:
    """Shorten a long answer to its end, where a cut answer breaks off, and escape control characters.

    Args:
        answer: The answer.

    Returns:
        The last characters of the answer after an ellipsis, or the full answer if it is short.
    """
    return escape_controls(f"…{answer[-LONGEST:]}" if len(answer) > LONGEST else answer)
