"""One cue: a pattern that gives a clause its act, with the fragments that patterns name."""

from __future__ import annotations

from typing import Literal, NamedTuple

# state: asserts or denies (`scope` decides for each name). decline: cannot or will not answer. ask: asks, or announces.
# general: defines, or describes other cases. weigh: leaves open, for example with "could be".
Act = Literal["state", "decline", "ask", "general", "weigh"]


class Cue(NamedTuple):
    """A pattern that gives a clause its act.

    Attributes:
        act: The act of a clause with the pattern.
        pattern: A regular expression with `{fragments}`.
        examples: Clauses with this act.
        near_misses: Clauses that the pattern must not match.
        unless_here: Whether the clause states nevertheless if its other words describe this image (`HERE`).
        unless_denied: Whether the clause states nevertheless if a denial precedes the pattern.
    """

    act: Act
    pattern: str
    examples: tuple[str, ...]
    near_misses: tuple[str, ...] = ()
    unless_here: bool = False
    unless_denied: bool = False


FRAGMENTS = {
    "not": r"(?:not|never)",
    "cannot": r"(?:can ?not|can't|could not|couldn't|unable to|not able to|inability to"
    r"|(?:(?:not |im)possible|difficult|hard|challenging|premature|inappropriate|not appropriate|not safe)"
    r"(?: for me| for anyone)? to)",
    "judge": r"(?:tell|told|determined?|decided?|assess(?:ed)?|evaluated?|judged?|say|said|confirm(?:ed)?|diagnosed?"
    r"|answer(?:ed)?|comment|interpret(?:ed)?|conclude|infer|inferred|provided?|distinguish(?:ed)?|differentiated?"
    r"|classify|classified|verify|verified|predict|establish(?:ed)?|clarify|characterized?|assist|help|make|give"
    r"|offer|speculate|ascertain(?:ed)?|respond)",
    "inspect": r"(?:look|check|search|examine|assess|evaluate|inspect|analy[sz]e|determine|screen|review|scan|consider"
    r"|identify|compare|focus|investigate|go through|walk through|verify|confirm|exclude|rule out|find out|detect"
    r"|diagnose|describe)",
    "inspecting": r"(?:looking|checking|searching|examining|assessing|evaluating|inspecting|analy[sz]ing|determining"
    r"|screening|reviewing|scanning|considering|comparing|focusing|investigating)",
    "seen": r"(?:seen|identified|noted|observed|detected|visuali[sz]ed|appreciated|found|made out|recogni[sz]ed)",
    "image": r"(?:image|picture|photo|scan|x ?-?rays?|radiograph|film|attachment|file)",
    "often": r"(?:commonly|typically|usually|generally|often|frequently|sometimes|occasionally|normally)",
    "test": r"(?:test|modality|method|tool|technique|examination|exam|study|choice|standard|procedure)",
}
