"""The general model: images and texts in one space, learnt on photographs of others."""
