# Importing this one registers methods that are for one test's run only.
collect_ignore = ["plugin_methods.py"]
