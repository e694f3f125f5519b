"""The application that check.py installs: its models, and nothing else."""
