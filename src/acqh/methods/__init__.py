"""Every method, one file each, behind one API."""
