from acqh.methods.acqh.estimator import ACQH as ACQH
from acqh.methods.acqh.paper import ACQHPaper as ACQHPaper
from acqh.methods.acqh.targets import Target as Target
