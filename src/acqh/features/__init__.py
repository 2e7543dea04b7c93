"""Feature maps (bias, RBF anchors, ...) and encoders of raw images and text."""
