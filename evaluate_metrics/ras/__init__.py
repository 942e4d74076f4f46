"""Does a model's attention lie on the interaction of instrument and tissue (SurgXBench: RAS)?"""
