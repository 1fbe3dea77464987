"""What a training remembers to save time changes nothing."""

import pytest
from transformers import AutoTokenizer
from trl.chat_template_utils import add_response_schema, parse_response

from barl_trl.synthetic.inquiry import NumberGame, inquiry_model_dir
from experiments.inquiry.training import QuickTokenizer

CALL = '<tool_call>\n{"name": "at_least", "arguments": {"number": 7}}\n</tool_call><|im_end|>'
RESPONSES = [
    CALL,
    "\\boxed{7}<|im_end|>",
    CALL[:30],
    CALL.replace("at_least", ""),
    "</tool_call>",
]


@pytest.mark.parametrize("prompt", ["", "Which number?<|im_end|>"])
def test_a_remembered_response_is_parsed_as_at_first(prompt):
    """The prefixes end in the same header; the tools are those of another environment."""
    folder = inquiry_model_dir("number")
    plain = add_response_schema(AutoTokenizer.from_pretrained(folder))
    quick = add_response_schema(QuickTokenizer.from_pretrained(folder))
    prefix = plain.encode(f"<|im_start|>user\n{prompt}<|im_end|>\n<|im_start|>assistant\n")
    for response in RESPONSES:
        ids = plain.encode(response)
        first, again = (
            parse_response(quick, ids, before + prefix, [NumberGame().at_least])
            for before in ([], plain.encode("<|im_start|>system\nPlay.<|im_end|>\n"))
        )
        assert first == again == parse_response(plain, ids, prefix, [NumberGame().at_least])
