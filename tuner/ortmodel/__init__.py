"""A model for onnxruntime: what we compute of it as operators in one shared library, all else as it was."""
