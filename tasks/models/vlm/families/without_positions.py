"""Families whose models answer and score options. The places of their image tokens are not known: no heatmaps."""

from __future__ import annotations

from . import Family

FAMILIES = (
    Family("Aria", "Aria", ("aria",)),
    Family("Aya Vision", "Aya Vision 8B, 32B", ("aya_vision",)),
    Family("Chameleon", "Chameleon 7B, 30B", ("chameleon",)),
    Family("Cohere Command A Vision", "Command A Vision", ("cohere2_vision",)),
    Family("DeepSeek-VL", "DeepSeek-VL 1.3B", ("deepseek_vl",)),
    Family("Gemma 4", "Gemma 4", ("gemma4",)),
    Family("GLM-4V", "GLM-4.1V", ("glm4v",)),
    Family("Idefics 2", "Idefics2 8B", ("idefics2",)),
    Family("Janus", "Janus-Pro", ("janus",)),
    Family("LFM2-VL", "LFM2-VL", ("lfm2_vl",)),
    Family("Llama 4", "Llama 4 Scout, Maverick", ("llama4",)),
    Family("LLaVA-NeXT-Video", "LLaVA-NeXT-Video, with images", ("llava_next_video",)),
    Family("Ovis 2", "Ovis2", ("ovis2",)),
    Family("PerceptionLM", "PerceptionLM; batches of equal tiling only", ("perception_lm",)),
    Family("Qwen3.5", "Qwen3.5, dense", ("qwen3_5",)),
)
