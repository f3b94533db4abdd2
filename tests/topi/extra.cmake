set(EXTRA runtime) # the rule of comparison (tests/close.h)
set(SLOW WinogradTest)
