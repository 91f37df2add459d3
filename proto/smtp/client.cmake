# The client side of proto/smtp (included from its CMakeLists.txt, so that the two sides do not share a list).
target_sources(pepsi_proto PRIVATE client.c client_content.c client_mail.c client_reply.c)
