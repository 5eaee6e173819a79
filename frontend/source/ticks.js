// Durations count on: [data-since] is the time of their beginning, in milliseconds since the Unix epoch.
const UNITS = [["d", 86_400], ["h", 3_600], ["min", 60]];

// As the server writes it: its two largest units, such as `1 d 2 h`; a tenth of a second and less in milliseconds.
export function durationText(milliseconds) {
  if (milliseconds < 100) return `${Math.max(0, Math.round(milliseconds))} ms`;
  const seconds = milliseconds / 1000;
  if (seconds < 60) return seconds < 10 ? `${seconds.toFixed(1)} s` : `${Math.round(seconds)} s`;
  const parts = [];
  let left = Math.floor(seconds);
  for (const [unit, size] of UNITS) {
    if (left >= size && parts.length < 2) {
      parts.push(`${Math.floor(left / size)} ${unit}`);
      left %= size;
    }
  }
  return parts.join(" ");
}

// The clocks of both may differ: the page says what the server's was when it wrote the page.
const ahead = Date.now() - Number(document.documentElement.dataset.now || Date.now());
setInterval(() => {
  if (document.hidden) return;
  for (const each of document.querySelectorAll("[data-since]")) {
    each.textContent = durationText(Date.now() - ahead - Number(each.dataset.since));
  }
}, 1000);
