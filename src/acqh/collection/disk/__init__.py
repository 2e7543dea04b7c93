"""Files in the folder of a collection."""
