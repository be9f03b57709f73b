"""All contenders: importing the adapters fills the list."""

from tests.public_packages import attention, hugging_face, memory, recurrent, state_space, titans
from tests.public_packages.contender import CONTENDERS

ADAPTERS = (recurrent, state_space, hugging_face, attention, memory, titans)

__all__ = ["ADAPTERS", "CONTENDERS"]
