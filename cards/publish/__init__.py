"""Publishing on the Hub: staging of a build, the guard that reads it, and the upload."""
