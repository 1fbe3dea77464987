"""A trainer that does not work out again what is the same in every game, for shorter trainings."""

import json
from copy import deepcopy
from functools import wraps
from itertools import takewhile
from typing import Any

from barl_trl import BARLTrainer


class RememberingTrainer(BARLTrainer):
    """[`BARLTrainer`] that keeps the tokens of tool results and the messages of replies.

    On games a third of a training's time went there. Nothing else changes.
    """

    def __init__(self, *args: Any, **kwargs: Any):
        super().__init__(*args, **kwargs)
        self._suffixes: dict[str, list[int]] = {}
        tokenizer: Any = self.processing_class
        parse, parsed = tokenizer.parse_response, {}
        ends = tokenizer.eos_token_id

        @wraps(parse)
        def remembered(ids, prefix=(), tools=None, **options):
            # of the prompt only what the template wrote for this reply can change its message
            header = takewhile(lambda token: token != ends, reversed(prefix))
            key = (*ids, -1, *header, -1, *(tool.__qualname__ for tool in tools or ()))
            if key not in parsed:
                parsed[key] = parse(ids, prefix=prefix, tools=tools, **options)
            return deepcopy(parsed[key])  # TRL writes into it

        tokenizer.parse_response = remembered
        # one process does not wrap its model, and looking for wrappers visits all modules
        self.accelerator.unwrap_model = lambda model, *args, **kwargs: model

    def _get_tool_suffix_ids(self, tool_messages):
        if any(type(message["content"]) is not str for message in tool_messages):
            return super()._get_tool_suffix_ids(tool_messages)  # a result that ends the rollout
        key = json.dumps(tool_messages)
        if key not in self._suffixes:
            self._suffixes[key] = super()._get_tool_suffix_ids(tool_messages)
        return [*self._suffixes[key]]
