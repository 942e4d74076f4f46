"""The way to the Hub: what is staged of a build, the guard that reads it, and the upload."""
