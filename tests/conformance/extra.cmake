set(EXTRA support)
set(EXTRA_TARGETS autotune) # built before the test that starts it
