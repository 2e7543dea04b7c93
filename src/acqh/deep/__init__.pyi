from acqh.deep.efficientnet import efficientnet_lite0 as efficientnet_lite0
from acqh.deep.tune import FineTuner as FineTuner
