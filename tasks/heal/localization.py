"""Where a model localizes what it is asked about (HEAL-MedVQA, appendix C): Dice of its region and the anatomy's mask.

A model localizes if its reply is a JSON object of its answer (`text`) and one of these:

    region     a mask of the image's size, {"size": [height, width], "counts": COCO's compressed text}
    heatmaps   the reference under which it keeps a heatmap of the answer (explain.store)

The region of a heatmap is its top 20%, where it is above 0 (attention_alignment.regions). The region of an answer in
words is not guessed: each family of models writes coordinates in a way of its own.
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
    """text: the answer. region, heatmaps: where it looks, as above; None: not given."""

    text: str
    region: Mapping[str, Any] | None = None
    heatmaps: str | None = None


def read_reply(response: str) -> Reply:
    """The parts of a reply. Any other text, of other JSON too, is an answer as it stands.

    >>> read_reply('{"text": "Yes.", "heatmaps": "a/b"}')
    Reply(text='Yes.', region=None, heatmaps='a/b')
    >>> read_reply('{"answer": "Yes."}').text
    '{"answer": "Yes."}'
    """
    if not response.lstrip().startswith("{"):
        return Reply(response)
    try:
        given = json.loads(response)
    except (ValueError, RecursionError):
        return Reply(response)
    texts = [given.get(name) for name in given if name != "region"]
    localizes = set(given) in ({"text", "region"}, {"text", "heatmaps"}) and all(isinstance(t, str) for t in texts)
    if not localizes or not isinstance(given.get("region", {}), dict):
        return Reply(response)
    return Reply(**given)


def localized(doc: Mapping[str, Any], reply: Reply) -> dict[str, float]:
    """{"dice": Dice of the model's region and the anatomy's}; {} where the model does not localize.

    NaN where the heatmap has no region (no value above the others, or none was made of this answer), or where the mask
    cannot be read or has another size than the image. An empty mask scores 0.

    doc: a question with the mask of its `region` and, if the model keeps heatmaps, their reader (`heatmaps`).

    Raises:
        InputError: the heatmap is missing or is of an image of another size (explain.reader).
    """
    region = reply.region
    if reply.heatmaps is not None:
        maps, _ = doc["heatmaps"].read(reply.heatmaps, doc["id"], tuple(doc["region"]["size"]))
        found = find_attention_region(maps[ATTENTION][None])[0] if ATTENTION in maps else None
        if found is None or not found.any():
            return {"dice": math.nan}
        region = rle.encode(found)
    if region is None:
        return {}
    try:
        return {"dice": score_predictions([region], [doc["region"]], ids=[doc["id"]])["dice"]}
    except (TypeError, ValueError):  # no mask, or one of another size
        return {"dice": math.nan}
