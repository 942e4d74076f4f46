"""Share of a model's attention on the instruments (SurgXBench: AA and AC)."""
