set(SERIAL TRUE) # real processes with deadlines
