"""That's the Wrong Lung! for lm-eval: whether attention follows the location in a sentence and its changes."""
