"""Write a GGUF file as a folder that `barl train` and `barl evaluate` take.

`python examples/real_model/convert.py MODEL.gguf FOLDER` (needs `pip install gguf`). The weights
are dequantised to float32. Tokenizer and chat template are those in the file.
"""

import argparse
from pathlib import Path
from typing import Any

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer


def main() -> None:
    """Load the file as transformers does, and save it."""
    parser = argparse.ArgumentParser(description="Write a GGUF file as a folder.")
    parser.add_argument("file", type=Path)
    parser.add_argument("folder", type=Path)
    args = parser.parse_args()
    source = {"pretrained_model_name_or_path": args.file.parent, "gguf_file": args.file.name}
    tokenizer = AutoTokenizer.from_pretrained(**source)
    model: Any = AutoModelForCausalLM.from_pretrained(**source, dtype=torch.float32)
    # transformers refuses to save a model that still counts as quantised
    model.hf_quantizer = None
    if hasattr(model.config, "quantization_config"):
        del model.config.quantization_config
    model.save_pretrained(args.folder)
    tokenizer.save_pretrained(args.folder)
    print(f"{model.num_parameters() / 1e6:.0f} M parameters in {args.folder}")


if __name__ == "__main__":
    main()
