"""Models are whole networks that the package quantises and runs: language models and sentence encoders.

Read `llama_file`, `llama_folder`, `tokenizer`, `llama` and `llama_layer` (language models), `bert`, `bert_folder` and
`bert_encoder` (sentence encoders), and `decoding` (text generation).
"""
