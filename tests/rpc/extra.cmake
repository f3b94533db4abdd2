set(SERIAL TRUE) # since the tests start real processes with deadlines
