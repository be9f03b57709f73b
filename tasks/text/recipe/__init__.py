"""The BabiStories recipe: a corpus of tiny stories, written by any model from drawn prompts.

Source: Zhang et al., "Memory Mosaics" (ICLR 2025, arXiv 2405.06394), appendix B and Figure 11.
``python -m tasks.text.recipe --help`` says how it is used.
"""
