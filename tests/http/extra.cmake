set(WAITING HttpServer Site) # with deadlines
