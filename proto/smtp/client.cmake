# The client side of proto/smtp, included from its CMakeLists.txt.
target_sources(pepsi_proto PRIVATE client.c client_admit.c client_auth.c client_content.c client_downgrade.c client_mail.c client_reply.c)
