"""The default grader: strings first, then math-verify in a process that can be killed."""
