set(EXTRA ir_helpers)
set(SLOW Footprint Regression)
