set(EXTRA_TARGETS autotune) # runs as build worker
set(EXTRA frontend_helpers runtime_helpers tuner_helpers)
set(SLOW ChoiceHost CompiledNumbers MutatedModels NetworkPasses TransposedBytes)
set(SHARDS CompileTest=3 FormsTest=2 Machines/IntegerConformance=16)
