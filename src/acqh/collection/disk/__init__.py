"""What lies where in a collection's folder."""
