"""CXR-ContraBench as lm-eval tasks: one YAML a config and split, and `adapter`, which the YAMLs name."""
