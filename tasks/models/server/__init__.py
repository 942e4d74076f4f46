"""`medfaith-server`: models at an OpenAI-compatible server."""
