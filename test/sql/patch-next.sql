-- A patch that only the test of upgrades has.
ALTER TABLE pepsi.workqueue ADD COLUMN colour text NOT NULL DEFAULT 'grey';
CREATE TABLE pepsi.later (id integer PRIMARY KEY);
