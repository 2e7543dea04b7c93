"""The built-in image-text model: images and texts in one space, learnt on photographs of others."""
