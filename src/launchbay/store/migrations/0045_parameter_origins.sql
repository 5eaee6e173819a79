-- Where parameters come from that neither the request gave nor the manifest sets: {name: "revision" | "parent"}.
ALTER TABLE instances ADD COLUMN parameter_origins text NOT NULL DEFAULT '{}';
