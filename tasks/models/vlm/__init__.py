"""Vision-language models of transformers: answers, option scores, decoders and heatmaps."""
