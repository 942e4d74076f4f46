"""What the sources' licences say to a reader of a card, to the Hub's filters and to its gate."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Any

from ..loaders.sources import Source

# Of the Hub's list of licences, those that a source has.
KNOWN = frozenset({"cc-by-4.0", "cc-by-nc-4.0", "cc-by-nc-nd-4.0", "cc-by-nc-sa-4.0"})
OWN = "user-made"  # version of a source that its user makes from another one
SEVERAL = "several-see-the-card"


def of_header(source_id: str, sources: Sequence[Source]) -> dict[str, str]:
    """The header's `license`: one of the Hub's list, or `other` with a name and a link.

    Args:
        source_id: the repository's main source, which is linked unless another one is less open. sources: all that it
            was made of.

    >>> from ..loaders.sources import source
    >>> of_header("openi", [source("openi")])
    {'license': 'cc-by-nc-nd-4.0'}
    """
    given = [source for source in sources if source.version != OWN]
    names = {slug(source.licence) for source in given}
    if len(names) == 1 and names <= KNOWN:
        return {"license": names.pop()}
    candidates = [source for source in given if slug(source.licence) not in KNOWN] or given
    linked = next((source for source in candidates if source.id == source_id), candidates[0])
    name = names.pop() if len(names) == 1 else SEVERAL
    return {"license": "other", "license_name": name, "license_link": linked.licence_url}


def links(sources: Sequence[Source]) -> list[str]:
    """Addresses of the licences, each once. What a user makes has none: its link is that of the tool."""
    return list(dict.fromkeys(source.licence_url for source in sources if source.version != OWN))


def slug(licence: str) -> str:
    """
    >>> slug("PhysioNet Credentialed Health Data License 1.5.0")
    'physionet-credentialed-health-data-license-1.5.0'
    """
    return re.sub(r"[^a-z0-9.]+", "-", licence.lower().replace("'", "")).strip("-")


def gate(sources: Iterable[Source]) -> dict[str, Any]:
    """What the Hub asks of those who want access, where gating is switched on for the repository."""
    terms = " ".join(
        f"{source.title} (licence: {', '.join([source.licence, *links([source])])}): {source.terms}"
        for source in sources
    )
    holds = {f"I hold the licence of {source.title}": "checkbox" for source in sources if source.version != OWN}
    return {
        "extra_gated_heading": "For those who hold the licences of the sources",
        "extra_gated_prompt": f"The rows are built from sources under terms of their own. {terms}",
        "extra_gated_fields": {
            "Name": "text",
            "Affiliation": "text",
            **holds,
            "I use it for research only": "checkbox",
        },
    }


def chain(sources: Sequence[Source], referenced: Sequence[Source]) -> str:
    """Markdown: each source with its licence, terms and how to get it.

    Args:
        sources: those whose labels were read. referenced: those whose images rows reference.
    """
    lines = []
    for source in dict.fromkeys((*sources, *referenced)):
        uses = {"labels": source in sources, "images that rows reference": source in referenced}
        what = " and ".join(use for use, used in uses.items() if used)
        licence = "".join(f"[{source.licence}]({link})" for link in links([source])) or source.licence
        lines.append(f"- **{source.title}** ({what}): {licence}. {source.terms} Access: {source.access}")
    return "\n".join(lines) + (
        "\n\nThe strictest licence of the labels applies to the rows. Images have the licence of their source. "
        "medfaith itself is under Apache-2.0."
    )
