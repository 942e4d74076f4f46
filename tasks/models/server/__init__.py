"""`medfaith-server`: models behind an OpenAI-compatible server."""
