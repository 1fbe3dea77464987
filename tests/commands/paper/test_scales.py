"""What is run at each scale."""

import json

import pytest
import torch
from trl import TrlParser

from barl_trl import cli
from barl_trl.commands.recipes import file_of
from barl_trl.commands.reproduce.paper.scales import demo_scale, paper_scale
from barl_trl.commands.train.arguments import BARLScriptArguments
from barl_trl.evaluation.generation.templates import TEMPLATES
from barl_trl.synthetic.search import TINY_MODEL_DIR


@pytest.mark.skipif(torch.accelerator.is_available(), reason="it would start")
def test_the_papers_scale_is_refused_without_a_gpu(tmp_path, monkeypatch):
    monkeypatch.setenv("PYTHONSAFEPATH", "")  # the command sets it
    with pytest.raises(SystemExit, match="--scale must be demo on a machine without GPUs, got pap"):
        cli.main(["reproduce", "paper", "--scale", "paper", "--output_dir", str(tmp_path / "out")])
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("recipe", ["qwen2.5-math-1.5b", "qwen2.5-math-7b", "r1-distill-llama-8b"])
def test_prompts_are_the_same_in_training_and_evaluation(recipe):
    [model] = [model for model in paper_scale().models if model.recipe == recipe]
    (script_args, *_), template = (
        TrlParser((BARLScriptArguments,)).parse_args_and_config(
            ["--config", str(file_of("config", recipe))], fail_with_unknown_args=False
        ),
        TEMPLATES[model.template],
    )
    assert (script_args.system_prompt, script_args.prompt_template) == (
        template.system_prompt,
        None,
    )
    assert template.user == "{problem}"


def test_the_demo_has_problems_of_its_own(tmp_path):
    scale = demo_scale(tmp_path, max_steps=80)
    files = [tmp_path / "data" / f"{name}.jsonl" for name in ("train", "search", "search_9")]
    problems = [[json.loads(line)["problem"] for line in path.open()] for path in files]
    assert [len(rows) for rows in problems] == [20_000, 200, 200]
    assert not set(problems[0]) & set(problems[1] + problems[2])
    assert [model.path for model in scale.models] == [str(TINY_MODEL_DIR)]
    assert scale.named() == f"search={files[1]},search_9={files[2]}"
    assert "--max_steps 80" in " ".join(scale.train)


def test_the_paper_has_its_benchmarks_from_the_hub():
    assert paper_scale().named() == "gsm8k,math,college_math,olympiadbench,aime24,amc23"
