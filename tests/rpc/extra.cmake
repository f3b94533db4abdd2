# These suites start real processes, or connect real sockets, with deadlines. All others are state machines in virtual time.
set(SERIAL Channel HostTurnTest RunnerPool RunnerPoolChild Transport)
