-- Why nothing changes in an environment, who said so and when, as JSON. Null: it isn't frozen. Servers of the version before don't ask.
ALTER TABLE environments ADD COLUMN frozen text;
