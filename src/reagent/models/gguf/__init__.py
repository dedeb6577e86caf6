"""GGUF files as folders that `transformers` loads.

header.py      the keys and the table of tensors, read without the weights
keys.py        the keys of an architecture: each one is read, checked or refused
rope.py        rotary positions and their scaling
config.py      from the keys of each architecture to a config of `transformers`
tensors.py     the tensors of each architecture and their shapes
conversion.py  the whole file, converted once and kept
"""

from reagent.models.gguf.conversion import FORMAT_VERSION, convert, convert_cached, fits_cache, load_gguf

__all__ = ["FORMAT_VERSION", "convert", "convert_cached", "fits_cache", "load_gguf"]
