set(EXTRA ir_helpers)
