"""Exports for other runtimes: LiteRT and ONNX."""
