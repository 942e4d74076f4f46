"""Our lm-eval tasks in other harnesses (Inspect, lmms-eval, VLMEvalKit), with the same rows, prompts and scores."""
