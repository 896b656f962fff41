"""Hugging Face: the workload that a model's `config.json` describes (names as in transformers 4.57)."""

from codesign_opt.interop.hugging_face.architectures import ARCHITECTURES, Architecture
from codesign_opt.interop.hugging_face.read import config_notes, is_config, read_config

__all__ = ["ARCHITECTURES", "Architecture", "config_notes", "is_config", "read_config"]
