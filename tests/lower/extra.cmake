# Programs to lower come from the operators that real tasks are made of.
set(EXTRA topi te schedule)
