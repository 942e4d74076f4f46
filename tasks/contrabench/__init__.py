"""CXR-ContraBench as lm-eval tasks: one YAML file for each config and split, and the modules that the files name."""
