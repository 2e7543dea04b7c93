"""The other words of codes: their scores, and what they can add at most."""
