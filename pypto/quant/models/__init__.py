"""Models are whole networks that the package quantises and runs: language models and sentence encoders.

Read `llama_layer` (the forward pass of a layer), `llama_file`, `llama_folder`, `tokenizer` and `llama` (language
models), `bert_layer`, `bert`, `bert_folder` and `bert_encoder` (sentence encoders), and `decoding` (text generation).
"""
