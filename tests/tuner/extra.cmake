set(EXTRA topi te)
