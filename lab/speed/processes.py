"""What the comparisons here ask of processes. Promises: counters of the kernel, as they are."""

import os
import pathlib


def cpu_seconds(pid):
    """User and system time of a process and all of its threads."""
    fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(") ", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
