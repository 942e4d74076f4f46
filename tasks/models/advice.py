"""What is said of answers with which something is wrong: of the first ones of a run, and of a whole one."""

from ...loaders.escaping import escape_controls

FEW = 20  # answers, below which it is no wonder that all are the same
LONGEST = 120  # characters of an answer in a warning

MORE_TOKENS = "give the model more tokens (--gen_kwargs max_gen_toks=N)"
IF_SAME = (
    "see whether the chat template is applied (--apply_chat_template), whether the model gets enough tokens "
    "(--gen_kwargs max_gen_toks=N), and whether its images are blank"
)
IF_UNREAD = (
    f"if answers are cut, {MORE_TOKENS}; if a person can read them, measure our reading with medfaith read, or let a "
    "language model read them, too (medfaith report --extractor-model)"
)


def in_one_line(answer: str) -> str:
    """The answer with single blanks in place of its white space."""
    return " ".join(answer.split())


def shortened(answer: str) -> str:
    """The end of a long answer: one that was cut shows it there."""
    return escape_controls(f"…{answer[-LONGEST:]}" if len(answer) > LONGEST else answer)
