"""Multi-query associative recall (MQAR), also with keys that are written again."""

from tasks.multi_query_recall.task import MultiQueryRecall

__all__ = ["MultiQueryRecall"]
