"""Rules of several figures that are made of the grammar's."""
