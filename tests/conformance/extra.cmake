set(EXTRA support runtime)
set(EXTRA_TARGETS autotune) # built before the test that starts it
set(SHARDS Conformance=4)
