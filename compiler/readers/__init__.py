"""Model files become ONNX models."""
