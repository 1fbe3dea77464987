"""Makes the agents' model, `src/barl_trl/assets/tiny-number`: `make number-model`, minutes.

A Qwen2 of 0.2 million parameters is trained, on one core, on games of `examples/agents.py` that a
*random asker* plays. It calls the tool in the right form, and its answer agrees with everything
that it was told, but what it asks and when it stops is random. What is left for reinforcement
learning to teach is to ask, and to halve.

The chat template is Qwen2.5's, which TRL knows. Its texts and the tool's schema are one token
each, so that a game has a few dozen tokens; other texts are encoded as bytes.
"""

import random
import runpy
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import torch
import trl
from small_models import IGNORED, Batch, byte_tokenizer, make, random_qwen2
from tokenizers import AddedToken
from transformers import PreTrainedTokenizerFast

from barl_trl.plausibility.elicitation import DEFAULT_ELICITATION
from barl_trl.synthetic.number import NUMBER_COUNT, NUMBER_MODEL_DIR, QUESTION

NumberGame = runpy.run_path(str(Path(__file__).parents[1] / "examples" / "agents.py"))["NumberGame"]
TEMPLATE = Path(trl.__file__).parent / "chat_templates" / "qwen2_5.jinja"

SEED = 0
STEPS, BATCH_SIZE, WARMUP_STEPS = 1000, 64, 50
PEAK_LEARNING_RATE = 3e-3
MOST_QUESTIONS = 4
ASKED_SHARE = 0.3  # rows that stop before a turn, or behind the last one, to ask for the answer

CALL_OPENING, CALL_END = '<tool_call>\n{"name": "', "}}\n</tool_call>"
RESULT_OPENING = "\n<|im_start|>user\n<tool_response>\n"
RESULT_END = "\n</tool_response><|im_end|>\n<|im_start|>assistant\n"
ARGUMENT = '", "arguments": {"number": '
ANSWER = "\\boxed"
ELICITATION = DEFAULT_ELICITATION.lstrip("\n")


def call_text(tool: str, number: int) -> str:
    """A call of a tool, in Qwen2.5's form."""
    return CALL_OPENING + tool + ARGUMENT + str(number) + CALL_END


def result_text(result: str) -> str:
    """A tool's result between two turns, up to where the model begins to speak."""
    return RESULT_OPENING + result + RESULT_END


def make_tokenizer() -> PreTrainedTokenizerFast:
    """A tokenizer of bytes, with added tokens for the game's texts."""
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=byte_tokenizer(),
        pad_token="<|endoftext|>",
        eos_token="<|im_end|>",
        chat_template=TEMPLATE.read_text(encoding="utf-8"),
        padding_side="left",
        clean_up_tokenization_spaces=False,
        model_max_length=4096,
    )
    # what stands before the tool's schema, the schema, and what stands behind it
    tools_text = prompt_text(tokenizer).partition(QUESTION)[0]
    pieces = [*(f"{part}</tools>" for part in tools_text.split("</tools>"))]
    pieces[-1] = pieces[-1].removesuffix("</tools>")
    pieces += [QUESTION, "\n<|im_start|>assistant\n"]
    pieces += [CALL_OPENING, "at_least", ARGUMENT, CALL_END, RESULT_OPENING, RESULT_END]
    pieces += ["yes", "no", ANSWER, ELICITATION, "{", "}", "}."]
    pieces += [str(number) for number in range(1, NUMBER_COUNT + 1)]
    tokenizer.add_tokens([AddedToken(piece, normalized=False, special=False) for piece in pieces])
    return tokenizer


def prompt_text(tokenizer: PreTrainedTokenizerFast) -> str:
    """The text of a prompt, as TRL renders it."""
    game = NumberGame()
    return tokenizer.apply_chat_template(
        [{"role": "user", "content": QUESTION}],
        tools=[game.at_least],
        add_generation_prompt=True,
        tokenize=False,
    )


def training_row(
    tokenizer: PreTrainedTokenizerFast, prompt_ids: list[int], rng: random.Random
) -> tuple[list[int], list[int]]:
    """Token ids of a game, and 1 for each that the asker wrote."""
    game = NumberGame()
    secret = rng.randint(1, NUMBER_COUNT)
    game.reset(str(secret))
    left = [*range(1, NUMBER_COUNT + 1)]
    ids, own = [*prompt_ids], [0] * len(prompt_ids)

    def say(text: str, is_own: bool) -> None:
        words = tokenizer.encode(text)
        ids.extend(words)
        own.extend([int(is_own)] * len(words))

    for _ in range(rng.randint(0, MOST_QUESTIONS)):
        number = rng.randint(2, NUMBER_COUNT)
        result = game.at_least(number)
        say(call_text("at_least", number) + tokenizer.eos_token, True)
        say(result_text(result), False)
        left = [x for x in left if (x >= number) == (result == "yes")]
    answer = rng.choice(left)
    is_asked, is_over = rng.random() < ASKED_SHARE, rng.random() < 0.3
    if is_over or not is_asked:
        say(f"{ANSWER}{{{answer}}}", True)
    if is_asked:
        say(DEFAULT_ELICITATION if is_over else ELICITATION, False)
        say(f"{{{answer}}}.", True)
    else:
        say(tokenizer.eos_token, True)
    return ids, own


def batches(tokenizer: PreTrainedTokenizerFast) -> Iterator[Batch]:
    """The random asker's games."""
    prompt_ids, rng = tokenizer.encode(prompt_text(tokenizer)), random.Random(SEED)
    print(f"{len(prompt_ids)} tokens of a prompt")
    for _ in range(STEPS):
        rows = [training_row(tokenizer, prompt_ids, rng) for _ in range(BATCH_SIZE)]
        length = max(len(ids) for ids, _ in rows)
        input_ids = torch.full((BATCH_SIZE, length), tokenizer.pad_token_id)
        labels = torch.full((BATCH_SIZE, length), IGNORED)
        for n, (ids, own) in enumerate(rows):
            tokens = torch.tensor(ids)
            input_ids[n, : len(ids)] = tokens
            labels[n, : len(ids)] = tokens.where(torch.tensor(own) == 1, torch.tensor(IGNORED))
        yield Batch(input_ids, labels)


if __name__ == "__main__":
    make(
        __doc__,
        NUMBER_MODEL_DIR,
        make_tokenizer,
        partial(random_qwen2, seed=SEED, hidden_size=64, layers=3, positions=4096),
        batches,
        steps=STEPS,
        warmup_steps=WARMUP_STEPS,
        peak_learning_rate=PEAK_LEARNING_RATE,
    )
