// Says whether the page is live: a dot in the bar, and a banner with the age of what is shown after a while.
const OFFLINE_AFTER_MS = 2000;
const BANNER_AFTER_MS = 5000;

const dot = document.querySelector("[data-live]");
const banner = document.querySelector("[data-lost]");

if (dot && document.querySelector("[sse-connect]")) {
  let lostAt = 0;
  let ended = false;
  dot.hidden = false;
  const show = () => {
    const age = lostAt && !ended ? Date.now() - lostAt : 0;
    const state = age >= OFFLINE_AFTER_MS ? "off" : "on";
    if (dot.dataset.state !== state) {
      dot.dataset.state = state;
      dot.firstElementChild.textContent = state === "off" ? "Offline" : "Live";
    }
    banner.hidden = age < BANNER_AFTER_MS;
    // Once only: a status that counts would be read aloud every second.
    if (!banner.hidden && !banner.dataset.at) {
      banner.dataset.at = new Date(lostAt).toISOString().slice(11, 19); // in UTC, as the other times of the page
      banner.querySelector("span").textContent = `Connection lost. You see the state of ${banner.dataset.at} UTC. Launchbay reconnects by itself.`;
    }
    if (banner.hidden) delete banner.dataset.at;
  };
  document.addEventListener("htmx:sseError", () => { lostAt ||= Date.now(); });
  document.addEventListener("htmx:sseOpen", () => { lostAt = 0; show(); });
  document.addEventListener("htmx:sseClose", () => { ended = true; dot.hidden = true; });
  setInterval(show, 500);
}
