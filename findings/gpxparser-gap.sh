#!/usr/bin/env bash
# gpxparser 3.0.8 (npm, Node.js 20): a track is longer by the gap in it, and the sea has no height.
#
# Expected: GPX 1.1: a track has segments, and one begins where the receiver was off, so that the way between two isn't part of the track. A
#   height of 0 is a height.
# Seen: the points of all segments are one list, and the distance has the gap: two segments of a kilometre each, a hundred apart, are more
#   than a hundred. The lowest height of points at 0 and 10 is null, not 0. A height of 0 of a point is 0.
# What to do: add up the segments yourself, from the XML.
# Exits with 1 if that changes.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
npm install --silent --no-fund --no-audit gpxparser@3.0.8 >/dev/null
cat >look.cjs <<'END'
const Parser = require("gpxparser");
const point = (lat, height) => `<trkpt lat="${lat}" lon="0"><ele>${height}</ele></trkpt>`;
const read = (...segments) => {
  const parser = new Parser();
  const inner = segments.map((each) => `<trkseg>${each.map(([lat, height]) => point(lat, height)).join("")}</trkseg>`).join("");
  parser.parse(`<gpx version="1.1" creator="x" xmlns="http://www.topografix.com/GPX/1/1"><trk>${inner}</trk></gpx>`);
  const [{ distance, elevation, points }] = parser.tracks;
  const found = [points.length, "points", Math.round(distance.total / 1000), "km, lowest", elevation.min, "highest", elevation.max];
  return found.map(String).join(" ");
};
console.log("one:", read([[0, 0], [0.009, 10]]));
console.log("two:", read([[0, 1], [0.009, 2]], [[0.909, 3], [0.918, 4]]));
END
node look.cjs 2>/dev/null | tee seen
diff seen - <<'SEEN'
one: 2 points 1 km, lowest null highest 10
two: 4 points 102 km, lowest 1 highest 4
SEEN
