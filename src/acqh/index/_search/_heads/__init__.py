"""The first words of runs, which say what order to visit them in."""
