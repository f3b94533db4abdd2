"""What scripts/help_files.py makes of a program's option tree."""
