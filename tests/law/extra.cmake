set(EXTRA support)
