"""The migrations, run by `codesign_opt.db.migration`."""
