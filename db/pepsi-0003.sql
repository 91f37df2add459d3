-- pepsi-0003.sql: delivery to other sites, and what is known about them.

