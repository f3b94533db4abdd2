set(SERIAL *) # real processes with deadlines
