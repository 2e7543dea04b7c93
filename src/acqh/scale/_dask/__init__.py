"""Running the steps on the workers of a Dask cluster; the only place that knows Dask.

What travels is small: tasks name files and rows, models and sums are a few megabytes, and workers
write what is large. Dask runs a task again when its worker dies, so a task must change nothing
when it is run twice.
"""
