"""Does a belief of the task pay where an agent must find out before it answers? See `PLAN.md`."""
