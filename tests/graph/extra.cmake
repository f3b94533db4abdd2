set(SLOW Fuse TrimWindows)
