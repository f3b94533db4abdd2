"""Parts of the validator of Model Library Format packages; see ../validate_mlf.py."""
