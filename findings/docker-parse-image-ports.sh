#!/usr/bin/env bash
# docker-parse-image 3.0.1, parse-docker-image-name 3.0.0 (npm, Node.js 20): the port of a registry becomes part of the tag.
#
# Expected: both read what the grammar of image references allows: a host with a port, a path of any depth, a tag and a digest. `localhost`
#   before a slash is a registry, and "library/" is added for names without a registry only.
# Seen: the first of them reads `registry.example:5000/team/app/web:1` as the repository "registry.example" with the tag
#   "5000/team/app/web:1", and `ghcr.io/a/b/c` as null. A digest is the tag, or joined to it. `localhost/app` is in the namespace
#   "localhost" of the default registry, and `localhost:5000/app` is pulled as "localhost:5000/library/app".
# What to do: use the other one, which is right in these, for images that aren't on the default registry.
# Exits with 1 if that changes.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
npm install --silent --no-fund --no-audit docker-parse-image@3.0.1 parse-docker-image-name@3.0.0 >/dev/null
cat >look.cjs <<'END'
const one = require("docker-parse-image");
const two = require("parse-docker-image-name");
const digest = "sha256:" + "a".repeat(64);
for (const text of [
  "registry.example:5000/app:1",
  "registry.example:5000/team/app/web:1",
  "ghcr.io/a/b/c",
  `app:1@${digest}`,
  "localhost/app",
  "localhost:5000/app",
]) {
  const { registry, namespace, repository, tag, fullname } = one(text) ?? {};
  const other = (two.default ?? two)(text);
  console.log(text);
  console.log(" ", one(text) && [registry, namespace, repository, tag, "as", fullname].map(String).join(" "));
  console.log(" ", [other.domain, other.path, other.tag, other.digest].map(String).join(" "));
}
END
node look.cjs | sed 's/a\{64\}/…/g' | tee seen
diff seen - <<'SEEN'
registry.example:5000/app:1
  registry.example:5000 null app 1 as registry.example:5000/library/app:1
  registry.example:5000 app 1 undefined
registry.example:5000/team/app/web:1
  null null registry.example 5000/team/app/web:1 as library/registry.example:5000/team/app/web:1
  registry.example:5000 team/app/web 1 undefined
ghcr.io/a/b/c
  null
  ghcr.io a/b/c undefined undefined
app:1@sha256:…
  null null app 1@sha256:… as library/app:1@sha256:…
  undefined app 1 sha256:…
localhost/app
  null localhost app null as localhost/app:latest
  localhost app undefined undefined
localhost:5000/app
  localhost:5000 null app null as localhost:5000/library/app:latest
  localhost:5000 app undefined undefined
SEEN
