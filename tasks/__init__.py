"""lm-evaluation-harness tasks, with one folder for each benchmark, and its model plug-ins in `models/`.

The YAML files give each Python function its full dotted name, such as `medfaith.tasks.contrabench.adapter.b0`. Plain
`lm_eval --include_path` can therefore run them.
"""

from __future__ import annotations

from pathlib import Path

BASELINES = {
    "oracle": "medfaith.tasks.models.reference.baselines:Oracle",
    "always_yes": "medfaith.tasks.models.reference.baselines:AlwaysYes",
    "negation_attracted": "medfaith.tasks.models.reference.baselines:NegationAttracted",
    "random": "medfaith.tasks.models.reference.baselines:Random",
    "majority": "medfaith.tasks.models.reference.baselines:Majority",
    "question_prior": "medfaith.tasks.models.reference.baselines:QuestionPrior",
}
LOOKING = {  # reference models that read the images of the phantom
    "looks": "medfaith.tasks.models.reference.image_baselines:Looks",
    "mirage": "medfaith.tasks.models.reference.image_baselines:Mirage",
    "looks_elsewhere": "medfaith.tasks.models.reference.image_baselines:LooksElsewhere",
}
SERVER = "medfaith-server"
BATCH = "medfaith-batch"
MODELS = {
    **BASELINES,
    **LOOKING,
    "medfaith-hf-vlm": "medfaith.tasks.models.vlm.hf_vlm:HFVisionLM",
    "medfaith-contrastive": "medfaith.tasks.models.contrastive.lm:ContrastiveLM",
    "medfaith-explained-vlm": "medfaith.tasks.models.vlm.explained_vlm:ExplainedVLM",
    "medfaith-alignment": "medfaith.tasks.models.alignment.lm:AlignmentLM",
    SERVER: "medfaith.tasks.models.server.lm:ServerLM",
    BATCH: "medfaith.tasks.models.server.batch_lm:BatchLM",
}

# Description of each model type, for a user who chooses one.
ABOUT = {
    "medfaith-hf-vlm": "any vision-language model of transformers; it also scores options",
    "medfaith-server": "any model behind an OpenAI-compatible server",
    "medfaith-batch": "any engine that answers a file of requests (--write-requests, --answers)",
    "medfaith-contrastive": "CLIP-like models with heatmaps (SurgXBench)",
    "medfaith-explained-vlm": "vision-language models of transformers with heatmaps of their answers",
    "medfaith-alignment": "GLoRIA, UNITER, CLIP and BLIP with attention to a sentence",
    "oracle": "reference: the right answer",
    "always_yes": "reference: Yes, or option A",
    "negation_attracted": "reference: the option with a negation",
    "random": "reference: an option at random",
    "majority": "reference: the option that is right most often in the task",
    "question_prior": "reference: the most frequent answer to the question, without the image",
    "looks": "reference for synthetic images: answers from the pixels",
    "mirage": "reference for synthetic images: like looks on half of the rows",
    "looks_elsewhere": "reference for synthetic images: right unless an unrelated region is edited",
}

# Model types with the argument `store`, the folder of their heatmaps.
EXPLAINED = (*BASELINES, *LOOKING, "medfaith-contrastive", "medfaith-explained-vlm", "medfaith-alignment")

# Reference models whose answer to a row depends on the other rows of the run.
COUNTING = ("majority", "question_prior", "mirage")

# Model types with the argument `answers`, the file of their answers.
KEEPING = (SERVER, "medfaith-hf-vlm", "medfaith-explained-vlm")

# Model arguments that do not change the answers.
NO_MATTER = {"answers", "concurrency", "max_retries", "timeout", "prompt_price", "answer_price"}


def include_path() -> Path:
    """Return the folder for `lm_eval --include_path`."""
    return Path(__file__).parent


def register_models() -> None:
    """Register the models of this package with lm-eval, for lm-eval releases that do not read entry points."""
    import lm_eval.models  # noqa: F401 - lm-eval registers its own models only while the registry is still empty
    from lm_eval.api.registry import model_registry

    for name, target in MODELS.items():
        if name not in model_registry:
            model_registry.register(name, target=target)
