# The programs to schedule are operators of real tasks.
set(EXTRA topi te arith runtime)
set(SLOW Independence RandomSchedules)
