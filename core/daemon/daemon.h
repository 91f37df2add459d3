/* The daemon: pepsid. daemon_main() becomes the spawner, which forks the reactor and, at its request, the workers; and
 * looks after the private PostgreSQL cluster. */
#ifndef PEPSI_DAEMON_DAEMON_H
#define PEPSI_DAEMON_DAEMON_H

/* pepsid [-c FILE] [--state DIR] [-L LEVEL] [-h] [-V]. Returns the exit status: 0 stopped in order, 1 error, 2 usage. */
int daemon_main(int argc, char **argv);

#endif
