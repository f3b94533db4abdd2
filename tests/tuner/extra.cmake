set(EXTRA topi te lower codegen_helpers ir_helpers schedule_helpers)
set(SLOW AttentionSketch DraftOrder EvolutionarySearch GpuSketches PluginTest RecordedMeasurerTest Recording ReductionSketch Resume Simulation Sketch StageShape
    TensorCoreSketches Tune Winograd)
set(SHARDS Lowered=4)
