"""The methods that ACQH is compared with, one file each."""
