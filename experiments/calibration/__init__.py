"""Whether beliefs are right: plausibility and posterior beside what the model goes on to answer."""
