"""Tables in files of their own: what is written, and what the files state about them."""
