"""The shipped model in the layout of Qwen2.5-Math's base models."""

from datasets import Dataset
from transformers import AutoModelForCausalLM, AutoTokenizer

from barl_trl.synthetic.search import TINY_MODEL_DIR, search_rows

TEMPLATE = (
    "{% for m in messages %}{{ m.content }}"
    "{% if m.role == 'assistant' %}<|im_end|>{% endif %}{% endfor %}"
)


def save_base_model(folder: str) -> None:
    """The model says <|im_end|>, and <|endoftext|> is the EOS of all files."""
    tokenizer = AutoTokenizer.from_pretrained(TINY_MODEL_DIR)
    tokenizer.eos_token, tokenizer.chat_template = "<|endoftext|>", TEMPLATE
    model = AutoModelForCausalLM.from_pretrained(TINY_MODEL_DIR)
    model.config.eos_token_id = model.generation_config.eos_token_id = tokenizer.eos_token_id
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)


def search_messages(number: int = 8) -> Dataset:
    """Search problems whose prompts are messages."""
    rows = search_rows(number, seed=0)
    return Dataset.from_list(
        [row | {"prompt": [{"role": "user", "content": row["prompt"]}]} for row in rows]
    )
