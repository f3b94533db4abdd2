set(EXTRA topi te lower)
