"""RegBench: in-context learning of the languages of random automata."""

from tasks.regbench.task import RegBench

__all__ = ["RegBench"]
