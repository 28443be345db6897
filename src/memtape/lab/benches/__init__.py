"""What is measured, one file per part of memtape, and how."""
