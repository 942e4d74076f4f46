"""Localization of the anatomy in a question (HEAL-MedVQA, appendix C): Dice of the model's region and the mask.

A model localizes if its reply is a JSON object of its answer (`text`) and one of these:

    region     a mask of the image's size, {"size": [height, width], "counts": COCO's compressed text}
    heatmaps   the reference under which the model keeps a heatmap of the answer (explain.store)

Next to `heatmaps`, `relevancy` may hold the shares of image tokens and text tokens (explain.token_relevancy).

The region of a heatmap is its top 20%, where it is above 0 (attention_alignment.regions). No region is read from an
answer in words, because each family of models has its own format of coordinates.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any, NamedTuple

from medfaith.evaluate_metrics.attention_alignment.regions import find_attention_region
from medfaith.evaluate_metrics.mask_overlap.score import score_predictions
from medfaith.loaders import rle
from medfaith.tasks.explain.store import ATTENTION


class Reply(NamedTuple):
    """The parts of a model's reply.

    Attributes:
        text: The answer.
        region: The mask of the region, or None.
        heatmaps: The reference of the heatmaps, or None.
        relevancy: The relevancy of image tokens and text tokens, or None.
    """

    text: str
    region: Mapping[str, Any] | None = None
    heatmaps: str | None = None
    relevancy: Mapping[str, Any] | None = None


def read_reply(response: str) -> Reply:
    """Read the parts of a reply. Any other text, also other JSON, is an unchanged answer.

    Args:
        response: The reply of the model.

    Returns:
        The text of the answer, and the region or the reference to heatmaps if the reply has one.

    >>> read_reply('{"text": "Yes.", "heatmaps": "a/b"}')
    Reply(text='Yes.', region=None, heatmaps='a/b', relevancy=None)
    >>> read_reply('{"answer": "Yes."}').text
    '{"answer": "Yes."}'
    """
    if not response.lstrip().startswith("{"):
        return Reply(response)
    try:
        fields = json.loads(response)
    except (ValueError, RecursionError):
        return Reply(response)
    names, objects = set(fields), {"region", "relevancy"}
    localizes = names == {"text", "region"} or names - {"relevancy"} == {"text", "heatmaps"}
    if not localizes or not all(isinstance(fields[name], dict if name in objects else str) for name in names):
        return Reply(response)
    return Reply(**fields)


def score_localization(doc: Mapping[str, Any], reply: Reply) -> dict[str, float]:
    """Compute the Dice of the model's region and the anatomy's mask.

    An empty mask scores 0.

    Args:
        doc: A question with the mask of its `region` and, if the model keeps heatmaps, their reader (`heatmaps`).
        reply: The reply of the model.

    Returns:
        {"dice": value}, or {} if the model does not localize. The value is NaN if the heatmap is missing from this
        answer or has no region (no value above the others), and if the mask cannot be read or has another size than the
        image.

    Raises:
        InputError: The stored heatmap is missing, or has another image size (explain.reader).
    """
    region = reply.region
    if reply.heatmaps is not None:
        maps, _ = doc["heatmaps"].read(reply.heatmaps, doc["id"], tuple(doc["region"]["size"]))
        top_region = find_attention_region(maps[ATTENTION][None])[0] if ATTENTION in maps else None
        if top_region is None or not top_region.any():
            return {"dice": math.nan}
        region = rle.encode(top_region)
    if region is None:
        return {}
    try:
        return {"dice": score_predictions([region], [doc["region"]], ids=[doc["id"]])["dice"]}
    except (TypeError, ValueError):  # the mask is invalid, or has another size
        return {"dice": math.nan}
