collect_ignore = ["cpu.py", "train.py"]  # pytest imports modules for doctests: these need vLLM
