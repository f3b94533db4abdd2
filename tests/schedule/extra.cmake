# The programs to schedule are operators of real tasks.
set(EXTRA topi te arith runtime ir_helpers)
set(SLOW Independence RandomSchedules)
