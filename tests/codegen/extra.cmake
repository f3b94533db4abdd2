# topi, te: the tests compile operators of real tasks, scheduled by the sketches of tests/schedule.
# autotune_llvm: some tests use the parts that all code generators for LLVM share.
set(EXTRA topi te autotune_llvm schedule_helpers ir_helpers)
set(SLOW BuildWorkers Casts Codegen CompiledRandomTraces CompiledSketch CSource Gemm GpuOnHost Halves Instructions Math MathAccuracy Tiles)
set(SHARDS CompiledRandomTraceParts=2)
