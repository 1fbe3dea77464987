"""The conventions of the Qwen2.5-Math evaluation."""
