# libarchive, with which tests write and read tar files
set(EXTRA archive)
