"""Tasks that are made, not collected."""
