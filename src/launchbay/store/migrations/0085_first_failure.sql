-- Which instance of a roll-out failed first and why, also after the roll-out was continued or taken back.
ALTER TABLE rollouts ADD COLUMN failed_place integer, ADD COLUMN failure text;
