"""Share of a model's attention on the interaction of instrument and tissue (SurgXBench: RAS)."""
