"""The sources' licences for the reader of a card, for the Hub's filters and for its gate."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Any

from ..loaders.sources import Source

# The licences of sources that are in the Hub's list.
KNOWN = frozenset({"cc-by-4.0", "cc-by-nc-4.0", "cc-by-nc-nd-4.0", "cc-by-nc-sa-4.0"})
OWN = "user-made"  # version of a source that its user makes from another one
SEVERAL = "several-see-the-card"


def build_header_fields(source_id: str, sources: Sequence[Source]) -> dict[str, str]:
    """Build the header's `license`: one of the Hub's list, or `other` with a name and a link.

    >>> from ..loaders.sources import source
    >>> build_header_fields("openi", [source("openi")])
    {'license': 'cc-by-nc-nd-4.0'}

    Args:
        source_id: The repository's main source, which is linked unless another one is less open.
        sources: All sources of the repository.

    Returns:
        The fields of the header.
    """
    official = [source for source in sources if source.version != OWN]
    names = {convert_to_slug(source.licence) for source in official}
    if len(names) == 1 and names <= KNOWN:
        return {"license": names.pop()}
    candidates = [source for source in official if convert_to_slug(source.licence) not in KNOWN] or official
    linked = next((source for source in candidates if source.id == source_id), candidates[0])
    name = names.pop() if len(names) == 1 else SEVERAL
    return {"license": "other", "license_name": name, "license_link": linked.licence_url}


def list_links(sources: Sequence[Source]) -> list[str]:
    """List the addresses of the licences, each once. A source made by its user is skipped: its link is its tool's.

    Args:
        sources: The sources.

    Returns:
        The addresses.
    """
    return list(dict.fromkeys(source.licence_url for source in sources if source.version != OWN))


def convert_to_slug(licence: str) -> str:
    """Convert the name of a licence to lower case with hyphens.

    >>> convert_to_slug("PhysioNet Credentialed Health Data License 1.5.0")
    'physionet-credentialed-health-data-license-1.5.0'

    Args:
        licence: The name.

    Returns:
        The slug.
    """
    return re.sub(r"[^a-z0-9.]+", "-", licence.lower().replace("'", "")).strip("-")


def build_gate(sources: Iterable[Source]) -> dict[str, Any]:
    """Build the header fields that ask readers to confirm the licences, if the repository is gated.

    Args:
        sources: The sources of the repository.

    Returns:
        The fields of the header.
    """
    terms = " ".join(
        f"{source.title} (licence: {', '.join([source.licence, *list_links([source])])}): {source.terms}"
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


def format_licences(sources: Sequence[Source], referenced: Sequence[Source]) -> str:
    """Format each source with its licence, its terms and how to get it.

    Args:
        sources: Sources of labels.
        referenced: Sources of images that rows reference.

    Returns:
        Markdown.
    """
    lines = []
    for source in dict.fromkeys((*sources, *referenced)):
        uses = {"labels": source in sources, "images that rows reference": source in referenced}
        purpose = " and ".join(use for use, used in uses.items() if used)
        licence = "".join(f"[{source.licence}]({link})" for link in list_links([source])) or source.licence
        lines.append(f"- **{source.title}** ({purpose}): {licence}. {source.terms} Access: {source.access}")
    return "\n".join(lines) + (
        "\n\nThe strictest licence of the labels applies to the rows. Images have the licence of their source. "
        "medfaith itself is under Apache-2.0."
    )
