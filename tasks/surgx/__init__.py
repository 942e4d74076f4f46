"""SurgXBench for lm-eval: instruments and action triplets of laparoscopic frames, and where a model looks for them."""
