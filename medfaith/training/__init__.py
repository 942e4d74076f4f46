"""That's the Wrong Lung!: its training recipes (section 4.1) for GLoRIA, `medfaith train`."""
