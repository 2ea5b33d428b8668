"""Operators of other domains, written in those of ONNX."""
