"""`medfaith-alignment`: models that align a sentence with regions of its image, GLoRIA among them."""
