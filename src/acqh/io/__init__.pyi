from acqh.io.read import Bundle as Bundle
from acqh.io.read import BundleReport as BundleReport
from acqh.io.read import read_bundle as read_bundle
from acqh.io.read import verify_bundle as verify_bundle
from acqh.io.write import write_bundle as write_bundle
