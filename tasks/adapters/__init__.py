"""CXR-ContraBench for other harnesses: Inspect, lmms-eval and VLMEvalKit get the rows of the lm-eval tasks."""
