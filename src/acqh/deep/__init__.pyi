from acqh.deep._efficientnet import efficientnet_lite0 as efficientnet_lite0
from acqh.deep._tune import FineTuner as FineTuner
