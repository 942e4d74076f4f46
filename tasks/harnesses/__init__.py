"""Our lm-eval tasks for other harnesses, Inspect, lmms-eval and VLMEvalKit: the same rows, prompts and scores."""
