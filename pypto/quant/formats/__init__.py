"""File formats store quantised weights, so that a model is quantised once and other programs can read it.

Read `files` (safetensors and JSON), `quantization_config` and `compressed_tensors`
(the format of compressed-tensors), `gguf` (the format of llama.cpp) and `cache` (int8 keys and values).
"""
