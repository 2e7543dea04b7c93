"""What an index holds: ids, snapshots, filters, files."""
