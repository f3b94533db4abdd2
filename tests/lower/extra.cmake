# The tests lower operators of real tasks (topi, te) with random schedules.
set(EXTRA topi te schedule runtime schedule_helpers ir_helpers)
set(SLOW GpuLowering Idempotent)
