set(SERIAL *) # since the tests start real processes with deadlines
