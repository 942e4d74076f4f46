"""Does a model's attention lie on the instruments (SurgXBench: AA and AC)?"""
