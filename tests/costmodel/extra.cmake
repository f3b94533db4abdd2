set(SLOW Footprint Regression)
