"""TFLite models, read as the ONNX models that compute the same."""
