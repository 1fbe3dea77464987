"""The table of `barl plan`: its figures by hand."""

from .qwen import GROUP, ZERO2, rows


def test_the_papers_shape_on_eight_gpus(plan):
    shown = rows(plan("--accelerate_config", ZERO2))
    assert shown["rollout batch"] == "1,024 prompts x 5 rollouts = 5,120"
    assert shown["on each process"] == "640 rollouts = 80 micro-batches of 8"
    assert shown["groups"] == "on one process each"
    assert shown["optimizer steps on it"] == "40"
    assert shown["rollouts of each step"] == "8 processes x 2 micro-batches x 8 = 128"
    assert shown["tokens generated, at most"] == f"{5120 * 1024:,}"
    assert shown["tokens scored, at most"] == f"{1024 * GROUP:,} = 1,938 per rollout"
    assert shown["the run"] == "4,400 optimizer steps on 110 rollout batches"


def test_settings_of_trl(plan, tmp_path):
    """Groups straddle two processes, and optimizer steps two rollout batches."""
    recipe = tmp_path / "recipe.yaml"
    recipe.write_text(f"model_name_or_path: owner/x\ndataset_name: y\noutput_dir: {tmp_path}\n")
    settings = {"num_generations": 4, "per_device_train_batch_size": 6, "steps_per_generation": 3}
    settings |= {"gradient_accumulation_steps": 2, "num_processes": 2, "max_steps": 30}
    options = [word for n, value in settings.items() for word in (f"--{n}", str(value))]
    shown = rows(plan(*options, recipe=str(recipe)))
    # 18 rows on each process: the fifth group of 4 is halved
    assert shown["rollout batch"] == "9 prompts x 4 rollouts = 36"
    assert shown["groups"] == "1 of 9 straddle processes"
    assert shown["optimizer steps on it"] == "1.5"
    assert shown["for whole steps"] == "gradient_accumulation_steps = 1 or 3"
    assert shown["the run"] == "30 optimizer steps on 20 rollout batches"
