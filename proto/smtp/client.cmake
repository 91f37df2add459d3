# The client side of proto/smtp (included from its CMakeLists.txt, so that the two sides do not share a list).
