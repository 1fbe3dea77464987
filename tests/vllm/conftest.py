# pytest imports modules for doctests: these need vLLM
collect_ignore = ["agents.py", "cpu.py", "evaluate.py", "train.py", "turns.py"]
