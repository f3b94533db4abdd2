set(EXTRA_TARGETS autotune) # its build workers
