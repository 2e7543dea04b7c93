"""Deep maps: torch encoders fine-tuned towards the targets of the closed form."""

from acqh.deep._efficientnet import efficientnet_lite0
from acqh.deep._tune import FineTuner

__all__ = ["FineTuner", "efficientnet_lite0"]
