"""For us and for people who write backends: one suite of promises, and fakes that keep them."""
