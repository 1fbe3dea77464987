"""Answer log-likelihoods of every hypothesis at every state, for any causal language model.

README.md beside this file says why encoding every state is not enough, and how the files follow
each other.
"""

import lazy_loader

# Resolved on first use, as in `barl_trl`: an elicitation's text is had without torch.
__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
