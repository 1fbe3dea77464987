"""What is logged, printed, recorded and said of a run; nothing here changes a weight."""
