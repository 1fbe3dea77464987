"""What the Hub gets: the model card with an example, settings and results; and pushes that fail."""

import logging
import os
import re
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import fields
from functools import partial
from pathlib import Path
from pprint import pformat
from typing import Any

from datasets import Dataset
from huggingface_hub import ModelCard, get_session, get_token, set_client_factory
from huggingface_hub.errors import OfflineModeIsEnabled
from huggingface_hub.utils import _http
from peft import PeftModel
from transformers import TrainerCallback
from transformers.utils.hub import hf_api
from trl import GRPOConfig

from .records import FOLDER
from .redaction import redacted

logger = logging.getLogger(__name__)

_SETTINGS = ("credit", "step_size", "consistency_beta", "num_generations", "generation_batch_size")
_SETTINGS += ("max_completion_length", "temperature", "learning_rate", "beta", "loss_type", "seed")
_silent_until: dict[bytes, float] = {}
_RESULT = re.compile(
    r"(eval_)?reward(s/.*)?|completions/mean_length|barl/(?!scor|che|rec).*|.*accuracy"
)


def limit_waiting() -> None:
    """Let a call to the Hub fail that gets no answer; huggingface_hub waits for some for ever.

    A minute, or HF_HUB_DOWNLOAD_TIMEOUT seconds. Limits that a call has stay. For five minutes
    nothing is read from a host that was silent: transformers would ask it for each file, again and
    again.
    """
    make: Any = getattr(_http, "_GLOBAL_CLIENT_FACTORY", None)  # no public name reads it

    def limited():
        client = make()
        client.event_hooks["request"].append(_limit)
        client.send = partial(_send, client.send, sys.modules[client.__module__.split(".")[0]])
        return client

    if make and _limit not in get_session().event_hooks["request"]:
        set_client_factory(limited)


def _limit(request: Any) -> None:
    seconds = float(os.environ.get("HF_HUB_DOWNLOAD_TIMEOUT") or 60)
    limits = request.extensions["timeout"]
    request.extensions["timeout"] = {kind: limits[kind] or seconds for kind in limits}


def _send(send: Any, library: Any, request: Any, **options: Any) -> Any:
    """Send a request, unless it reads from a host that has just been silent."""
    host, is_reading = request.url.netloc, request.method in ("GET", "HEAD")
    if is_reading and time.monotonic() < _silent_until.get(host, 0.0):
        raise OfflineModeIsEnabled(f"{host.decode()} does not answer.")
    try:
        return send(request, **options)
    except library.TimeoutException:
        if is_reading:
            _silent_until[host] = time.monotonic() + 300
        raise


def reason(error: BaseException, args: Any) -> str:
    """Return what a server, or its silence, said, in one line without the token that it got."""
    text = " ".join(str(error).split()) or type(error).__name__
    return redacted(text, args.hub_token, get_token())


class Pushes(TrainerCallback):
    """Keep records of rollouts out of what is pushed, and warn of each push that failed."""

    def __init__(self, trainer: Any):
        self._trainer, self._jobs = trainer, set()

    def on_push_begin(self, args, state, control, **kwargs):  # noqa: D102 (transformers')
        limit_waiting()
        api: Any = hf_api()  # that of transformers' pushes, which pass on no patterns of ours

        def upload_folder(*, ignore_patterns: Sequence[str] = (), **call: Any) -> Any:
            held_back = [] if self._trainer.args.push_beliefs else [f"{FOLDER}/*"]
            ignored = [*ignore_patterns, *held_back]
            return type(api).upload_folder(api, ignore_patterns=ignored, **call)

        api.upload_folder = upload_folder

    def on_save(self, args, state, control, **kwargs):  # noqa: D102 (transformers')
        pushes = getattr(self._trainer, "push_in_progress", None)
        for job in {*pushes.jobs} - self._jobs if pushes else ():
            self._jobs.add(job)
            job.add_done_callback(self._warn)

    def _warn(self, job: Any) -> None:
        if not job.cancelled() and (error := job.exception()):
            text = f"a checkpoint was not pushed: {reason(error, self._trainer.args)} Training goes"
            logger.warning(f"{text} on, and saves in {self._trainer.args.output_dir}.")


def write_card(trainer: Any, output_dir: str) -> None:
    """Write the run's card beside an adapter, where PEFT would write one of its own."""
    args, whole = trainer.args, str(trainer.args.output_dir)
    if not Path(output_dir, "README.md").exists():
        args.output_dir = output_dir
        trainer.create_model_card(Path(args.hub_model_id or whole).name)
        args.output_dir = whole


def complete_card(trainer: Any) -> None:
    """Give the card that TRL wrote an example, and tables of settings, data and last results.

    The settings are the usual ones, and BARL's if changed.
    """
    args: Any = trainer.args
    own = [one for one in fields(args) if one.name not in GRPOConfig.__dataclass_fields__]
    changed = [one.name for one in own if getattr(args, one.name) != one.default]
    rewards = zip(trainer.reward_weights.tolist(), trainer.reward_func_names, strict=True)
    model = Path(trainer.model.config._name_or_path)
    settings = {"model": model.name if model.exists() else str(model)}
    settings |= {"reward": " + ".join(f"{weight:g} {name}" for weight, name in rewards)}
    settings |= {name: getattr(args, name) for name in dict.fromkeys([*_SETTINGS, *changed])}
    sets = {"rows": trainer.train_dataset, "rows of evaluation": trainer.eval_dataset}
    sets |= {f"rows of benchmark {name}": rows for name, rows in trainer.benchmarks.items()}
    data = {"data set": trainer.train_dataset.info.dataset_name or "given as rows"}
    data |= {name: len(rows) for name, rows in sets.items() if isinstance(rows, Dataset)}
    logged = {name: value for row in trainer.state.log_history for name, value in row.items()}
    logged = {n: value for n, value in logged.items() if value is not None and _RESULT.fullmatch(n)}
    results = {name: f"{value:.4g}" for name, value in logged.items()}
    steps = f"Results after {trainer.state.global_step} steps"
    tables = {"Settings": settings, "Data": data, steps: results}
    path = Path(args.output_dir, "README.md")
    card: Any = ModelCard.load(path)
    text = card.text.replace("[None](https://huggingface.co/None)", f"`{settings['model']}`")
    # TRL's sections; its question is replaced
    head, _, training, versions = re.split(r"^(?=##)(?!## Cit)", text, maxsplit=3, flags=re.M)
    if args.credit != "barl":
        weights = f"trained with BARL's trainer and the credit `{args.credit}`. BARL is a method"
        training = training.replace("trained with BARL, a method", weights)
    parts = {"head": head, "training": training, "versions": versions}
    tables = {title: _cells(rows) for title, rows in tables.items()}
    template = str(Path(__file__).with_name("model_card.md"))
    options = _example(trainer) | parts | {"tables": tables, "template_path": template}
    card = ModelCard.from_template(card.data, **options)
    card.text = redacted(card.text)
    card.save(path)


def _example(trainer: Any) -> dict[str, Any]:
    """Return what the card's code needs to load the model, and to read a prompt of the run."""
    args, rows = trainer.args, trainer.train_dataset
    row = rows[0] if isinstance(rows, Dataset) else (trainer._inputs or [{"prompt": ""}])[0]
    folder = os.path.relpath(trainer.saved_in)
    is_adapter = isinstance(trainer.accelerator.unwrap_model(trainer.model), PeftModel)
    return {
        "name": trainer.hub_model_id or (trainer.saved_in if ".." in folder else folder),
        "auto": ("peft", "AutoPeftModel") if is_adapter else ("transformers", "AutoModel"),
        "remote": ", trust_remote_code=True" * bool(args.trust_remote_code),
        "prompt": pformat(row["prompt"], width=100, sort_dicts=False),
        "is_chat": not isinstance(row["prompt"], str),
        "chat_options": args.chat_template_kwargs or {},
        "tools": trainer.tools,
        "length": args.max_completion_length or 1024,
    }


def _cells(rows: Mapping[str, Any]) -> list[list[str]]:
    pairs = [(name, " ".join(str(value).split())) for name, value in redacted(rows).items()]
    return [[cell.replace("|", r"\|").replace("`", "'") for cell in pair] for pair in pairs]
