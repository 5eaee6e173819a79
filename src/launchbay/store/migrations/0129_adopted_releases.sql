-- What is shown of an adopted release of Helm, as JSON. Null: a state. A server of the version before shows the release as a state.
ALTER TABLE adoptions ADD COLUMN about text;
