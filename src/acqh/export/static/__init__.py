"""A collection as files that any web host can show, and the code that searches them there."""
