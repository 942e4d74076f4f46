"""Decoders that contrast what a vision-language model says with what it says of less: pure functions and one driver."""
