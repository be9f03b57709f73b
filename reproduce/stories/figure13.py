"""Figure 13: training on stories at more depths than figure 7.

It claims what figure 7 does, of the same runs; what it adds is asked here.
"""

from __future__ import annotations

from reproduce.stories import figure7, language

TITLE = "Figure 13. Training on stories: more depths than figure 7"
SOURCE = f"{language.PAPER}, appendix D.2, figure 13"
# Those of figure 7 and more; the paper names 1 and 4, and its list of depths is not printed.
DEPTHS = {"smoke": (1, 2, 3), "laptop": (1, 2, 4), "gpu": (1, 2, 4, 8), "paper": (1, 4, 8, 12, 18)}
EXPERIMENT = figure7.experiment(TITLE, SOURCE, DEPTHS, [figure7.ahead(4, DEPTHS)])
