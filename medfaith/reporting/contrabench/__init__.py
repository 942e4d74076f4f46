"""Finished runs of CXR-ContraBench: samples, tables and figures."""
